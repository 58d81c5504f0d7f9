"""Sums along one axis of a grid: running and whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.operators.base import Operator
from lgmdsl.operators.grids import crossed, fold, length, unfold


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
class Total(Operator):
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
