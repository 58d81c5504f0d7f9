"""lognormal.mean: log y ~ N(s, sd^2), a Gaussian site on log y with the Jacobian -log y."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.lifetimes import Lifetimes
from lgmdsl.contract.questions import TiltedAnswer
from lgmdsl.contract.site import SiteSpec
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.scalar.normal import GAUSSIAN, NormalSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, eq=False)
class LognormalMean(NormalSite, Lifetimes):
    """l = -log y - 1/2 log(2 pi sd^2) - (s - log y)^2 / (2 sd^2)."""

    y: Array
    sd: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "lognormal.mean",
        signature=declared("family", "lognormal"),
        takes=("sd",),
        properties=GAUSSIAN,
        link="log",
        gaussian_scale="sd",
        rewrite="lognormal observations into the Gaussian part, as log y: exact",
    )

    @cached_property
    def log_y(self) -> Array:
        """log y."""
        return np.asarray(np.log(self.y))

    def residual(self, s: Array) -> Array:
        """s - log y."""
        return np.asarray(s - self.log_y)

    @property
    def jacobian(self) -> Array:
        return -self.log_y

    def log_density(self, s: Array) -> Array:
        return super().log_density(s) - self.log_y

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        answer = super().tilted(mean, variance, power)
        return replace(answer, log_mass=answer.log_mass - power * self.log_y)

    def log_survival_at(self, s: Array) -> Array:
        return np.asarray(special.log_ndtr(self.residual(s) / self.sd))

    def conditional_mean(self, s: Array) -> Array:
        """exp(s + sd^2 / 2)."""
        return capped_exp(s + 0.5 * self.sd**2)

    def conditional_variance(self, s: Array) -> Array:
        """exp(2 s + sd^2) (exp(sd^2) - 1)."""
        square = self.sd**2
        # The cap is on the mean, so that averages over wide predictors do not meet it.
        return np.asarray(capped_exp(s + 0.5 * square) ** 2 * np.expm1(square))

    def sample(self, s: Array, rng: Generator) -> Array:
        return capped_exp(s + self.noise(np.shape(s), rng))
