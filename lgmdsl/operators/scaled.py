"""An operator times a number: its rows in another unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Gram, Operator
from lgmdsl.operators.explicit import Dense, Sparse


def scaled(operator: Operator, factor: float | Array) -> Operator:
    """factor B; entries that are in memory stay explicit. A factor for each row, (rows,), takes an
    operator that is in memory or sparse."""
    if isinstance(factor, np.ndarray):
        if operator.is_sparse:
            return Sparse(sp.csr_array(sp.diags_array(factor) @ operator.sparse()))
        return Dense(factor[:, None] * operator.dense())
    if factor == 1.0:
        return operator
    if operator.is_sparse:
        return Sparse(sp.csr_array(factor * operator.sparse()))
    if operator.in_memory:
        return Dense(factor * operator.dense())
    return ScaledOperator(operator, factor)


@dataclass(frozen=True, eq=False)
class ScaledOperator(Operator):
    """factor B of an operator that is not written out."""

    operator: Operator
    factor: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    def matvec(self, x: Array) -> Array:
        return np.asarray(self.factor * self.operator.matvec(x))

    def rmatvec(self, y: Array) -> Array:
        return np.asarray(self.factor * self.operator.rmatvec(y))

    def normal(self, weight: Array, x: Array, single: bool = False) -> Array:
        return self.operator.normal(self.factor**2 * weight, x, single)

    def sparse(self) -> SparseMatrix:
        return sp.csr_array(self.factor * self.operator.sparse())

    def entries_by_row(self) -> Array:
        return self.operator.entries_by_row()

    @property
    def entries(self) -> float:
        return self.operator.entries

    @property
    def cost(self) -> float:
        return self.operator.cost

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        gram = self.operator.gram(rows, columns)
        return None if gram is None else lambda weight: gram(self.factor**2 * weight)
