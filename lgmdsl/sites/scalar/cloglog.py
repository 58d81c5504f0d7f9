"""bernoulli.cloglog, P(y = 1 | s) = 1 - exp(-e^s), and binomial.cloglog, y of n such trials.

l = log(1 - exp(-e^s)) for y = 1 and -e^s for y = 0, whose expectation is in closed form. With
rho = e^s / (exp(e^s) - 1) and q = 1 - e^s - rho:  l' = rho, l'' = rho q,
l''' = rho (q^2 - e^s - rho q) for y = 1. Of n trials l = log C(n, y) + y l_1 + (n - y) l_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import Expected, ExpectedAnswer, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.counts import log_choose
from lgmdsl.numerics.expectations.expectation import expectations
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.base import ElementwiseSite, binomial_cdf
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

# log(1 - exp(-e^s)) bends between -2 and 4; its singularities stand at log(2 pi k) +- i pi / 2.
_CENTRE, _DISTANCE, _MAX_STEP = 1.5, 1.2, 0.12
_GONE = 700.0  # e^s beyond which log(1 - exp(-e^s)) and its derivatives are below 1e-300: zero


def log_complement(s: Array) -> tuple[Array, Array, Array, Array]:
    """log(1 - exp(-e^s)) and its first three derivatives."""
    rate = capped_exp(s)
    small = rate < 1e-2
    r = np.where(small, rate, 0.0)
    r2 = r * r
    bend = -r / 2.0 - r2 / 12.0 + r2 * r2 / 720.0 - r2 * r2 * r2 / 30240.0
    middle = np.clip(rate, 1e-3, _GONE)
    ratio = np.where(small, 1.0 - r - bend, middle / np.expm1(middle))
    q = np.where(small, bend, 1.0 - rate - ratio)
    # log((1 - e^-r) / r) = log1p(-r/2 + r^2/6 - r^3/24 + r^4/120 - r^5/720)
    series = np.log1p(-r * (0.5 - r * (1 / 6 - r * (1 / 24 - r * (1 / 120 - r / 720)))))
    large = np.where(middle > 0.7, np.log1p(-np.exp(-middle)), np.log(-np.expm1(-middle)))
    value = np.where(small, s + series, large)
    alive = rate < _GONE
    q = np.where(alive, q, 0.0)
    ratio = np.where(alive, ratio, 0.0)
    value = np.where(alive, value, 0.0)
    return value, ratio, ratio * q, ratio * (q * q - np.where(alive, rate, 0.0) - ratio * q)


@dataclass(frozen=True, eq=False)
class BernoulliCloglog(ElementwiseSite, Expected):
    """P(y = 1 | s) = 1 - exp(-e^s)."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "bernoulli.cloglog",
        signature=declared("family", "bernoulli"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="cloglog",
    )

    def log_density(self, s: Array) -> Array:
        return np.where(self.y > 0.5, log_complement(s)[0], -capped_exp(s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        yes = self.y > 0.5
        no = -capped_exp(s)
        value, slope, curvature, third = log_complement(s)
        return PointwiseAnswer(
            value=np.where(yes, value, no),
            slope=np.where(yes, slope, no),
            curvature=np.where(yes, curvature, no),
            third=np.where(yes, third, no) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def landmark(self) -> tuple[Array, Array]:
        return np.full_like(self.y, _CENTRE), np.full_like(self.y, _DISTANCE)

    def conditional_mean(self, s: Array) -> Array:
        """1 - exp(-e^s)."""
        return np.asarray(-np.expm1(-capped_exp(s)))

    def conditional_variance(self, s: Array) -> Array:
        """p (1 - p)."""
        return np.asarray(-np.expm1(-capped_exp(s)) * np.exp(-capped_exp(s)))

    def sample(self, s: Array, rng: Generator) -> Array:
        return (rng.exponential(size=np.shape(s)) < capped_exp(s)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        return binomial_cdf(self.y, 1.0, np.exp(-capped_exp(s)))

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        # y = 0: f = -exp(m + v/2), whose derivatives are f, f/2, f/2, f/4.
        no = -capped_exp(mean + 0.5 * variance)
        out = np.stack([no, no, 0.5 * no, 0.5 * no, 0.25 * no])
        yes = np.flatnonzero(self.y > 0.5)
        if len(yes):
            out[:, yes] = _expected_yes(mean[yes], variance[yes])
        return ExpectedAnswer(out[0], out[1], out[2], *(out[3:] if second else ()))


def _expected_yes(mean: Array, variance: Array) -> Array:
    """E[log(1 - exp(-e^s))] and its derivatives in m, v, (m, v), (v, v): (5, n)."""
    sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))

    def stacked(rows: IntArray, s: Array, t: Array) -> Array:
        value, slope, curvature, third = log_complement(s)
        last = 0.25 * third * t / sd[rows][:, None]
        return np.stack([value, slope, 0.5 * curvature, 0.5 * third, last])

    centre, distance = np.full_like(mean, _CENTRE), np.full_like(mean, _DISTANCE)
    return expectations(stacked, mean, sd, centre, distance, checked=False, max_step=_MAX_STEP)


@dataclass(frozen=True, eq=False)
class BinomialCloglog(ElementwiseSite, Expected):
    """y successes in n trials of probability 1 - exp(-e^s)."""

    y: Array
    n: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "binomial.cloglog",
        signature=declared("family", "binomial"),
        takes=("n",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="cloglog",
    )

    @cached_property
    def constant(self) -> Array:
        """log C(n, y), (N,)."""
        return log_choose(self.n, self.y)

    def log_density(self, s: Array) -> Array:
        failures = (self.n - self.y) * capped_exp(s)
        return np.asarray(self.constant + self.y * log_complement(s)[0] - failures)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        failures = (self.n - self.y) * capped_exp(s)
        value, slope, curvature, third = (self.y * part for part in log_complement(s))
        return PointwiseAnswer(
            value=self.constant + value - failures,
            slope=slope - failures,
            curvature=curvature - failures,
            third=(third - failures) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def landmark(self) -> tuple[Array, Array]:
        return np.full_like(self.y, _CENTRE), np.full_like(self.y, _DISTANCE)

    def conditional_mean(self, s: Array) -> Array:
        """n (1 - exp(-e^s))."""
        return np.asarray(-self.n * np.expm1(-capped_exp(s)))

    def conditional_variance(self, s: Array) -> Array:
        """n p (1 - p)."""
        return np.asarray(self.conditional_mean(s) * np.exp(-capped_exp(s)))

    def sample(self, s: Array, rng: Generator) -> Array:
        trials = np.asarray(self.n, dtype=np.int64)
        return rng.binomial(trials, -np.expm1(-capped_exp(s))).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        return binomial_cdf(self.y, self.n, np.exp(-capped_exp(s)))

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        one = BernoulliCloglog(np.zeros_like(self.y)).expected(mean, variance, second=True)
        parts = (one.value, one.d_mean, one.d_variance, one.d_mean_variance, one.d_variance2)
        out = (self.n - self.y) * np.stack([np.asarray(part) for part in parts])
        some = np.flatnonzero(self.y > 0.0)
        if len(some):
            out[:, some] += self.y[some] * _expected_yes(mean[some], variance[some])
        out[0] += self.constant
        return ExpectedAnswer(out[0], out[1], out[2], *(out[3:] if second else ()))
