"""Averages over Gaussians of a few dimensions by products of Gauss-Hermite rules.

s = m + R t with RR' = V and t standard normal, so V may be singular. Each row takes longer rules
until two of them agree; exact for polynomials, and good for exponentials, whose mass far out the
nodes reach (e^{a s} at an sd of v needs about (a v)^2 nodes).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray

# Nodes on each axis; the first rule by the largest sd.
LADDER = (4, 6, 9, 13, 19, 27, 39, 56, 80)
LONGEST = {1: 8, 2: 8, 3: 5}
PER_SD = 6.0
CHUNK = 1 << 18  # points of all rows that are held at once

# rows (n,), s (n, p, K) -> (q, n, p)
Values = Callable[[IntArray, Array], Array]


def averages(
    values: Values, mean: Array, variance: Array, tolerance: float = 3e-7
) -> tuple[Array, BoolArray]:
    """E[values], (q, N), s ~ N(mean, variance), (N, K) and (N, K, K); and in which rows the last
    two rules agree, relative to 1 + |E|: the longer one's error is far below their difference."""
    n, k = mean.shape
    root = root_of(variance)
    sd = np.sqrt(np.einsum("nkk->nk", variance).max(axis=1, initial=0.0))
    wanted = LADDER[0] + PER_SD * sd
    longest = LONGEST.get(k, 4)
    level = np.minimum(np.searchsorted(LADDER, wanted), longest - 1)
    settled = np.zeros(n, dtype=np.bool_)
    out: Array | None = None
    for first in np.unique(level):
        rows = np.flatnonzero(level == first)
        before = _rule(values, rows, mean, root, LADDER[first])
        for longer in range(int(first) + 1, longest + 1):
            after = _rule(values, rows, mean, root, LADDER[longer])
            if out is None:
                out = np.empty((len(after), n))
            out[:, rows] = after
            with np.errstate(invalid="ignore"):
                near = np.abs(after - before) <= tolerance * (1.0 + np.abs(after))
            same = near.all(axis=0)
            settled[rows[same]] = True
            rows, before = rows[~same], after[:, ~same]
            if not len(rows):
                break
    if out is None:
        out = np.empty((len(values(np.zeros(0, dtype=np.intp), np.empty((0, 1, k)))), 0))
    return out, settled


def nodes_for(sd: float, dimension: int) -> int:
    """Nodes on each axis of a rule that is good for smooth functions at sds up to `sd`."""
    longest = LONGEST.get(dimension, 4)
    return LADDER[min(int(np.searchsorted(LADDER, LADDER[0] + PER_SD * sd)) + 2, longest)]


def root_of(variance: Array) -> Array:
    """R with RR' = V, (N, K, K), V positive semidefinite up to rounding."""
    values, turn = np.linalg.eigh(variance)
    return np.asarray(turn * np.sqrt(np.maximum(values, 0.0))[:, None, :])


def _rule(values: Values, rows: IntArray, mean: Array, root: Array, nodes: int) -> Array:
    t, w = product_rule(nodes, mean.shape[1])
    size = max(1, CHUNK // len(t))
    parts = []
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        s = mean[some][:, None, :] + t @ root[some].transpose(0, 2, 1)
        parts.append(values(some, s) @ w)
    return np.concatenate(parts, axis=1)


@cache
def product_rule(nodes: int, dimension: int) -> tuple[Array, Array]:
    """Points (P, K) and weights (P,) of the standard normal."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()
    points = np.stack(np.meshgrid(*[x] * dimension, indexing="ij"), axis=-1).reshape(-1, dimension)
    weight = w
    for _ in range(dimension - 1):
        weight = np.multiply.outer(weight, w).reshape(-1)
    return points, weight
