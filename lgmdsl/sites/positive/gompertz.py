"""gompertz.log_rate: lifetimes of hazard e^s e^{shape y}, observed or right-censored.

With G(y) = (e^{shape y} - 1) / shape, P(Y > y) = exp(-e^s G(y)) and l = event (s + shape y) - e^s
G(y), in closed form as `exponential` is. Where shape < 0, a share exp(e^s / shape) never fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import Lifetimes, ParameterCurve
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet, exp_ratio, exp_ratio_derivatives
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.formula import Jets
from lgmdsl.sites.scalar.exponential_rate import ExponentialSite
from lgmdsl.sites.tails import JetTails
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_NODES = np.arange(-4.2, 5.6, 0.05)


@dataclass(frozen=True, eq=False)
class GompertzLogRate(ExponentialSite, JetTails, Lifetimes):
    """y with hazard e^{s + shape y}."""

    y: Array
    shape: Array
    event: Array
    sign: ClassVar[float] = 1.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "gompertz.log_rate",
        signature=declared("family", "gompertz"),
        takes=("shape", "event"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED | Property.LATE_CONCAVE,
        link="log",
    )

    @cached_property
    def ratios(self) -> tuple[Array, Array]:
        """G(y), and its slope in the shape."""
        growth, slope, _, _ = exp_ratio_derivatives(self.shape * self.y, 1)
        return self.y * growth, self.y**2 * slope

    @property
    def constant(self) -> Array:
        return np.asarray(self.event * self.shape * self.y)

    @property
    def linear(self) -> Array:
        return self.event

    @property
    def factor(self) -> Array:
        return self.ratios[0]

    @property
    def censored(self) -> BoolArray:
        return np.asarray(self.event == 0.0)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        """event y - e^s dG / dshape."""
        return {"shape": self.event * self.y - capped_exp(s) * self.ratios[1]}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        bend = -capped_exp(s) * self.ratios[1]
        return {"shape": ParameterCurve(self.event * self.y + bend, bend, bend)}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.parameter_slopes(mean + 0.5 * variance)

    def log_survival(self, s: Jet, p: Jets) -> Jet:
        """-e^s G(y)."""
        return -(jets.exp(s) * exp_ratio(p["shape"] * self.y) * self.y)

    def log_cdf(self, s: Jet, p: Jets) -> Jet:
        return jets.log1mexp(self.log_survival(s, p))

    def log_survival_at(self, s: Array) -> Array:
        return np.asarray(-capped_exp(s) * self.factor)

    def cdf(self, s: Array) -> Array:
        return np.asarray(-np.expm1(-capped_exp(self.log_factor + s)))

    def endless(self, s: Array) -> Array:
        """exp(e^s / shape) where shape < 0."""
        falling = np.where(self.shape < 0.0, self.shape, -1.0)
        return np.where(self.shape < 0.0, np.exp(capped_exp(s) / falling), 0.0)

    def conditional_mean(self, s: Array) -> Array:
        """E log(1 + shape e^-s X) / shape of a unit exponential X; infinite where some never
        fail (shape < 0)."""
        return self._moments(s)[0]

    def conditional_variance(self, s: Array) -> Array:
        """Variance of y; infinite where some never fail (shape < 0)."""
        first, second = self._moments(s)
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(first), second - first**2, np.inf)

    def _moments(self, s: Array) -> tuple[Array, Array]:
        """E y and E y^2: trapezoid in t, X = exp(t - e^-t)."""
        x = np.exp(_NODES - np.exp(-_NODES))
        weight = 0.05 * x * (1.0 + np.exp(-_NODES)) * np.exp(-x)
        growing, scale = np.maximum(self.shape, 0.0)[..., None], capped_exp(-s)[..., None]
        total = growing * scale * x
        safe = np.where(growing > 1e-300, growing, 1.0)
        y = np.where(total > 1e-8, np.log1p(total) / safe, scale * x * (1.0 - 0.5 * total))
        first, second = (y * weight).sum(axis=-1), (y * y * weight).sum(axis=-1)
        proper = self.shape >= 0.0
        return np.where(proper, first, np.inf), np.where(proper, second, np.inf)

    def sample(self, s: Array, rng: Generator) -> Array:
        """Lifetimes, none of them censored; infinite for those who never fail."""
        x = rng.exponential(size=np.shape(s)) * capped_exp(-s)
        total = self.shape * x
        with np.errstate(divide="ignore", invalid="ignore"):
            bent = np.log1p(np.maximum(total, -1.0)) / self.shape
        return np.where(np.abs(total) > 1e-8, bent, x * (1.0 - 0.5 * total))
