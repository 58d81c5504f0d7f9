"""Differences and sums along one axis of a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.operators.base import (
    Boundary,
    Operator,
    along,
    crossed,
    extend,
    fold,
    length,
    shrink,
    unfold,
)


@dataclass(frozen=True)
class DifferenceOperator(Operator):
    """y_i = sum_j (-1)^(d-j) binom(d, j) x_(i+j-left), j = 0..d = `order`, along `axis` of a grid.

    Without a boundary left = 0 and the axis loses d cells. With one, left = d // 2 and x goes on
    beyond the borders: repeated (circular), as 0 (zero), or mirrored with the border cell twice
    (reflect); so order 1 is the forward difference and order 2 the centred second one.
    Raises ValueError where the axis has no more cells than `order`.
    """

    grid: tuple[int, ...]
    axis: int
    order: int = 1
    boundary: Boundary = "none"

    def __post_init__(self) -> None:
        if not 1 <= self.order < self.grid[self.axis]:
            raise ValueError(f"order {self.order} of an axis of {self.grid[self.axis]} cells")

    @property
    def result(self) -> tuple[int, ...]:
        """The grid of y."""
        lost = self.order if self.boundary == "none" else 0
        return tuple(n - lost if i == self.axis else n for i, n in enumerate(self.grid))

    @property
    def shape(self) -> tuple[int, int]:
        return length(self.result), length(self.grid)

    @property
    def _margins(self) -> tuple[int, int]:
        if self.boundary == "none":
            return 0, 0
        left = self.order // 2
        return left, self.order - left

    @property
    def _taps(self) -> list[float]:
        d = self.order
        return [float((-1) ** (d - j) * math.comb(d, j)) for j in range(d + 1)]

    def matvec(self, x: Array) -> Array:
        left, right = self._margins
        wide = extend(unfold(x, self.grid), self.axis, left, right, self.boundary)
        size = wide.shape[self.axis] - self.order
        shifted = [
            wide[along(wide.ndim, self.axis, slice(j, j + size))] for j in range(self.order + 1)
        ]
        if self.order == 1:
            return fold(shifted[1] - shifted[0], x)
        return fold(sum(t * s for t, s in zip(self._taps, shifted, strict=True)), x)  # type: ignore[arg-type]

    def rmatvec(self, y: Array) -> Array:
        left, right = self._margins
        grid = unfold(y, self.result)
        output_size = grid.shape[self.axis]
        size = [n + (self.order if i == self.axis else 0) for i, n in enumerate(grid.shape)]
        wide = np.zeros(size)
        for j, tap in enumerate(self._taps):
            window = along(wide.ndim, self.axis, slice(j, j + output_size))
            if abs(tap) == 1.0:
                (np.add if tap > 0 else np.subtract)(wide[window], grid, out=wide[window])
            else:
                wide[window] += tap * grid
        return fold(shrink(wide, self.axis, left, right, self.boundary), y)

    @cached_property
    def _explicit(self) -> SparseMatrix:
        n = self.grid[self.axis]
        line = DifferenceOperator((n,), 0, self.order, self.boundary)
        left, right = line._margins
        size = n + left + right
        taps = sp.diags_array(
            self._taps, offsets=list(range(self.order + 1)), shape=(size - self.order, size)
        )
        margin = extend(np.arange(1.0, n + 1.0), 0, left, right, self.boundary).astype(np.int64)
        inside = np.flatnonzero(margin)
        ones = np.ones(len(inside))
        spread = sp.csr_array((ones, (inside, margin[inside] - 1)), shape=(size, n))
        one: SparseMatrix = sp.csr_array(taps @ spread)  # type: ignore[arg-type]
        one.eliminate_zeros()
        return crossed(self.grid, self.axis, one)

    def sparse(self) -> SparseMatrix:
        return self._explicit

    def dense(self) -> Array:
        return np.asarray(self._explicit.toarray())

    @property
    def is_sparse(self) -> bool:
        return True

    def entries_by_row(self) -> Array:
        return np.full(self.shape[0], self.order + 1.0)

    @property
    def cost(self) -> float:
        return float(2 * self.order + 1) * self.shape[0]


# ---- sums --------------------------------------------------------------------------------------
# Sums along one axis of a grid: running and whole.


@dataclass(frozen=True)
class CumulativeSum(Operator):
    """y_i = sum of x_j, j <= i, along `axis` of a grid: n^2 / 2 entries, n flops."""

    grid: tuple[int, ...]
    axis: int

    @property
    def shape(self) -> tuple[int, int]:
        return length(self.grid), length(self.grid)

    def matvec(self, x: Array) -> Array:
        return fold(np.cumsum(unfold(x, self.grid), axis=self.axis), x)

    def rmatvec(self, y: Array) -> Array:
        turned = np.flip(unfold(y, self.grid), self.axis)
        return fold(np.ascontiguousarray(np.flip(np.cumsum(turned, self.axis), self.axis)), y)

    def sparse(self) -> SparseMatrix:
        n = self.grid[self.axis]
        return crossed(self.grid, self.axis, sp.csr_array(np.tri(n)))

    @property
    def is_sparse(self) -> bool:
        return True

    def entries_by_row(self) -> Array:
        index = np.arange(self.shape[0]) // length(self.grid[self.axis + 1 :])
        return (1 + index % self.grid[self.axis]).astype(np.float64)

    @property
    def cost(self) -> float:
        return float(self.shape[0])


@dataclass(frozen=True)
class TotalOperator(Operator):
    """The sum along `axis` of a grid."""

    grid: tuple[int, ...]
    axis: int

    @property
    def shape(self) -> tuple[int, int]:
        n = length(self.grid)
        return n // self.grid[self.axis], n

    def matvec(self, x: Array) -> Array:
        return fold(unfold(x, self.grid).sum(axis=self.axis), x)

    def rmatvec(self, y: Array) -> Array:
        sizes = (n for i, n in enumerate(self.grid) if i != self.axis)
        grid = np.expand_dims(unfold(y, tuple(sizes)), self.axis)
        return fold(np.repeat(grid, self.grid[self.axis], axis=self.axis), y)

    def sparse(self) -> SparseMatrix:
        ones = sp.csr_array(np.ones((1, self.grid[self.axis])))
        return crossed(self.grid, self.axis, ones)

    @property
    def is_sparse(self) -> bool:
        return True

    def entries_by_row(self) -> Array:
        return np.full(self.shape[0], float(self.grid[self.axis]))

    @property
    def cost(self) -> float:
        return float(self.shape[1])
