"""A small sparse matrix factored whole by LAPACK: no ordering, no compiled kernels."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.numerics.sparse.base import Factor, Pattern, Symbolic


class DenseSymbolic(Symbolic):
    """The pattern alone: n^2 numbers, n^3/3 flops, whatever its zeros."""

    kernel: ClassVar[str] = "dense"

    def __init__(self, pattern: Pattern) -> None:
        n = pattern.size
        self.pattern = pattern
        self.fill = n * (n + 1) // 2
        self.flops = n**3 / 3
        self.held = 4.0 * n**2

    def factor(self, values: Array) -> Factor | None:
        n = self.pattern.size
        upper = np.zeros((n, n))  # C order: LAPACK reads the lower triangle
        upper[self.pattern.columns, self.pattern.indices] = values
        factor = cholesky(upper)
        return None if factor is None else DenseFactor(self.pattern, factor)


class DenseFactor(Factor):
    """L whole, in the given order; every entry of A^-1 can be had."""

    def __init__(self, pattern: Pattern, factor: Cholesky) -> None:
        self._pattern = pattern
        self._factor = factor
        self.half_log_det = factor.half_log_det

    @property
    def pivots(self) -> Array:
        return np.asarray(self._factor.lower.diagonal() ** 2)

    def solve(self, rhs: Array) -> Array:
        return self._factor.solve(rhs)

    def forward(self, rhs: Array) -> Array:
        return self._factor.forward(rhs)

    def backward(self, rhs: Array) -> Array:
        return self._factor.backward(rhs)

    @cached_property
    def _inverse(self) -> Array:
        return self._factor.inverse()

    def selected(self) -> Array:
        return np.asarray(self._inverse[self._pattern.indices, self._pattern.columns])

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        return np.asarray(self._inverse[rows, columns])
