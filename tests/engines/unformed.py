"""An operator that may be applied and must never be written out."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.arrays import Array, SparseMatrix
from lgmdsl.operators.base import Operator


@dataclass(frozen=True, eq=False)
class Unformed(Operator):
    """Raises where it is written out."""

    inner: Operator

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    def matvec(self, x: Array) -> Array:
        return self.inner.matvec(x)

    def rmatvec(self, y: Array) -> Array:
        return self.inner.rmatvec(y)

    def dense(self) -> Array:
        raise AssertionError("densified")

    def sparse(self) -> SparseMatrix:
        raise AssertionError("written out")
