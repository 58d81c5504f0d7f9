"""Graphs of areal structures: components, and Laplacians."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.structures.shared.content import diagonal


@dataclass(frozen=True, eq=False)
class Components:
    """`label` (n,) the component of each member, `sizes` (c,)."""

    label: IntArray
    sizes: IntArray

    @staticmethod
    def of(graph: SparseMatrix) -> Components:
        count, label = connected_components(graph, directed=False)
        labels: IntArray = np.asarray(label, dtype=np.int64)
        return Components(labels, np.asarray(np.bincount(labels, minlength=count), dtype=np.int64))

    @cached_property
    def alone(self) -> BoolArray:
        """(n,) members without a neighbour."""
        return np.asarray(self.sizes[self.label] == 1)

    @cached_property
    def indicators(self) -> SparseMatrix:
        """(n, k) csr: members of each component of two or more."""
        column = np.cumsum(self.sizes > 1) - 1
        rows = np.flatnonzero(~self.alone)
        shape = (len(self.label), int(np.sum(self.sizes > 1)))
        return sp.csr_array((np.ones(len(rows)), (rows, column[self.label[rows]])), shape=shape)


def degrees(graph: SparseMatrix) -> Array:
    """(n,) the number of neighbours."""
    return np.asarray(graph.sum(axis=1), dtype=np.float64).reshape(-1)


def with_diagonal(graph: SparseMatrix, values: Array, weight: float) -> SparseMatrix:
    """diag(values) - weight W, every member with its diagonal entry stored."""
    out = sp.csr_array(diagonal(values) - weight * graph)
    out.sort_indices()
    return out
