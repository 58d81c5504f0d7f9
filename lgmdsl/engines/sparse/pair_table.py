"""B'WB and the site blocks of BVB' on a sparse pattern, each as one sparse product.

Every entry W_kl of the site weights adds W_kl B_ki B_lj to A_ij. The products of all pairs form a
fixed matrix T, one line for each entry of W and one column for each entry (i, j), i >= j, of the
pattern, so that  A = h * T'vec(W)  with h = 1 on the diagonal and 1/2 off it, and, V being given on
the pattern, vec(site blocks of BVB') = T vec(V).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.numerics.sparse.base import Pattern, distinct, filled, located, times


class EntryPairs(NamedTuple):
    """Entries of T before the pattern is known: the line of W, the key (column n + row), B B."""

    line: IntArray
    key: IntArray
    value: Array


REFILLED = 1_000_000  # entries of a table, beyond which where they come from is not kept

# What stands at two places among B's entries, whose pair is an entry of T: their product, mostly.
Product: TypeAlias = Callable[[IntArray, IntArray], Array]


class Refill(NamedTuple):
    """Where T's entries come from: `times` B's entries `left` and `right` are added at `slot`."""

    slot: IntArray
    left: IntArray
    right: IntArray
    times: Array


class PairTable:
    """T of one csr B, (P, n), with canonical rows that follow the predictors."""

    def __init__(
        self, b: SparseMatrix, predictors: Sequence[Predictor], prior: SparseMatrix
    ) -> None:
        """`prior`: the (n, n) csr precision, whose entries belong to the pattern as well."""
        self.b, self.predictors = b, tuple(predictors)
        n = b.shape[1]
        pairs, lines = table_of(b, self.predictors)
        stored = prior.tocoo()
        lower = stored.row >= stored.col
        prior_key = stored.col[lower].astype(np.int64) * n + stored.row[lower]
        diagonal = np.arange(n, dtype=np.int64) * (n + 1)
        keys = distinct(np.concatenate([prior_key, diagonal, distinct(pairs.key)]))
        column, row = np.divmod(keys, n)
        self.pattern = Pattern(np.searchsorted(column, np.arange(n + 1)), row)
        place = located(keys, pairs.key)
        self.table = sp.csr_array((pairs.value, (pairs.line, place)), shape=(lines, len(keys)))
        self.turned = self.table.T  # csc, on the same arrays
        self.half = np.full(len(keys), 0.5)
        self.half[self.pattern.on_diagonal] = 1.0
        self.flops = 2.0 * self.table.nnz

    @property
    def small(self) -> bool:
        """Whether it may be kept where T's entries come from."""
        return self.table.nnz <= REFILLED

    @cached_property
    def refill(self) -> Refill:
        """Where T's entries come from, for another B of the same pattern."""
        count, lines = table_of(self.b, self.predictors, lambda left, _: np.ones(left.shape))
        low = table_of(self.b, self.predictors, lambda left, _: left.astype(np.float64))[0]
        high = table_of(self.b, self.predictors, lambda _, right: right.astype(np.float64))[0]
        column, row = np.divmod(count.key, self.b.shape[1])
        entries = count.line * self.pattern.nnz + self.pattern.find(row, column)
        held = np.repeat(np.arange(lines), np.diff(self.table.indptr)) * self.pattern.nnz
        slot = np.searchsorted(held + self.table.indices, entries)
        left, right = (np.rint(v.value / count.value).astype(np.int64) for v in (low, high))
        return Refill(slot, left, right, count.value)

    def refilled(self, b: SparseMatrix) -> PairTable:
        """T of another B whose pattern is the same."""
        of, out = self.refill, copy(self)
        values = of.times * (b.data[of.left] * b.data[of.right])
        data = np.bincount(of.slot, values, minlength=self.table.nnz)
        out.b = b
        out.table, out.turned = filled(self.table, data), filled(self.turned, data)
        return out

    def product(self, covariance: Array) -> Array:
        """(nnz of B,) BV at B's places, from V on the pattern, (nnz,); of scalar sites."""
        of, b = self.refill, self.b.data
        v = covariance[self.table.indices[of.slot]]
        apart = np.flatnonzero(of.left != of.right)
        out = np.bincount(of.left, b[of.right] * v, minlength=len(b))
        back = b[of.left[apart]] * v[apart]
        return np.asarray(out + np.bincount(of.right[apart], back, minlength=len(b)))

    def weighted(self, weight: Rows) -> Array:
        """(nnz,) B'WB on the pattern."""
        flat = [np.asarray(w, dtype=np.float64).reshape(-1) for w in weight]
        lines = np.concatenate(flat) if flat else np.zeros(0)
        return np.asarray(self.half * np.asarray(self.turned @ lines))

    def variance(self, covariance: Array) -> list[Array]:
        """Blocks of BVB' by site block, (N,) or (N, K, K), from V on the pattern, (nnz,)."""
        flat, out, start = times(self.table, covariance), [], 0
        for p in self.predictors:
            entries = p.rows * max(p.event, 1)
            piece = flat[start : start + entries]
            out.append(piece.reshape(-1, p.event, p.event) if p.event else piece)
            start += entries
        return out


