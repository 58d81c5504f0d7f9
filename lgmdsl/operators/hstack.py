"""Operators side by side: B z = B_1 z_1 + B_2 z_2 + ..., z cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Gram, Operator, sparse_gram


@dataclass(frozen=True, eq=False)
class HStack(Operator):
    """parts[k] works on `widths[k]` entries of z, or is None where B is zero there."""

    parts: tuple[Operator | None, ...]
    widths: tuple[int, ...]
    rows: int

    @cached_property
    def _pieces(self) -> list[tuple[Operator, slice]]:
        ends = np.cumsum(self.widths).tolist()
        cuts = zip(self.parts, [0, *ends], ends, strict=False)
        return [(p, slice(a, b)) for p, a, b in cuts if p is not None]

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, sum(self.widths)

    def matvec(self, x: Array) -> Array:
        out = np.zeros((self.rows, *x.shape[1:]))
        for part, where in self._pieces:
            out += part.matvec(x[where])
        return out

    def rmatvec(self, y: Array) -> Array:
        out = np.zeros((self.shape[1], *y.shape[1:]))
        for part, where in self._pieces:
            out[where] = part.rmatvec(y)
        return out

    def dense(self) -> Array:
        out = np.zeros(self.shape)
        for part, where in self._pieces:
            out[:, where] = part.dense()
        return out

    @cached_property
    def _explicit(self) -> SparseMatrix:
        blocks = [
            sp.csr_array((self.rows, w)) if p is None else p.sparse()
            for p, w in zip(self.parts, self.widths, strict=True)
        ]
        return sp.csr_array(sp.hstack(blocks, format="csr"))

    def sparse(self) -> SparseMatrix:
        return self._explicit if self.is_sparse else super().sparse()

    @property
    def is_sparse(self) -> bool:
        return all(p.is_sparse for p, _ in self._pieces)

    @property
    def in_memory(self) -> bool:
        return all(p.in_memory for p, _ in self._pieces)

    def entries_by_row(self) -> Array:
        return np.asarray(sum((p.entries_by_row() for p, _ in self._pieces), np.zeros(self.rows)))

    @property
    def cost(self) -> float:
        return sum(p.cost for p, _ in self._pieces)

    def gram(self, rows: IntArray, columns: IntArray) -> Gram | None:
        """Pairs of latents of one part from that part; of two parts only where all is sparse."""
        if not self._pieces:
            return lambda weight: np.zeros(len(rows))
        owner = np.full(self.shape[1], -1)
        for k, (_, where) in enumerate(self._pieces):
            owner[where] = k
        seen = (owner[rows] >= 0) & (owner[columns] >= 0)
        if (owner[rows] != owner[columns])[seen].any():
            return sparse_gram(self.sparse(), rows, columns) if self.is_sparse else None
        grams: list[tuple[IntArray, Gram]] = []
        for k, (part, where) in enumerate(self._pieces):
            pairs = np.flatnonzero(seen & (owner[rows] == k))
            gram = part.gram(rows[pairs] - where.start, columns[pairs] - where.start)
            if gram is None:
                return None
            grams.append((pairs, gram))

        def entries(weight: Array) -> Array:
            out = np.zeros(len(rows))
            for pairs, gram in grams:
                out[pairs] = gram(weight)
            return out

        return entries


def hstack(columns: Sequence[Operator | None], widths: Sequence[int], rows: int) -> Operator:
    """The operator itself where it is the only one."""
    if len(columns) == 1 and columns[0] is not None:
        return columns[0]
    return HStack(tuple(columns), tuple(widths), rows)
