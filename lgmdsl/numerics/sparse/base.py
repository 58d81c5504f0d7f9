"""What every sparse Cholesky factorisation here offers, whatever its kernel.

A symmetric matrix is its `Pattern`, found once, and one array of values on it. `Symbolic` holds all
that depends on the pattern alone (ordering, elimination tree, supernodes); `Factor` is P'LL'P = A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.memory import TooLarge

Stored = TypeVar("Stored", bound="sp.csr_array | sp.csc_array")


@dataclass(frozen=True, eq=False)
class Pattern:
    """The lower triangle of a symmetric n x n pattern by columns (csc).

    `indptr` (n + 1,), `indices` (nnz,) int64, rows sorted within each column; the diagonal is
    always there, and stands first in its column.
    """

    indptr: IntArray
    indices: IntArray

    @property
    def size(self) -> int:
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        return len(self.indices)

    @cached_property
    def columns(self) -> IntArray:
        """(nnz,) the column of each entry."""
        return np.repeat(np.arange(self.size), np.diff(self.indptr))

    @cached_property
    def on_diagonal(self) -> IntArray:
        """(n,) where each diagonal entry stands among the values."""
        return self.indptr[:-1]

    @staticmethod
    def of(matrix: SparseMatrix) -> Pattern:
        """The pattern of a symmetric csr or csc array: every stored entry, zeros too."""
        size = matrix.shape[0]
        stored = sp.csc_array(
            (np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape
        )  # csr read as csc: the pattern is symmetric
        lower = sp.csc_array(sp.tril(stored + sp.eye_array(size, format="csc"), format="csc"))
        lower.sort_indices()
        return Pattern(lower.indptr.astype(np.int64), lower.indices.astype(np.int64))

    def values(self, matrix: SparseMatrix) -> Array:
        """(nnz,) the lower triangle of a symmetric matrix whose entries all lie on the pattern."""
        csr = sp.csr_array(matrix)
        csr.sort_indices()
        rows = np.repeat(np.arange(self.size), np.diff(csr.indptr))
        lower = rows >= csr.indices
        places = self.find(rows[lower], csr.indices[lower].astype(np.int64))
        values = np.bincount(places, weights=csr.data[lower], minlength=self.nnz)
        return np.asarray(values, dtype=np.float64)  # counts of nothing are integers

    def find(self, rows: IntArray, columns: IntArray) -> IntArray:
        """Where the entries (row, column) or (column, row) stand; KeyError for one that is not."""
        high, low = np.maximum(rows, columns), np.minimum(rows, columns)
        keys = self.keys
        wanted = low.astype(np.int64) * self.size + high
        places = located(keys, wanted)
        places[places == len(keys)] = 0
        if len(wanted) and not np.array_equal(keys[places], wanted):
            raise KeyError("an entry lies outside the pattern")
        return np.asarray(places, dtype=np.int64)

    @cached_property
    def keys(self) -> IntArray:
        """(nnz,) where the entries stand in a dense matrix by columns, in ascending order."""
        return self.columns * self.size + self.indices

    def matrix(self, values: Array) -> SparseMatrix:
        """The whole symmetric matrix, csr."""
        lower = sp.csc_array((values, self.indices, self.indptr), shape=(self.size, self.size))
        strict = sp.tril(lower, k=-1, format="csc")
        return sp.csr_array(lower + strict.T)


def times(m: SparseMatrix, x: Array) -> Array:
    """M x for (n,) or (n, k): scipy's product, which is typed as an array of any kind."""
    return np.asarray(m @ x)


def filled(like: Stored, data: AnyArray) -> Stored:
    """The csr or csc matrix with other numbers, (nnz,), at the places of `like`, whose index arrays
    it shares: a tenth of the time that SciPy takes to check a new one."""
    out = copy(like)
    out.data = np.asarray(data, dtype=np.float64)  # counts of nothing are integers
    return out


def canonical(m: SparseMatrix) -> SparseMatrix:
    """The csr matrix with each entry stored once, those of a row in order; itself where it is."""
    if m.has_canonical_format:
        return m
    m = m.copy()
    m.sum_duplicates()
    return m


def entries_of(m: SparseMatrix) -> tuple[IntArray, IntArray]:
    """Rows and columns of the stored entries of a csr matrix."""
    rows = np.repeat(np.arange(m.shape[0]), np.diff(m.indptr))
    return rows, m.indices.astype(np.int64)


def same_pattern(a: SparseMatrix, b: SparseMatrix) -> bool:
    """Whether two csr matrices, or two csc ones, have their entries at the same places."""
    return all(
        x is y or np.array_equal(x, y) for x, y in ((a.indptr, b.indptr), (a.indices, b.indices))
    )


class Factor(ABC):
    """P'LL'P = A for one positive definite A."""

    half_log_det: float  # log|A| / 2

    @property
    @abstractmethod
    def pivots(self) -> Array:
        """(n,) L_jj^2, in the order of A's rows: how much of each diagonal entry is left."""

    @abstractmethod
    def solve(self, rhs: Array) -> Array:
        """A^-1 rhs for (n,) or (n, k); a new array."""

    @abstractmethod
    def forward(self, rhs: Array) -> Array:
        """L^-1 P rhs for (n,) or (n, k): its columns' squared norms are x'A^-1 x."""

    @abstractmethod
    def backward(self, rhs: Array) -> Array:
        """P'L^-T rhs for (n,) or (n, k): covariance A^-1 where the entries are independent."""

    @abstractmethod
    def selected(self) -> Array:
        """(nnz,) A^-1 on A's pattern (Takahashi, Fagan and Chin 1973)."""

    @abstractmethod
    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        """(k,) A^-1 at (row, column) where the pattern of L + L' holds it, NaN elsewhere."""


class Symbolic(ABC):
    """All that depends on the pattern alone. `factor` may be called from several threads."""

    kernel: ClassVar[str]
    pattern: Pattern
    fill: int  # entries of L
    flops: float  # of one numeric factorisation
    held: float  # doubles of two factors, and of what making one or its inverse takes besides

    @abstractmethod
    def factor(self, values: Array) -> Factor | None:
        """Factor A given on the pattern, (nnz,); None unless A is finite and positive definite."""


def too_large(size: int, fill: float, taken: float, more: str = "") -> TooLarge:
    """E505 for a factor of so many entries, which takes so many bytes with its inverse."""
    return TooLarge(
        "a sparse factor",
        f"a factor of {size:,} unknowns with {fill:,.0f} entries{more}",
        taken,
        help="fewer unknowns, or neighbours that are near, as in a map",
    )


# ---- keys --------------------------------------------------------------------------------------
# Large sets of integer keys by sorting: numpy's `unique` hashes them, and its `searchsorted` for
# keys in no order misses the cache at each (7 million: 14 s and 10 s; sorted 0.1 s and 1 s).


def distinct(keys: IntArray) -> IntArray:
    """The different keys, rising."""
    line = np.sort(keys)
    if not len(line):
        return line
    return np.asarray(line[np.r_[True, line[1:] != line[:-1]]])


def located(line: IntArray, keys: IntArray) -> IntArray:
    """Where each key stands among `line`, rising; the shape of `keys`. A key that is not there gets
    the place of the next larger one."""
    flat = keys.reshape(-1)
    order = np.argsort(flat)
    place = np.empty(len(flat), dtype=np.int64)
    place[order] = np.searchsorted(line, flat[order])
    return place.reshape(keys.shape)
