"""generalized_gamma.location: log y = s + scale w, w = log(shape^2 g) / shape, g gamma distributed
with parameter shape^-2 (Prentice 1974); shape 0 is lognormal, 1 Weibull, shape = scale gamma.

With w = (log y - s) / scale and g(x) = (e^x - 1 - x) / x^2,

    l = -log(scale y) + c(shape) - w^2 g(shape w),    c = -1/2 log(2 pi) - (Stirling's error),

smooth through shape 0 and log-concave for every shape. Expectations are those of one exponential:
with u = E w + shape Var(w) / 2 and A = shape u, E[w^2 g(shape w)] = u^2 g(A) + Var(w) / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

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
from lgmdsl.numerics.jets import Jet, exp_ratio_derivatives, exp_ratio_two
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.formula import Jets
from lgmdsl.sites.lifetime import LifetimeSite
from lgmdsl.sites.positive.gamma_tails import constant_derivatives, log_tail
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LARGEST = 1e12  # shape^-2 above which a gamma draw is a normal one to all digits


@dataclass(frozen=True, eq=False)
class GeneralizedGammaLocation(LifetimeSite, Expected, ExpectedSlopes):
    """log y = s + scale w, Prentice's parametrisation."""

    y: Array
    scale: Array
    shape: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "generalized_gamma.location",
        signature=declared("family", "generalized_gamma"),
        takes=("scale", "shape"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
    )

    @cached_property
    def level(self) -> Array:
        """l where w = 0."""
        return np.asarray(constant_derivatives(self.shape)[0] - np.log(self.scale) - self.log_y)

    def formula(self, s: Jet, p: Jets) -> Jet:
        w = (self.log_y - s) / p["scale"]
        constant = p["shape"].compose(*constant_derivatives(p["shape"].value))
        return constant - jets.log(p["scale"]) - self.log_y - w * w * exp_ratio_two(p["shape"] * w)

    def _standard(self, s: Array) -> Array:
        return np.asarray((self.log_y - s) / self.scale)

    def log_density(self, s: Array) -> Array:
        w = self._standard(s)
        return np.asarray(self.level - w * w * exp_ratio_derivatives(self.shape * w, 2)[0])

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        w, rate = self._standard(s), 1.0 / self.scale
        x = self.shape * w
        grown = capped_exp(x) * rate**2
        slope = w * exp_ratio_derivatives(x, 1)[0] * rate
        third = self.shape * grown * rate * variance
        return PointwiseAnswer(self.log_density(s), slope, -grown, third)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        w = self._standard(s)
        x = self.shape * w
        bend = w**2 * exp_ratio_derivatives(x, 1)[0]
        return {
            "scale": (bend - 1.0) / self.scale,
            "shape": constant_derivatives(self.shape)[1] - w**3 * exp_ratio_derivatives(x, 2)[1],
        }

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        """With h = (e^x - 1) / x, x = shape w: dl/dw = -w h, and d(w h)/dw = e^x."""
        w, rate = self._standard(s), 1.0 / self.scale
        x = self.shape * w
        slopes, e = self.parameter_slopes(s), capped_exp(x)
        h, bent = exp_ratio_derivatives(x, 1)[:2]
        return {
            "scale": ParameterCurve(
                slopes["scale"], -(w * h + w * e) * rate**2, (2.0 + x) * e * rate**3
            ),
            "shape": ParameterCurve(slopes["shape"], w**2 * bent * rate, -w * e * rate**2),
        }

    def _about(self, mean: Array, variance: Array) -> tuple[Array, Array, Array, Array]:
        """E w, Var w, u and A."""
        centre, spread = self._standard(mean), variance / self.scale**2
        u = centre + 0.5 * self.shape * spread
        return centre, spread, u, self.shape * u

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        rate, q = 1.0 / self.scale, self.shape
        _, spread, u, x = self._about(mean, variance)
        grown = capped_exp(x) * rate**2
        return ExpectedAnswer(
            value=self.level - u * u * exp_ratio_derivatives(x, 2)[0] - 0.5 * spread,
            d_mean=u * exp_ratio_derivatives(x, 1)[0] * rate,
            d_variance=-0.5 * grown,
            d_mean_variance=0.5 * q * grown * rate if second else None,
            d_variance2=-0.25 * q**2 * grown * rate**2 if second else None,
        )

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        centre, spread, u, x = self._about(mean, variance)
        h = exp_ratio_derivatives(x, 1)[0]
        g, bent = exp_ratio_derivatives(x, 2)[:2]
        q = self.shape
        return {
            "scale": (centre * u * h + spread * capped_exp(x) - 1.0) / self.scale,
            "shape": constant_derivatives(q)[1]
            - u * spread * g
            - u * u * (u + 0.5 * q * spread) * bent,
        }

    def log_survival(self, s: Jet, p: Jets) -> Jet:
        return log_tail((self.log_y - s) / p["scale"], p["shape"], upper=True)

    def log_cdf(self, s: Jet, p: Jets) -> Jet:
        return log_tail((self.log_y - s) / p["scale"], p["shape"], upper=False)

    def conditional_mean(self, s: Array) -> Array:
        """e^s E e^{scale w}; infinite where scale shape <= -1."""
        return np.asarray(np.exp(np.minimum(s + self._log_moment(1.0), 340.0)))

    def conditional_variance(self, s: Array) -> Array:
        """Infinite where 2 scale shape <= -1."""
        first, second = self._log_moment(1.0), self._log_moment(2.0)
        with np.errstate(over="ignore", invalid="ignore"):
            more = np.expm1(second - 2.0 * first)
            return np.where(np.isfinite(second), capped_exp(2.0 * (s + first)) * more, np.inf)

    def _log_moment(self, order: float) -> Array:
        """log E e^{order scale w}: log Gamma(k + t) - log Gamma(k) - t log k, k = shape^-2,
        t = order scale / shape; of shape 0 that of a normal."""
        q, reach = self.shape, order * self.scale
        small = np.abs(q) < 1e-3
        safe = np.where(small, 1.0, q)
        k, t = safe**-2.0, reach / safe
        proper = k + t > 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = special.loggamma(np.where(proper, k + t, 1.0)).real - special.gammaln(k)
            exact = np.where(proper, exact - t * np.log(k), np.inf)
        # cumulants of w: 0 - q / 2 ..., 1, -q, 2 q^2: mean of order q, variance 1 + q^2 / 2
        series = (
            reach * (-0.5 * q - q**3 / 12.0)
            + 0.5 * reach**2 * (1.0 + 0.5 * q**2)
            - reach**3 * q / 6.0
            + reach**4 * q**2 / 12.0
        )
        return np.where(small, series, exact)

    def sample(self, s: Array, rng: Generator) -> Array:
        q = np.broadcast_to(self.shape, np.shape(s))
        normal = rng.standard_normal(np.shape(s))
        curved = q * q > 1.0 / _LARGEST
        k = np.where(curved, q, 1.0) ** -2.0
        # log of a gamma draw of a small parameter: the draw itself underflows
        drawn = np.log(rng.standard_gamma(k + 1.0)) + np.log(rng.random(np.shape(s)) + 1e-320) / k
        w = np.where(curved, (drawn - np.log(k)) / np.where(curved, q, 1.0), normal)
        return capped_exp(s + self.scale * w)
