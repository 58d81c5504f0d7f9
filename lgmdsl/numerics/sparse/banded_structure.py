"""Find the band and the border of a pattern: which few dense columns to set aside, and an order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from lgmdsl.arrays import BoolArray, IntArray
from lgmdsl.numerics.sparse.base import Pattern

LARGEST_BORDER = 64
NARROW = 32  # half-bandwidths up to here beat every other kernel, however sparse the band


@dataclass(frozen=True, eq=False)
class BandStructure:
    """Rows in the order `order` (n,): a band of half-bandwidth `bandwidth`, `border` rows last."""

    order: IntArray
    bandwidth: int
    border: int

    @property
    def fill(self) -> int:
        """Entries of L."""
        p, m = self.bandwidth, self.border
        n = len(self.order) - m
        return n * (p + 1) - p * (p + 1) // 2 + n * m + m * (m + 1) // 2

    @property
    def flops(self) -> float:
        """Flops of the factorisation: the band's, the border's sweep and its Schur complement."""
        p, m = self.bandwidth, self.border
        n = len(self.order) - m
        return float(n) * (p * p + 2 * p + 2 * p * m + m * (m + 2)) + m**3 / 3

    def pays(self, nnz: int) -> bool:
        """Whether the band is narrow, or so full that no ordering can do much better."""
        n, p = len(self.order), self.bandwidth
        if p > NARROW and 2 * p >= n:
            return False
        return self.fill <= max((NARROW + 1) * n, 2 * nnz)


def find_structure(pattern: Pattern) -> BandStructure | None:
    """The cheapest band and border found; None where none pays.

    Borders tried are the columns of degree above the largest / 2^k. The natural order is kept where
    reverse Cuthill-McKee and folding give no narrower band, or cannot give a much narrower one.
    """
    n = pattern.size
    if not n:
        return None
    off = pattern.indices != pattern.columns
    rows, columns = pattern.indices[off], pattern.columns[off]
    degree = np.bincount(rows, minlength=n) + np.bincount(columns, minlength=n)
    tried, waiting = [], []
    for inner in _interiors(degree):
        edges = inner[rows] & inner[columns]
        low, high = columns[edges], rows[edges]
        border = n - int(np.count_nonzero(inner))
        order = np.concatenate([np.flatnonzero(inner), np.flatnonzero(~inner)])
        bandwidth = _bandwidth(order, high, low)
        tried.append(BandStructure(order, bandwidth, border))
        inside = np.bincount(low, minlength=n) + np.bincount(high, minlength=n)
        least = -(-int(inside.max(initial=0)) // 2)
        bound = BandStructure(order, least, border)
        if 2 * bandwidth > 3 * least and bound.pays(pattern.nnz):
            waiting.append((bound, high, low))
    best = min(tried, key=lambda s: s.flops)
    for bound, high, low in waiting:
        if bound.flops < best.flops:
            for narrowing in (_cuthill_mckee, _folded):
                order = narrowing(bound.order, bound.border, high, low)
                narrowed = BandStructure(order, _bandwidth(order, high, low), bound.border)
                best = min(best, narrowed, key=lambda s: s.flops)
    return best if best.pays(pattern.nnz) else None


def _interiors(degree: IntArray) -> list[BoolArray]:
    """Masks of the rows outside each border tried, the empty border first."""
    n = len(degree)
    interiors, size, threshold = [np.ones(n, dtype=bool)], 0, int(degree.max())
    while threshold := threshold // 2:
        inner = degree <= threshold
        border = n - int(np.count_nonzero(inner))
        if border > LARGEST_BORDER or border == n:
            break
        if border > size:
            interiors.append(inner)
            size = border
    return interiors


def _bandwidth(order: IntArray, high: IntArray, low: IntArray) -> int:
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    return int(np.abs(position[high] - position[low]).max(initial=0))


def _cuthill_mckee(order: IntArray, border: int, high: IntArray, low: IntArray) -> IntArray:
    """`order` with its rows before the border rearranged."""
    inner = order[: len(order) - border]
    position = np.empty(len(order), dtype=np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    a, b = position[high], position[low]
    edges = sp.csr_array(
        (np.ones(2 * len(a), dtype=np.int8), (np.concatenate([a, b]), np.concatenate([b, a]))),
        shape=(len(inner), len(inner)),
    )
    permutation = reverse_cuthill_mckee(edges, symmetric_mode=True)
    return np.concatenate([inner[permutation], order[len(inner) :]])


def _folded(order: IntArray, border: int, high: IntArray, low: IntArray) -> IntArray:
    """Rings laid flat, 0, n - 1, 1, n - 2, ...: each stretch that no edge leaves is one ring.

    A ring of half-bandwidth p becomes a band of 2p, where reverse Cuthill-McKee may miss it.
    """
    inner = order[: len(order) - border]
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    a, b = position[high], position[low]
    n = len(inner)
    starts = np.bincount(np.minimum(a, b), minlength=n) - np.bincount(np.maximum(a, b), minlength=n)
    closed = np.cumsum(starts) == 0
    last = np.flatnonzero(closed)
    first = np.concatenate([[0], last[:-1] + 1])
    size = last - first + 1
    step = np.arange(n) - np.repeat(first, size)
    remaining = np.repeat(size, size) - step
    rank = np.repeat(first, size) + np.minimum(2 * step, 2 * remaining - 1)
    folded = np.empty_like(inner)
    folded[rank] = inner
    return np.concatenate([folded, order[n:]])
