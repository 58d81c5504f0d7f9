"""Variances of rows b'z from perturbation samples u ~ N(0, A^-1) (Papandreou and Yuille 2011).

Short rows: Rao-Blackwellised over a set S of latents that holds the row's own,
    Var(b'u) = b'A_SS^-1 b + Var(b'A_SS^-1 r),    r = (A u)_S - A_SS u_S,
whose first term is exact. Long rows: the mean of (b'u)^2, or where k = b'D^-1 A D^-1 b can be had,
    Var(b'u) = c^2/k + Var(b'u - (c/k) b'u~),    u~ = D^-1 A u,  D = diag(A),  c = b'D^-1 b,
the same with D^-1 b alone in the place of the latents of S.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.engines.iterative.ties import Ties
from lgmdsl.numerics.sparse.base import located
from lgmdsl.operators.base import Operator
from lgmdsl.operators.compose import parts_of

SHORT = 8  # latents in a row that is averaged over its support
CHUNK = 1 << 21  # entries of one temporary
AFFORDED = 5e9  # flops for the known means of the control variates


@dataclass(frozen=True, eq=False)
class Samples:
    """u (n, K) with u ~ N(0, A^-1) but for what is left of the solves, and A u."""

    u: Array
    lifted: Array
    rhs: Array

    @property
    def count(self) -> int:
        return int(self.u.shape[1])


@dataclass(frozen=True, eq=False)
class Directions:
    """Columns d (n, k) and A d with signs: A^-1 is the samples' covariance + sum of sign d d'."""

    u: Array
    lifted: Array
    signs: Array


@dataclass(frozen=True, eq=False)
class Group:
    """Rows with equally many latents to average over: which rows, the latents and the rows'
    entries there, (m, s), and where A at each pair of them (s (s + 1) / 2, the lower triangle)
    stands among all pairs."""

    rows: IntArray
    support: IntArray
    entries: Array
    pairs: AnyArray


class RowGroups:
    """The rows of one functional sorted into short and long ones; made once for a functional.

    `neighbours`: an (n, n) csr pattern. Short rows are averaged over their latents and rings of
    neighbours about them, as far as `widest` latents go: what is left to chance shrinks with each.
    """

    def __init__(
        self, operator: Operator, neighbours: SparseMatrix | None = None, widest: int = SHORT
    ) -> None:
        self.operator, self.size = operator, operator.shape[1]
        self.rows = operator.shape[0]
        self._fixed: BoolArray | None = None
        short = _short_rows(operator)
        written = _rows_of(operator, short)
        self.empty = short[np.diff(written.indptr) == 0]
        around = _grown(written, neighbours, widest)
        square = sp.tril(sp.csr_array(around.T) @ around, format="csr").tocoo()
        self.keys = np.sort(square.col.astype(np.int64) * self.size + square.row)
        self.groups = list(self._groups(short, written, around))
        self.long = np.setdiff1d(np.arange(self.rows), short)

    def fixed(self, ties: Ties) -> BoolArray:
        """(rows,) which rows constraints determine; computed once."""
        if self._fixed is None:
            self._fixed = ties.fixed(self.operator)
        return self._fixed

    def _groups(self, short: IntArray, held: SparseMatrix, around: SparseMatrix) -> Iterator[Group]:
        line = np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
        filled = np.zeros(around.nnz)
        every = np.repeat(np.arange(around.shape[0]), np.diff(around.indptr))
        places = every * self.size + around.indices
        filled[np.searchsorted(places, line * self.size + held.indices)] = held.data
        widths = np.diff(around.indptr)
        for width in np.unique(widths[widths > 0]):
            members = np.flatnonzero(widths == width)
            place = around.indptr[members].astype(np.int64)[:, None] + np.arange(width)
            support = around.indices[place].astype(np.int64)
            high, low = np.tril_indices(width)  # the indices of a row rise
            pairs = np.empty((len(members), len(low)), dtype=np.int32)
            step = max(1, CHUNK // len(low))
            for at in range(0, len(members), step):
                some = support[at : at + step]
                keys = some[:, low] * self.size + some[:, high]
                pairs[at : at + step] = located(self.keys, keys)
            yield Group(short[members], support, filled[place], pairs)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The latents of every pair that some short row sees."""
        low, high = np.divmod(self.keys, self.size)
        return low, high

    def averaged(
        self, local: Array, samples: Samples, known: Directions | None = None
    ) -> tuple[Array, Array]:
        """Variances of the short rows and their standard errors, (rows,); NaN in long rows.

        `local`: A at `pairs`. `known`: what the samples' covariance lacks.
        """
        out, error = np.full(self.rows, np.nan), np.full(self.rows, np.nan)
        out[self.empty], error[self.empty] = 0.0, 0.0
        for g in self.groups:
            width = g.support.shape[1]
            high, low = np.tril_indices(width)
            step = max(1, CHUNK // (width * max(width, samples.count)))
            for at in range(0, len(g.rows), step):
                chunk = slice(at, at + step)
                b, support = g.entries[chunk], g.support[chunk]
                a = np.empty((len(b), width, width))
                a[:, high, low] = a[:, low, high] = local[g.pairs[chunk]]
                gain = np.asarray(np.linalg.solve(a, b[:, :, None])[:, :, 0], dtype=np.float64)

                rest, error[g.rows[chunk]] = plain(
                    _inside(gain, b, support, samples.u, samples.lifted)
                )
                if known is not None:
                    more = _inside(gain, b, support, known.u, known.lifted)
                    rest += more**2 @ known.signs
                out[g.rows[chunk]] = np.einsum("ms,ms->m", b, gain) + rest
        return out, error

    @cached_property
    def long_rows(self) -> SparseMatrix:
        """The long rows, csr."""
        return _rows_of(self.operator, self.long)


def _inside(gain: Array, b: Array, support: IntArray, u: Array, lifted: Array) -> Array:
    """b'A_SS^-1 r of each row, r = (A u)_S - A_SS u_S, for columns u."""
    within = np.matmul(gain[:, None, :], lifted[support])[:, 0]
    # b'A_SS^-1 A_SS u_S = b'u_S
    return np.asarray(within - np.matmul(b[:, None, :], u[support])[:, 0])


def _grown(held: SparseMatrix, neighbours: SparseMatrix | None, widest: int) -> SparseMatrix:
    """The pattern of each row with rings of neighbours, as many as leave `widest` latents."""
    pattern = sp.csr_array((np.ones(held.nnz), held.indices, held.indptr), shape=held.shape)
    if neighbours is None or not held.shape[0]:
        return pattern
    # A row that holds a latent with more neighbours (an intercept has all) can take no ring, which
    # is seen before it is formed.
    crowded = (np.diff(neighbours.indptr) > widest).astype(np.float64)
    while True:
        rows = np.flatnonzero(pattern @ crowded == 0.0)
        inner = sp.csr_array(pattern[rows])
        wider = sp.csr_array(inner + inner @ neighbours)
        before, after = np.diff(inner.indptr), np.diff(wider.indptr)
        taken = np.flatnonzero((after <= widest) & (after > before))
        if not len(taken):
            break
        wider.data[:] = 1.0
        keep = np.ones(held.shape[0])
        keep[rows[taken]] = 0.0
        place = sp.csr_array(
            (np.ones(len(taken)), (rows[taken], taken)), shape=(held.shape[0], len(rows))
        )
        pattern = sp.csr_array(sp.diags_array(keep, format="csr") @ pattern + place @ wider)
    pattern.sort_indices()
    return pattern


def adjacency(operator: Operator) -> SparseMatrix | None:
    """Which latents share a short row, (n, n) csr; None where no row is short."""
    rows = _rows_of(operator, _short_rows(operator))
    if not rows.nnz:
        return None
    ones = sp.csr_array((np.ones(rows.nnz), rows.indices, rows.indptr), shape=rows.shape)
    joint = sp.csr_array(sp.csr_array(ones.T) @ ones)
    joint.data[:] = 1.0
    return joint


def _short_rows(operator: Operator) -> IntArray:
    short, first = [np.zeros(0, dtype=np.int64)], 0
    for part in parts_of(operator):
        if part.is_sparse:
            short.append(first + np.flatnonzero(part.entries_by_row() <= SHORT))
        first += part.shape[0]
    return np.concatenate(short)


def _rows_of(operator: Operator, rows: IntArray) -> SparseMatrix:
    """Some rows, in rising order, written out; parts that have none of them stay unformed."""
    pieces, first = [sp.csr_array((0, operator.shape[1]))], 0
    for part in parts_of(operator):
        some = rows[(rows >= first) & (rows < first + part.shape[0])] - first
        if len(some):
            pieces.append(sp.csr_array(part.sparse()[some]))
        first += part.shape[0]
    matrix = sp.csr_array(sp.vstack(pieces, format="csr"))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def inflation(samples: int) -> float:
    """Mean square of the relative error of a mean of K squares of normals with mean zero, relative
    to that mean: with X a chi-square of K degrees of freedom, E (1 - K/X)^2. That of the truth is
    2/K; where a mean comes out small, so does what is read off it."""
    k = float(samples)
    if k <= 4.0:
        return math.inf
    return 1.0 - 2.0 * k / (k - 2.0) + k * k / ((k - 2.0) * (k - 4.0))


def plain(values: Array) -> tuple[Array, Array]:
    """Mean of squares over samples, (rows, K), and its standard error, the samples being normal
    with mean zero."""
    mean = np.asarray((values**2).mean(axis=1))
    return mean, mean * math.sqrt(inflation(values.shape[1]))


def regressed(values: Array, controls: Array, cross: Array, known: Array) -> tuple[Array, Array]:
    """Var(b'u) = c^2/k + Var(b'u - (c/k) b'u~), of samples (rows, K); c = Cov(b'u, b'u~) and
    k = Var(b'u~), (rows,), are known: what is left to chance is the second term."""
    slope = cross / np.maximum(known, 1e-300)
    rest, error = plain(values - slope[:, None] * controls)
    return cross * slope + rest, error


def known_moments(
    x: SparseMatrix, b: SparseMatrix, weight: Array, prior: SparseMatrix, diagonal: Array
) -> tuple[Array, Array] | None:
    """x_i'D^-1 x_i and x_i'D^-1 A D^-1 x_i for rows x_i, A = Q + B'WB: covariance of x_i'u and
    variance of x_i'u~ for u~ = D^-1 A u; None where they would cost too much."""
    scaled = sp.csr_array(x @ sp.diags_array(1.0 / diagonal, format="csr"))
    per_column = np.bincount(b.indices, minlength=b.shape[1])
    flops = 2.0 * float(per_column[scaled.indices].sum())
    if flops > AFFORDED:
        return None
    out = np.asarray(scaled.multiply(scaled @ prior).sum(axis=1), dtype=np.float64).reshape(-1)
    step = max(1, int(CHUNK * max(x.shape[0], 1) / max(flops, 1.0)))
    across = sp.csr_array(b.T)
    for at in range(0, x.shape[0], step):
        cross = sp.csr_array(scaled[at : at + step] @ across)
        cross.data **= 2
        out[at : at + step] += np.asarray(cross @ weight)
    return np.asarray(scaled.multiply(x).sum(axis=1), dtype=np.float64).reshape(-1), out
