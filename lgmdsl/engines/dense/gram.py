"""B'WB and the diagonal of B V B' for explicit B, each in one pass: dense, sparse, pair-wise.

`pairs` (sparse B with short rows, scalar sites): the products B_pi B_pj, i <= j, of every row p
form a fixed csr matrix G with the pairs (i, j) as columns, so vech(B'WB) = G'w and
diag(B V B') = G vech'(V): two matrix-vector products, whatever W and V. Of vector sites G has a row
for every two predictors p <= q of a site (`SitePairGram`): the symmetric part of B_p'B_q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import StackedPredictors, cut, row_slices
from lgmdsl.engines.shared.kept import by_operators
from lgmdsl.engines.shared.weights import SiteWeight, site_blocks
from lgmdsl.numerics.cholesky import Cholesky
from lgmdsl.numerics.sparse.base import canonical

# A dense copy of a sparse B, or the table of pairs, may take this many bytes, never more.
COPY_LIMIT = 1 << 28
KEPT_ENTRIES = 8_000_000  # of B, rows times latents: beyond, it is not kept from theta to theta
MAKING = 120.0  # bytes of an entry of the table of vector sites while it is made
_CHUNK = 1 << 16  # entries of B scaled and multiplied at a time: stays in the second-level cache


class Gram(ABC):
    """One explicit form of B. `flops` estimates a call of `weighted`."""

    flops: float

    @abstractmethod
    def weighted(self, w: SiteWeight) -> Array:
        """B'WB, (n, n) C-ordered; at least the upper triangle is filled."""

    @abstractmethod
    def variance(self, factor: Cholesky) -> list[Array]:
        """Blocks of B A^-1 B' by site block, from the factor of A."""

    @abstractmethod
    def times(self, z: Array) -> Array:
        """B z."""

    @abstractmethod
    def transposed(self, y: Array) -> Array:
        """B'y."""


