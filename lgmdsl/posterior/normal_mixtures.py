"""Mixtures of normal marginals: moments, quantiles and densities, entry by entry; and where values
are among quantiles or draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from lgmdsl.arrays import Array

# Bisections of a bracket that is a few sds wide, before and between Newton's steps.
ROUNDS = 60
# Normal scores at which quantiles are asked for, to place values among them.
SCORES = np.linspace(-5.0, 5.0, 201)


def mixed_moments(weights: Array, means: Array, sds: Array) -> tuple[Array, Array]:
    """Mean and sd of a mixture; `means` and `sds` are (M, ...)."""
    with np.errstate(all="ignore"):  # an infinite mean has no deviations
        mean = np.tensordot(weights, means, axes=1)
        spread = np.tensordot(weights, sds**2 + (means - mean) ** 2, axes=1)
        return mean, np.sqrt(spread)


def mixed_quantile(weights: Array, means: Array, sds: Array, levels: Array) -> Array:
    """(Q, ...) quantiles of mixtures of normals, by Newton's method inside a bracket."""
    z = special.ndtri(levels).reshape(-1, *(1 for _ in means.shape))
    ends = means + z * sds  # (Q, M, ...): the quantiles of the parts bracket the mixture's
    low, high = ends.min(axis=1), ends.max(axis=1)
    if len(weights) == 1:
        return np.asarray(low)
    target = levels.reshape(-1, *(1 for _ in means.shape[1:]))
    x = np.tensordot(weights, np.moveaxis(ends, 1, 0), axes=1)
    with np.errstate(all="ignore"):  # fixed quantities have no density
        for _ in range(ROUNDS):
            below = distribution(weights, means, sds, x) - target
            high, low = np.where(below >= 0.0, x, high), np.where(below <= 0.0, x, low)
            step = x - below / density(weights, means, sds, x)
            middle = 0.5 * (low + high)
            candidate = np.where((step > low) & (step < high), step, middle)
            done = np.abs(candidate - x) <= 1e-12 * (np.abs(x) + high - low)
            x = candidate
            if done.all():
                break
    return x


def distribution(weights: Array, means: Array, sds: Array, x: Array) -> Array:
    """P(X <= x) of mixtures; `means` and `sds` (M, ...), x (Q, ...)."""
    total = np.zeros_like(x)
    for w, m, s in zip(weights, means, sds, strict=True):
        gap = np.asarray(x - m)
        # A fixed quantity is a step.
        total += w * np.where(s > 0.0, special.ndtr(gap / np.where(s > 0.0, s, 1.0)), gap >= 0.0)
    return total


def density(weights: Array, means: Array, sds: Array, x: Array) -> Array:
    """The density of mixtures at x, (Q, ...)."""
    total = np.zeros_like(x)
    for w, m, s in zip(weights, means, sds, strict=True):
        total += w / (s * np.sqrt(2.0 * np.pi)) * np.exp(-0.5 * ((x - m) / s) ** 2)
    return total


def level_of(values: Array, quantile: Callable[[Array], Array]) -> Array:
    """P(X < value), entry by entry, from the quantiles (Q, ...) at given levels; NaN where they are
    not known."""
    points = quantile(special.ndtr(SCORES))
    out = np.full(values.shape, np.nan)
    for place in np.ndindex(values.shape):
        column = points[(slice(None), *place)]
        if np.isfinite(column).all():
            out[place] = special.ndtr(np.interp(values[place], column, SCORES))
    return out


def rank_of(values: Array, draws: Array) -> Array:
    """P(X < value), entry by entry, from draws (n, ...): the middle of the value's rank."""
    return np.asarray((np.sum(draws < values, axis=0) + 0.5) / (len(draws) + 1))
