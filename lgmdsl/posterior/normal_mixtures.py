"""Mixtures of normal marginals: moments, quantiles and densities, entry by entry; and where values
are among quantiles or draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from lgmdsl.arrays import Array

# Steps of Newton's method, bisections among them, and the last one, in sds of the narrowest part.
ROUNDS, CLOSE = 100, 1e-8
# Normal scores at which quantiles are asked for, to place values among them.
SCORES = np.linspace(-5.0, 5.0, 201)


def mixed_moments(weights: Array, means: Array, sds: Array) -> tuple[Array, Array]:
    """Mean and sd of a mixture; `means` and `sds` are (M, ...)."""
    with np.errstate(all="ignore"):  # an infinite mean has no deviations
        mean = np.tensordot(weights, means, axes=1)
        spread = np.tensordot(weights, sds**2 + (means - mean) ** 2, axes=1)
        return mean, np.sqrt(spread)


def mixed_quantile(weights: Array, means: Array, sds: Array, levels: Array) -> Array:
    """(Q, ...) quantiles of mixtures of normals: Newton's method for the normal score, which is
    nearly straight, inside a bracket, each entry until it has its own."""
    z = special.ndtri(levels).reshape(-1, *(1 for _ in means.shape[1:]))
    ends = means + z[:, None] * sds  # (Q, M, ...): the quantiles of the parts bracket the mixture's
    low, high = ends.min(axis=1), ends.max(axis=1)
    if len(weights) == 1:
        return np.asarray(low)
    with np.errstate(all="ignore"):  # fixed quantities have no density
        centre, spread = mixed_moments(weights, means, sds)
        x = np.clip(centre + z * spread, low, high)
        shape, count = x.shape, means[0].size
        x, low, high = x.reshape(-1), low.reshape(-1), high.reshape(-1)
        means, sds = means.reshape(len(means), -1), sds.reshape(len(sds), -1)
        level, score = (np.repeat(v, count) for v in (levels, z.reshape(-1)))
        unit = np.where(sds > 0.0, sds, np.inf).min(axis=0)
        active = np.flatnonzero(high > low)
        for _ in range(ROUNDS):
            if not len(active):
                break
            at, here = active % count, x[active]
            below = distribution(weights, means[:, at], sds[:, at], here)
            rises = density(weights, means[:, at], sds[:, at], here)
            above = below >= level[active]
            high[active[above]], low[active[~above]] = here[above], here[~above]
            known = special.ndtri(below)
            step = (score[active] - known) * np.exp(-0.5 * known**2) / np.sqrt(2.0 * np.pi) / rises
            after = here + step
            inside = (after >= low[active]) & (after <= high[active])
            x[active] = np.where(inside, after, 0.5 * (low[active] + high[active]))
            near = inside & (np.abs(step) <= CLOSE * unit[at])
            jumps = ~near & (high[active] - low[active] <= 1e-14 * np.abs(here))
            x[active[jumps]] = high[active[jumps]]
            active = active[~near & ~jumps]
    return x.reshape(shape)


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
        peak = np.where(s > 0.0, w / (s * np.sqrt(2.0 * np.pi)), 0.0)
        total += peak * np.exp(-0.5 * ((x - m) / np.where(s > 0.0, s, 1.0)) ** 2)
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
