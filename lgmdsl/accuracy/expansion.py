"""The sites under a Gaussian: E_q[l] and the expectations of its first four derivatives.

Of scalar sites from their `Expected` answers, and so of sums over rows (`FourthExpected`); of
other vector sites, the first three, by differences of these. By Stein's identity
E[l''''] = 4 d^2 E[l] / dv^2, also where l has a kink. The third and the fourth are what is wrong
with a variational Gaussian, to first order: its optimum leaves no slope and no curvature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.bounds.weighted import reaching
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.questions import Expected, FourthExpected, ThirdExpected, Tilted
from lgmdsl.contract.rows import cavity
from lgmdsl.contract.site import Property, Site, log_concave
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import MethodError
from lgmdsl.inference.routes import answering

SERIES = 1e-3  # nats of one site, to which its next terms are a twentieth or so
STEP, LEAST = 1e-2, 1e-6  # of differences, in sds of a predictor; of its variance


@dataclass(frozen=True, eq=False)
class Expansion:
    """Expectations of each site block: E[l], (N,); E[l'], (N,) or (N, K); E[l''], (N,) or (N, K,
    K); E[l'''], (N,) or (N, K, K, K); E[l''''], (N,) or (N, K, K, K, K), of most vector sites
    nothing, (0,)."""

    value: Rows
    slope: Rows
    curvature: Rows
    third: Rows
    fourth: Rows

    @property
    def finite(self) -> bool:
        """Whether all of them are numbers."""
        every = (*self.value, *self.slope, *self.curvature, *self.third, *self.fourth)
        return all(bool(np.isfinite(a).all()) for a in every)


class Unanswered(Exception):
    """No expectations of a family's sites are to be had: its name."""


@np.errstate(all="ignore")
def expansion(sites: Sequence[Site], mean: Rows, variance: Rows) -> Expansion:
    """Under s ~ N(mean, variance), site by site. Raises Unanswered for a family of which nobody
    gives expectations."""
    parts = [
        (_scalar if m.ndim == 1 else _vector)(site, m, v)
        for site, m, v in zip(sites, mean, variance, strict=True)
    ]
    if not parts:
        return Expansion((), (), (), (), ())
    value, slope, curvature, third, fourth = zip(*parts, strict=True)
    return Expansion(value, slope, curvature, third, fourth)


def _scalar(site: Site, m: Array, v: Array) -> tuple[Array, ...]:
    if Property.GAUSSIAN in site.spec.properties:
        variance = np.maximum(v, 0.0)
    else:
        variance = np.maximum(v, 1e-300)
    try:
        answer = cast(Expected, answering(type(site), Expected)(site))
    except MethodError:
        raise Unanswered(site.spec.name) from None
    found = answer.expected(m, variance, second=True)
    if found.d_mean_variance is None or found.d_mean2 is not None:
        raise Unanswered(site.spec.name)
    twice = found.d_variance2
    fourth = np.zeros(len(m)) if twice is None else 4.0 * twice
    return found.value, found.d_mean, 2.0 * found.d_variance, 2.0 * found.d_mean_variance, fourth


def _vector(site: Site, m: Array, v: Array) -> tuple[Array, ...]:
    """Higher derivatives as the family gives them, or third ones by differences of the second ones
    in the mean."""
    answer, (size, k) = _by_points(site), m.shape
    here = answer.expected(m, v)
    higher = answer.higher_expected(m, v) if isinstance(answer, FourthExpected) else None
    if higher is not None:
        return here.value, here.d_mean, 2.0 * here.d_variance, *higher
    given = answer.third_expected(m, v) if isinstance(answer, ThirdExpected) else None
    if given is not None:
        return here.value, here.d_mean, 2.0 * here.d_variance, given, np.zeros(0)
    third = np.empty((size, k, k, k))
    for j in range(k):
        step = np.zeros((size, k))
        step[:, j] = STEP * np.sqrt(np.maximum(v[:, j, j], LEAST))
        ends = [2.0 * answer.expected(m + side * step, v).d_variance for side in (1.0, -1.0)]
        third[:, j] = (ends[0] - ends[1]) / (2.0 * step[:, j, None, None])
    # The same in whatever order its derivatives are taken.
    orders = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 2, 3, 1))
    third = sum((third.transpose(o) for o in orders), np.zeros_like(third)) / len(orders)
    return here.value, here.d_mean, 2.0 * here.d_variance, third, np.zeros(0)


@np.errstate(all="ignore")
def alone(
    site: Site, m: Array, v: Array, weight: Array, shift: Array, expected: Array, third: Array
) -> Array:
    """log E_q[t / t~] - E_q[log t / t~] of each scalar site t with its Gaussian t~, (N,), by the
    masses of both under its cavity; `expected`: E_q[log t], `third`: that of its third derivative.
    NaN where it has no cavity, and, of sites that are log-concave, where the first term of the
    series is less than SERIES, which then does. Nothing, (0,), for a family that has none."""
    none = np.zeros(0)
    if m.ndim > 1:
        return none
    try:
        lift = answering(type(site), Tilted)
    except MethodError:
        return none
    out, without = np.full(len(m), np.nan), cavity(m, v, weight, shift)
    able = without.sound & (v > 0.0)
    if log_concave((site,)):
        able &= third**2 * v**3 > 6.0 * SERIES
    if not able.any():
        return out
    m, v, weight, shift, expected = (x[able] for x in (m, v, weight, shift, expected))
    centre, spread = without.mean[able], without.variance[able]
    mass = cast(Tilted, lift(site.take(able))).tilted(centre, spread).log_mass
    # log E[exp(-1/2 w s^2 + b s)] under the cavity, to which q is the tilted one
    left = 0.5 * (m**2 / v - centre**2 / spread + np.log(v / spread))
    out[able] = mass - left - (expected + 0.5 * weight * (m**2 + v) - shift * m)
    return out


def _by_points(site: Site) -> Expected:
    """The expectations of a family themselves, and no bound of them."""
    if isinstance(site, Expected):
        return site
    for candidate in bounds():
        numerical = candidate.spec.guarantee in (Guarantee.NUMERICAL, Guarantee.EXACT)
        taking = reaching(candidate, type(site))
        if candidate.spec.gives is Expected and numerical and not taking.applies_to(type(site)):
            return cast(Expected, taking.lift(site))
    raise Unanswered(site.spec.name)
