"""beta.logit_mean: proportions of mean sigma(s) and variance mean (1 - mean) / (1 + concentration).

With a = c mu, b = c (1 - mu), mu = sigma(s):

    l = log Gamma(c) - log Gamma(a) - log Gamma(b) + (a - 1) log y + (b - 1) log(1 - y),

written with log Gamma(1 + a) - log a, as a underflows before log a does. Not log-concave: where y
is far from mu, the tails of l in s are linear, and convex on the way there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.log_gamma import polygamma
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.sites.base import ElementwiseSite
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LEAST = 1e-300
_NEAREST_ONE = 1.0 - 2.0**-53


@dataclass(frozen=True, eq=False)
class BetaLogitMean(ElementwiseSite, Formula):
    """y ~ Beta(concentration mu, concentration (1 - mu)), mu = sigma(s)."""

    y: Array
    concentration: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "beta.logit_mean",
        signature=declared("family", "beta"),
        takes=("concentration",),
        properties=Property.BOUNDED,
        link="logit",
    )

    def formula(self, s: Jet, p: Jets) -> Jet:
        """a log(y / mu) + b log((1 - y) / (1 - mu)) and what log Gamma has beyond x log x - x."""
        log_up, log_down, log_c = (
            -jets.softplus(-s),
            -jets.softplus(s),
            jets.log(p["concentration"]),
        )
        a, b = jets.exp(log_c + log_up), jets.exp(log_c + log_down)
        gammas = jets.log_gamma_excess(a) + jets.log_gamma_excess(b)
        gammas = gammas - jets.log_gamma_excess(p["concentration"])
        first, second = np.log(self.y), np.log1p(-self.y)
        l: Jet = gammas + a * (first - log_up) + b * (second - log_down) - first - second
        return l

    def log_density(self, s: Array) -> Array:
        c = self.concentration
        up, down, bent = sigmoids(s)
        logs = -2.0 * bent - np.abs(s)  # log mu + log(1 - mu)
        a, b = c * up, c * down
        gammas = special.gammaln(c) - special.gammaln(1.0 + a) - special.gammaln(1.0 + b)
        observed = (a - 1.0) * np.log(self.y) + (b - 1.0) * np.log1p(-self.y)
        return np.asarray(gammas + 2.0 * np.log(c) + logs + observed)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        c = self.concentration
        up, down, _ = sigmoids(s)
        a, b = c * up, c * down
        bend = up * down  # mu', and below mu'' and mu'''
        bend2 = bend * (down - up)
        bend3 = bend * (1.0 - 6.0 * bend)
        pull = special.logit(self.y) + special.digamma(1.0 + b) - special.digamma(1.0 + a)
        rise = c * bend
        stiff = polygamma(1, 1.0 + a) + polygamma(1, 1.0 + b)
        skew = polygamma(2, 1.0 + a) - polygamma(2, 1.0 + b)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=down - up + rise * pull,
            curvature=-2.0 * bend + c * bend2 * pull - rise**2 * stiff,
            third=(
                -2.0 * bend2
                + c * bend3 * pull
                - 3.0 * c * bend2 * rise * stiff
                - rise * rise**2 * skew
            )
            * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        c = self.concentration
        up, down, _ = sigmoids(s)
        gammas = special.digamma(c) + 2.0 / c
        left = up * (np.log(self.y) - special.digamma(1.0 + c * up))
        right = down * (np.log1p(-self.y) - special.digamma(1.0 + c * down))
        return {"concentration": np.asarray(gammas + left + right)}

    def conditional_mean(self, s: Array) -> Array:
        """sigma(s)."""
        return np.asarray(special.expit(s))

    def conditional_variance(self, s: Array) -> Array:
        """mu (1 - mu) / (1 + concentration)."""
        return np.asarray(special.expit(s) * special.expit(-s) / (1.0 + self.concentration))

    def _pair(self, s: Array) -> tuple[Array, Array]:
        """Both parameters of the distribution, at least 1e-300."""
        c = self.concentration
        return (
            np.maximum(c * special.expit(s), _LEAST),
            np.maximum(c * special.expit(-s), _LEAST),
        )

    def sample(self, s: Array, rng: Generator) -> Array:
        # Draws that round to 0 or 1 become the nearest double inside, as y must be.
        return np.clip(rng.beta(*self._pair(s)), _LEAST, _NEAREST_ONE)

    def cdf(self, s: Array) -> Array:
        return np.asarray(special.betainc(*self._pair(s), self.y))
