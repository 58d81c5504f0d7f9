"""Densities of compound Poisson-gamma sums: what depends on y, dispersion and power alone.

With a = (2 - p) / (p - 1), J = y^(2 - p) / (phi (2 - p)) the number of terms that is likeliest at
the mean y, and D the deviance of `numerics.deviance`, the density at mean mu is

    log f(y) = -d(y, mu) / (2 phi) - log y + F(log J, a),
    F = log sum_{j >= 1} exp(-(1 + a) D(j; J) - S(j) - S(a j)) + (log a) / 2 - log 2 pi,

S being Stirling's error: the series of Dunn and Smyth (2005) about its largest term, so that
nothing of size J is left in it. dF/dlog J = (1 + a)(E[j] - J), dF/da = E[-D - j S'(a j)] + 1/(2a).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics.chebyshev import Panels
from lgmdsl.numerics.counts import deviance
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import stirling_error, stirling_slope

_SMALL, _LARGE = -30.0, 600.0  # log J below which there is one term; the largest that is taken
_TABLE = 500  # values from which a table repays its making
_FAR, _WIDE = 12.0, 8.0  # sds to 0, and terms in an sd, from which the sum is an integral
_MOST = 4096  # rows at a time
_ROUNDING = 3e-14


def series(log_terms: Array, a: float) -> tuple[Array, Array, Array]:
    """F and its derivatives in log J and in a, at log J (M,)."""
    x = np.minimum(log_terms, _LARGE)
    inside = np.maximum(x, _SMALL)
    known = _panels(a)(inside) if len(x) >= _TABLE else computed(inside, a)
    low = x < _SMALL
    if low.any():
        known = np.where(low, _one_term(x, a), known)
    return known[0], known[1], known[2]


@lru_cache(maxsize=32)
def _panels(a: float) -> Panels:
    def functions(x: Array) -> tuple[Array, Array]:
        values = computed(x, a)
        sd = np.exp(0.5 * x) / math.sqrt(1.0 + a)
        scales = (
            1.0 + np.abs(values[0]),
            (1.0 + a) * (1.0 + sd) + np.abs(values[1]),
            1.0 + np.abs(values[2]),
        )
        return values, _ROUNDING * np.stack(scales)

    return Panels(functions)


def _one_term(x: Array, a: float) -> Array:
    gap = -x - 1.0 + np.exp(x)  # D(1; J)
    size = np.array(a)
    level = -(1.0 + a) * gap - stirling_error(np.ones(1)) - stirling_error(size)
    by_a = -gap - stirling_slope(size) + 0.5 / a
    return np.stack([level + _constant(a), (1.0 + a) * (1.0 - np.exp(x)), by_a])


def _constant(a: float) -> float:
    return 0.5 * math.log(a) - LOG_TWO_PI


def computed(x: Array, a: float) -> Array:
    """F, dF/dlog J and dF/da at log J (M,), (3, M), by sums over j."""
    terms = np.exp(x)
    sd = np.sqrt(terms / (1.0 + a))
    out = np.empty((3, len(x)))
    wide = (terms > _FAR * sd + 1.0) & (sd > _WIDE)
    for rows in (np.flatnonzero(wide), np.flatnonzero(~wide)):
        for few in np.array_split(rows, 1 + len(rows) // _MOST) if len(rows) else ():
            middle, spread = terms[few, None], sd[few, None]
            if wide[few[0]]:
                gap = spread * np.arange(-_FAR, _FAR + 0.25, 0.5)
                out[:, few] = _summed(middle + gap, middle, gap, 0.5 * spread, a)
                continue
            first = np.maximum(np.floor(middle - _FAR * spread - _FAR), 1.0)
            last = middle + _FAR * spread + 30.0
            j = first + np.arange(math.ceil(float((last - first).max())) + 1.0)
            out[:, few] = _summed(j, middle, j - middle, np.ones_like(spread), a)
    return out


def _summed(j: Array, middle: Array, gap: Array, weight: Array, a: float) -> Array:
    apart = deviance(j, middle, gap)
    level = -(1.0 + a) * apart - stirling_error(j) - stirling_error(a * j)
    top = level.max(axis=1, keepdims=True)
    share = weight * np.exp(level - top)
    total = share.sum(axis=1)
    share /= total[:, None]
    value = top[:, 0] + np.log(total) + _constant(a)
    by_terms = (1.0 + a) * (share * gap).sum(axis=1)
    by_a = 0.5 / a - (share * (apart + j * stirling_slope(a * j))).sum(axis=1)
    return np.stack([value, by_terms, by_a])