def table_of(
    b: SparseMatrix, predictors: Sequence[Predictor], product: Product | None = None
) -> tuple[EntryPairs, int]:
    """All pairs of a csr B, and the number of entries of W."""

    def multiplied(left: IntArray, right: IntArray) -> Array:
        return np.asarray(b.data[left] * b.data[right])

    pairs, lines, first, product = [], 0, 0, product or multiplied
    for p in predictors:
        rows = np.arange(first, first + p.rows)
        if not p.event:
            pairs += _squares(b, rows, lines, product)
        else:
            k = p.event
            for i in range(k):
                for j in range(k):
                    line = lines + i * k + j
                    pairs += _products(b, rows[i::k], rows[j::k], line, k * k, product)
        lines += p.rows * max(p.event, 1)
        first += p.rows
    if not pairs:
        none = np.zeros(0, dtype=np.int64)
        return EntryPairs(none, none, np.zeros(0)), lines
    return EntryPairs(*(np.concatenate(column) for column in zip(*pairs, strict=True))), lines


def _squares(b: SparseMatrix, rows: IntArray, first: int, product: Product) -> list[EntryPairs]:
    """EntryPairs of a row with itself, each unordered pair once and doubled."""
    n, counts, out = b.shape[1], np.diff(b.indptr)[rows], []
    for width in np.unique(counts[counts > 0]):
        chosen = np.flatnonzero(counts == width)
        place = b.indptr[rows[chosen]].astype(np.int64)[:, None] + np.arange(width)
        index = b.indices[place].astype(np.int64)
        low, high = np.triu_indices(width)  # the indices of a row rise
        value = product(place[:, low], place[:, high])
        value[:, low != high] *= 2.0
        key = index[:, low] * n + index[:, high]
        out.append(
            EntryPairs(np.repeat(first + chosen, len(low)), key.reshape(-1), value.reshape(-1))
        )
    return out


def _products(
    b: SparseMatrix, left: IntArray, right: IntArray, first: int, step: int, product: Product
) -> list[EntryPairs]:
    """All ordered pairs of an entry in a left row and one in the right row paired with it."""
    n, counts = b.shape[1], np.diff(b.indptr).astype(np.int64)
    widest = int(counts.max(initial=0)) + 1
    both, out = counts[left] * widest + counts[right], []
    for width in distinct(both):
        wl, wr = divmod(int(width), widest)
        if wl == 0 or wr == 0:
            continue
        chosen = np.flatnonzero(both == width)
        pl = b.indptr[left[chosen]].astype(np.int64)[:, None] + np.arange(wl)
        pr = b.indptr[right[chosen]].astype(np.int64)[:, None] + np.arange(wr)
        i, j = b.indices[pl].astype(np.int64)[:, :, None], b.indices[pr].astype(np.int64)[:, None]
        value = product(*np.broadcast_arrays(pl[:, :, None], pr[:, None]))
        key = np.minimum(i, j) * n + np.maximum(i, j)
        line = np.repeat(first + step * chosen, wl * wr)
        out.append(EntryPairs(line, key.reshape(-1), value.reshape(-1)))
    return out
