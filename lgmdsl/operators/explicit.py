"""Operators stored as arrays: dense and compressed sparse rows, and the identity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Gram, Operator
from lgmdsl.state import FieldState

ENTRIES_PER_PASS = 1 << 22  # entries of one dense temporary


@dataclass(frozen=True, eq=False)
class Dense(Operator):
    """B as a (P, n) array."""

    array: Array

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.array.shape
        return rows, columns

    def matvec(self, x: Array) -> Array:
        return self.array @ x

    def rmatvec(self, y: Array) -> Array:
        return self.array.T @ y

    def dense(self) -> Array:
        return self.array

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def entries(self) -> float:
        return float(self.array.size)

    def gram(self, rows: IntArray, columns: IntArray) -> Gram:
        step = max(1, ENTRIES_PER_PASS // max(self.shape[0], 1))

        def entries(weight: Array) -> Array:
            out = np.empty(len(rows))
            for start in range(0, len(rows), step):
                chunk = slice(start, start + step)
                left, right = self.array[:, rows[chunk]], self.array[:, columns[chunk]]
                out[chunk] = np.einsum("p,pi,pi->i", weight, left, right)
            return out

        return entries


@dataclass(frozen=True, eq=False)
class Sparse(FieldState, Operator):
    """B as a csr array."""

    array: SparseMatrix

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.array.shape
        return int(rows), int(columns)

    def matvec(self, x: Array) -> Array:
        return np.asarray(self.array @ x)

    def rmatvec(self, y: Array) -> Array:
        return np.asarray(self._transpose @ y)

    @cached_property
    def _transpose(self) -> sp.csc_array:
        """B' on the same arrays: to make it takes as long as a small product."""
        return self.array.T

    def dense(self) -> Array:
        return np.asarray(self.array.toarray())

    def sparse(self) -> SparseMatrix:
        return self.array

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def entries(self) -> float:
        return float(self.array.nnz)


@dataclass(frozen=True)
class Identity(Operator):
    """B = I of order n, so that an engine can skip the product."""

    size: int

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def matvec(self, x: Array) -> Array:
        return x

    def rmatvec(self, y: Array) -> Array:
        return y

    def dense(self) -> Array:
        return np.eye(self.size)

    def sparse(self) -> SparseMatrix:
        return sp.csr_array(sp.eye_array(self.size, format="csr"))

    @property
    def is_sparse(self) -> bool:
        return True

    @property
    def in_memory(self) -> bool:
        return True

    def entries_by_row(self) -> Array:
        return np.ones(self.size)

    @property
    def entries(self) -> float:
        return float(self.size)

    @property
    def cost(self) -> float:
        return 0.0

    def gram(self, rows: IntArray, columns: IntArray) -> Gram:
        return lambda weight: np.where(rows == columns, weight[rows], 0.0)
