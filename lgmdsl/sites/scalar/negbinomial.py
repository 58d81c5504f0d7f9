"""negbinomial.log_mean: counts of mean m = exposure e^s and variance m + m^2 / size.

l = log Gamma(y + size) - log Gamma(size) - log y! + y log sigma(x) + size log sigma(-x) with
x = s + log(exposure / size): a shifted logistic site of power y + size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.counts import deviance
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.log_gamma import log_rising
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import capped_exp, of_counts, sigmoids, softplus, stirling_error
from lgmdsl.sites.base import CountSite
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LARGEST_RATE = 9e18
_NEAR = 600.0  # |log(mean / size)| from which a probability underflows
_SMALL = 500.0  # counts and sizes up to which l keeps 13 digits without deviances


def _level(size: Array, y: Array) -> Array:
    some = np.maximum(y, 1.0)
    n = some + size
    errors = stirling_error(n) - stirling_error(some) - stirling_error(size)
    return np.asarray(errors + 0.5 * (np.log(size / n) - np.log(some) - LOG_TWO_PI))


def _digammas(size: Array, y: Array) -> Array:
    return np.asarray(special.digamma(y + size) - special.digamma(size))


@dataclass(frozen=True, eq=False)
class NegbinomialLogMean(CountSite, Formula):
    """Overdispersed counts of mean exposure e^s; size to infinity is Poisson."""

    y: Array
    size: Array
    exposure: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "negbinomial.log_mean",
        signature=declared("family", "negbinomial"),
        takes=("size", "exposure"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="log",
    )

    @cached_property
    def constant(self) -> Array:
        """log of Gamma(y + size) / (Gamma(size) y!), (N,)."""
        return self._of_both(partial(log_rising, derivative=0)) - self.log_factorial

    @cached_property
    def level(self) -> Array:
        """l less its deviances, (N,), y > 0."""
        return self._of_both(_level)

    @cached_property
    def small(self) -> bool:
        """Whether nothing that cancels is large: counts and sizes of all rows, or no counts."""
        whole = self.y + self.size
        return bool((whole <= _SMALL).all()) or not (self.y > 0.0).any()

    def _of_both(self, function: Callable[[Array, Array], Array]) -> Array:
        """function(size, y), (N,), from a table where sizes are one and counts small."""
        size = self.size
        if size.ndim != 1 or not size.size or not (size == size[0]).all():
            return function(size, self.y)
        return of_counts(lambda y: function(np.full_like(y, size[0]), y), self.y)

    def formula(self, s: Jet, p: Jets) -> Jet:
        size, x = p["size"], s + jets.log(p["exposure"]) - jets.log(p["size"])
        gammas = jets.log_rising(size, self.y) - self.log_factorial
        return gammas - self.y * jets.softplus(-x) - size * jets.softplus(x)

    @cached_property
    def log_size(self) -> Array:
        """log(size / exposure), the s at which the mean is size, (N,)."""
        return np.asarray(np.log(self.size) - np.log(self.exposure))

    def log_density(self, s: Array) -> Array:
        x = s - self.log_size
        return self._density(x, *sigmoids(x))

    def _density(self, x: Array, up: Array, down: Array, bent: Array) -> Array:
        """l at x = s - `log_size`, with `sigmoids` of x."""
        above, below = np.maximum(x, 0.0) + bent, np.maximum(-x, 0.0) + bent
        far = self.constant - self.y * below - self.size * above
        if self.small:
            return np.asarray(far)
        # As a binomial mass of y in y + size, whose deviances do not cancel.
        n = self.y + self.size
        excess = self.y * down - self.size * up
        gaps = deviance(self.y, n * up, excess) + deviance(self.size, n * down, -excess)
        return np.where((np.abs(x) < _NEAR) & (self.y > 0.0), self.level - gaps, far)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        x = s - self.log_size
        up, down, bent = sigmoids(x)
        curvature = -(self.y + self.size) * up * down
        return PointwiseAnswer(
            value=self._density(x, up, down, bent),
            slope=self.y * down - self.size * up,
            curvature=curvature,
            third=curvature * (down - up) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        x = s - self.log_size
        up, down, _ = sigmoids(x)
        gain = self._of_both(_digammas)
        slope = self.y * down - self.size * up
        return {
            "size": gain - softplus(x) + up - self.y * down / self.size,
            "exposure": slope / self.exposure,
        }

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        up, down, _ = sigmoids(s - self.log_size)
        spread, share = up * down, (self.y + self.size) / self.size
        curvature = -(self.y + self.size) * spread / self.exposure
        slopes = self.parameter_slopes(s)
        return {
            "size": ParameterCurve(
                slopes["size"], share * spread - up, spread * (share * (down - up) - 1.0)
            ),
            "exposure": ParameterCurve(slopes["exposure"], curvature, curvature * (down - up)),
        }

    def landmark(self) -> tuple[Array, Array]:
        return self.log_size, np.full_like(self.y, np.pi)

    def conditional_mean(self, s: Array) -> Array:
        """exposure e^s."""
        return np.asarray(self.size * capped_exp(s - self.log_size))

    def conditional_variance(self, s: Array) -> Array:
        """mean + mean^2 / size."""
        mean = self.conditional_mean(np.minimum(s, 300.0))
        return np.asarray(mean + mean * mean / self.size)

    def sample(self, s: Array, rng: Generator) -> Array:
        rate = rng.gamma(self.size, capped_exp(s - self.log_size))
        return rng.poisson(np.minimum(rate, _LARGEST_RATE)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        """The regularised incomplete beta function at size / (size + mean)."""
        after = np.maximum(self.y, 0.0) + 1.0
        inside = special.betainc(self.size, after, special.expit(self.log_size - s))
        return np.where(self.y < 0.0, 0.0, inside)
