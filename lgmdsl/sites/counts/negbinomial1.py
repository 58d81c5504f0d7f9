"""negbinomial1.log_mean: counts of mean m = exposure e^s and variance m (1 + dispersion).

A negative binomial of size r = m / dispersion:

    l = log Gamma(y + r) - log Gamma(r) - log y! + y log(d / (1 + d)) - r log(1 + d).

Not concave in s: as m falls to 0 the curvature is r (1 + ... + 1 / (y - 1) - log(1 + d)).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.counts import log_binomial
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.counts.base import LARGEST, LogMeanCounts
from lgmdsl.sites.formula import FormulaSite, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LEAST = 1e-300
_MANY = 30.0  # counts from which terms of size y log y would cancel


@dataclass(frozen=True, eq=False)
class Negbinomial1LogMean(LogMeanCounts, FormulaSite):
    """Counts whose variance is 1 + dispersion times their mean; dispersion 0 is Poisson."""

    y: Array
    dispersion: Array
    exposure: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "negbinomial1.log_mean",
        signature=declared("family", "negbinomial1"),
        takes=("dispersion", "exposure"),
        properties=Property.BOUNDED,
        link="log",
    )

    @cached_property
    def more(self) -> Array:
        """Counts after the first, (N,)."""
        return np.maximum(self.y - 1.0, 0.0)

    @cached_property
    def seen(self) -> Array:
        """1 where y > 0, (N,)."""
        return np.where(self.y > 0.0, 1.0, 0.0)

    def formula(self, s: Jet, p: Jets) -> Jet:
        # Gamma(y + r) / Gamma(r) = r Gamma(y + r) / Gamma(1 + r) where y > 0.
        size = s + jets.log(p["exposure"]) - jets.log(p["dispersion"])
        loss = jets.log1p(p["dispersion"])
        rising = self.seen * size + jets.log_rising_exp(size, self.more)
        share = jets.log(p["dispersion"]) - loss
        return rising + self.y * share - jets.exp(size) * loss - self.log_factorial

    @cached_property
    def many(self) -> tuple[IntArray, Negbinomial1LogMean]:
        """The rows of many counts, and their sites."""
        rows = np.flatnonzero(self.y > _MANY)
        return rows, self if len(rows) == len(self) else self.take(rows)

    def _accurate(self, s: Array, value: Array) -> Array:
        """The value, as a binomial one of y in y + r with deviances where y is large."""
        rows, site = self.many
        if not len(rows):
            return value
        if site is not self:
            value[rows] = site._accurate(s[rows], value[rows])
            return value
        d = self.dispersion
        mean = self.conditional_mean(np.clip(s, -200.0, 200.0))
        size, y = np.maximum(mean / d, _LEAST), np.maximum(self.y, 1.0)
        excess = (y - mean) / (1.0 + d)
        with np.errstate(over="ignore", invalid="ignore"):
            about = log_binomial(y, size, d / (1.0 + d), 1.0 / (1.0 + d), excess)
            about = about + np.log(size / (y + size))
        return np.where(np.abs(s) > 200.0, value, about)

    def log_density(self, s: Array) -> Array:
        return self._accurate(s, FormulaSite.log_density(self, s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = FormulaSite.pointwise(self, s, variance)
        return PointwiseAnswer(self._accurate(s, a.value), a.slope, a.curvature, a.third)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        (slope, by_dispersion) = self._first(s)
        return {"dispersion": by_dispersion, "exposure": slope / self.exposure}

    def _first(self, s: Array) -> tuple[Array, Array]:
        l = self.expand(jets.variable(s, 0, 1), {"dispersion": 1})
        zero = np.zeros(np.shape(s))
        return l.derivative(0) + zero, l.derivative(1) + zero

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        l, zero = self.expand(jets.variable(s, 0), {"dispersion": 1}), np.zeros(np.shape(s))
        parts = (l.derivative(1), l.derivative(0, 1), l.derivative(0, 0, 1))
        return {
            "dispersion": ParameterCurve(*(part + zero for part in parts)),
            "exposure": self.exposure_curve(self.pointwise(s)),
        }

    def conditional_variance(self, s: Array) -> Array:
        """mean (1 + dispersion)."""
        return np.asarray(self.conditional_mean(s) * (1.0 + self.dispersion))

    def sample(self, s: Array, rng: Generator) -> Array:
        rate = rng.gamma(self.conditional_mean(s) / self.dispersion, self.dispersion)
        return rng.poisson(np.minimum(rate, LARGEST)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        """The regularised incomplete beta function at 1 / (1 + dispersion)."""
        size = np.maximum(capped_exp(self.log_mean(s)) / self.dispersion, _LEAST)
        after = np.maximum(self.y, 0.0) + 1.0
        inside = special.betainc(size, after, 1.0 / (1.0 + self.dispersion))
        return np.where(self.y < 0.0, 0.0, inside)
