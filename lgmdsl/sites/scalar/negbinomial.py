"""negbinomial.log_mean: counts of mean e^s and variance e^s + e^{2s} / size.

l = log Gamma(y + size) - log Gamma(size) - log y! + y log sigma(x) + size log sigma(-x) with
x = s - log size: a shifted logistic site of power y + size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.stable import capped_exp, sigmoids, softplus
from lgmdsl.sites.base import CountSite
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LARGEST_RATE = 9e18


@dataclass(frozen=True, eq=False)
class NegbinomialLogMean(CountSite, Formula):
    """Overdispersed counts of mean e^s; size to infinity is Poisson."""

    y: Array
    size: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "negbinomial.log_mean",
        signature=declared("family", "negbinomial"),
        takes=("size",),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
    )

    @cached_property
    def constant(self) -> Array:
        """log of Gamma(y + size) / (Gamma(size) y!), (N,)."""
        # betaln keeps the accuracy where size >> y, as the difference of log gammas does not.
        pairs = special.betaln(np.maximum(self.y, 1.0), self.size)
        return np.where(self.y > 0.0, -pairs - np.log(np.maximum(self.y, 1.0)), 0.0)

    def formula(self, s: Jet, p: Jets) -> Jet:
        size, x = p["size"], s - jets.log(p["size"])
        gammas = jets.log_rising(size, self.y) - self.log_factorial
        return gammas - self.y * jets.softplus(-x) - size * jets.softplus(x)

    @cached_property
    def log_size(self) -> Array:
        """log size, (N,)."""
        return np.asarray(np.log(self.size))

    def log_density(self, s: Array) -> Array:
        x = s - self.log_size
        return np.asarray(self.constant - self.y * softplus(-x) - self.size * softplus(x))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        up, down, _ = sigmoids(s - self.log_size)
        curvature = -(self.y + self.size) * up * down
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=self.y * down - self.size * up,
            curvature=curvature,
            third=curvature * (down - up) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        x = s - self.log_size
        up, down, _ = sigmoids(x)
        gain = special.digamma(self.y + self.size) - special.digamma(self.size)
        return {"size": gain - softplus(x) + up - self.y * down / self.size}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        up, down, _ = sigmoids(s - self.log_size)
        spread, share = up * down, (self.y + self.size) / self.size
        return {
            "size": ParameterCurve(
                self.parameter_slopes(s)["size"],
                share * spread - up,
                spread * (share * (down - up) - 1.0),
            )
        }

    def landmark(self) -> tuple[Array, Array]:
        return self.log_size, np.full_like(self.y, np.pi)

    def conditional_mean(self, s: Array) -> Array:
        """e^s."""
        return capped_exp(s)

    def conditional_variance(self, s: Array) -> Array:
        """e^s + e^2s / size."""
        return np.asarray(capped_exp(s) + capped_exp(2.0 * s) / self.size)

    def sample(self, s: Array, rng: Generator) -> Array:
        rate = rng.gamma(self.size, capped_exp(s) / self.size)
        return rng.poisson(np.minimum(rate, _LARGEST_RATE)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        """The regularised incomplete beta function at size / (size + mean)."""
        after = np.maximum(self.y, 0.0) + 1.0
        inside = special.betainc(self.size, after, special.expit(self.log_size - s))
        return np.where(self.y < 0.0, 0.0, inside)
