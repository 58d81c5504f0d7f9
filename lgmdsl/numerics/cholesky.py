"""Cholesky kernels on LAPACK: in place, without NaN scans or copies, failure as a value (None).

Symmetric matrices come C-ordered; LAPACK reads the same memory transposed, so nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import blas, lapack

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.errors import NumericalError

BY_COLUMNS = 64  # rows of a triangle up to which LAPACK inverts it
# Up to this size, many right-hand sides for each row are multiplied by the inverse: twice as fast
# as a triangular solve at n = 40 (OpenBLAS).
BY_PRODUCT, MANY = 128, 16
EQUAL = 1e-9  # of pivots, relative: what rounding may have made different


@dataclass(frozen=True, eq=False)
class Cholesky:
    """A = LL'; `lower` is F-ordered and holds L in its lower triangle (the upper one is rubbish).

    `flops` counts the factorisation, n^3/3 multiplications and additions (2 for a pair: n^3/3).
    """

    lower: Array

    @property
    def size(self) -> int:
        return len(self.lower)

    @property
    def half_log_det(self) -> float:
        """sum_i log L_ii = log|A| / 2."""
        return float(np.log(self.lower.diagonal()).sum())

    def solve(self, rhs: Array) -> Array:
        """A^-1 rhs, for (n,) or (n, k); 2 n^2 flops a column."""
        if not self.size or rhs.size == 0:
            return np.zeros_like(rhs)
        solution, _ = lapack.dpotrs(self.lower, rhs, lower=1)
        return np.asarray(solution)

    def forward(self, rhs: Array) -> Array:
        """L^-1 rhs, for (n,) or (n, k); n^2 flops a column."""
        if not self.size or rhs.size == 0:
            return np.zeros_like(rhs)
        if rhs.ndim == 1:
            return np.asarray(blas.dtrsv(self.lower, rhs, lower=1))
        if self.size <= BY_PRODUCT and rhs.shape[1] >= MANY * self.size:
            return np.asarray(self.inverse_lower() @ rhs)
        return np.asarray(blas.dtrsm(1.0, self.lower, np.asfortranarray(rhs), lower=1))

    def backward(self, rhs: Array) -> Array:
        """L^-T rhs, for (n,) or (n, k)."""
        if not self.size or rhs.size == 0:
            return np.zeros_like(rhs)
        if rhs.ndim == 1:
            return np.asarray(blas.dtrsv(self.lower, rhs, lower=1, trans=1))
        return np.asarray(blas.dtrsm(1.0, self.lower, np.asfortranarray(rhs), lower=1, trans_a=1))

    def inverse_lower(self) -> Array:
        """L^-1, F-ordered, zeros above its diagonal; n^3/3 flops."""
        out = np.zeros((self.size, self.size), order="F")
        _invert(self.lower, out)
        return out

    def inverse_diagonal(self) -> Array:
        """diag(A^-1) = column sums of squares of L^-1; n^3/3 flops."""
        rows = self.inverse_lower().T
        return np.asarray(np.einsum("ij,ij->i", rows, rows))

    def inverse(self) -> Array:
        """A^-1, both triangles filled; 2 n^3 / 3 flops."""
        if not self.size:
            return np.zeros((0, 0))  # LAPACK prints a complaint
        half, _ = lapack.dlauum(self.inverse_lower(), lower=1, overwrite_c=1)
        return symmetrise(np.asarray(half).T)

    def reciprocal_condition(self, norm: float) -> float:
        """Estimate of 1 / cond_1(A) from A's 1-norm (LAPACK dpocon)."""
        estimate, _ = lapack.dpocon(self.lower, norm, uplo="L")
        return float(estimate)


def _invert(lower: Array, out: Array) -> None:
    """Write the inverse of a lower triangle into `out`, whose entries are zeros, by halves,

        [A    ]^-1   [ A^-1              ]
        [C   B]    = [-B^-1 C A^-1   B^-1],

    so that most of it is products: LAPACK's dtrtri takes twice as long at n = 200, three times at
    600 (OpenBLAS)."""
    n = len(lower)
    if n <= BY_COLUMNS:
        if n:
            out[...] = np.tril(lapack.dtrtri(lower, lower=1)[0])
        return
    m = n // 2
    _invert(lower[:m, :m], out[:m, :m])
    _invert(lower[m:, m:], out[m:, m:])
    left = blas.dtrmm(-1.0, out[m:, m:], lower[m:, :m], lower=1)
    out[m:, :m] = blas.dtrmm(1.0, out[:m, :m], left, side=1, lower=1, overwrite_b=1)


