"""Normal sites: normal.mean(sd) and the potential normal(sd). Everything is in closed form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Lifetimes,
    ParameterCurve,
    PointwiseAnswer,
    SuperGaussian,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
    WidthsAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.normal_tail import LOG_TWO_PI, log_normal_density
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.base import LocationSite, answer, scale_curve
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

GAUSSIAN = Property.LOG_CONCAVE | Property.SUPER_GAUSSIAN | Property.GAUSSIAN | Property.BOUNDED


class NormalSite(
    LocationSite, Formula, Expected, ExpectedSlopes, Tilted, TiltedSlopes, SuperGaussian, Augmented
):
    """l = -1/2 log(2 pi sd^2) - (s - y)^2 / (2 sd^2)."""

    sd: Array
    powers: ClassVar[bool] = True

    def formula(self, s: Jet, p: Jets) -> Jet:
        z = (s - self.centre) / p["sd"]
        return -0.5 * (z * z) - jets.log(p["sd"]) + (self.jacobian - 0.5 * LOG_TWO_PI)

    @property
    def jacobian(self) -> Array:
        """log |d(normal variable)/dy|, (N,)."""
        return np.zeros_like(self.sd)

    @classmethod
    def closed_forms(cls, parameters: frozenset[str]) -> tuple[type, ...]:
        return (NormalLogSd,) if parameters == {"sd"} else ()

    def log_density(self, s: Array) -> Array:
        return log_normal_density(self.residual(s), self.sd**2)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        precision = self.sd**-2.0
        x = self.residual(s)
        return answer(self.log_density(s), -precision * x, -precision + 0.0 * x, 0.0 * x * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        x = self.residual(s) / self.sd
        return {"sd": (x * x - 1.0) / self.sd}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        return {"sd": scale_curve(self.pointwise(s), self.residual(s), self.sd)}

    def noise_variance(self) -> Array:
        return self.sd**2

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        return self.sd * rng.standard_normal(shape)

    def noise_cdf(self, x: Array) -> Array:
        return np.asarray(special.ndtr(x / self.sd))

    def landmark(self) -> tuple[Array, Array]:
        return -self.residual(np.zeros_like(self.sd)), self.sd

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        at_mean = self.pointwise(mean)
        zero = np.zeros_like(at_mean.value)
        half = 0.5 * at_mean.curvature
        return ExpectedAnswer(
            value=at_mean.value + half * variance,
            d_mean=at_mean.slope,
            d_variance=half,
            d_mean_variance=zero if second else None,
            d_variance2=zero if second else None,
        )

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        square = self.sd**2
        x = self.residual(mean)
        ratio = power * variance / square
        log_mass = -0.5 * (
            power * (LOG_TWO_PI + np.log(square))
            + np.log1p(ratio)
            + power * x * x / (square + power * variance)
        )
        return TiltedAnswer(log_mass, mean - x * ratio / (1.0 + ratio), variance / (1.0 + ratio))

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        """(E[x^2] / sd^2 - 1) / sd."""
        tilted = self.tilted(mean, variance, power)
        return self.expected_slopes(tilted.mean, tilted.variance)

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        second = self.residual(mean) ** 2 + variance
        return {"sd": (second / self.sd**2 - 1.0) / self.sd}

    @property
    def beta(self) -> Array:
        return -self.residual(np.zeros_like(self.sd)) / self.sd**2

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        slope = -0.5 * self.sd**-2.0
        return self.log_density(np.zeros_like(x)) + slope * x, slope + 0.0 * x, np.zeros_like(x)

    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        """h = -2g(0) for all x, free of x/gamma, which may be 1e12 times larger."""
        unit_widths, zero = super().widths(s, z), np.zeros_like(s)
        return replace(unit_widths, h=-2.0 * self.g(zero)[0])

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        """The site itself: there is nothing to augment."""
        origin = self.pointwise(np.zeros_like(mean))
        return AugmentedAnswer(-origin.curvature, origin.slope, origin.value)

    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.expected_slopes(mean, variance)


class NormalLogSd(Expected):
    """Averages of a normal site with predictors for the mean and log sd: with l = e^{2 v22 - 2 m2}
    and R = centre - m1 + 2 v12,

        f = -1/2 log 2 pi - m2 - l (R^2 + v11) / 2,   -E[l''] = l [[1, 2 R], [2 R, 2 (R^2 + v11)]].
    """

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast("PredictorsOfNormal", self)
        plain = site.plain
        precision = capped_exp(2.0 * (variance[:, 1, 1] - mean[:, 1]))
        away = plain.centre - mean[:, 0] + 2.0 * variance[:, 0, 1]
        square = precision * (away**2 + variance[:, 0, 0])
        weight = np.empty_like(variance)
        weight[:, 0, 0], weight[:, 1, 1] = precision, 2.0 * square
        weight[:, 0, 1] = weight[:, 1, 0] = 2.0 * precision * away
        value = plain.jacobian - 0.5 * LOG_TWO_PI - mean[:, 1] - 0.5 * square
        slope = np.stack([precision * away, square - 1.0], axis=1)
        return ExpectedAnswer(value, slope, -0.5 * weight)


class PredictorsOfNormal(Protocol):
    """The family with a predictor of log sd, from which `plain` takes the sites."""

    @property
    def plain(self) -> NormalSite: ...


@dataclass(frozen=True, eq=False)
class NormalMean(NormalSite):
    """y ~ N(s, sd^2)."""

    y: Array
    sd: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "normal.mean",
        signature=declared("family", "normal"),
        takes=("sd",),
        properties=GAUSSIAN,
        link="identity",
        places=("y",),
        scales=("sd",),
        gaussian_scale="sd",
        rewrite="normal observations into the Gaussian part: exact",
    )


@dataclass(frozen=True, eq=False)
class NormalPotential(NormalSite):
    """N(s; 0, sd^2)."""

    sd: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "normal",
        signature=declared("potential", "normal"),
        takes=("sd",),
        properties=GAUSSIAN,
        scales=("sd",),
        gaussian_scale="sd",
        rewrite="normal observations into the Gaussian part: exact",
    )


# ---- lognormal ---------------------------------------------------------------------------------
# lognormal.mean: log y ~ N(s, sd^2), a Gaussian site on log y with the Jacobian -log y.


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
