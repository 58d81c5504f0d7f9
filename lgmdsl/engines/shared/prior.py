"""Prior blocks as engines see them: products of factors (row-major Kronecker) without forming them.

A block is flat where a factor is improper and diagonal (infinite variance everywhere).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix
from lgmdsl.contract.linear import PriorBlock
from lgmdsl.contract.structure import Shape, Structure
from lgmdsl.numerics.cholesky import pivoted_root

_FLAT = Shape.IMPROPER | Shape.DIAGONAL
FULL = 64  # sides of full blocks of a `pattern`


def is_flat(block: PriorBlock) -> bool:
    """Whether the whole block has density 1."""
    return any(f.shape & _FLAT == _FLAT for f in block.factors)


def is_tied(factor: Structure) -> bool:
    """Whether the structure carries constraints."""
    return type(factor).constraints is not Structure.constraints and bool(
        factor.constraints().shape[0]
    )


def kron_times(matrices: list[Array], x: Array) -> Array:
    """(M_1 (x) M_2 (x) ...) x for x of shape (n, k), each M_i (p_i, n_i); row-major order."""
    columns = x.shape[1]
    done = x.reshape(*[m.shape[1] for m in matrices], columns)
    for axis, m in enumerate(matrices):
        done = np.moveaxis(np.tensordot(m, done, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(done).reshape(math.prod(len(m) for m in matrices), columns)


@dataclass(frozen=True, eq=False)
class Tied:
    """Constraints Cz = 0 that belong to a prior, (k, n) csr of full row rank, and as many latents,
    `pins`, one of which stands in each row and no other: fixing them fixes what C does."""

    rows: SparseMatrix
    pins: IntArray

    @staticmethod
    def of(factor: Structure) -> Tied:
        """Members of one structure at which each of its rows stands alone: the first such."""
        rows = factor.constraints()
        alone = np.bincount(rows.indices, minlength=rows.shape[1])[rows.indices] == 1
        line = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[alone]
        pins = rows.indices[alone][np.unique(line, return_index=True)[1]]
        return Tied(rows, np.asarray(pins, dtype=np.int64))

    def times(self, other: Tied) -> Tied:
        """Constraints of the product: C_1 z = 0 at every place of the second, and the other way
        round; of the latter, those at the pins of the first follow from the rest."""
        n1, n2 = self.rows.shape[1], other.rows.shape[1]
        loose = np.setdiff1d(np.arange(n1), self.pins)
        along = sp.kron(self.rows, sp.eye_array(n2), format="csr")
        across = sp.kron(sp.eye_array(n1, format="csr")[loose], other.rows, format="csr")
        pins = (self.pins[:, None] * n2 + np.arange(n2)).reshape(-1)
        more = (loose[:, None] * n2 + other.pins).reshape(-1)
        rows = sp.csr_array(sp.vstack([along, across], format="csr"))
        return Tied(rows, np.concatenate([pins, more]))


class BlockPrior:
    """One block, placed at `start` among all latents."""

    def __init__(self, block: PriorBlock, start: int) -> None:
        self.block = block
        self.name = block.name
        self.size = block.size
        self.where = slice(start, start + block.size)
        self.flat = is_flat(block)
        # A flat block has no mean: its prior is the same everywhere.
        self.mean = np.zeros(self.size) if self.flat else np.asarray(block.mean, dtype=np.float64)

    @property
    def diagonal(self) -> bool:
        """Whether K is diagonal."""
        return not self.flat and Shape.DIAGONAL in self.block.shape

    @cached_property
    def variance(self) -> Array:
        """(n,) diag K."""
        return reduce(_kron, [f.variance() for f in self.block.factors])

    @cached_property
    def covariances(self) -> list[Array]:
        """The factors' covariances."""
        return [f.covariance() for f in self.block.factors]

    @cached_property
    def covariance(self) -> Array:
        """(n, n) K."""
        return np.ascontiguousarray(reduce(_kron, self.covariances))

    def times(self, x: Array) -> Array:
        """K x for (n, k)."""
        if self.diagonal:
            return self.variance[:, None] * x
        if len(self.block.factors) == 1:
            return np.asarray(self.covariances[0] @ x)
        return kron_times(self.covariances, x)

    def rows_times(self, m: Matrix) -> Matrix:
        """m K for rows m, (k, n), dense or csr; rows of K itself where m picks some. Sparse where
        both are."""
        if self.diagonal and not isinstance(m, np.ndarray):
            return sp.csr_array(m.multiply(self.variance))
        if len(self.block.factors) == 1 and not self.diagonal:
            return np.asarray(m @ self.covariances[0])
        rows = m if isinstance(m, np.ndarray) else np.asarray(m.toarray())
        return self.times(np.ascontiguousarray(rows.T)).T

    @cached_property
    def roots(self) -> list[Array]:
        return [pivoted_root(k) for k in self.covariances]

    @property
    def rank(self) -> int:
        """Columns of the root."""
        return self.size if self.diagonal else math.prod(r.shape[1] for r in self.roots)

    def root_times(self, x: Array) -> Array:
        """R x with RR' = K, for x of shape (rank, k)."""
        if self.diagonal:
            return np.sqrt(self.variance)[:, None] * x
        return kron_times(self.roots, x)

    def root_transposed(self, x: Array) -> Array:
        """R'x with RR' = K, for x of shape (n, k)."""
        if self.diagonal:
            return np.sqrt(self.variance)[:, None] * x
        return kron_times([r.T for r in self.roots], x)

    @property
    def moving(self) -> Array:
        """(rank,) 1 for the columns of the root, 0 for those that are zero (a fixed latent)."""
        return np.where(self.variance > 0.0, 1.0, 0.0) if self.diagonal else np.ones(self.rank)

    def precision(self) -> Array:
        """(n, n) Q, dense."""
        return reduce(_kron, [_dense_precision(f) for f in self.block.factors])

    @cached_property
    def sparse_precision(self) -> SparseMatrix:
        """(n, n) Q, csr."""
        parts = [sp.csr_array(f.precision()) for f in self.block.factors]
        return sp.csr_array(reduce(_sparse_kron, parts))

    @cached_property
    def tied(self) -> Tied:
        """The constraints that the structures carry, of the whole block."""
        parts = [Tied.of(f) for f in self.block.factors]
        return reduce(Tied.times, parts)

    @cached_property
    def null_space(self) -> Array:
        """(n, k) orthonormal basis of the directions of density 1."""
        if self.flat:
            return np.eye(self.size)
        if len(self.block.factors) == 1:
            return self.block.factors[0].null_space()
        basis, order = np.zeros((1, 0)), 1
        for f in self.block.factors:
            null = f.null_space()
            # null(A (x) B) = null(A) (x) all + range(A) (x) null(B)
            span = _complement(basis) if null.shape[1] else np.zeros((order, 0))
            basis = np.hstack([np.kron(basis, np.eye(f.size)), np.kron(span, null)])
            order *= f.size
        return basis

    def freed(self, z: Array) -> Array:
        """The part of z along the directions of `free_space`."""
        return z if self.flat else np.asarray(self.free_space @ (self.free_space.T @ z))

    @cached_property
    def free_space(self) -> Array:
        """(n, f) orthonormal basis of the improper directions that the structures do not tie."""
        if self.flat:
            return np.eye(self.size)
        null, tied = self.null_space, self.tied.rows
        if not tied.shape[0] or not null.shape[1]:
            return null
        return np.asarray(null @ sla.null_space(np.asarray(tied @ null)))

    @property
    def nullity(self) -> int:
        """k, without forming the basis."""
        if self.flat:
            return self.size
        return self.size - math.prod(self._ranks)

    @cached_property
    def _ranks(self) -> list[int]:
        """How many directions each factor's precision sees."""
        return [f.size - f.nullity for f in self.block.factors]

    @cached_property
    def log_det_precision(self) -> float:
        """log of the product of Q's non-zero eigenvalues."""
        if self.flat:
            return 0.0
        ranks = self._ranks
        return sum(
            f.log_det_precision() * math.prod(ranks[:k] + ranks[k + 1 :])
            for k, f in enumerate(self.block.factors)
        )


