"""Sums of products in doubled precision (Ogita, Rump and Oishi 2005, Dot2), for many rows at once.

A pair (high, low) stands for high + low, |low| at most half a unit in the last place of high.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix

Pair: TypeAlias = tuple[Array, Array]
_SPLIT = 2.0**27 + 1.0


def added(a: Array, b: Array) -> Pair:
    """a + b without error (Knuth's two-sum)."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


def multiplied(a: Array, b: Array) -> Pair:
    """a b without error (Dekker's product); operands beyond 1e290 overflow."""
    high = a * b
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2


def _halves(a: Array) -> Pair:
    large = _SPLIT * a
    high = large - (large - a)
    return high, a - high


def row_sums(matrix: SparseMatrix, x: Array, start: Pair) -> Pair:
    """start + M x by rows, as if in twice the precision; one pass for each entry of the longest
    row."""
    high, low = np.array(start[0]), np.array(start[1])
    entries = sp.csr_array(matrix)
    counts = np.diff(entries.indptr)
    for k in range(int(counts.max(initial=0))):
        rows = np.flatnonzero(counts > k)
        place = entries.indptr[rows] + k
        product, error = multiplied(entries.data[place], x[entries.indices[place]])
        total, more = added(high[rows], product)
        high[rows], low[rows] = total, low[rows] + (error + more)
    return added(high, low)
