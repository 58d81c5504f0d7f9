"""beta on unit hypers, uniform within bounds (cut to the hyper's type), flat, and dirichlet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import (
    UNIT,
    VALUE,
    Bounds,
    Elementwise,
    Prior,
    Terms,
    natural_bounds,
    require,
    summed_to,
)
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


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


# ---- flat --------------------------------------------------------------------------------------
# flat: density 1 on the natural scale.


@dataclass(frozen=True, eq=False)
class Flat(Prior):
    """Log density 0 throughout the type; it can be drawn from where the type is bounded."""

    type: str = "real"
    signature = declared("prior", "flat")
    constant: ClassVar[bool] = True
    normalised: ClassVar[bool] = False

    @property
    def proper(self) -> bool:
        return self.type in ("unit", "correlation", "simplex")

    @property
    def bounds(self) -> Bounds:
        return natural_bounds(self.type)

    def log_density(self, value: Array) -> float:
        return 0.0

    def gradient(self, value: Array) -> dict[str, Array]:
        return {VALUE: np.zeros(np.shape(value))}

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        if not self.proper:
            raise TypeError(f"flat on {self.type} is improper")
        if self.type == "simplex":
            rows = rng.standard_exponential(shape)
            return np.asarray(rows / rows.sum(axis=-1, keepdims=True))
        low, high = self.bounds
        return np.asarray(rng.uniform(np.nextafter(low, high), high, shape))

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """1 for real and positive, the middle for unit, the identity for a covariance ..."""
        if self.type == "covariance":
            return np.array(np.broadcast_to(np.eye(shape[-1]), shape))
        if self.type == "simplex":
            return np.full(shape, 1.0 / shape[-1])
        if self.type == "ordered":
            return np.array(np.broadcast_to(np.arange(shape[-1]) - 0.5 * (shape[-1] - 1), shape))
        return np.full(shape, {"unit": 0.5, "correlation": 0.5, "real": 0.0}.get(self.type, 1.0))


# ---- simplex -----------------------------------------------------------------------------------
# dirichlet(alpha) over the last index of a simplex hyper.


_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class Dirichlet(Prior):
    """Gamma(sum alpha) prod x_k^(alpha_k - 1) / Gamma(alpha_k), with respect to all but one entry.

    `alpha` broadcasts over the value (..., K). The slope in the value is that of the formula in
    all K entries: only its part within the simplex means anything.
    """

    alpha: Array
    signature = declared("prior", "dirichlet")

    @property
    def weights(self) -> Array:
        return self.alpha

    @property
    def bounds(self) -> Bounds:
        return UNIT

    def log_density(self, value: Array) -> float:
        value = np.asarray(value, dtype=np.float64)
        if not ((value >= 0.0).all() and np.allclose(value.sum(axis=-1), 1.0, atol=1e-8)):
            return -np.inf
        alpha = np.broadcast_to(self.alpha, value.shape)
        powers = special.xlogy(alpha - 1.0, value) - special.gammaln(alpha)
        return float(powers.sum() + special.gammaln(alpha.sum(axis=-1)).sum())

    def gradient(self, value: Array) -> dict[str, Array]:
        value = np.asarray(value, dtype=np.float64)
        alpha = np.broadcast_to(self.alpha, value.shape)
        whole = special.digamma(alpha.sum(axis=-1, keepdims=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.log(value) - special.digamma(alpha) + whole
            inside = np.where(alpha == 1.0, 0.0, (alpha - 1.0) / value)
        return {VALUE: inside, "alpha": summed_to(slopes, value, self.alpha.shape)}

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        # x_k = G_k U^(1/alpha_k), G_k of shape alpha_k + 1: in logs small alphas do not underflow
        alpha = np.broadcast_to(self.alpha, shape)
        logs = np.log(rng.standard_gamma(alpha + 1.0)) + np.log(1.0 - rng.random(shape)) / alpha
        return np.maximum(special.softmax(logs, axis=-1), _LEAST)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """The mean."""
        alpha = np.broadcast_to(self.alpha, shape)
        return np.asarray(alpha / alpha.sum(axis=-1, keepdims=True))
