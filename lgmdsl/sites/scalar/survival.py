"""Sites of lifetimes: exponential.log_rate and weibull.log_scale, observed or right-censored.

`event` is 1 where y is when it happened, 0 where it had not happened by y. What is left of a
censored row is the survivor function, so both are of the form a + b s - c e^{k s}, in closed form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import (
    ConjugateAnswer,
    Decoupled,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Lifetimes,
    ParameterCurve,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.base import ElementwiseSite
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.sites.scalar.exponential_rate import ExponentialSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_SHAPE = Property.LOG_CONCAVE | Property.BOUNDED | Property.LATE_CONCAVE


@dataclass(frozen=True, eq=False)
class ExponentialLogRate(ExponentialSite, Lifetimes):
    """y ~ Exponential(rate e^s): l = event s - y e^s."""

    y: Array
    event: Array
    sign: ClassVar[float] = 1.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "exponential.log_rate",
        signature=declared("family", "exponential"),
        takes=("event",),
        properties=_SHAPE,
        link="log",
    )

    @property
    def constant(self) -> Array:
        return np.zeros_like(self.y)

    @property
    def linear(self) -> Array:
        return self.event

    @property
    def factor(self) -> Array:
        return self.y

    @property
    def censored(self) -> BoolArray:
        return np.asarray(self.event == 0.0)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return {}

    def conditional_mean(self, s: Array) -> Array:
        """e^-s, of the lifetime, whether or not it is observed."""
        return capped_exp(-s)

    def conditional_variance(self, s: Array) -> Array:
        """e^-2s."""
        return capped_exp(-2.0 * s)

    def sample(self, s: Array, rng: Generator) -> Array:
        """Lifetimes, none of them censored."""
        return np.asarray(capped_exp(-s) * rng.exponential(size=np.shape(s)))

    def log_survival_at(self, s: Array) -> Array:
        return np.asarray(-self.y * capped_exp(s))

    def cdf(self, s: Array) -> Array:
        return np.asarray(-np.expm1(-capped_exp(self.log_factor + s)))


@dataclass(frozen=True, eq=False)
class _UnitRate(ExponentialSite):
    """level - event t - e^-t: a Weibull site in t = shape (s - log y)."""

    event: Array
    level: Array
    sign: ClassVar[float] = -1.0
    spec: ClassVar[SiteSpec] = SiteSpec("unit_rate", {"event": None, "level": None})

    @property
    def constant(self) -> Array:
        return self.level

    @property
    def linear(self) -> Array:
        return -self.event

    @property
    def factor(self) -> Array:
        return np.ones_like(self.event)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {"level": np.ones_like(s)}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return {"level": np.ones_like(mean)}


@dataclass(frozen=True, eq=False)
class WeibullLogScale(ElementwiseSite, Formula, Expected, ExpectedSlopes, Decoupled, Lifetimes):
    """P(Y > y | s) = exp(-(y / e^s)^shape), R's convention:
    l = event (log shape - log y - t) - e^-t with t = shape (s - log y)."""

    y: Array
    shape: Array
    event: Array
    infinite_in: ClassVar[frozenset[str]] = frozenset({"shape"})
    spec: ClassVar[SiteSpec] = SiteSpec(
        "weibull.log_scale",
        signature=declared("family", "weibull"),
        takes=("shape", "event"),
        properties=_SHAPE,
        link="log",
    )

    @cached_property
    def log_y(self) -> Array:
        """log y."""
        return np.asarray(np.log(self.y))

    @cached_property
    def unit(self) -> _UnitRate:
        """The sites as functions of t."""
        return _UnitRate(self.event, self.event * (np.log(self.shape) - self.log_y))

    @property
    def censored(self) -> BoolArray:
        return np.asarray(self.event == 0.0)

    def formula(self, s: Jet, p: Jets) -> Jet:
        t = p["shape"] * (s - self.log_y)
        return self.event * (jets.log(p["shape"]) - self.log_y - t) - jets.exp(-t)

    def stretched(self, s: Array) -> Array:
        """t = shape (s - log y)."""
        return np.asarray(self.shape * (s - self.log_y))

    def log_density(self, s: Array) -> Array:
        return self.unit.log_density(self.stretched(s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a, k = self.unit.pointwise(self.stretched(s)), self.shape
        return PointwiseAnswer(a.value, k * a.slope, k**2 * a.curvature, k**3 * a.third * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        """event / shape - (s - log y) (event - e^-t)."""
        away = s - self.log_y
        rate = capped_exp(-self.shape * away)
        return {"shape": self.event / self.shape - away * (self.event - rate)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        k, away = self.shape, s - self.log_y
        rate = capped_exp(-k * away)
        return {
            "shape": ParameterCurve(
                self.event / k - away * (self.event - rate),
                rate * (1.0 - k * away) - self.event,
                k * rate * (k * away - 2.0),
            )
        }

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """E[x e^-kx] = (m - k v) e^{-k m + k^2 v / 2} for x = s - log y ~ N(m, v)."""
        k, away = self.shape, mean - self.log_y
        rate = capped_exp(-k * away + 0.5 * k * k * variance)
        return {"shape": self.event / k - away * self.event + (away - k * variance) * rate}

    def landmark(self) -> tuple[Array, Array]:
        centre, distance = self.unit.landmark()
        return self.log_y + centre / self.shape, distance / self.shape

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        k = self.shape
        a = self.unit.expected(self.stretched(mean), k * k * variance, second)
        return ExpectedAnswer(
            value=a.value,
            d_mean=k * a.d_mean,
            d_variance=k**2 * a.d_variance,
            d_mean_variance=None if a.d_mean_variance is None else k**3 * a.d_mean_variance,
            d_variance2=None if a.d_variance2 is None else k**4 * a.d_variance2,
        )

    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        """Conjugate of l from that of the sites in t, where h is shape (h - log y) and sigma is
        shape sigma."""
        k = self.shape
        a = self.unit.conjugate(slope / k, pull / k, penalty / k**2, k * centre)
        return ConjugateAnswer(self.log_y + a.h / k, a.sigma / k, a.value - slope * self.log_y)

    def conditional_mean(self, s: Array) -> Array:
        """e^s Gamma(1 + 1/shape), of the lifetime, whether or not it is observed."""
        return np.asarray(capped_exp(s) * special.gamma(1.0 + 1.0 / self.shape))

    def conditional_variance(self, s: Array) -> Array:
        """e^2s (Gamma(1 + 2/shape) - Gamma(1 + 1/shape)^2)."""
        first, second = (special.gamma(1.0 + j / self.shape) for j in (1.0, 2.0))
        return np.asarray(capped_exp(s) ** 2 * (second - first**2))

    def sample(self, s: Array, rng: Generator) -> Array:
        """Lifetimes, none of them censored."""
        drawn = rng.exponential(size=np.shape(s))
        return np.asarray(capped_exp(s) * drawn ** (1.0 / self.shape))

    def log_survival_at(self, s: Array) -> Array:
        return np.asarray(-capped_exp(-self.stretched(s)))

    def cdf(self, s: Array) -> Array:
        return np.asarray(-np.expm1(-capped_exp(-self.stretched(s))))