def _kron(a: Array, b: Array) -> Array:
    return np.asarray(np.kron(a, b))


def _sparse_kron(a: SparseMatrix, b: SparseMatrix) -> SparseMatrix:
    return sp.csr_array(sp.kron(a, b, format="csr"))


def _complement(basis: Array) -> Array:
    """Orthonormal basis of the complement of an orthonormal (n, k) basis."""
    n, k = basis.shape
    if k == 0:
        return np.eye(n)
    q, _ = np.linalg.qr(basis, mode="complete")
    return np.asarray(q[:, k:])


def _dense_precision(factor: Structure) -> Array:
    q = factor.precision()
    return q if isinstance(q, np.ndarray) else np.asarray(q.toarray())


def pattern(block: PriorBlock) -> SparseMatrix | None:
    """(n, n), an entry wherever a block's prior joins two latents; None for a large one that joins
    all of them."""
    shape, flat = block.shape, BlockPrior(block, 0).flat
    tied = any(f.constraints().shape[0] for f in block.factors)
    if (flat or Shape.DIAGONAL in shape) and not tied:
        return sp.csr_array(sp.eye_array(block.size, format="csr"))
    if all(f.size <= FULL or Shape.DIAGONAL in f.shape for f in block.factors) and not tied:
        each = ((f.size, Shape.DIAGONAL in f.shape) for f in block.factors)
        parts = [sp.csr_array(sp.eye_array(n) if own else np.ones((n, n))) for n, own in each]
        return reduce(_sparse_kron, parts)
    if Shape.PRECISION in shape and Shape.SPARSE in shape and not tied:
        joined = sp.csr_array(abs(BlockPrior(block, 0).sparse_precision))
        joined.data[:] = 1.0
        return joined
    return sp.csr_array(np.ones((block.size,) * 2)) if block.size <= FULL else None


