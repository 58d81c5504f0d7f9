"""Some rows of a vector, and factors on its entries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Operator


@dataclass(frozen=True, eq=False)
class Select(Operator):
    """y_k = x_(rows[k]); a row may come more than once."""

    rows: IntArray
    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), self.size

    def matvec(self, x: Array) -> Array:
        return x[self.rows]

    def rmatvec(self, y: Array) -> Array:
        out = np.zeros((self.size, *y.shape[1:]))
        np.add.at(out, self.rows, y)
        return out

    def sparse(self) -> SparseMatrix:
        count = len(self.rows)
        return sp.csr_array(
            (np.ones(count), self.rows, np.arange(count + 1)), shape=(count, self.size)
        )

    @property
    def is_sparse(self) -> bool:
        return True

    def entries_by_row(self) -> Array:
        return np.ones(len(self.rows))

    @property
    def cost(self) -> float:
        return float(len(self.rows))


@dataclass(frozen=True, eq=False)
class Diagonal(Operator):
    """y = factor * x entry by entry; with factors 0 and 1, a mask."""

    factor: Array

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.factor), len(self.factor)

    def matvec(self, x: Array) -> Array:
        return self.factor * x if x.ndim == 1 else self.factor[:, None] * x

    def rmatvec(self, y: Array) -> Array:
        return self.matvec(y)

    def sparse(self) -> SparseMatrix:
        return sp.csr_array(sp.diags_array(self.factor, format="csr"))

    @property
    def is_sparse(self) -> bool:
        return True

    def entries_by_row(self) -> Array:
        return np.ones(len(self.factor))

    @property
    def cost(self) -> float:
        return float(len(self.factor))


def mask(keep: Array) -> Diagonal:
    """The entries where `keep` is not 0, and zeros elsewhere."""
    return Diagonal((np.asarray(keep) != 0).astype(np.float64))
