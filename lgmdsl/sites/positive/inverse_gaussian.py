"""inverse_gaussian.log_mean: positive y of mean e^s and variance e^{3 s} / shape.

With x = s - log y and k = shape / (2 y),

    l = 1/2 log(shape / (2 pi)) - 3/2 log y - k (e^-x - 1)^2,

whose Gaussian expectations are those of two exponentials. Not log-concave: l is flat to the right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet, log_erfcx
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.formula import Jets
from lgmdsl.sites.lifetime import LifetimeSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_MOST = 150.0  # e^{-x} is capped where its square times any k is still a number
_LOG_TWO_PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class InverseGaussianLogMean(LifetimeSite, Expected, ExpectedSlopes):
    """y ~ inverse Gaussian of mean e^s."""

    y: Array
    shape: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "inverse_gaussian.log_mean",
        signature=declared("family", "inverse_gaussian"),
        takes=("shape",),
        properties=Property.BOUNDED,
        link="log",
    )

    @cached_property
    def stiffness(self) -> Array:
        """k = shape / (2 y)."""
        return np.asarray(0.5 * self.shape / self.y)

    @cached_property
    def peak(self) -> Array:
        """l where s = log y."""
        return np.asarray(0.5 * (np.log(self.shape) - _LOG_TWO_PI) - 1.5 * self.log_y)

    def formula(self, s: Jet, p: Jets) -> Jet:
        away = jets.expm1(self.log_y - s)
        level = 0.5 * (jets.log(p["shape"]) - _LOG_TWO_PI) - 1.5 * self.log_y
        return level - p["shape"] * away * away * (0.5 / self.y)

    def _ratio(self, s: Array) -> Array:
        """y e^-s, and what is below it less 1."""
        return np.asarray(np.minimum(self.log_y - s, _MOST))

    def log_density(self, s: Array) -> Array:
        return np.asarray(self.peak - self.stiffness * np.expm1(self._ratio(s)) ** 2)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        log_ratio, k = self._ratio(s), self.stiffness
        e, away = np.exp(log_ratio), np.expm1(log_ratio)
        return PointwiseAnswer(
            self.peak - k * away**2,
            2.0 * k * e * away,
            2.0 * k * e * (1.0 - 2.0 * e),
            2.0 * k * e * (4.0 * e - 1.0) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {"shape": 0.5 / self.shape - 0.5 / self.y * np.expm1(self._ratio(s)) ** 2}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        log_ratio = self._ratio(s)
        e, away = np.exp(log_ratio), np.expm1(log_ratio)
        curve = ParameterCurve(
            self.parameter_slopes(s)["shape"], e * away / self.y, e * (1.0 - 2.0 * e) / self.y
        )
        return {"shape": curve}

    def landmark(self) -> tuple[Array, Array]:
        return self.log_y, np.minimum(1.0, np.sqrt(self.y / self.shape))

    def _expected_square(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E e^-x, and E (e^-x - 1)^2 as the square of a mean and a variance."""
        log_ratio = np.minimum(self.log_y - mean + 0.5 * variance, _MOST)
        grown = np.exp(log_ratio)
        spread = grown**2 * np.expm1(np.minimum(variance, 2.0 * _MOST))
        return grown, np.asarray(np.expm1(log_ratio) ** 2 + spread)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        k, v = self.stiffness, np.minimum(variance, 2.0 * _MOST)
        a, square = self._expected_square(mean, variance)
        b = a * a * np.exp(v)  # E e^-2x
        rise = np.expm1(np.minimum(self.log_y - mean + 1.5 * v, 2.0 * _MOST))  # b / a - 1
        return ExpectedAnswer(
            value=self.peak - k * square,
            d_mean=2.0 * k * a * rise,
            d_variance=k * (a - 2.0 * b),
            d_mean_variance=k * (4.0 * b - a) if second else None,
            d_variance2=0.5 * k * (a - 8.0 * b) if second else None,
        )

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        square = self._expected_square(mean, variance)[1]
        return {"shape": 0.5 / self.shape - 0.5 * square / self.y}

    def _tails(self, s: Jet, p: Jets) -> tuple[Jet, Jet]:
        """a = sqrt(shape / y) (y / e^s - 1) and b = sqrt(shape / y) (y / e^s + 1)."""
        root = jets.sqrt(p["shape"] / self.y)
        away = jets.expm1(self.log_y - s)
        return root * away, root * (away + 2.0)

    def log_survival(self, s: Jet, p: Jets) -> Jet:
        """log of Phi(-a) - e^{(b^2 - a^2) / 2} Phi(-b), through the scaled tails."""
        a, b = self._tails(s, p)
        near, far = log_erfcx(a), log_erfcx(b)
        whole = jets.where(a.value > 0.0, near - 0.5 * a * a, jets.log_ndtr(-a) + math.log(2.0))
        share = jets.where(a.value > 0.0, far - near, far - 0.5 * a * a - whole)
        return whole - math.log(2.0) + jets.log1mexp(share)

    def log_cdf(self, s: Jet, p: Jets) -> Jet:
        a, b = self._tails(s, p)
        second = log_erfcx(b) - 0.5 * a * a
        first = jets.where(
            a.value < 0.0, log_erfcx(-a) - 0.5 * a * a, jets.log_ndtr(a) + math.log(2.0)
        )
        return jets.logaddexp(first, second) - math.log(2.0)

    def conditional_mean(self, s: Array) -> Array:
        """e^s."""
        return capped_exp(s)

    def conditional_variance(self, s: Array) -> Array:
        """e^{3 s} / shape."""
        return np.asarray(capped_exp(3.0 * s) / self.shape)

    def sample(self, s: Array, rng: Generator) -> Array:
        """The smaller root of chi-squared = shape (y - mean)^2 / (mean^2 y), or mean^2 over it
        (Michael, Schucany and Haas 1976), the root written without a difference."""
        mean = capped_exp(s)
        half = 0.5 * mean / self.shape * rng.standard_normal(np.shape(s)) ** 2
        root = mean / (1.0 + half + np.sqrt(half * (2.0 + half)))
        first = rng.random(np.shape(s)) * (mean + root) <= mean
        return np.asarray(np.where(first, root, mean * (mean / root)))
