"""com_poisson.log_mean: Conway-Maxwell-Poisson counts of mean exposure e^s, by their mean.

P(y) is proportional to lambda^y / (y!)^nu, nu = 1 / dispersion, lambda such that E[y] is the mean
(Huang 2017). What depends on the mean and nu alone comes from `conway_maxwell`, by tables in log
mean that are made once for each dispersion. l is not concave in s unless the dispersion is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.counts import deviance
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.counts.conway_maxwell import Law, Norm, fields, stirling_rest
from lgmdsl.sites.counts.cumulated import cumulated
from lgmdsl.sites.counts.log_mean import LARGEST, LogMeanCounts
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_TRIES = 400
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class ComPoissonLogMean(LogMeanCounts):
    """Counts of mean exposure e^s and variance about dispersion times that."""

    y: Array
    dispersion: Array
    exposure: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "com_poisson.log_mean",
        signature=declared("family", "com_poisson"),
        takes=("dispersion", "exposure"),
        properties=Property.BOUNDED,
        link="log",
    )

    @cached_property
    def exponent(self) -> Array:
        """nu, (N,)."""
        return np.asarray(1.0 / self.dispersion)

    @cached_property
    def rest(self) -> Array:
        """log y! - y log y + y, (N,)."""
        return stirling_rest(self.y)

    def law(self, s: Array) -> tuple[Law, Array]:
        """The law at s, and the log mean."""
        known, log_mean = self._fields(s, len(Law._fields))
        return Law(*known), log_mean

    def _fields(self, s: Array, first: int) -> tuple[Array, Array]:
        """The `first` fields of the law at s, and the log mean."""
        log_mean = self.log_mean(s)
        shape = np.shape(log_mean + self.exponent)
        x = np.broadcast_to(log_mean, shape).ravel()
        if self.exponent.size and (self.exponent == self.exponent.flat[0]).all():
            known = fields(x, float(self.exponent.flat[0]), first)
            return known.reshape(first, *shape), log_mean
        flat = np.broadcast_to(self.exponent, shape).ravel()
        known = np.empty((first, len(x)))
        for nu in np.unique(flat):
            rows = flat == nu
            known[:, rows] = fields(x[rows], float(nu), first)
        return known.reshape(first, *shape), log_mean

    def _value(self, known: Law | Norm, x: Array) -> tuple[Array, Array, Array, Array]:
        """l, the mean, y - mean and L(y) = log y! - y log mean + mean."""
        mean = capped_exp(x)
        excess = self.y - mean
        near = self.rest + deviance(self.y, np.maximum(mean, _LEAST), excess)
        level = np.where(mean > _LEAST, near, self.log_factorial - self.y * x)
        value = known.delta * excess - self.exponent * level - known.log_total
        return value, mean, excess, level

    def log_density(self, s: Array) -> Array:
        known, log_mean = self._fields(s, len(Norm._fields))
        return np.asarray(self._value(Norm(*known), log_mean)[0])

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        known, x = self.law(s)
        value, mean, excess, _ = self._value(known, x)
        return self._pointwise(known, mean, value, excess, variance)

    def _pointwise(
        self, known: Law, mean: Array, value: Array, excess: Array, variance: Array | float
    ) -> PointwiseAnswer:
        return PointwiseAnswer(
            value,
            known.h * excess,
            known.h1 * excess - known.h * mean,
            (known.h2 * excess - (2.0 * known.h1 + known.h) * mean) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        known, x = self.law(s)
        _, _, excess, level = self._value(known, x)
        by_exponent = excess * known.a - level + known.level
        return {
            "dispersion": -by_exponent * self.exponent**2,
            "exposure": np.asarray(known.h * excess / self.exposure),
        }

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        known, x = self.law(s)
        value, mean, excess, level = self._value(known, x)
        factor = -(self.exponent**2)
        l = self._pointwise(known, mean, value, excess, 1.0)
        return {
            "dispersion": ParameterCurve(
                factor * (excess * known.a - level + known.level),
                factor * (excess * known.a1),
                factor * (excess * known.a2 - mean * known.a1),
            ),
            "exposure": self.exposure_curve(l),
        }

    def conditional_variance(self, s: Array) -> Array:
        """V, about dispersion times the mean where that is large."""
        return self.law(s)[0].variance

    def sample(self, s: Array, rng: Generator) -> Array:
        """By rejection, as the masses are log-concave (Devroye 1987): P(m + k) is at most P(m)
        min(1, exp(1 - P(m) |k|)) about the mode m."""
        known, _ = self.law(s)
        log_mean = np.minimum(self.log_mean(s), np.log(LARGEST))
        mode = np.floor(np.exp(np.clip(log_mean + known.delta / self.exponent, -700.0, 43.6)))
        # Rounding may put the mode next to where it is.
        beside = [np.maximum(mode + k, 0.0) for k in (-1.0, 0.0, 1.0)]
        heights = np.stack([self._mass(s, y) for y in beside])
        best = heights.argmax(axis=0)
        mode = np.take_along_axis(np.stack(beside), best[None], axis=0)[0]
        height = heights.max(axis=0)
        top = np.exp(height)
        wide = 1.0 + 0.5 * top
        out, pending = mode.copy(), np.arange(len(mode))
        for _ in range(_TRIES):
            if not len(pending):
                break
            p, w, n = top[pending], wide[pending], len(pending)
            flat = rng.random(n) <= w / (1.0 + w)
            step = np.where(flat, w * rng.random(n), w + rng.exponential(size=n)) / p
            moved = mode[pending] + np.where(rng.random(n) < 0.5, 1.0, -1.0) * np.rint(step)
            inside = moved >= 0.0
            mass = self.take(pending)._mass(s[pending], np.where(inside, moved, 0.0))
            level = np.log(rng.random(n)) + np.minimum(0.0, w - p * step)
            taken = inside & (level <= mass - height[pending])
            out[pending[taken]] = moved[taken]
            pending = pending[~taken]
        return np.asarray(out)

    def _mass(self, s: Array, y: Array) -> Array:
        """log P(Y = y)."""
        other: Site = ComPoissonLogMean(y, self.dispersion, self.exposure)
        return other.log_density(s)

    def cdf(self, s: Array) -> Array:
        return cumulated(self, s)