def covariance_adjoints(block: PriorBlock, adjoint: Array) -> list[Array]:
    """dF/dK_f of each factor from the block's dF/dK, K = K_1 (x) K_2 (x) ...

    dF/dK_1[i, j] = sum_kl dF/dK[(i, k), (j, l)] K_2[k, l], and so on.
    """
    if len(block.factors) == 1:
        return [adjoint]
    return _folded(adjoint, [f.covariance() for f in block.factors])


def precision_adjoints(block: PriorBlock, adjoint: Matrix) -> list[Matrix]:
    """dF/dQ_f of each factor from the block's dF/dQ; both dense, or both csr on their patterns."""
    if len(block.factors) == 1:
        return [adjoint]
    if isinstance(adjoint, np.ndarray):
        return [*_folded(adjoint, [_dense_precision(f) for f in block.factors])]
    return _sparse_folded(adjoint, [sp.csr_array(f.precision()) for f in block.factors])


def _folded(adjoint: Array, matrices: list[Array]) -> list[Array]:
    sizes = [len(m) for m in matrices]
    letters = "abcdefghijklmnopqrstuvwxyz"
    rows, columns = letters[: len(sizes)], letters[len(sizes) : 2 * len(sizes)]
    folded, out = adjoint.reshape(*sizes, *sizes), []
    for keep in range(len(sizes)):
        others = [i for i in range(len(sizes)) if i != keep]
        subscripts = [rows + columns] + [rows[i] + columns[i] for i in others]
        spec = ",".join(subscripts) + "->" + rows[keep] + columns[keep]
        out.append(np.einsum(spec, folded, *[matrices[i] for i in others], optimize=True))
    return out


def _sparse_folded(adjoint: SparseMatrix, matrices: list[SparseMatrix]) -> list[Matrix]:
    sizes = [m.shape[0] for m in matrices]
    entries, out = adjoint.tocoo(), list[Matrix]()
    rows, columns = (np.unravel_index(i, sizes) for i in (entries.row, entries.col))
    values = [
        np.asarray(m[i, j]).reshape(-1) for m, i, j in zip(matrices, rows, columns, strict=True)
    ]
    for keep, size in enumerate(sizes):
        product = entries.data * np.prod([v for k, v in enumerate(values) if k != keep], axis=0)
        place = (rows[keep], columns[keep])
        out.append(sp.csr_array((product, place), shape=(size, size)))
    return out
