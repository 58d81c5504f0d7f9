"""generalized_poisson.log_mean: Consul's counts of mean m = exposure e^s, variance dispersion m.

With w = 1 / sqrt(dispersion), theta = w m, lambda = 1 - w and M = theta + lambda y,

    P(y) = theta M^(y - 1) e^-M / y! = (theta / M) Poisson(y; M),    y - M = w (y - m).

With v = theta / M and u = 1 - v:  l' = u + v w (y - m),  l'' = (y - 1) v u - theta,
l''' = (y - 1) v u (u - v) - theta. For lambda < 0 the support would end where M does, and P would
not add up to 1: dispersions below 1 are refused. Not concave where y w > 1 and m is small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.numerics.counts import log_peak, log_poisson
from lgmdsl.numerics.stable import capped_exp, sigmoids
from lgmdsl.sites.counts.base import LARGEST, LogMeanCounts, cumulated
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LEAST = 1e-300
_MANY = 30.0  # counts from which terms of size y log y would cancel


@dataclass(frozen=True, eq=False)
class GeneralizedPoissonLogMean(LogMeanCounts):
    """Counts of mean exposure e^s and variance dispersion times that; dispersion 1 is Poisson."""

    y: Array
    dispersion: Array
    exposure: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "generalized_poisson.log_mean",
        signature=declared("family", "generalized_poisson"),
        takes=("dispersion", "exposure"),
        properties=Property.BOUNDED,
        link="log",
    )

    def __post_init__(self) -> None:
        if np.any(self.dispersion < 1.0):
            raise DataError(_outside(float(np.min(self.dispersion))))

    @cached_property
    def share(self) -> Array:
        """w = 1 / sqrt(dispersion), (N,)."""
        return np.asarray(1.0 / np.sqrt(self.dispersion))

    @cached_property
    def many(self) -> tuple[IntArray, Array]:
        """The rows of many counts, and these."""
        rows = np.flatnonzero(self.y > _MANY)
        return rows, self.y[rows]

    @cached_property
    def peak(self) -> Array:
        """log of the largest Poisson mass of many counts (`many`)."""
        return log_peak(self.many[1])

    @cached_property
    def log_share(self) -> Array:
        """log w, (N,)."""
        return np.asarray(np.log(self.share))

    @cached_property
    def echo(self) -> Array:
        """log of lambda y / w, -inf where it is 0, (N,)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log((1.0 - self.share) / self.share * self.y))

    def _parts(self, s: Array) -> tuple[Array, Array, Array, Array, Array]:
        """mean, theta, M, v and u."""
        x = self.log_mean(s)
        mean = capped_exp(x)
        theta = self.share * mean
        u, v, _ = sigmoids(self.echo - np.minimum(x, 340.0))
        return mean, theta, theta + (1.0 - self.share) * self.y, v, u

    def _value(self, x: Array, mean: Array, middle: Array) -> Array:
        # log v = -log(1 + e^(echo - x)); below the smallest double M is theta alone.
        apart = self.echo - x
        log_v = -(np.maximum(apart, 0.0) + np.log1p(np.exp(-np.abs(apart))))
        tiny = middle < _LEAST
        log_middle = np.where(tiny, x + self.log_share, np.log(np.maximum(middle, _LEAST)))
        value = self.y * log_middle - middle - self.log_factorial
        rows, y = self.many
        if len(rows):
            excess = (self.share * (self.y - mean))[rows]
            seen = log_poisson(y, np.maximum(middle[rows], _LEAST), excess, self.peak)
            value[rows] = np.where(tiny[rows], value[rows], seen)
        return np.asarray(log_v + value)

    def log_density(self, s: Array) -> Array:
        mean, _, middle, _, _ = self._parts(s)
        return self._value(np.minimum(self.log_mean(s), 340.0), mean, middle)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        mean, theta, middle, v, u = self._parts(s)
        bend = (self.y - 1.0) * v * u
        return PointwiseAnswer(
            self._value(np.minimum(self.log_mean(s), 340.0), mean, middle),
            u + v * self.share * (self.y - mean),
            bend - theta,
            (bend * (u - v) - theta) * variance,
        )

    def _by_share(self, s: Array) -> tuple[Array, Array, Array]:
        """dl/dw = 1/w + (y - m)(1 - w (y - m)) / M and its two derivatives in s."""
        w = self.share
        mean, theta, middle, v, _ = self._parts(s)
        middle = np.maximum(middle, _LEAST)
        excess = self.y - mean
        # (y - m) / M = y / M - v / w
        ratio = self.y / middle - v / w
        rest = 1.0 - w * excess
        first = -(mean / middle) * (self.y / middle)
        second = first * (1.0 - 2.0 * v)
        return (
            1.0 / w + ratio * rest,
            first * rest + theta * ratio,
            second * rest + theta * (2.0 * first + ratio),
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {
            "dispersion": -0.5 * self.share**3 * self._by_share(s)[0],
            "exposure": self.exposure_slope(s),
        }

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        factor = -0.5 * self.share**3
        return {
            "dispersion": ParameterCurve(*(factor * part for part in self._by_share(s))),
            "exposure": self.exposure_curve(self.pointwise(s)),
        }

    def conditional_variance(self, s: Array) -> Array:
        """dispersion times the mean."""
        return np.asarray(self.dispersion * self.conditional_mean(s))

    def sample(self, s: Array, rng: Generator) -> Array:
        """The size of a branching process: Poisson(theta) founders, Poisson(lambda) children of
        each (Consul 1989, section 6.4)."""
        theta = np.minimum(self.share * self.conditional_mean(s), LARGEST)
        total = rng.poisson(theta).astype(np.float64)
        children = 1.0 - self.share + np.zeros(len(total))
        living, pending = total.copy(), np.flatnonzero(total > 0.0)
        while len(pending):
            born = rng.poisson(np.minimum(children[pending] * living[pending], LARGEST))
            living[pending] = born
            total[pending] += born
            pending = pending[born > 0]
        return total

    def cdf(self, s: Array) -> Array:
        return cumulated(self, s)


def _outside(value: float) -> Diagnostic:
    return Diagnostic(
        "E303",
        f"`generalized_poisson` takes a dispersion of at least 1, not {value:g}",
        note="below 1 its probabilities do not add up to 1",
        help="write dispersion = 1 + d with hyper d : positive, or take com_poisson, which is "
        "underdispersed too",
    )
