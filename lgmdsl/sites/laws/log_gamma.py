"""The law of X = log(G / shape), G ~ Gamma(shape, 1). With T = shape e^x, f = T^shape e^-T / Gamma.

Left of the bulk, f / P = shape / M, M = 1 + T/(shape+1) + T^2/((shape+1)(shape+2)) + ...; right of
it, f / Q = T + 1 - shape - c with the continued fraction (DLMF 8.9.2)

    c = 1 (1 - shape) / (T + 3 - shape - c2),   c2 = 2 (2 - shape) / (T + 5 - shape - ...),

and log Q + T has the derivatives shape - 1 + c, -c (1 + c - c2) and (below), none of which cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.stable import EXPONENT_CAP, stirling_error
from lgmdsl.sites.laws.law import Curve, Law, one_each

_TERMS = 80
_MOST = 2000


@dataclass(frozen=True, eq=False)
class LogGammaLaw(Law):
    """Mean of e^X 1, variance 1 / shape."""

    shape: Array

    @cached_property
    def peak(self) -> Array:
        """log f(0)."""
        k = self.shape
        return np.asarray(0.5 * np.log(k / (2.0 * np.pi)) - stirling_error(k))

    def take(self, index: tuple[IntArray, ...]) -> LogGammaLaw:
        return LogGammaLaw(one_each(self.shape, index))

    def log_growth(self, x: Array) -> Array:
        return np.asarray(x + np.log(self.shape))

    def density(self, x: Array) -> Curve:
        k, rate = self.shape, self.growth(x)
        large = np.minimum(x, EXPONENT_CAP - np.log(k))
        return Curve(self.peak + k * (x - np.expm1(large)), k - rate, -rate, -rate)

    def below(self, x: Array) -> Curve:
        k, rate = self.shape + 0.0 * x, self.growth(x)
        g = self.density(x)
        lower, upper = _both(k, rate)
        small = (rate < 0.5 * k) | (lower < 1e-250)
        with np.errstate(divide="ignore"):
            value = np.where(rate < k, np.log(lower), np.log1p(-upper))
        value = np.where(small, g.value, value)
        ratio = np.exp(g.value - value)
        over = g.first - ratio
        over_slope = g.second - ratio * over
        if np.any(small):
            total, over[small], over_slope[small] = _series(k[small], rate[small])
            ratio[small] = k[small] / total
            value[small] -= np.log(ratio[small])
        return Curve(value, ratio, ratio * over, ratio * (over**2 + over_slope))

    def above(self, x: Array) -> Curve:
        k, rate = self.shape + 0.0 * x, self.growth(x)
        g = self.density(x)
        right = rate > k + 6.0 * np.sqrt(k) + 30.0
        lower, upper = _both(k, rate)
        with np.errstate(divide="ignore"):
            value = np.where(rate < k, np.log1p(-lower), np.log(upper))
        hazard = np.where(right, 0.0, np.exp(np.where(right, 0.0, g.value - value)))
        over = np.where(right, 0.0, g.first + hazard)
        second = -hazard * over
        third = second * over - hazard * (g.second - second)
        tame = np.where(right, 0.0, rate)
        out = [value + tame, tame - hazard, second + tame, third + tame]
        if np.any(right):
            for part, tail in zip(out, _right(k[right], rate[right], x[right]), strict=True):
                part[right] = tail
        return Curve(*out)


def _both(k: Array, rate: Array) -> tuple[Array, Array]:
    """P and Q, the one that may be small as it is and the other as 1 less it."""
    small = rate < k
    lower, upper = np.empty_like(rate), np.empty_like(rate)
    lower[small] = special.gammainc(k[small], rate[small])
    upper[~small] = special.gammaincc(k[~small], rate[~small])
    upper[small], lower[~small] = 1.0 - lower[small], 1.0 - upper[~small]
    return lower, upper


def _series(k: Array, rate: Array) -> tuple[Array, Array, Array]:
    """M; and shape - T - shape / M with its derivative in x, which are less the mean and less the
    variance of n under weights proportional to the n-th term."""
    term = np.ones_like(k)
    total, first, second = np.ones_like(k), np.zeros_like(k), np.zeros_like(k)
    for n in range(1, _MOST):
        term = term * rate / (k + n)
        total, first, second = total + term, first + n * term, second + n * n * term
        if np.all(term * n * n <= 1e-17 * second):
            break
    mean = first / total
    return total, -mean, mean**2 - second / total


def _right(k: Array, rate: Array, x: Array) -> tuple[Array, Array, Array, Array]:
    """log Q + T and its derivatives in x."""
    c2 = np.zeros_like(rate)
    for n in range(_TERMS, 1, -1):
        c2 = n * (n - k) / (rate + (2.0 * n + 1.0) - k - c2)
    c = (1.0 - k) / (rate + 3.0 - k - c2)
    bend = c * (1.0 + c - c2)
    skew = c * (k - 2.0 + 2.0 * c - (c - c2) * (rate + 2.0 - k - 2.0 * c))
    # f / Q = T (1 + (1 - shape - c) / T), so log Q + T = log f + T - log T - log(1 + ...).
    level = k * (x + np.log(k)) - special.gammaln(k)
    value = level - (x + np.log(k)) - np.log1p((1.0 - k - c) / rate)
    return value, k - 1.0 + c, -bend, skew