def cholesky(a: Array) -> Cholesky | None:
    """Factor the C-ordered symmetric array in place (its content is lost); None unless A > 0.

    Only the upper triangle of `a` is read.
    """
    if not len(a):
        return Cholesky(np.zeros((0, 0), order="F"))
    lower, info = lapack.dpotrf(a.T, lower=1, clean=0, overwrite_a=1)
    if info != 0:
        return None
    diagonal = lower.diagonal()
    # OpenBLAS lets NaN pass its pivot test; the sum is finite only if every pivot is.
    if not np.isfinite(diagonal.sum()) or diagonal.min() <= 0.0:
        return None
    return Cholesky(lower)


def symmetrise(upper: Array) -> Array:
    """Copy the upper triangle of a C-ordered array into its lower one, in place, by tiles."""
    n, tile = len(upper), 256
    for i in range(0, n, tile):
        rows = slice(i, min(i + tile, n))
        corner = upper[rows, rows]
        np.copyto(corner, corner.T, where=_below(len(corner)))
        for j in range(i + tile, n, tile):
            columns = slice(j, min(j + tile, n))
            upper[columns, rows] = upper[rows, columns].T
    return upper


@lru_cache(maxsize=16)
def _below(size: int) -> BoolArray:
    """(size, size) the entries below the diagonal."""
    out = np.tri(size, k=-1, dtype=np.bool_)
    out.flags.writeable = False
    return out


def pivoted_root(a: Array, tolerance: float | None = None) -> Array:
    """R, (n, r), with RR' = A for a positive semidefinite A of rank r (LAPACK dpstrf).

    Pivots below `tolerance` (default n eps max A_ii) count as zero, the error of RR' is of that
    size. Raises NumericalError E601 where A is not semidefinite (what is left of its diagonal is
    compared with 1e-6 of the largest variance).
    """
    n = len(a)
    if not n:
        return np.zeros((0, 0))
    top = float(a.diagonal().max())
    floor = n * np.finfo(np.float64).eps * max(top, 0.0) if tolerance is None else tolerance
    if top <= 0.0 and not a.any():
        return np.zeros((n, 0))
    lower, pivots, rank, _ = lapack.dpstrf(np.array(a, order="F"), tol=floor, lower=1)
    root = np.empty((n, int(rank)))
    root[np.asarray(pivots) - 1] = np.tril(lower)[:, : int(rank)]
    remainder = a.diagonal() - np.einsum("ij,ij->i", root, root)
    if not np.abs(remainder).max() <= 1e-6 * top:
        raise NumericalError.of("E601", "a covariance is not positive semidefinite")
    return root


def partial_root(a: Array, count: int, ranks: IntArray | None = None) -> tuple[Array, IntArray]:
    """R, (n, k), the first k <= `count` columns of a Cholesky factor of a positive semidefinite A
    with pivots, and the pivots, (k,): A - RR' is 0 in their rows. n k^2 flops.

    Each pivot is the largest entry left of the diagonal, so that the columns of fewer are the first
    of more. Of equals, as all are at first under a stationary kernel, it is the one whose column of
    A is the longest; of equals in this too, such as mirror images on a grid, the first by `ranks`,
    (n,), None: as they stand. k < `count` where all that is left is rounding, below
    n eps max A_ii.
    """
    n = len(a)
    left = a.diagonal().copy()
    floor = n * np.finfo(np.float64).eps * float(left.max(initial=0.0))
    root = np.zeros((n, min(count, n)))
    pivots: list[int] = []
    length = np.einsum("ij,ij->j", a, a)
    ranks = np.arange(n) if ranks is None else ranks
    for j in range(root.shape[1]):
        top = float(left.max())
        if not top > floor:
            break
        among = np.flatnonzero(left >= (1.0 - EQUAL) * top)
        among = among[length[among] >= (1.0 - EQUAL) * length[among].max()]
        k = int(among[np.argmin(ranks[among])])
        column = (a[:, k] - root[:, :j] @ root[k, :j]) / np.sqrt(left[k])
        column[pivots] = 0.0
        root[:, j] = column
        pivots.append(k)
        left -= column * column
        left[pivots] = 0.0
    return root[:, : len(pivots)].copy(), np.array(pivots, dtype=np.int64)
