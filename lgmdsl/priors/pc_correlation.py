"""Penalised-complexity priors of an ar1's correlation (Sorbye and Rue 2017, sections 3.1 and 3.2).

Around independence the distance is sqrt(-log(1 - rho^2)), with either sign equally likely; around a
random walk, rho = 1, it is sqrt(1 - rho), which ends at sqrt 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy  # its optimize is imported when first used

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import CORRELATION, Bounds, Elementwise, Terms, require
from lgmdsl.vocabulary.lookup import declared

_NEAR = 0.02  # rho^2 below which the ratio is a series
_FURTHEST = float(np.sqrt(2.0))


class OnCorrelations(Elementwise):
    """Entries between -1 and 1."""

    @property
    def bounds(self) -> Bounds:
        return CORRELATION


def _ratio(rho: Array) -> tuple[Array, Array]:
    """g = -log(1 - rho^2) / rho^2 and rho dg/drho / g, both without cancellation at 0."""
    square = rho * rho
    small = np.minimum(square, _NEAR)
    powers = np.arange(10.0)
    # g = sum_k t^k / (k + 1) at t = rho^2; t^10 / 11 is below 1e-17 at _NEAR
    terms = small[..., None] ** powers / (powers + 1.0)
    series, bend = terms.sum(-1), 2.0 * (powers * terms).sum(-1)
    large = np.maximum(square, _NEAR)
    log = -(np.log1p(-np.abs(rho)) + np.log1p(np.abs(rho)))
    near = square < _NEAR
    g = np.where(near, series, log / large)
    outer = 2.0 / ((1.0 - np.abs(rho)) * (1.0 + np.abs(rho))) - 2.0 * g
    return g, np.where(near, bend, outer) / g


@dataclass(frozen=True, eq=False)
class PcCor0(OnCorrelations):
    """P(|rho| > u) = alpha: lambda/2 exp(-lambda d) |dd/drho|, d = sqrt(-log(1 - rho^2))."""

    u: Array
    alpha: Array
    signature = declared("prior", "pc_cor0")

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) / np.sqrt(-np.log1p(-(self.u**2))))

    def terms(self, value: Array) -> Terms:
        # d = |rho| sqrt(g) and dd/d|rho| = 1 / ((1 - rho^2) sqrt(g))
        rate = self.rate
        g, bend = _ratio(value)
        distance = np.abs(value) * np.sqrt(g)
        rest = (1.0 - np.abs(value)) * (1.0 + np.abs(value))
        log = np.log(0.5 * rate) - rate * distance - np.log(rest) - 0.5 * np.log(g)
        away = 2.0 * value / rest - rate * np.sign(value) / (rest * np.sqrt(g))
        # d log g / d rho = bend / rho, an odd function without a jump at 0
        slope = away - 0.5 * bend / np.where(value == 0.0, 1.0, value)
        up = 1.0 / rate - distance
        furthest = -np.log1p(-(self.u**2))
        slopes = {
            "u": -up * rate * self.u / ((1.0 - self.u**2) * furthest),
            "alpha": -up / (self.alpha * np.sqrt(furthest)),
        }
        return Terms(log, slope, slopes)

    def quantile(self, p: Array) -> Array:
        tail = np.minimum(p, 1.0 - p)
        distance = -np.log(2.0 * tail) / self.rate
        return np.asarray(np.sign(p - 0.5) * np.sqrt(-np.expm1(-(distance**2))))

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """The median of |rho|: at 0 itself the density has a corner."""
        return self._within(self.quantile(np.full(shape, 0.75)), shape)


@dataclass(frozen=True, eq=False)
class PcCor1(OnCorrelations):
    """P(rho > u) = alpha: an exponential truncated at sqrt 2 in the distance sqrt(1 - rho).

    One exists where alpha is above sqrt((1 - u) / 2).
    """

    u: Array
    alpha: Array
    signature = declared("prior", "pc_cor1")

    def check(self) -> None:
        within = (self.u > -1.0) & (self.u < 1.0)
        require(within, self.name, "u", self.u, "between -1 and 1, both excluded")
        least = np.sqrt(0.5 * (1.0 - self.u))
        wanted = f"above sqrt((1 - u) / 2) = {float(np.max(least)):.4g}"
        require(self.alpha > least, self.name, "alpha", self.alpha, wanted)

    @cached_property
    def rate(self) -> Array:
        """The theta of equation (12) there, to full precision."""
        return np.asarray(np.vectorize(_rate, otypes=[np.float64])(self.u, self.alpha))

    def terms(self, value: Array) -> Terms:
        rate = self.rate
        distance = np.sqrt(1.0 - value)
        mass = -np.expm1(-_FURTHEST * rate)
        log = np.log(0.5 * rate / mass) - rate * distance - np.log(distance)
        slope = 0.5 * (rate + 1.0 / distance) / distance
        end = _FURTHEST / np.expm1(_FURTHEST * rate)
        up = 1.0 / rate - distance - end
        # the rate solves log(1 - e^(-rate a)) - log(1 - e^(-rate sqrt 2)) = log alpha
        a = np.sqrt(1.0 - self.u)
        inner = 1.0 / np.expm1(rate * a)
        steep = a * inner - end
        slopes = {
            "u": up * 0.5 * rate * inner / (a * steep),
            "alpha": up / (self.alpha * steep),
        }
        return Terms(log, slope, slopes)

    def quantile(self, p: Array) -> Array:
        rate = self.rate
        distance = -np.log1p((1.0 - p) * np.expm1(-_FURTHEST * rate)) / rate
        return np.asarray(1.0 - distance**2)


def _rate(u: float, alpha: float) -> float:
    a = float(np.sqrt(1.0 - u))

    def excess(rate: float) -> float:
        return float(np.expm1(-rate * a) / np.expm1(-rate * _FURTHEST)) - alpha

    # untruncated, the tail is smaller and so the rate larger
    most = float(-np.log1p(-alpha)) / a
    return float(
        scipy.optimize.brentq(excess, 1e-12 * most, most * (1.0 + 1e-12), xtol=1e-300, rtol=1e-15)
    )
