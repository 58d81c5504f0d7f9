"""normal.log_var: y of a known mean and a modelled log-variance (stochastic volatility)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.scalar.exponential_rate import ExponentialSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, eq=False)
class NormalLogVar(ExponentialSite):
    """y ~ N(mean, e^s): l = -1/2 log 2 pi - s/2 - (y - mean)^2 e^-s / 2 (stochastic volatility)."""

    y: Array
    mean: Array
    sign: ClassVar[float] = -1.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "normal.log_var",
        signature=declared("family", "normal"),
        takes=("mean",),
        properties=Property.LOG_CONCAVE,
        link="log",
    )

    @property
    def constant(self) -> Array:
        return np.full_like(self.y, -0.5 * LOG_TWO_PI)

    @property
    def linear(self) -> Array:
        return np.full_like(self.y, -0.5)

    @property
    def factor(self) -> Array:
        return np.asarray(0.5 * (self.y - self.mean) ** 2)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {"mean": (self.y - self.mean) * capped_exp(-s)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        pull = self.parameter_slopes(s)["mean"]
        return {"mean": ParameterCurve(pull, -pull, pull)}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.parameter_slopes(mean - 0.5 * variance)

    def conditional_mean(self, s: Array) -> Array:
        """The mean, whatever s."""
        return np.asarray(self.mean + 0.0 * s)

    def conditional_variance(self, s: Array) -> Array:
        """e^s."""
        return capped_exp(s)

    def sample(self, s: Array, rng: Generator) -> Array:
        return np.asarray(self.mean + capped_exp(0.5 * s) * rng.standard_normal(np.shape(s)))

    def cdf(self, s: Array) -> Array:
        return np.asarray(special.ndtr((self.y - self.mean) * capped_exp(-0.5 * s)))
