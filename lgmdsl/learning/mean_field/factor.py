"""A factor q(h) over a scale: a positive hyper whose every entry enters sds as c h^k.

With the factors of everything else held, the bound in entry h is log p(h) - K log h - B h^(-2k):

    q(x) = exp(log p(e^x) + x - K x - B e^(-2kx)) / Z,   x = log h

K = k n for n Gaussians of that sd, B = half their expected sum of squares at h = 1. Where the prior
is conjugate (flat; inv_gamma on a variance; gamma on a precision) e^(-2kx) is gamma distributed
(Bishop and Tipping 2000, (22) to (26)); else q is integrated numerically in x, entry by entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.expectations.log_line import LogLine, log_line
from lgmdsl.priors.prior import Elementwise, Prior


@dataclass(frozen=True, eq=False)
class Factor(ABC):
    """`prior` of h; `exponent` k; `count` K and `rate` B, of the hyper's shape."""

    prior: Prior
    exponent: float
    count: Array
    rate: Array

    @property
    @abstractmethod
    def log_normaliser(self) -> Array:
        """log Z of each entry."""

    @property
    @abstractmethod
    def expected_power(self) -> Array:
        """E[h^(-2k)]: what the sds' expected precisions are proportional to."""

    @abstractmethod
    def quantile(self, levels: Array) -> Array:
        """(Q, ...) quantiles of h."""

    @property
    def proper(self) -> bool:
        """Whether q can be normalised, in every entry."""
        return bool(np.isfinite(self.log_normaliser).all() and np.isfinite(self.effective).all())

    @property
    def effective(self) -> Array:
        """The value of h at which the sds' precisions are the expected ones."""
        return np.asarray(self.expected_power ** (-0.5 / self.exponent))

    @property
    def correction(self) -> float:
        """What the bound has over that at `effective`: E[log sd] for log sd, less KL(q || p)."""
        inside = self.rate * self.expected_power
        gain = self.count * np.log(self.effective) + inside + self.log_normaliser
        return float(gain.sum())


@dataclass(frozen=True, eq=False)
class GammaFactor(Factor):
    """h^(-2k) ~ gamma(shape, scale_rate)."""

    shape: Array
    scale_rate: Array
    constant: Array

    @property
    def log_normaliser(self) -> Array:
        with np.errstate(all="ignore"):
            log_integral = special.gammaln(self.shape) - self.shape * np.log(self.scale_rate)
        fine = (self.shape > 0.0) & (self.scale_rate > 0.0)
        total = self.constant - np.log(2.0 * abs(self.exponent)) + log_integral
        return np.where(fine, total, np.inf)

    @property
    def expected_power(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.shape / self.scale_rate)

    def quantile(self, levels: Array) -> Array:
        p = np.asarray(levels).reshape(-1, *(1 for _ in self.shape.shape))
        share = special.gammainccinv if self.exponent > 0.0 else special.gammaincinv
        return np.asarray((share(self.shape, p) / self.scale_rate) ** (-0.5 / self.exponent))


@dataclass(frozen=True, eq=False)
class NumericFactor(Factor):
    """Any prior with a density entry by entry."""

    @cached_property
    def line(self) -> LogLine:
        with np.errstate(all="ignore"):
            power = 2.0 * self.exponent
            guess = np.log(power * self.rate / self.count) / power
        width = 1.0 / np.sqrt(np.maximum(2.0 * self.exponent * self.count, 1e-2))
        with np.errstate(divide="ignore"):
            lower, upper = (np.log(end) for end in self.prior.bounds)
        guess = np.clip(np.where(np.isfinite(guess), guess, 0.0), lower, upper)
        return log_line(self._log_density, guess, width, (lower, upper))

    def _log_density(self, x: Array) -> Array:
        """(m, ...) log q up to its constant, at x (m, ...)."""
        h, prior = np.exp(x), cast(Elementwise, self.prior)
        lower, upper = prior.bounds
        inside = (h >= lower) & (h <= upper) & (h > 0.0)
        with np.errstate(all="ignore"):
            log = prior.terms(np.clip(h, lower, upper)).log_density
            value = log + (1.0 - self.count) * x - self.rate * np.exp(-2.0 * self.exponent * x)
        return np.where(inside & ~np.isnan(value), value, -np.inf)

    @property
    def log_normaliser(self) -> Array:
        return self.line.log_integral

    @property
    def expected_power(self) -> Array:
        return self.line.mean(lambda x: np.exp(-2.0 * self.exponent * x))

    def quantile(self, levels: Array) -> Array:
        return np.exp(self.line.quantile(levels))


def factor(prior: Prior, exponent: float, count: Array, rate: Array) -> Factor:
    """The factor of these statistics: in closed form where the prior is conjugate."""
    zero, conjugate = np.zeros(()), prior.gamma_power
    if prior.constant:
        own, more, constant = zero - 1.0, zero, zero
    elif conjugate is not None and conjugate.exponent == exponent:
        _, power, more = conjugate
        own, constant = 2.0 * exponent * power, _constant(power, more)
    else:
        return NumericFactor(prior, exponent, count, rate)
    shape = (count + own) / (2.0 * exponent)
    return GammaFactor(prior, exponent, count, rate, shape, rate + more, constant)


def _constant(shape: Array, rate: Array) -> Array:
    """The log of what a gamma density's powers are multiplied by."""
    return np.asarray(shape * np.log(rate) - special.gammaln(shape))
