"""Logistic sites: t(s) = C(n, y) sigma(s)^y sigma(-s)^(n - y), and the potentials of that shape.

l = log C + y s - n log(1 + e^s) for bernoulli.logit (n = 1) and binomial.logit. The potential
`logistic(scale)` is the density of the logistic distribution, sech^2(s / (2 scale)) / (4 scale);
`sech2(scale)` is sech^2(s / scale) / (2 scale), which is logistic(scale / 2) (Nickisch and Seeger
2009, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Normed, ParameterCurve, PointwiseAnswer, SuperGaussian
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.log_gamma import log_sech2_integral, log_sphere
from lgmdsl.numerics.stable import sigmoids, softplus
from lgmdsl.sites.base import (
    ElementwiseSite,
    LocationSite,
    binomial_cdf,
    log_factorial,
    scale_curve,
)
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_SHAPE = Property.LOG_CONCAVE | Property.SUPER_GAUSSIAN | Property.BOUNDED


def even_part(x: Array) -> tuple[Array, Array, Array]:
    """-log 2cosh(sqrt(x) / 2) and its first two derivatives in x >= 0 (Nickisch and
    Seeger 2009, appendix)."""
    xi = np.sqrt(x)
    first, second, rest = even_slopes(xi)
    return -(0.5 * xi + rest), first, second


def even_slopes(xi: Array) -> tuple[Array, Array, Array]:
    """The derivatives of `even_part` in x = xi^2, and log(1 + e^-xi), for one exponential."""
    v = 0.5 * xi
    below = np.expm1(-xi)
    tanh, above = -below / (2.0 + below), 1.0 + below  # above: e^-xi
    rest = np.log1p(above)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, square = tanh / v, v * v
        first = ratio
        second = (ratio - 4.0 * above / ((1.0 + above) * (1.0 + above))) / square
    small = v < 0.02
    if small.any():
        v2 = square[small]
        first[small] = 1.0 - v2 / 3.0 + 2.0 / 15.0 * v2 * v2
        second[small] = (
            2.0 / 3.0 - 8.0 / 15.0 * v2 + 34.0 / 105.0 * v2 * v2 - 496.0 / 2835.0 * v2**3
        )
    return -first / 8.0, second / 64.0, rest


class LogisticSite(ElementwiseSite, SuperGaussian):
    """l = log C + y s - n log(1 + e^s)."""

    y: Array

    @property
    def trials(self) -> Array:
        """n, (N,)."""
        raise NotImplementedError

    @cached_property
    def constant(self) -> Array:
        """log C(n, y), (N,)."""
        n, y = self.trials, self.y
        return log_factorial(n) - log_factorial(y) - log_factorial(n - y)

    def log_density(self, s: Array) -> Array:
        # y log sigma(s) + (n - y) log sigma(-s): relative accuracy where y s and n s cancel.
        return self._from_bend(s, sigmoids(s)[2])

    def _from_bend(self, s: Array, bent: Array) -> Array:
        """l from `bent`, log(1 + e^-|s|)."""
        failures = self.trials - self.y
        return np.asarray(
            self.constant
            - self.y * (np.maximum(-s, 0.0) + bent)
            - failures * (np.maximum(s, 0.0) + bent)
        )

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        up, down, bent = sigmoids(s)
        n = self.trials
        failures = n - self.y
        curvature = -n * up * down
        return PointwiseAnswer(
            value=self._from_bend(s, bent),
            slope=self.y * down - failures * up,
            curvature=curvature,
            third=curvature * (down - up) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def landmark(self) -> tuple[Array, Array]:
        return np.zeros_like(self.y), np.full_like(self.y, np.pi)

    def conditional_mean(self, s: Array) -> Array:
        """n sigma(s)."""
        return np.asarray(self.trials * special.expit(s))

    def conditional_variance(self, s: Array) -> Array:
        """n sigma(s) sigma(-s)."""
        return np.asarray(self.trials * special.expit(s) * special.expit(-s))

    def sample(self, s: Array, rng: Generator) -> Array:
        trials = np.asarray(self.trials, dtype=np.int64)
        return rng.binomial(trials, special.expit(s)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        return binomial_cdf(self.y, self.trials, special.expit(-s))

    @property
    def beta(self) -> Array:
        return self.y - 0.5 * self.trials

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        n = self.trials
        even, first, second = even_part(x)
        return self.constant + n * even, n * first, n * second


@dataclass(frozen=True, eq=False)
class BernoulliLogit(LogisticSite):
    """P(y = 1 | s) = sigma(s)."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "bernoulli.logit",
        signature=declared("family", "bernoulli"),
        properties=_SHAPE,
        link="logit",
    )

    @property
    def trials(self) -> Array:
        return np.ones_like(self.y)

    @cached_property
    def constant(self) -> Array:
        return np.zeros_like(self.y)


