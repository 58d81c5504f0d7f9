"""Laplace sites: laplace.mean(scale) and the potential laplace(scale); kinked at their centre.

l = -|x| / scale - log(2 scale), x = s - y (or s). Expected and Tilted are in closed form: the
tilted density is two truncated Gaussians of means x -+ power v / scale.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    ConjugateAnswer,
    Decoupled,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Normed,
    PointwiseAnswer,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.expectations.peak import merge
from lgmdsl.numerics.log_gamma import log_power_integral, log_sphere
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.sites.base import LocationSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

SHAPE = Property.LOG_CONCAVE | Property.KINKED | Property.BOUNDED
ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))


class TwoSided(LocationSite, Expected, ExpectedSlopes, Tilted, TiltedSlopes, Decoupled):
    """A density at s - y that falls exponentially from a kink, at its own rate on each side."""

    scale: Array
    powers: ClassVar[bool] = True

    @property
    @abstractmethod
    def constant(self) -> Array:
        """l at the kink, (N,)."""

    @abstractmethod
    def pulls(self, sd: Array, power: float) -> tuple[Array, Array]:
        """power sd times the rates above and below the kink."""

    def landmark(self) -> tuple[Array, Array]:
        return -self.residual(np.zeros_like(self.scale)), self.scale

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        x = self.residual(mean)
        point = variance <= 0.0
        above, below = self.sides(x, np.where(point, 1.0, variance), power)
        log_mass, position, spread = merge(*above, *below)
        return TiltedAnswer(
            np.where(point, power * self.log_density(mean), log_mass + power * self.constant),
            np.where(point, mean, mean - x + position),
            np.where(point, 0.0, spread),
        )

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.tilted_slopes(mean, variance, 0.0)

    def sides(self, x: Array, variance: Array, power: float) -> list[tuple[Array, Array, Array]]:
        """log mass (but for the constant), mean and variance of the tilted x above and below 0."""
        sd = np.sqrt(variance)
        sides = []
        for side, pull in zip((1.0, -1.0), self.pulls(sd, power), strict=True):
            r = side * x / sd
            z = r - pull
            tail = normal_tail(z)
            # log of e^{pull^2/2 - pull r} Phi(z), whose exponents cancel for z < 0.
            scaled = np.log(0.5 * special.erfcx(-np.minimum(z, 0.0) / np.sqrt(2.0)))
            log_mass = np.where(
                z < 0.0, scaled - 0.5 * r * r, pull * (0.5 * pull - r) + tail.log_cdf
            )
            sides.append((log_mass, side * sd * tail.excess, sd * sd * tail.variance))
        return sides


class LaplaceSite(TwoSided):
    """The Laplace density at s - y."""

    @property
    def constant(self) -> Array:
        return np.asarray(-np.log(2.0 * self.scale))

    def pulls(self, sd: Array, power: float) -> tuple[Array, Array]:
        pull = power * sd / self.scale
        return pull, pull

    def log_density(self, s: Array) -> Array:
        return np.asarray(-np.abs(self.residual(s)) / self.scale - np.log(2.0 * self.scale))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """At the kink the slope is 0, the middle of the subgradients."""
        x = self.residual(s)
        zero = np.zeros_like(x + self.scale)
        return PointwiseAnswer(self.log_density(s), -np.sign(x) / self.scale, zero, zero)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {"scale": (np.abs(self.residual(s)) / self.scale - 1.0) / self.scale}

    def noise_variance(self) -> Array:
        return 2.0 * self.scale**2

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        return np.asarray(self.scale * rng.laplace(size=shape))

    def noise_cdf(self, x: Array) -> Array:
        tail = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.where(x < 0.0, tail, 1.0 - tail)

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        """E|x| = sd sqrt(2/pi) e^(-r^2/2) + x erf(r / sqrt 2), r = x / sd; d/dv = N(0; x, v)."""
        x = self.residual(mean)
        sd = np.maximum(np.sqrt(variance), 1e-60)
        r = x / sd
        at_kink = np.exp(-0.5 * np.minimum(r * r, 1500.0)) / (sd * ROOT_TWO_PI)
        erf = special.erf(r / np.sqrt(2.0))
        rate = 1.0 / self.scale
        return ExpectedAnswer(
            value=-rate * (2.0 * sd * sd * at_kink + x * erf) - np.log(2.0 * self.scale),
            d_mean=-rate * erf,
            d_variance=-rate * at_kink,
            d_mean_variance=rate * at_kink * r / sd if second else None,
            d_variance2=-0.5 * rate * at_kink * (r * r - 1.0) / sd**2 if second else None,
        )

    def conjugate(
        self, slope: Array, pull: Array, penalty: Array, centre: Array
    ) -> ConjugateAnswer:
        """f is homogeneous in (h - y, sigma): along h - y = u sigma, where f_m = slope, the rest is
        pull sigma - 2 phi(u) sigma / scale - penalty (sigma - centre)^2 / 2 - slope y (Khan 2014,
        supplement)."""
        rate = 1.0 / self.scale
        half = 0.5 * np.maximum(1.0 - np.abs(slope) / rate, 0.0)
        u = np.sign(slope) * special.ndtri(half)
        cost = 2.0 * rate * np.exp(-0.5 * u * u) / ROOT_TWO_PI
        sigma = np.maximum(centre + (pull - cost) / penalty, 0.0)
        y = -self.residual(np.zeros_like(rate))
        value = (pull - cost) * sigma - 0.5 * penalty * (sigma - centre) ** 2 - slope * y
        return ConjugateAnswer(y + u * sigma, sigma, value - np.log(2.0 * self.scale))

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        """(E|x| / scale - 1) / scale."""
        x = self.residual(mean)
        point = variance <= 0.0
        above, below = self.sides(x, np.where(point, 1.0, variance), power)
        total = np.logaddexp(above[0], below[0])
        size = np.exp(above[0] - total) * above[1] - np.exp(below[0] - total) * below[1]
        size = np.where(point, np.abs(x), size)
        return {"scale": (size / self.scale - 1.0) / self.scale}


@dataclass(frozen=True, eq=False)
class LaplaceMean(LaplaceSite):
    """y = s + Laplace noise."""

    y: Array
    scale: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "laplace.mean",
        signature=declared("family", "laplace"),
        takes=("scale",),
        properties=SHAPE,
        link="identity",
        places=("y",),
        scales=("scale",),
        centred="laplace",
    )


@dataclass(frozen=True, eq=False)
class LaplacePotential(LaplaceSite, Normed):
    """exp(-|s| / scale) / (2 scale): g = -sqrt(x) / scale - log(2 scale). Of a group of n it is
    exp(-||s|| / scale) / (S_n Gamma(n) scale^n)."""

    scale: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "laplace",
        signature=declared("potential", "laplace"),
        takes=("scale",),
        properties=SHAPE | Property.SUPER_GAUSSIAN,
        scales=("scale",),
    )

    @property
    def beta(self) -> Array:
        return np.zeros_like(self.scale)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        root = np.sqrt(np.maximum(x, 1e-60))
        slope = -0.5 / (self.scale * root)
        return -np.sqrt(x) / self.scale - np.log(2.0 * self.scale), slope, -0.5 * slope / root**2

    def of_norm(self, members: Array) -> tuple[LaplacePotential, Array]:
        size = log_sphere(members) + log_power_integral(members, np.ones(()))
        return self, np.log(2.0) - size - (members - 1.0) * np.log(self.scale)

    def norm_slopes(self, length: Array, members: Array) -> dict[str, Array]:
        return {"scale": (length / self.scale - members) / self.scale}