class DenseGram(Gram):
    """B dense, scaled and multiplied by row chunks (syrk)."""

    def __init__(self, b: Array, predictors: tuple[Predictor, ...]) -> None:
        self.b, self.predictors = b, predictors
        self.flops = float(b.size) * b.shape[1]

    def times(self, z: Array) -> Array:
        return np.asarray(self.b @ z)

    def transposed(self, y: Array) -> Array:
        return np.asarray(self.b.T @ y)

    def weighted(self, w: SiteWeight) -> Array:
        rows, n = self.b.shape
        if w.diagonal is None:
            return np.ascontiguousarray(self.b.T @ w.times(self.b))
        step = max(64, _CHUNK // max(n, 1))
        root = np.sqrt(np.abs(w.diagonal))
        negative = w.diagonal < 0
        out = np.zeros((n, n), order="F")
        if n == 0:
            return np.zeros((0, 0))
        for start in range(0, rows, step):
            chunk = slice(start, start + step)
            scaled = root[chunk, None] * self.b[chunk]
            minus = negative[chunk]
            if minus.any():
                out = blas.dsyrk(1.0, scaled[~minus].T, 1.0, out, lower=1, overwrite_c=1)
                scaled = scaled[minus]
                out = blas.dsyrk(-1.0, scaled.T, 1.0, out, lower=1, overwrite_c=1)
            else:
                out = blas.dsyrk(1.0, scaled.T, 1.0, out, lower=1, overwrite_c=1)
        return np.asarray(out.T)

    def variance(self, factor: Cholesky) -> list[Array]:
        return _by_chunks(self.predictors, self.b.shape[1], lambda rows: self.b[rows].T, factor)


class SparseGram(Gram):
    """B csr, never densified as a whole: sparse products, row chunks for the variances."""

    def __init__(self, b: SparseMatrix, predictors: tuple[Predictor, ...]) -> None:
        self.b, self.predictors = b, predictors
        self.bt = sp.csr_array(b.T)
        counts = np.diff(b.indptr).astype(np.float64)
        self.flops = 20.0 * float(counts @ counts)  # a sparse product costs about ten times a dense

    def times(self, z: Array) -> Array:
        return np.asarray(self.b @ z)

    def transposed(self, y: Array) -> Array:
        return np.asarray(self.bt @ y)

    def weighted(self, w: SiteWeight) -> Array:
        if w.diagonal is None:
            scaled = w.sparse() @ self.b
        else:
            lines = np.repeat(w.diagonal, np.diff(self.b.indptr))
            scaled = sp.csr_array(
                (self.b.data * lines, self.b.indices, self.b.indptr), shape=self.b.shape
            )
        return np.ascontiguousarray((self.bt @ scaled).toarray())

    def variance(self, factor: Cholesky) -> list[Array]:
        if any(p.event for p in self.predictors):
            columns = self.b.shape[1]
            return _by_chunks(
                self.predictors, columns, lambda r: rows_of(self.b, r).toarray().T, factor
            )
        v = factor.inverse()
        flat, step = np.empty(self.b.shape[0]), max(1, (1 << 20) // max(len(v), 1))
        for start in range(0, len(flat), step):
            part = rows_of(self.b, slice(start, start + step))
            product = sp.csr_array(part.multiply(np.asarray(part @ v)))
            flat[start : start + step] = np.asarray(product @ np.ones(len(v)))
        return cut(flat, self.predictors)


class PairGram(SparseGram):
    """B csr with short rows and scalar sites: the table of pairs, see the module."""

    def __init__(self, b: SparseMatrix, predictors: tuple[Predictor, ...]) -> None:
        super().__init__(b, predictors)
        n = b.shape[1]
        self.pairs, count = _pairs(b)
        self.turned = self.pairs.T  # csc, on the same arrays
        self.flops = 2.0 * count
        i, j = np.triu_indices(n)
        self.upper = i * n + j
        self.double = np.where(i == j, 1.0, 2.0)

    def weighted(self, w: SiteWeight) -> Array:
        assert w.diagonal is not None
        n = self.b.shape[1]
        out = np.zeros((n, n))
        out.reshape(-1)[self.upper] = np.asarray(self.turned @ w.diagonal)
        return out

    def variance(self, factor: Cholesky) -> list[Array]:
        v = factor.inverse().reshape(-1)[self.upper]
        return cut(np.asarray(self.pairs @ (v * self.double)), self.predictors)


class SitePairGram(SparseGram):
    """B csr with short rows and sites of few predictors: the table of pairs, see the module."""

    def __init__(self, b: SparseMatrix, predictors: tuple[Predictor, ...]) -> None:
        super().__init__(b, predictors)
        n = b.shape[1]
        tables, self.places = [], list[tuple[slice, IntArray, IntArray]]()
        first = 0
        for p, rows in zip(predictors, row_slices(predictors), strict=True):
            left, right = np.triu_indices(max(p.event, 1))
            part, width = rows_of(b, rows), max(p.event, 1)
            pairs = zip(left, right, strict=True)
            tables += [_products(part[int(i) :: width], part[int(j) :: width], n) for i, j in pairs]
            last = first + len(left) * (p.rows // width)
            self.places.append((slice(first, last), left, right))
            first = last
        self.pairs = sp.csr_array(sp.vstack(tables, format="csr"))
        self.pairs.sum_duplicates()
        self.flops = 2.0 * self.pairs.nnz
        i, j = np.triu_indices(n)
        self.upper = i * n + j
        self.double = np.where(i == j, 1.0, 2.0)

    def weighted(self, w: SiteWeight) -> Array:
        n = self.b.shape[1]
        flat = np.empty(self.pairs.shape[0])
        for (rows, left, right), (_, part) in zip(self.places, w.parts, strict=True):
            if part.ndim == 1:
                flat[rows] = part
            else:
                both = np.where(left == right, 1.0, 2.0)[:, None]
                flat[rows] = (both * part[:, left, right].T).reshape(-1)
        out = np.zeros((n, n))
        out.reshape(-1)[self.upper] = np.asarray(self.pairs.T @ flat)
        return out

    def variance(self, factor: Cholesky) -> list[Array]:
        v = factor.inverse().reshape(-1)[self.upper]
        flat, out = np.asarray(self.pairs @ (v * self.double)), list[Array]()
        for (rows, left, right), p in zip(self.places, self.predictors, strict=True):
            if not p.event:
                out.append(flat[rows])
                continue
            entries = flat[rows].reshape(len(left), -1).T
            blocks = np.empty((len(entries), p.event, p.event))
            blocks[:, left, right] = blocks[:, right, left] = entries
            out.append(blocks)
        return out


def _products(a: SparseMatrix, b: SparseMatrix, n: int) -> SparseMatrix:
    """(N, n(n+1)/2) the symmetric parts of a_i'b_i, rows of two csr arrays, by their upper
    triangles."""
    many, few = np.diff(a.indptr).astype(np.int64), np.diff(b.indptr).astype(np.int64)
    sizes = many * few
    ends = np.cumsum(sizes)
    row = np.repeat(np.arange(len(sizes)), sizes)
    at, across = np.divmod(np.arange(len(row)) - (ends - sizes)[row], np.maximum(few, 1)[row])
    left, right = a.indptr[row] + at, b.indptr[row] + across
    i, j = a.indices[left].astype(np.int64), b.indices[right].astype(np.int64)
    value = a.data[left] * b.data[right] * np.where(i == j, 1.0, 0.5)
    low, high = np.minimum(i, j), np.maximum(i, j)
    column = low * n - low * (low - 1) // 2 + high - low
    shape = (len(sizes), n * (n + 1) // 2)
    return sp.csr_array((value, column, np.r_[0, ends]), shape=shape)


def _pairs(b: SparseMatrix) -> tuple[SparseMatrix, int]:
    """G, (P, n(n+1)/2): column of the pair i <= j is its place in the upper triangle by rows."""
    n = b.shape[1]
    counts = np.diff(b.indptr)
    sizes = counts.astype(np.int64) * (counts + 1) // 2
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    total = int(starts[-1])
    column, value = np.empty(total, dtype=np.int32), np.empty(total)
    first = np.arange(n, dtype=np.int64)
    first = (first * n - first * (first - 1) // 2 - first).astype(np.int32)  # (i, j): first[i] + j
    for width in np.unique(counts[counts > 0]):
        left, right = np.triu_indices(width)
        lines = np.flatnonzero(counts == width)
        for start in range(0, len(lines), 1024):
            chunk = lines[start : start + 1024]
            place = b.indptr[chunk][:, None] + np.arange(width)
            index, data = b.indices[place].T.copy(), b.data[place].T.copy()
            # Lists of pairs by row of these arrays are contiguous copies, not gathers.
            pair = (first[index[left]] + index[right]).T
            product = (data[left] * data[right]).T
            begin, end = starts[chunk[0]], starts[chunk[-1] + 1]
            if end - begin == pair.size:  # neighbours: no scatter
                column[begin:end], value[begin:end] = pair.reshape(-1), product.reshape(-1)
            else:
                target = starts[chunk][:, None] + np.arange(len(left), dtype=np.int32)
                column[target], value[target] = pair, product
    table = sp.csr_array((value, column, starts), shape=(b.shape[0], n * (n + 1) // 2))
    return table, total


def rows_of(b: SparseMatrix, rows: slice) -> SparseMatrix:
    """Some rows of a csr array."""
    return b[rows]


def _by_chunks(
    predictors: tuple[Predictor, ...],
    columns: int,
    transposed: Callable[[slice], Array],
    factor: Cholesky,
) -> list[Array]:
    """Blocks of B A^-1 B' through L^-1 B' by chunks of whole sites."""
    out = []
    for p, every in zip(predictors, row_slices(predictors), strict=True):
        step = max(64, (1 << 19) // max(columns, 1))
        if p.event:
            step += p.event - step % p.event
        parts = []
        for start in range(every.start, every.stop, step):
            rows = slice(start, min(start + step, every.stop))
            half = factor.forward(transposed(rows))
            chunk = Predictor({}, np.empty(rows.stop - rows.start), p.event)
            parts += site_blocks(half, half, (chunk,))
        shape = (0, p.event, p.event) if p.event else (0,)
        out.append(np.concatenate(parts) if parts else np.zeros(shape))
    return out


def designed(linear: LinearGaussian) -> tuple[StackedPredictors, Gram]:
    """B of a model and its form: those of the last theta, where operators are the same objects and
    B is small. The predictors' offsets may be those of another theta."""
    return _kept(linear) if linear.rows * linear.size <= KEPT_ENTRIES else _designed(linear)


def _designed(linear: LinearGaussian) -> tuple[StackedPredictors, Gram]:
    design = StackedPredictors(linear)
    return design, choose_gram(design, linear.predictors)


_kept = by_operators(_designed)


def choose_gram(design: StackedPredictors, predictors: tuple[Predictor, ...]) -> Gram:
    """The cheapest form. A B with sparse parts is copied densely, or pair by pair, only below
    COPY_LIMIT; its dense parts join the csr form where few entries a row make that cheaper."""
    rows, n = design.rows, design.size
    if not design.has_sparse:
        return DenseGram(design.dense(), predictors)
    counts = design.entries_by_row()
    pairs, dense = float(counts @ (counts + 1.0)) / 2.0, float(rows) * n * n
    scalar = not any(p.event for p in predictors)
    # Measured: an entry of the table costs about as much as sixteen multiplications of syrk, one
    # of a sparse product twenty times that of the table.
    table = pairs if scalar else _site_pairs(counts, predictors)
    size = 12.0 if scalar else MAKING
    pairwise = size * table <= COPY_LIMIT and 16.0 * table < dense and rows * n > 4096
    if not pairwise and 8.0 * rows * n <= COPY_LIMIT and dense < 320.0 * pairs + 1e6:
        return DenseGram(design.dense(), predictors)
    b = canonical(design.sparse())
    if pairwise:
        return PairGram(b, predictors) if scalar else SitePairGram(b, predictors)
    return SparseGram(b, predictors)


def _site_pairs(counts: Array, predictors: tuple[Predictor, ...]) -> float:
    """Entries of the table of `SitePairGram` before equal ones are joined."""
    total = 0.0
    for part, p in zip(
        cut(np.asarray(counts, dtype=np.float64), predictors), predictors, strict=True
    ):
        sites = part.reshape(-1, max(p.event, 1))
        total += 0.5 * float((sites.sum(axis=1) ** 2).sum() + (sites**2).sum())
    return total
