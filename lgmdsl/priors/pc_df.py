"""pc_df(u, alpha): the degrees of freedom of a Student-t, P(df < u) = alpha, df > 2.

Simpson et al. (2017), section 3.5: the distance is sqrt(2 KLD) of the t with unit variance from the
normal, and is exponential with rate -log(alpha) / d(u). In closed form, at x = df / 2,

    KLD = 1/2 - (x + 1/2) D'(x) + D(x) - log(x) / 2 - log(1 - 1/x) / 2,  D = lnG(x + 1/2) - lnG(x),

which vanishes as 3 / (4 df^2), so that large df need its asymptotic series.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import polynomial
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.positive import OnHalfLine
from lgmdsl.priors.prior import POSITIVE, Bounds, Terms, require
from lgmdsl.vocabulary.lookup import declared

_FAR = 16.0  # df from which the series is taken
_TERMS = 24
_LEAST = np.array(2.0)
_BISECTIONS = 110


class Divergence(NamedTuple):
    """KLD of the standardised t from the normal, and its first two derivatives in df."""

    value: Array
    slope: Array
    bend: Array


@cache
def _series() -> Array:
    """Coefficients of KLD in powers of 2 / df; D - log(x)/2 is a series in odd powers of 1/x
    with (2^(1-2j) - 2) B_2j / (2j (2j - 1)) at 2j - 1."""
    bernoulli = special.bernoulli(2 * _TERMS)
    powers = np.arange(_TERMS + 1.0)
    e = np.where(powers >= 2, 0.5 / np.maximum(powers, 1.0), 0.0)  # of the logarithm
    for j in range(1, _TERMS // 2 + 1):
        c = (2.0 ** (1 - 2 * j) - 2.0) * bernoulli[2 * j] / (2 * j * (2 * j - 1))
        if j > 1:  # at j = 1 it cancels the logarithm's first term and -1/(4x)
            e[2 * j - 1] += 2 * j * c
        e[2 * j] += 0.5 * (2 * j - 1) * c
    return e


def divergence(df: Array) -> Divergence:
    """KLD at df > 2, to a relative 1e-12 or so at any df."""
    near, far = np.minimum(df, _FAR), np.maximum(df, _FAR)
    x = 0.5 * near
    psi = special.digamma(x + 0.5) - special.digamma(x)
    trigamma = special.polygamma(1, x) - special.polygamma(1, x + 0.5)
    tetragamma = special.polygamma(2, x) - special.polygamma(2, x + 0.5)
    half = special.gammaln(x + 0.5) - special.gammaln(x)
    over = near - 2.0
    close = (
        0.5 - (x + 0.5) * psi + half - 0.5 * np.log(x) - 0.5 * np.log(over / near),
        0.25 * (near + 1.0) * trigamma - 0.5 / over,
        0.25 * trigamma + 0.125 * (near + 1.0) * tetragamma + 0.5 / over**2,
    )
    e, y = _series(), 2.0 / far
    once = polynomial.polyval(y, polynomial.polyder(e))
    twice = polynomial.polyval(y, polynomial.polyder(e, 2))
    y_1 = -0.5 * y * y
    away = (polynomial.polyval(y, e), y_1 * once, y_1 * (y_1 * twice - y * once))
    pairs = zip(close, away, strict=True)
    return Divergence(*(np.asarray(np.where(df < _FAR, c, a)) for c, a in pairs))


def distance(df: Array) -> Array:
    """sqrt(2 KLD)."""
    return np.asarray(np.sqrt(2.0 * divergence(df).value))


@dataclass(frozen=True, eq=False)
class PcDf(OnHalfLine):
    """P(df < u) = alpha, on df > 2."""

    u: Array
    alpha: Array
    signature = declared("prior", "pc_df")

    def check(self) -> None:
        help = "below 2 a Student-t has no variance: give u a value above 2, e.g. u = 10"
        require(self.u > 2.0, self.name, "u", self.u, "above 2", help)

    @property
    def bounds(self) -> Bounds:
        return Bounds(_LEAST, POSITIVE.upper)

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) / distance(self.u))

    def terms(self, value: Array) -> Terms:
        # -dd/ddf = -KLD' / d
        rate = self.rate
        value = np.maximum(value, np.nextafter(_LEAST, 3.0))
        kld = divergence(value)
        d = np.sqrt(2.0 * kld.value)
        log = np.log(rate) - rate * d + np.log(-kld.slope) - np.log(d)
        slope = -rate * kld.slope / d + kld.bend / kld.slope - 0.5 * kld.slope / kld.value
        up = 1.0 / rate - d
        kl = divergence(self.u)
        slopes = {
            "u": -up * rate * 0.5 * kl.slope / kl.value,
            "alpha": -up / (self.alpha * np.sqrt(2.0 * kl.value)),
        }
        return Terms(log, slope, slopes)

    def quantile(self, p: Array) -> Array:
        """By bisection of log(df - 2): P(df < q) = exp(-rate d(q))."""
        wanted = np.asarray(-np.log(p) / self.rate)
        low, high = np.full(wanted.shape, -37.0), np.full(wanted.shape, 60.0)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            nearer = distance(2.0 + np.exp(middle)) < wanted
            low, high = np.where(nearer, low, middle), np.where(nearer, middle, high)
        return np.asarray(2.0 + np.exp(0.5 * (low + high)))
