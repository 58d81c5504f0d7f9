"""Linear operators with adjoints. None is densified silently: only `dense()` does, when called."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix

Gram: TypeAlias = Callable[[Array], Array]


class Operator(ABC):
    """A real P x n linear map."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]: ...

    @abstractmethod
    def matvec(self, x: Array) -> Array:
        """B x for x of shape (n,) or (n, k)."""

    @abstractmethod
    def rmatvec(self, y: Array) -> Array:
        """B'y for y of shape (P,) or (P, k)."""

    def normal(self, weight: Array, x: Array, single: bool = False) -> Array:
        """B' diag(weight) B x for x of shape (n,) or (n, k).

        With `single` an operator may take it in single precision on the way, where that is faster.
        """
        lift = self.matvec(x)
        return self.rmatvec(weight * lift if x.ndim == 1 else weight[:, None] * lift)

    def dense(self) -> Array:
        """The (P, n) array."""
        return self.matvec(np.eye(self.shape[1]))

    def sparse(self) -> SparseMatrix:
        """A csr array; operators that would only be sparse in name densify here, explicitly."""
        import scipy.sparse as sp

        return sp.csr_array(self.dense())

    @property
    def is_sparse(self) -> bool:
        """Whether `matrix()` is a csr array."""
        return False

    @property
    def in_memory(self) -> bool:
        """Whether the entries are in memory already: an explicit form then costs nothing."""
        return False

    def matrix(self) -> Matrix:
        """The cheaper of the two explicit forms."""
        return self.sparse() if self.is_sparse else self.dense()

    def entries_by_row(self) -> Array:
        """(P,) entries that each row of `matrix()` holds, or a bound on them."""
        rows, columns = self.shape
        if not self.is_sparse:
            return np.full(rows, float(columns))
        return np.diff(self.sparse().indptr).astype(np.float64)

    @property
    def entries(self) -> float:
        """Entries of `matrix()`, or a bound on them, without forming it."""
        return float(self.entries_by_row().sum())

    @property
    def cost(self) -> float:
        """Flops of one product."""
        return 2.0 * self.entries

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """weight (P,) -> the entries (rows[k], columns[k]) of B' diag(weight) B.

        None where the operator has no cheap way to them.
        """
        return sparse_gram(self.sparse(), rows, columns) if self.is_sparse else None


def sparse_gram(b: SparseMatrix, rows: IntArray, columns: IntArray) -> Gram:
    """The products b_ki b_kj of all pairs, one line of a csr array for each pair (i, j): the
    entries of the shorter column, where the longer one has some (an intercept's has all)."""
    import scipy.sparse as sp

    lines = sp.csr_array(b, copy=True)
    lines.sum_duplicates()
    keys = np.repeat(np.arange(lines.shape[0]), np.diff(lines.indptr)) * lines.shape[1]
    keys += lines.indices
    down = lines.tocsc()
    count, start = np.diff(down.indptr).astype(np.int64), down.indptr.astype(np.int64)
    turned = count[rows] > count[columns]
    short, long = np.where(turned, columns, rows), np.where(turned, rows, columns)
    each = count[short]
    pair = np.repeat(np.arange(len(rows)), each)
    place = np.arange(len(pair)) + np.repeat(start[short] - np.cumsum(each) + each, each)
    wanted = down.indices[place].astype(np.int64) * lines.shape[1] + long[pair]
    other = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    both = np.flatnonzero(keys[other] == wanted) if len(keys) else other
    data = down.data[place[both]] * lines.data[other[both]]
    shape = (len(rows), lines.shape[0])
    table = sp.csr_array((data, (pair[both], down.indices[place[both]])), shape=shape)
    return lambda weight: np.asarray(table @ weight)


def remembered(gram: Gram) -> Gram:
    """`gram` with the last answer kept: weights of normal observations never change."""
    last: list[tuple[Array, Array]] = []

    def entries(weight: Array) -> Array:
        if not last or not np.array_equal(last[0][0], weight):
            last[:] = [(weight.copy(), gram(weight))]
        return last[0][1]

    return entries


# ---- grids -------------------------------------------------------------------------------------
# Arrays on grids: flat vectors seen with their axes, and margins with their adjoints.


Boundary: TypeAlias = str  # none (differences alone), circular, zero or reflect
_PADDING = {"circular": "wrap", "zero": "constant", "reflect": "symmetric"}


def length(shape: tuple[int, ...]) -> int:
    """Number of cells of a grid."""
    return math.prod(shape)


def unfold(x: Array, shape: tuple[int, ...]) -> Array:
    """(n,) or (n, k) as (*shape, k)."""
    return x.reshape(*shape, -1)


def fold(grid: Array, like: Array) -> Array:
    """(*shape, k) as (n,) or (n, k), as `like` is."""
    if like.ndim == 1:
        return grid.reshape(-1)
    return grid.reshape(-1, like.shape[1])


def along(ndim: int, axis: int, selected: slice) -> tuple[slice, ...]:
    """The index that takes `selected` of one axis and all of the others."""
    return tuple(selected if i == axis else slice(None) for i in range(ndim))


def extend(grid: Array, axis: int, left: int, right: int, boundary: Boundary) -> Array:
    """The grid with margins along an axis: repeated, zeros, or mirrored about the border
    (half-sample: the border cell comes twice)."""
    if not left and not right:
        return grid
    margins = [(left, right) if i == axis else (0, 0) for i in range(grid.ndim)]
    return np.pad(grid, margins, mode=_PADDING[boundary])  # type: ignore[call-overload,no-any-return]


def shrink(grid: Array, axis: int, left: int, right: int, boundary: Boundary) -> Array:
    """The adjoint of `extend`: margins are added where they were taken from."""
    if not left and not right:
        return grid
    size = grid.shape[axis] - left - right

    def part(start: int, stop: int) -> tuple[slice, ...]:
        return along(grid.ndim, axis, slice(start, stop))

    out = grid[part(left, left + size)].copy()
    if boundary == "zero":
        return out
    head, tail = grid[part(0, left)], grid[part(left + size, left + size + right)]
    if boundary == "circular":
        out[part(size - left, size)] += head
        out[part(0, right)] += tail
    else:
        out[part(0, left)] += np.flip(head, axis)
        out[part(size - right, size)] += np.flip(tail, axis)
    return out


def crossed(grid: tuple[int, ...], axis: int, line: SparseMatrix) -> SparseMatrix:
    """I (x) line (x) I: one matrix along an axis of a grid."""
    before = sp.eye_array(length(grid[:axis]), format="csr")
    after = sp.eye_array(length(grid[axis + 1 :]), format="csr")
    inner = sp.kron(line, after, format="csr")
    return sp.csr_array(sp.kron(before, inner, format="csr"))
