"""Rows by the vectors that they touch, padded to as many rows and entries each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray


@dataclass(frozen=True, eq=False)
class WideRows:
    """N vectors of length `size` with up to M rows of up to E entries. `group`, `slot`: (P,) of
    each row; `at` (N, M) positions of rows, P where there are fewer; `columns`, `values`
    (N, M, E), 0 where there are fewer."""

    size: int
    group: IntArray
    slot: IntArray
    table: IntArray
    columns: IntArray
    values: Array

    @classmethod
    def of(cls, b: sp.csr_array, size: int) -> WideRows:
        """The vectors and rows of B, (P, N size), each row of one vector."""
        count, groups = b.shape[0], b.shape[1] // size
        lengths = np.diff(b.indptr)
        group = (b.indices[b.indptr[:-1]] // size).astype(np.int64)
        many = np.bincount(group, minlength=groups)
        order = np.argsort(group, kind="stable")
        slot = np.empty(count, dtype=np.int64)
        slot[order] = np.arange(count) - np.repeat(np.cumsum(many) - many, many)
        table = np.full((groups, int(many.max())), count)
        table[group, slot] = np.arange(count)
        row = np.repeat(np.arange(count), lengths)
        entry = np.arange(len(row)) - np.repeat(b.indptr[:-1], lengths)
        shape = (*table.shape, int(lengths.max()))
        columns, values = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        columns[group[row], slot[row], entry] = b.indices % size
        values[group[row], slot[row], entry] = b.data
        return cls(size, group, slot, table, columns, values)

    def by_group(self, x: Array) -> Array:
        """(P,) to (N, M), zero where a vector has fewer rows."""
        return np.asarray(np.append(x, 0.0)[self.table])

    def by_row(self, x: Array) -> Array:
        """(N, M) to (P,)."""
        return np.asarray(x[self.group, self.slot])

    def between(self, k: Array) -> Array:
        """(N, M, M) B_n K B_n'."""
        out = np.zeros((*self.table.shape, self.table.shape[1]))
        for e, f in product(range(self.columns.shape[2]), repeat=2):
            pairs = k[self.columns[:, :, None, e], self.columns[:, None, :, f]]
            out += self.values[:, :, None, e] * pairs * self.values[:, None, :, f]
        return out

    def gathered(self, m: Array, some: slice = slice(None)) -> Array:
        """(G, M, D) B_n m for some vectors, m (D, D)."""
        picked = m[self.columns[some]]  # (G, M, E, D)
        return np.asarray(np.einsum("gmed,gme->gmd", picked, self.values[some]))

    def summed(self, weights: Array) -> Array:
        """(D, D) sum_n B_n' weights_n B_n, for (N, M, M)."""
        out = np.zeros(self.size * self.size)
        for e, f in product(range(self.columns.shape[2]), repeat=2):
            place = self.columns[:, :, None, e] * self.size + self.columns[:, None, :, f]
            share = self.values[:, :, None, e] * weights * self.values[:, None, :, f]
            out += np.bincount(place.reshape(-1), share.reshape(-1), len(out))
        return out.reshape(self.size, self.size)
