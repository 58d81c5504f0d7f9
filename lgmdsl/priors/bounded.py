"""beta on unit hypers, and uniform between two bounds, cut to the hyper's type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import (
    UNIT,
    Bounds,
    Elementwise,
    Terms,
    natural_bounds,
    summed_to,
)
from lgmdsl.priors.refusals import require
from lgmdsl.vocabulary.lookup import declared


@dataclass(frozen=True, eq=False)
class Beta(Elementwise):
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b)."""

    a: Array
    b: Array
    signature = declared("prior", "beta")

    @property
    def bounds(self) -> Bounds:
        return UNIT

    def terms(self, value: Array) -> Terms:
        log = special.xlogy(self.a - 1.0, value) + special.xlog1py(self.b - 1.0, -value)
        slope = (self.a - 1.0) / value - (self.b - 1.0) / (1.0 - value)
        both = special.digamma(self.a + self.b)
        slopes = {
            "a": np.log(value) + both - special.digamma(self.a),
            "b": np.log1p(-value) + both - special.digamma(self.b),
        }
        return Terms(log - special.betaln(self.a, self.b), slope, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(special.betaincinv(self.a, self.b, p))


@dataclass(frozen=True, eq=False)
class Uniform(Elementwise):
    """Constant between lower and upper, as far as the hyper's type goes."""

    lower: Array
    upper: Array
    type: str = "real"
    signature = declared("prior", "uniform")

    def check(self) -> None:
        help = "exchange lower and upper"
        require(self.lower < self.upper, self.name, "lower", self.lower, "below upper", help)
        low, high = natural_bounds(self.type)
        help = f"give bounds with values of type {self.type} between them"
        wanted = f"above {low:g}, where `{self.type}` begins"
        require(self.upper > low, self.name, "upper", self.upper, wanted, help)
        wanted = f"below {high:g}, where `{self.type}` ends"
        require(self.lower < high, self.name, "lower", self.lower, wanted, help)

    @property
    def bounds(self) -> Bounds:
        low, high = natural_bounds(self.type)
        return Bounds(np.maximum(self.lower, low), np.minimum(self.upper, high))

    def pull_bounds(self, lower: Array, upper: Array) -> dict[str, Array]:
        low, high = natural_bounds(self.type)
        below = np.where(self.lower >= low, lower, 0.0)
        above = np.where(self.upper <= high, upper, 0.0)
        return {
            "lower": summed_to(below, below, self.lower.shape),
            "upper": summed_to(above, above, self.upper.shape),
        }

    def terms(self, value: Array) -> Terms:
        low, high = self.bounds
        width = high - low
        slopes = {
            "lower": np.where(self.lower >= natural_bounds(self.type).lower, 1.0 / width, 0.0),
            "upper": np.where(self.upper <= natural_bounds(self.type).upper, -1.0 / width, 0.0),
        }
        return Terms(-np.log(width) + 0.0 * value, 0.0 * value, slopes)

    def quantile(self, p: Array) -> Array:
        low, high = self.bounds
        return np.asarray(low + (high - low) * p)
