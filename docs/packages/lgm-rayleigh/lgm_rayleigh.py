"""A site: y is Rayleigh distributed, and the predictor is the logarithm of its scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.extend import (
    Array,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Parameter,
    Pointwise,
    PointwiseAnswer,
    Property,
    Signature,
    Site,
    SiteSpec,
)

if TYPE_CHECKING:
    from numpy.random import Generator

LARGEST = 600.0  # exponents are cut here, so that nothing overflows far out in the tail


@dataclass(frozen=True, eq=False)
class Rayleigh(Site, Pointwise, Expected, ExpectedSlopes):
    """l(s) = log y - 2 s - y^2 exp(-2 s) / 2, y > 0; y (N,). Expectations are closed:
    E exp(-2 s) = exp(-2 m + 2 v)."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "rayleigh.log_scale",
        properties=Property.LOG_CONCAVE,
        link="log_scale",
        signature=Signature(
            "rayleigh",
            "family",
            (Parameter("log_scale", "latent", meaning="log of the scale of y"),),
            observed=("positive",),
            summary="length of a vector of two independent normal components",
            formulas=(("", "y / scale^2 exp(-y^2 / (2 scale^2)), log scale = s"),),
            support="y > 0",
            scale="the mean of y is 1.25 scale",
            example="observe y ~ rayleigh(log_scale = eta)",
            see_also=("weibull",),
            source="Rayleigh 1880",
        ),
    )

    def _ratio(self, exponent: Array) -> Array:
        """y^2 e^exponent."""
        return np.asarray(np.exp(np.minimum(2.0 * np.log(self.y) + exponent, LARGEST)))

    def log_density(self, s: Array) -> Array:
        return np.asarray(np.log(self.y) - 2.0 * s - 0.5 * self._ratio(-2.0 * s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = self._ratio(-2.0 * s)
        return PointwiseAnswer(self.log_density(s), a - 2.0, -2.0 * a, 4.0 * a * variance)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        a = self._ratio(2.0 * variance - 2.0 * mean)
        value = np.log(self.y) - 2.0 * mean - 0.5 * a
        more = (2.0 * a, -2.0 * a) if second else (None, None)
        return ExpectedAnswer(value, a - 2.0, -a, *more, -2.0 * a)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return {}

    def conditional_mean(self, s: Array) -> Array:
        return np.asarray(math.sqrt(math.pi / 2.0) * np.exp(s))

    def conditional_variance(self, s: Array) -> Array:
        return np.asarray((2.0 - math.pi / 2.0) * np.exp(2.0 * s))

    def sample(self, s: Array, rng: Generator) -> Array:
        return np.asarray(rng.rayleigh(np.exp(s)))
