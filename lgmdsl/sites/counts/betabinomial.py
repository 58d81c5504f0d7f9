"""betabinomial.logit, .probit, .cloglog: y of n trials whose probability is Beta(c p, c (1 - p)).

With a = c p, b = c (1 - p) and (x)_y = Gamma(x + y) / Gamma(x),

    P(y) = C(n, y) (a)_y (b)_{n - y} / (c)_n,

in the logarithms of a and b, as these underflow before their logarithms do. Not concave in s: as
p falls to 0 with y = 0 the curvature is c p (1 + ... + 1 / (n - 1) - 1 / c).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.counts import deviance, log_choose
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import stirling_error
from lgmdsl.sites.counts.base import cumulated
from lgmdsl.sites.formula import FormulaSite, Jets
from lgmdsl.sites.scalar.cloglog import log_complement
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_MANY = 60.0  # trials from which terms of size n log n would cancel
_LEAST = 1e-300
_CLOSE = 300.0  # both parameters of the beta density from which its tails are normal to 12 sds
_STEEPEST = 100.0  # e^s of the cloglog link is capped at e^100, where P(failure) is 0


class Betabinomial(FormulaSite):
    """What the three links share. `log_shares` gives log p and log(1 - p)."""

    y: Array
    n: Array
    concentration: Array
    guessed: ClassVar[bool] = True

    @abstractmethod
    def log_shares(self, s: Jet) -> tuple[Jet, Jet]:
        """log p and log(1 - p)."""

    @cached_property
    def constant(self) -> Array:
        """log C(n, y), (N,)."""
        return log_choose(self.n, self.y)

    @cached_property
    def parts(self) -> tuple[Array, Array, Array]:
        """y, n - y and n, (N,) each."""
        return self.y, self.n - self.y, self.n

    def formula(self, s: Jet, p: Jets) -> Jet:
        log_c = jets.log(p["concentration"])
        up, down = self.log_shares(s)
        total = jets.constant(self.constant, s.order)
        for sign, log_size, count in zip(
            (1.0, 1.0, -1.0), (up + log_c, down + log_c, log_c), self.parts, strict=True
        ):
            # (x)_k = x Gamma(x + k) / Gamma(1 + x) where k > 0.
            seen, more = np.where(count > 0.0, sign, 0.0), np.maximum(count - 1.0, 0.0)
            total = total + seen * log_size + sign * jets.log_rising_exp(log_size, more)
        return total

    def _accurate(self, s: Array, value: Array) -> Array:
        """The value by deviances about the mean of the posterior Beta where n is large: with
        x = c (y - n p) / (c + n) these are of y and n - y with -x, of a and b with x."""
        if not np.any(self.n > _MANY):
            return value
        p, q = self.probabilities(s)
        c, y, n = self.concentration, self.y, self.n
        a, b = c * p, c * q
        plain = (n <= _MANY) | (y == 0.0) | (y == n) | (np.minimum(a, b) < _LEAST)
        y, n, a, b = (np.where(plain, 1.0, x) for x in (y, np.maximum(n, y + 1.0), a, b))
        n, c = np.where(plain, 2.0, n), np.where(plain, 2.0, c)
        rest = n - y
        excess = c * (y * q - rest * p) / (c + n)
        errors = [stirling_error(x) for x in (n, y, rest, y + a, rest + b, a, b, n + c, c)]
        sign = (1.0, -1.0, -1.0, 1.0, 1.0, -1.0, -1.0, -1.0, 1.0)
        total = sum((g * e for g, e in zip(sign, errors, strict=True)), np.zeros(()))
        # Gamma(x + k) / Gamma(x): its factors sqrt(x / (x + k))
        logs = np.log(n) - np.log(y) - np.log(rest) - LOG_TWO_PI
        logs = logs + np.log(a / (y + a)) + np.log(b / (rest + b)) + np.log1p(n / c)
        gaps = (
            deviance(y, y - excess, excess)
            + deviance(rest, rest + excess, -excess)
            + deviance(a, a + excess, -excess)
            + deviance(b, b - excess, excess)
        )
        return np.where(plain, value, total + 0.5 * logs - gaps)

    def probabilities(self, s: Array) -> tuple[Array, Array]:
        """p and 1 - p."""
        up, down = self.log_shares(jets.constant(s, 0))
        return np.exp(up.value), np.exp(down.value)

    def log_density(self, s: Array) -> Array:
        return self._accurate(s, FormulaSite.log_density(self, s))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = FormulaSite.pointwise(self, s, variance)
        return PointwiseAnswer(self._accurate(s, a.value), a.slope, a.curvature, a.third)

    def conditional_mean(self, s: Array) -> Array:
        """n p."""
        return np.asarray(self.n * self.probabilities(s)[0])

    def conditional_variance(self, s: Array) -> Array:
        """n p (1 - p) (c + n) / (c + 1)."""
        p, q = self.probabilities(s)
        c = self.concentration
        return np.asarray(self.n * p * q * (c + self.n) / (c + 1.0))

    def sample(self, s: Array, rng: Generator) -> Array:
        p, q = self.probabilities(s)
        a, b = (np.maximum(self.concentration * x, _LEAST) for x in (p, q))
        trials = np.asarray(self.n, dtype=np.int64)
        return rng.binomial(trials, rng.beta(a, b)).astype(np.float64)

    def cdf(self, s: Array) -> Array:
        # Powers of y, where the probability itself is not close to its mean.
        p, q = self.probabilities(s)
        return cumulated(self, s, self.n, self.concentration * np.minimum(p, q) < _CLOSE)


@dataclass(frozen=True, eq=False)
class BetabinomialLogit(Betabinomial):
    """p = sigma(s)."""

    y: Array
    n: Array
    concentration: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "betabinomial.logit",
        signature=declared("family", "betabinomial"),
        takes=("n", "concentration"),
        properties=Property.BOUNDED,
        link="logit",
    )

    def log_shares(self, s: Jet) -> tuple[Jet, Jet]:
        return -jets.softplus(-s), -jets.softplus(s)


@dataclass(frozen=True, eq=False)
class BetabinomialProbit(Betabinomial):
    """p = Phi(s)."""

    y: Array
    n: Array
    concentration: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "betabinomial.probit",
        signature=declared("family", "betabinomial"),
        takes=("n", "concentration"),
        properties=Property.BOUNDED,
        link="probit",
    )

    def log_shares(self, s: Jet) -> tuple[Jet, Jet]:
        return jets.log_ndtr(s), jets.log_ndtr(-s)


@dataclass(frozen=True, eq=False)
class BetabinomialCloglog(Betabinomial):
    """p = 1 - exp(-e^s)."""

    y: Array
    n: Array
    concentration: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "betabinomial.cloglog",
        signature=declared("family", "betabinomial"),
        takes=("n", "concentration"),
        properties=Property.BOUNDED,
        link="cloglog",
    )

    def log_shares(self, s: Jet) -> tuple[Jet, Jet]:
        rate = np.exp(np.minimum(s.value, _STEEPEST))
        return s.compose(*log_complement(s.value)), s.compose(*(-rate,) * 4)