@dataclass(frozen=True, eq=False)
class BinomialLogit(LogisticSite):
    """y successes in n trials of probability sigma(s)."""

    y: Array
    n: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "binomial.logit",
        signature=declared("family", "binomial"),
        takes=("n",),
        properties=_SHAPE | Property.NATURAL,
        link="logit",
        rewrite="binomial(logit) to a logistic site with power n",
    )

    @property
    def trials(self) -> Array:
        return self.n


class LogisticDensity(ElementwiseSite, Normed):
    """The logistic density at x = s / width: l = -x - 2 log(1 + e^-x) - log width."""

    scale: Array
    widening: ClassVar[float] = 1.0  # width = widening * scale

    @property
    def width(self) -> Array:
        """The scale of the logistic distribution, (N,)."""
        return self.widening * self.scale

    def log_density(self, s: Array) -> Array:
        x = np.abs(s / self.width)
        return np.asarray(-x - 2.0 * softplus(-x) - np.log(self.width))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        width = self.width
        up, down, _ = sigmoids(s / width)
        curvature = -2.0 * up * down / (width * width)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=(down - up) / width,
            curvature=curvature,
            third=curvature * (down - up) / width * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        x = s / self.width
        return {"scale": (x * np.tanh(0.5 * x) - 1.0) / self.scale}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        return {"scale": scale_curve(self.pointwise(s), s, self.scale)}

    def landmark(self) -> tuple[Array, Array]:
        return np.zeros_like(self.scale), np.pi * self.width

    @property
    def beta(self) -> Array:
        return np.zeros_like(self.scale)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        square = self.width**2
        even, first, second = even_part(x / square)
        return 2.0 * even - 0.5 * np.log(square), 2.0 * first / square, 2.0 * second / square**2

    def of_norm(self, members: Array) -> tuple[LogisticDensity, Array]:
        """sech(||s|| / (2 width))^2 over its integral, S_n (2 width)^n int r^(n-1) sech(r)^2."""
        size = log_sphere(members) + log_sech2_integral(members)
        return self, np.log(2.0) - size - (members - 1.0) * np.log(2.0 * self.width)

    def norm_slopes(self, length: Array, members: Array) -> dict[str, Array]:
        x = length / self.width
        return {"scale": (x * np.tanh(0.5 * x) - members) / self.scale}


@dataclass(frozen=True, eq=False)
class LogisticMean(LocationSite):
    """y = s + logistic noise: its sites are those of the potential at s - y."""

    y: Array
    scale: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "logistic.mean",
        signature=declared("family", "logistic"),
        takes=("scale",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="identity",
        places=("y",),
        scales=("scale",),
        centred="logistic",
    )

    @cached_property
    def potential(self) -> LogisticPotential:
        """The sites as functions of s - y."""
        return LogisticPotential(self.scale)

    def log_density(self, s: Array) -> Array:
        return self.potential.log_density(self.residual(s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        return self.potential.pointwise(self.residual(s), variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return self.potential.parameter_slopes(self.residual(s))

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        return self.potential.parameter_curves(self.residual(s))

    def landmark(self) -> tuple[Array, Array]:
        return self.y, np.pi * self.scale

    def noise_variance(self) -> Array:
        return np.asarray((np.pi * self.scale) ** 2 / 3.0)

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        return np.asarray(self.scale * rng.logistic(size=shape))

    def noise_cdf(self, x: Array) -> Array:
        return np.asarray(special.expit(x / self.scale))


@dataclass(frozen=True, eq=False)
class LogisticPotential(LogisticDensity):
    """exp(-s/scale) / (scale (1 + exp(-s/scale))^2)."""

    scale: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "logistic",
        signature=declared("potential", "logistic"),
        takes=("scale",),
        properties=_SHAPE,
        scales=("scale",),
    )


@dataclass(frozen=True, eq=False)
class Sech2Potential(LogisticDensity):
    """sech^2(s / scale) / (2 scale)."""

    scale: Array
    widening: ClassVar[float] = 0.5
    spec: ClassVar[SiteSpec] = SiteSpec(
        "sech2",
        signature=declared("potential", "sech2"),
        takes=("scale",),
        properties=_SHAPE,
        scales=("scale",),
    )
