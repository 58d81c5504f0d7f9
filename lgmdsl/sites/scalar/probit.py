"""Probit sites: bernoulli.probit and binomial.probit.

l = log C(n, y) + y log Phi(s) + (n - y) log Phi(-s). Derivatives of log Phi in the far tail come
from a continued fraction (numerics.normal_tail), so that s = -1e4 is as accurate as s = 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    PointwiseAnswer,
    Stretch,
    Tilted,
    TiltedAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.sites.base import ElementwiseSite, binomial_cdf
from lgmdsl.sites.quadrature import tilted_by_quadrature
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


# ---- latent normal -----------------------------------------------------------------------------
# Probit sites by data augmentation: zeta ~ N(s, 1), of which y says on what side of a cut it is.
#
# For q(s) of mean m the best q(zeta) is N(m, 1) cut off there (Qi and Jaakkola 2007, (9)), whatever
# the variance v, and
#
#     f(m, v) = log t(m) - n v / 2,  shift = E sum zeta = n m + l'(m)   for n such variables.
#
# Stretched, zeta - cut is rho times what it was, which stays on its side.


class LatentNormal(ElementwiseSite, Augmented):
    """Sites of that kind: the slopes of f in the parameters are those of log t at m."""

    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.parameter_slopes(mean)


def half_line(side: Array | float, cut: Array | float, mean: Array) -> AugmentedAnswer:
    """One variable beyond `cut`, above it for side +1 and below for -1; arrays that broadcast."""
    tail = normal_tail(np.asarray(side * (mean - cut)))
    away = side * tail.excess
    shift = cut + away
    correction = tail.log_cdf + mean * (0.5 * mean - shift)
    one = np.ones_like(away)
    stretch = Stretch(away, one, cut * away, tail.variance + tail.excess**2)
    return AugmentedAnswer(one, shift, correction, stretch)


def together(each: AugmentedAnswer, times: Array) -> AugmentedAnswer:
    """The sum over the last axis, each variable so many `times`."""

    def total(part: Array) -> Array:
        return np.asarray((times * part).sum(axis=-1))

    assert each.stretch is not None
    parts = (getattr(each.stretch, f.name) for f in fields(Stretch))
    stretch = Stretch(*(total(p) for p in parts))
    return AugmentedAnswer(
        total(each.precision), total(each.shift), total(each.correction), stretch
    )


# ---- probit ------------------------------------------------------------------------------------

_SHAPE = Property.LOG_CONCAVE | Property.BOUNDED
# log Phi has zeros of Phi nearest at 1.9 +- 2.8i, and a row of them along arg s = +- pi/4.
_DISTANCE = 2.0


@dataclass(frozen=True, eq=False)
class BernoulliProbit(LatentNormal, Tilted):
    """P(y = 1 | s) = Phi(s). The tilted moments at power 1 are in closed form."""

    y: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "bernoulli.probit",
        signature=declared("family", "bernoulli"),
        properties=_SHAPE,
        link="probit",
    )

    @property
    def sign(self) -> Array:
        """+1 where y = 1, -1 where y = 0."""
        return 2.0 * self.y - 1.0

    def log_density(self, s: Array) -> Array:
        return np.asarray(special.log_ndtr(self.sign * s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        sign = self.sign
        tail = normal_tail(sign * s)
        return PointwiseAnswer(
            value=tail.log_cdf,
            slope=sign * tail.hazard,
            curvature=-tail.hazard * tail.excess,
            third=sign * tail.third * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def landmark(self) -> tuple[Array, Array]:
        return np.zeros_like(self.y), np.full_like(self.y, _DISTANCE)

    def conditional_mean(self, s: Array) -> Array:
        """Phi(s)."""
        return np.asarray(special.ndtr(s))

    def conditional_variance(self, s: Array) -> Array:
        """Phi(s) Phi(-s)."""
        return np.asarray(special.ndtr(s) * special.ndtr(-s))

    def sample(self, s: Array, rng: Generator) -> Array:
        return (rng.standard_normal(np.shape(s)) < s).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        return binomial_cdf(self.y, 1.0, special.ndtr(-s))

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        if power != 1.0:
            return tilted_by_quadrature(self, mean, variance, power)
        return probit_moments(self.sign, mean, variance)

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        """zeta > 0 where y = 1."""
        return half_line(self.sign, 0.0, mean)


def probit_moments(sign: Array, mean: Array, variance: Array) -> TiltedAnswer:
    """Mass and moments of N(mean, variance) Phi(sign s) (GPML, equations 3.80 to 3.87).

    z = sign m / sqrt(1 + v): log mass log Phi(z), mean m + sign v kappa / sqrt(1 + v), variance
    v (1 + v (1 - kappa (z + kappa))) / (1 + v), which does not cancel.
    """
    root = np.sqrt(1.0 + variance)
    tail = normal_tail(sign * mean / root)
    return TiltedAnswer(
        tail.log_cdf,
        mean + sign * variance / root * tail.hazard,
        variance * (1.0 + variance * tail.variance) / (1.0 + variance),
    )


@dataclass(frozen=True, eq=False)
class BinomialProbit(LatentNormal):
    """y successes in n trials of probability Phi(s)."""

    y: Array
    n: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "binomial.probit",
        signature=declared("family", "binomial"),
        takes=("n",),
        properties=_SHAPE,
        link="probit",
    )

    @cached_property
    def constant(self) -> Array:
        """log C(n, y), (N,)."""
        n, y = self.n, self.y
        return np.asarray(
            special.gammaln(n + 1.0) - special.gammaln(y + 1.0) - special.gammaln(n - y + 1.0)
        )

    def log_density(self, s: Array) -> Array:
        failures = self.n - self.y
        return np.asarray(
            self.constant + self.y * special.log_ndtr(s) + failures * special.log_ndtr(-s)
        )

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        y, failures = self.y, self.n - self.y
        up, down = normal_tail(s), normal_tail(-s)
        return PointwiseAnswer(
            value=self.constant + y * up.log_cdf + failures * down.log_cdf,
            slope=y * up.hazard - failures * down.hazard,
            curvature=-y * up.hazard * up.excess - failures * down.hazard * down.excess,
            third=(y * up.third - failures * down.third) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def landmark(self) -> tuple[Array, Array]:
        return np.zeros_like(self.y), np.full_like(self.y, _DISTANCE)

    def conditional_mean(self, s: Array) -> Array:
        """n Phi(s)."""
        return np.asarray(self.n * special.ndtr(s))

    def conditional_variance(self, s: Array) -> Array:
        """n Phi(s) Phi(-s)."""
        return np.asarray(self.n * special.ndtr(s) * special.ndtr(-s))

    def sample(self, s: Array, rng: Generator) -> Array:
        trials = np.asarray(self.n, dtype=np.int64)
        return rng.binomial(trials, special.ndtr(s)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        return binomial_cdf(self.y, self.n, special.ndtr(-s))

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        """n variables zeta of one mean, y of which are positive."""
        each = half_line(np.array([1.0, -1.0]), 0.0, mean[..., None])
        answer = together(each, np.stack([self.y, self.n - self.y], axis=-1))
        return replace(answer, correction=answer.correction + self.constant)
