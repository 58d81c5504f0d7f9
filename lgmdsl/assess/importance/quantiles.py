"""Corrected 5 and 95 % points by importance sampling.

The weighted quantile of the draws under the posterior less that under q, from the same draws, is
added to q's own: it is zero where q is exact, and what draws scatter by is common to both.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import special

from lgmdsl.accuracy.limits import LEVELS
from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.weighted import quantiles

# Half the width, in probability, over which a density at a quantile is estimated.
WIDTH = 0.02
ROUNDS = 50  # bisections


def mixed_normals(shares: Array, means: Array, sds: Array) -> Array:
    """(2, size) the points at LEVELS of mixtures of normals, (parts, size), by bisection."""
    z = special.ndtri(np.array(LEVELS))[:, None, None]
    ends = means + z * sds  # the parts' points enclose the mixture's
    low, high = ends.min(axis=1), ends.max(axis=1)
    unit = np.where(sds > 0.0, sds, 1.0)
    for _ in range(ROUNDS):
        middle = 0.5 * (low + high)
        below = np.zeros_like(middle)
        for share, mean, sd, scale in zip(shares, means, sds, unit, strict=True):
            away = middle - mean
            below += share * np.where(sd > 0.0, special.ndtr(away / scale), away >= 0.0)
        more = below < np.array(LEVELS)[:, None]
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(0.5 * (low + high))


def quantile_shifts(y: Array, omega: Array, own: Array) -> tuple[Array, Array, Array]:
    """Quantiles at LEVELS of y (n, k) under the posterior, those under q, and the standard error of
    the difference, (2, k) each. `omega` and `own`, (n,): the weights of both; `own` is zero
    where draws are not of q, and q's quantiles are then NaN."""
    n = len(y)
    around = [x for level in LEVELS for x in (level - WIDTH, level, level + WIDTH)]
    posterior = quantiles(y, omega, around).reshape(2, 3, -1)
    known = bool(own.any())
    q = quantiles(y, own, LEVELS) if known else np.full((2, y.shape[1]), np.nan)
    error = np.empty_like(q)
    for number, level in enumerate(LEVELS):
        below = (y <= posterior[number, 1]) - level
        influence = below * (omega / omega.mean())[:, None]
        if known:
            influence -= ((y <= q[number]) - level) * (own / own.mean())[:, None]
        spacing = (posterior[number, 2] - posterior[number, 0]) / (2.0 * WIDTH)
        error[number] = np.sqrt(np.mean(influence**2, axis=0) / n) * spacing
    return posterior[:, 1], q, error


def chosen_entries(size: int, most: int, worst: Sequence[Array]) -> IntArray:
    """Which entries are looked at: all, or `most` of them evenly spaced and the largest of each of
    `worst`, (size,)."""
    if size <= most:
        return np.arange(size)
    spaced = np.linspace(0, size - 1, most).astype(np.int64)
    return np.unique(np.concatenate([spaced, *(np.argsort(-w)[: most // 20] for w in worst)]))
