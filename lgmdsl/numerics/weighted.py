"""Weighted samples: quantiles, equally weighted draws, and mixtures of scales of a standard normal.

Plain arrays: `weights`, (S,), need not sum to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array, IntArray

# Of a standard normal's sds, those of the parts of a defensive mixture (Hesterberg 1995), so that
# tails that are longer are seen.
SCALES = (1.0, 1.75, 3.0)


def ordered_quantiles(values: Array, weights: Array, levels: Sequence[float]) -> Array:
    """(levels,) of ascending values (S,): the smallest up to which there is a share of at least
    `level`, halfway to the next."""
    mass = np.cumsum(weights)
    return np.asarray(np.interp(np.asarray(levels) * mass[-1], mass - 0.5 * weights, values))


def quantiles(values: Array, weights: Array, levels: Sequence[float]) -> Array:
    """(levels, k) of the columns of values (S, k), whose rows have these weights."""
    out = np.empty((len(levels), values.shape[1]))
    for k, order in enumerate(np.argsort(values, axis=0).T):
        out[:, k] = ordered_quantiles(values[order, k], weights[order], levels)
    return out


def systematic(weights: Array, count: int, rng: np.random.Generator) -> IntArray:
    """(count,) positions, ascending, each as often as its weight says to less than one (Kitagawa
    1996, systematic resampling); weights sum to 1."""
    heights = (np.arange(count) + rng.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), heights), len(weights) - 1)


def log_scale_mixture(
    squares: Array, dimension: int, scales: Sequence[float], shares: Sequence[float]
) -> Array:
    """log sum_k share_k N(x; 0, scale_k^2 I) at squared distances |x|^2, (S,), less the constant
    -dimension/2 log 2 pi."""
    parts = [
        math.log(share) - dimension * math.log(scale) - 0.5 * squares / scale**2
        for scale, share in zip(scales, shares, strict=True)
    ]
    return np.asarray(np.logaddexp.reduce(parts, axis=0))
