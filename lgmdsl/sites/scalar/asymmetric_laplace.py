"""Asymmetric Laplace sites: asymmetric_laplace.quantile(scale, level), and the potential.

With x = s - y (or s), l = log(level (1 - level) / scale) - above x for x > 0, and + below x for
x < 0, where above = (1 - level) / scale, below = level / scale: the mode over s is the quantile of
that level (Koenker and Bassett 1978; Yu and Moyeed 2001). It is the Laplace density of scale
2 scale times e^{beta x}, beta = (level - 1/2) / scale. Expected and Tilted are in closed form, as
those of `laplace`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    ConjugateAnswer,
    ExpectedAnswer,
    ParameterCurve,
    PointwiseAnswer,
    SuperGaussian,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError
from lgmdsl.sites.scalar.laplace import ROOT_TWO_PI, SHAPE, TwoSided
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


class AsymmetricLaplaceSite(TwoSided):
    """The asymmetric Laplace density at s - y."""

    level: Array

    def __post_init__(self) -> None:
        outside = (self.level <= 0.0) | (self.level >= 1.0)
        if np.any(outside):
            worst = float(np.broadcast_to(self.level, outside.shape)[outside].flat[0])
            raise DataError.of(
                "E303",
                f"`asymmetric_laplace` takes a level between 0 and 1, both excluded, not {worst:g}",
                help="the level of the quantile, e.g. level = 0.9; minima and maxima are for gev",
            )

    @property
    def constant(self) -> Array:
        return np.asarray(np.log(self.level) + np.log1p(-self.level) - np.log(self.scale))

    @property
    def rates(self) -> tuple[Array, Array]:
        """By how much l falls for each unit above the kink, and below it."""
        return (1.0 - self.level) / self.scale, self.level / self.scale

    def pulls(self, sd: Array, power: float) -> tuple[Array, Array]:
        above, below = self.rates
        return power * sd * above, power * sd * below

    @property
    def beta(self) -> Array:
        """The slope of the odd part."""
        return np.asarray((self.level - 0.5) / self.scale)

    def _fall(self, x: Array) -> Array:
        above, below = self.rates
        return np.asarray(np.where(x > 0.0, above * x, -below * x))

    def log_density(self, s: Array) -> Array:
        return np.asarray(self.constant - self._fall(self.residual(s)))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """At the kink the slope is the middle of the subgradients."""
        x = self.residual(s)
        above, below = self.rates
        zero = np.zeros_like(x + self.scale)
        slope = np.where(x > 0.0, -above, np.where(x < 0.0, below, 0.5 * (below - above)))
        return PointwiseAnswer(self.log_density(s), slope, zero, zero)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        x = self.residual(s)
        return self._slopes(x, self._fall(x))

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        """l' is -l' / scale in the scale and 1 / scale in the level, off the kink."""
        slopes, zero = self.parameter_slopes(s), np.zeros(np.shape(s))
        slope = self.pointwise(s).slope
        return {
            "scale": ParameterCurve(slopes["scale"], -slope / self.scale, zero),
            "level": ParameterCurve(slopes["level"], zero + 1.0 / self.scale, zero),
        }

    def _slopes(self, x: Array, fall: Array) -> dict[str, Array]:
        """Slopes of l in scale and level, from x and how far l has fallen from its kink, or the
        means of these."""
        odds = 1.0 / self.level - 1.0 / (1.0 - self.level)
        return {"scale": (fall - 1.0) / self.scale, "level": odds + x / self.scale}

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """E|x| = sd sqrt(2/pi) e^(-r^2/2) + x erf(r / sqrt 2), r = x / sd; d/dv = N(0; x, v)."""
        x = self.residual(mean)
        sd = np.maximum(np.sqrt(variance), 1e-60)
        r = x / sd
        at_kink = np.exp(-0.5 * np.minimum(r * r, 1500.0)) / (sd * ROOT_TWO_PI)
        up, down = special.ndtr(r), special.ndtr(-r)
        above, below = self.rates
        rate = above + below  # 1 / scale: by how much the slope jumps
        return ExpectedAnswer(
            value=self.constant - rate * sd * sd * at_kink - above * x * up + below * x * down,
            d_mean=below * down - above * up,
            d_variance=-0.5 * rate * at_kink,
            d_mean_variance=0.5 * rate * at_kink * r / sd if second else None,
            d_variance2=-0.25 * rate * at_kink * (r * r - 1.0) / sd**2 if second else None,
        )

    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        """f is homogeneous in (h - y, sigma), as that of laplace: along h - y = u sigma, where
        f_m = slope, the rest is pull sigma - phi(u) sigma / scale - penalty (sigma - centre)^2 / 2
        - slope y."""
        above, below = self.rates
        rate = above + below
        share = np.clip((below - slope) / rate, 0.0, 1.0)  # Phi(u)
        left, right = (
            special.ndtri(share),
            -special.ndtri(np.clip((above + slope) / rate, 0.0, 1.0)),
        )
        u = np.where(share < 0.5, left, right)
        cost = rate * np.exp(-0.5 * u * u) / ROOT_TWO_PI
        sigma = np.maximum(centre + (pull - cost) / penalty, 0.0)
        y = -self.residual(np.zeros_like(rate))
        value = (pull - cost) * sigma - 0.5 * penalty * (sigma - centre) ** 2 - slope * y
        away = np.where(np.isfinite(u), u, 0.0) * sigma
        return ConjugateAnswer(y + away, sigma, value + self.constant)

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        x = self.residual(mean)
        point = variance <= 0.0
        above, below = self.sides(x, np.where(point, 1.0, variance), power)
        total = np.logaddexp(above[0], below[0])
        up = np.exp(above[0] - total) * above[1]
        down = np.exp(below[0] - total) * below[1]
        rates = self.rates
        fall = np.where(point, self._fall(x), rates[0] * up - rates[1] * down)
        return self._slopes(np.where(point, x, up + down), fall)

    def conditional_mean(self, s: Array) -> Array:
        """s + scale (1 - 2 level) / (level (1 - level)): s is a quantile, not the mean."""
        if self.spec.potential:
            return super().conditional_mean(s)
        p = self.level
        return np.asarray(s + self.scale * (1.0 - 2.0 * p) / (p * (1.0 - p)))

    def noise_variance(self) -> Array:
        p = self.level
        return np.asarray(self.scale**2 * (1.0 - 2.0 * p * (1.0 - p)) / (p * (1.0 - p)) ** 2)

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        up, down = rng.exponential(size=shape), rng.exponential(size=shape)
        return np.asarray(self.scale * (up / self.level - down / (1.0 - self.level)))

    def noise_cdf(self, x: Array) -> Array:
        """level at 0: s is the quantile of that level."""
        p, size = self.level, np.abs(x) / self.scale
        below = p * np.exp(-(1.0 - p) * size)
        return np.where(x < 0.0, below, 1.0 - (1.0 - p) * np.exp(-p * size))


@dataclass(frozen=True, eq=False)
class AsymmetricLaplaceQuantile(AsymmetricLaplaceSite):
    """y about its quantile s."""

    y: Array
    scale: Array
    level: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "asymmetric_laplace.quantile",
        signature=declared("family", "asymmetric_laplace"),
        takes=("scale", "level"),
        properties=SHAPE,
        link="identity",
        places=("y",),
        scales=("scale",),
        centred="asymmetric_laplace",
    )


@dataclass(frozen=True, eq=False)
class AsymmetricLaplacePotential(AsymmetricLaplaceSite, SuperGaussian):
    """e^{beta s} e^{g(s^2)}: g = -sqrt(x) / (2 scale) + constant."""

    scale: Array
    level: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "asymmetric_laplace",
        signature=declared("potential", "asymmetric_laplace"),
        takes=("scale", "level"),
        properties=SHAPE | Property.SUPER_GAUSSIAN,
        scales=("scale",),
    )

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        root = np.sqrt(np.maximum(x, 1e-60))
        slope = -0.25 / (self.scale * root)
        return self.constant - 0.5 * np.sqrt(x) / self.scale, slope, -0.5 * slope / root**2
