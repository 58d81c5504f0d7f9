"""The inner problem of decoupled inference, for all rows at once, and where it has a solution.

    f*(a, b) = max over (h, sigma) of f(h, sigma^2) - a h + b sigma - p (sigma - sigma_0)^2 / 2

(Khan 2014, (12)), with the damping of (20) and a proximal term in h where they are asked for. Those
who are Decoupled answer in closed form, where nothing is damped; all others through Newton.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.joint import some_rows
from lgmdsl.contract.questions import Decoupled, Expected
from lgmdsl.contract.site import Property, Site
from lgmdsl.numerics.optimisation.newton import (
    PairMaxima,
    PairMoments,
    PairTerms,
    maximise_pairs,
)

# Sites are finite at this distance, and their slopes have come to their limits, if there are any.
FAR = 1e4
# Slopes beyond this, or that still grow by this fraction from FAR / 2 to FAR, have no limit.
HUGE, GROWING = 1e12, 1e-3
# The curvature of a closed form is taken at no smaller sigma, in units of its centre.
NARROWEST = 1e-6


def conjugates(
    answers: Sequence[Expected], like: Rows, terms: PairTerms, h: Array, sigma: Array
) -> PairMaxima:
    """The maximisers for all rows, (P,); those without a closed form start from (h, sigma)."""
    damped = bool(terms.r.any() or terms.d.any())
    pairs, first = [], 0
    for answer, block in zip(answers, like, strict=True):
        rows = slice(first, first + len(block))
        part = terms.take(rows)
        if isinstance(answer, Decoupled) and not damped:
            pairs.append(_closed(answer, answer, part))
        else:
            moments = _moments(answer, len(block))
            pairs.append(maximise_pairs(moments, part, h[rows], sigma[rows]))
        first += len(block)
    return PairMaxima.joined(pairs)


def _closed(answer: Decoupled, same: Expected, terms: PairTerms) -> PairMaxima:
    best = answer.conjugate(terms.a, terms.b, terms.p, terms.sigma0)
    wide = np.maximum(best.sigma, NARROWEST * terms.sigma0)
    f = same.expected(best.h, wide * wide, second=True)
    assert f.d_mean_variance is not None and f.d_variance2 is not None
    hh, hs, ss = terms.bends(f.d_variance, f.curvature, f.d_mean_variance, f.d_variance2, wide)
    return PairMaxima(best.h, best.sigma, best.value, hh, hs, ss, np.isfinite(best.value))


def _moments(answer: Expected, size: int) -> PairMoments:
    def moments(where: IntArray, h: Array, v: Array) -> tuple[Array, ...]:
        a = some_rows(answer, where, size)(h, v)
        assert a.d_mean_variance is not None and a.d_variance2 is not None
        first, second = (a.value, a.d_mean, a.d_variance), (a.d_mean_variance, a.d_variance2)
        return tuple(np.array(p, dtype=np.float64) for p in (*first, a.curvature, *second))

    return moments


def slope_limits(site: Site, answer: Expected) -> tuple[Array, Array]:
    """Between which slopes a the undamped f* of log-concave sites is finite: the limits of f_m at
    both ends, (N,) each, infinite where f_m grows for ever. Without bounds for all other sites."""
    n = len(site)
    if Property.LOG_CONCAVE not in site.spec.properties:
        return np.full(n, -np.inf), np.full(n, np.inf)
    centre, scale = site.landmark() or (np.zeros(n), np.ones(n))
    away = FAR * np.maximum(scale, 1.0)
    variance = np.ones(n) * np.maximum(scale, 1.0) ** 2

    def limit(side: float) -> Array:
        near, middle, far = (
            np.asarray(answer.expected(centre + side * k * away, variance).d_mean)
            for k in (0.0, 0.5, 1.0)
        )
        with np.errstate(invalid="ignore"):
            grows = np.abs(far - middle) > GROWING * np.abs(middle - near)
            none = ~(np.abs(far) < HUGE) | grows
        return np.where(none, -side * np.inf, far)

    return limit(1.0), limit(-1.0)
