"""loglogistic.log_scale: P(Y > y) = 1 / (1 + (y / e^s)^shape).

With z = shape (log y - s), l = log shape - log y + z - 2 log(1 + e^z): log-concave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.stable import capped_exp, sigmoids
from lgmdsl.sites.formula import Jets
from lgmdsl.sites.lifetime import LifetimeSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, eq=False)
class LoglogisticLogScale(LifetimeSite):
    """log y is logistic about s with scale 1 / shape."""

    y: Array
    shape: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "loglogistic.log_scale",
        signature=declared("family", "loglogistic"),
        takes=("shape",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
    )

    def formula(self, s: Jet, p: Jets) -> Jet:
        z = p["shape"] * (self.log_y - s)
        return jets.log(p["shape"]) - self.log_y - jets.softplus(z) - jets.softplus(-z)

    def log_density(self, s: Array) -> Array:
        z = self.shape * (self.log_y - s)
        bent = np.abs(z) + 2.0 * np.log1p(np.exp(-np.abs(z)))
        return np.asarray(np.log(self.shape) - self.log_y - bent)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        k = self.shape
        up, down, bent = sigmoids(k * (self.log_y - s))
        bend, lean = up * down, up - down
        value = np.log(k) - self.log_y - np.abs(k * (self.log_y - s)) - 2.0 * bent
        third = 2.0 * k**3 * bend * -lean
        return PointwiseAnswer(value, k * lean, -2.0 * k**2 * bend, third * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        """1 / shape - (log y - s) tanh(z / 2)."""
        away = self.log_y - s
        return {"shape": 1.0 / self.shape - away * np.tanh(0.5 * self.shape * away)}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        k, away = self.shape, self.log_y - s
        up, down, _ = sigmoids(k * away)
        bend, lean = up * down, up - down
        z = k * away
        curve = ParameterCurve(
            1.0 / k - away * lean,
            lean + 2.0 * z * bend,
            k * bend * (2.0 * z * lean - 4.0),
        )
        return {"shape": curve}

    def landmark(self) -> tuple[Array, Array]:
        return self.log_y, np.pi / self.shape

    def log_survival(self, s: Jet, p: Jets) -> Jet:
        return -jets.softplus(p["shape"] * (self.log_y - s))

    def log_cdf(self, s: Jet, p: Jets) -> Jet:
        return -jets.softplus(p["shape"] * (s - self.log_y))

    def conditional_mean(self, s: Array) -> Array:
        """e^s b / sin b, b = pi / shape; infinite up to shape = 1."""
        b = np.pi / np.maximum(self.shape, 1.0)
        ratio = np.where(self.shape > 1.0, b / np.abs(np.sin(b)), np.inf)
        return np.asarray(capped_exp(s) * ratio)

    def conditional_variance(self, s: Array) -> Array:
        """e^2s (2b / sin 2b - (b / sin b)^2); infinite up to shape = 2."""
        b = np.pi / np.maximum(self.shape, 2.0 + 1e-12)
        second = 2.0 * b / np.sin(2.0 * b) - (b / np.sin(b)) ** 2
        return np.asarray(capped_exp(s) ** 2 * np.where(self.shape > 2.0, second, np.inf))

    def sample(self, s: Array, rng: Generator) -> Array:
        odds = special.logit(np.clip(rng.random(np.shape(s)), 1e-300, None))
        return capped_exp(s + odds / self.shape)
