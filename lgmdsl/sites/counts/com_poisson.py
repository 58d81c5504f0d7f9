"""com_poisson.log_mean: Conway-Maxwell-Poisson counts of mean exposure e^s, by their mean.

P(y) is proportional to lambda^y / (y!)^nu, nu = 1 / dispersion, lambda such that E[y] is the mean
(Huang 2017). What depends on the mean and nu alone comes from `conway_maxwell`, by tables in log
mean that are made once for each dispersion. l is not concave in s unless the dispersion is 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.chebyshev import Panels
from lgmdsl.numerics.counts import blocks, deviance
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import capped_exp, stirling_error
from lgmdsl.sites.counts.base import LARGEST, LogMeanCounts, cumulated
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_TRIES = 400
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class ComPoissonLogMean(LogMeanCounts):
    """Counts of mean exposure e^s and variance about dispersion times that."""

    y: Array
    dispersion: Array
    exposure: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "com_poisson.log_mean",
        signature=declared("family", "com_poisson"),
        takes=("dispersion", "exposure"),
        properties=Property.BOUNDED,
        link="log",
    )

    @cached_property
    def exponent(self) -> Array:
        """nu, (N,)."""
        return np.asarray(1.0 / self.dispersion)

    @cached_property
    def rest(self) -> Array:
        """log y! - y log y + y, (N,)."""
        return stirling_rest(self.y)

    def law(self, s: Array) -> tuple[Law, Array]:
        """The law at s, and the log mean."""
        known, log_mean = self._fields(s, len(Law._fields))
        return Law(*known), log_mean

    def _fields(self, s: Array, first: int) -> tuple[Array, Array]:
        """The `first` fields of the law at s, and the log mean."""
        log_mean = self.log_mean(s)
        shape = np.shape(log_mean + self.exponent)
        x = np.broadcast_to(log_mean, shape).ravel()
        if self.exponent.size and (self.exponent == self.exponent.flat[0]).all():
            known = fields(x, float(self.exponent.flat[0]), first)
            return known.reshape(first, *shape), log_mean
        flat = np.broadcast_to(self.exponent, shape).ravel()
        known = np.empty((first, len(x)))
        for nu in np.unique(flat):
            rows = flat == nu
            known[:, rows] = fields(x[rows], float(nu), first)
        return known.reshape(first, *shape), log_mean

    def _value(self, known: Law | Norm, x: Array) -> tuple[Array, Array, Array, Array]:
        """l, the mean, y - mean and L(y) = log y! - y log mean + mean."""
        mean = capped_exp(x)
        excess = self.y - mean
        near = self.rest + deviance(self.y, np.maximum(mean, _LEAST), excess)
        level = np.where(mean > _LEAST, near, self.log_factorial - self.y * x)
        value = known.delta * excess - self.exponent * level - known.log_total
        return value, mean, excess, level

    def log_density(self, s: Array) -> Array:
        known, log_mean = self._fields(s, len(Norm._fields))
        return np.asarray(self._value(Norm(*known), log_mean)[0])

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        known, x = self.law(s)
        value, mean, excess, _ = self._value(known, x)
        return self._pointwise(known, mean, value, excess, variance)

    def _pointwise(
        self, known: Law, mean: Array, value: Array, excess: Array, variance: Array | float
    ) -> PointwiseAnswer:
        return PointwiseAnswer(
            value,
            known.h * excess,
            known.h1 * excess - known.h * mean,
            (known.h2 * excess - (2.0 * known.h1 + known.h) * mean) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        known, x = self.law(s)
        _, _, excess, level = self._value(known, x)
        by_exponent = excess * known.a - level + known.level
        return {
            "dispersion": -by_exponent * self.exponent**2,
            "exposure": np.asarray(known.h * excess / self.exposure),
        }

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        known, x = self.law(s)
        value, mean, excess, level = self._value(known, x)
        factor = -(self.exponent**2)
        l = self._pointwise(known, mean, value, excess, 1.0)
        return {
            "dispersion": ParameterCurve(
                factor * (excess * known.a - level + known.level),
                factor * (excess * known.a1),
                factor * (excess * known.a2 - mean * known.a1),
            ),
            "exposure": self.exposure_curve(l),
        }

    def conditional_variance(self, s: Array) -> Array:
        """V, about dispersion times the mean where that is large."""
        return self.law(s)[0].variance

    def sample(self, s: Array, rng: Generator) -> Array:
        """By rejection, as the masses are log-concave (Devroye 1987): P(m + k) is at most P(m)
        min(1, exp(1 - P(m) |k|)) about the mode m."""
        known, _ = self.law(s)
        log_mean = np.minimum(self.log_mean(s), np.log(LARGEST))
        mode = np.floor(np.exp(np.clip(log_mean + known.delta / self.exponent, -700.0, 43.6)))
        # Rounding may put the mode next to where it is.
        beside = [np.maximum(mode + k, 0.0) for k in (-1.0, 0.0, 1.0)]
        heights = np.stack([self._mass(s, y) for y in beside])
        best = heights.argmax(axis=0)
        mode = np.take_along_axis(np.stack(beside), best[None], axis=0)[0]
        height = heights.max(axis=0)
        top = np.exp(height)
        wide = 1.0 + 0.5 * top
        out, pending = mode.copy(), np.arange(len(mode))
        for _ in range(_TRIES):
            if not len(pending):
                break
            p, w, n = top[pending], wide[pending], len(pending)
            flat = rng.random(n) <= w / (1.0 + w)
            step = np.where(flat, w * rng.random(n), w + rng.exponential(size=n)) / p
            moved = mode[pending] + np.where(rng.random(n) < 0.5, 1.0, -1.0) * np.rint(step)
            inside = moved >= 0.0
            mass = self.take(pending)._mass(s[pending], np.where(inside, moved, 0.0))
            level = np.log(rng.random(n)) + np.minimum(0.0, w - p * step)
            taken = inside & (level <= mass - height[pending])
            out[pending[taken]] = moved[taken]
            pending = pending[~taken]
        return np.asarray(out)

    def _mass(self, s: Array, y: Array) -> Array:
        """log P(Y = y)."""
        other: Site = ComPoissonLogMean(y, self.dispersion, self.exposure)
        return other.log_density(s)

    def cdf(self, s: Array) -> Array:
        return cumulated(self, s)


# ---- conway maxwell ----------------------------------------------------------------------------
# The Conway-Maxwell-Poisson distribution by its mean: what depends on log mean and exponent alone.
#
# P(k) is proportional to lambda^k / (k!)^nu, with lambda such that E[k] = mu. About the mean, with
# X = k - mu and L(k) = log k! - k log mu + mu (nothing of size mu log mu is left in it),
#
#     log P(k) = X delta - nu L(k) - log T,    delta = log lambda - nu log mu.
#
# With V, k3 the cumulants of X and h = mu / V = d log lambda / d log mu (Huang 2017):
#
#     h'  = h (1 - mu k3 / V^2),       slope of l in log mu = h (y - mu),
#     dl/dnu = (y - mu) A - L(y) + E[L],    A = Cov(X, L) / V,
#
# and with R = L - E[L] - A X:  A' = h a,  A'' = h' a + h^2 (E[X^3 R] / V - 2 a k3 / V),
# a = E[X^2 R] / V. Primes are derivatives in log mu, A' that of A + log mu = Cov(X, log k!) / V.


SMALL = -17.0  # log means below which P(0) + P(1) = 1 to rounding
_LARGE = 1e14  # mu min(nu, 1 / nu) above which the law is normal to rounding
_NEGLIGIBLE = 42.0  # logarithm below the largest weight at which sums end
_LOG_MEANS_TOGETHER = 0.5  # log means this close share their terms
_FAR, _WIDE = 12.0, 8.0  # sds to 0, and counts in an sd
_ROWS_PER_PASS = 4096  # rows at a time
_LEAST_SHARE = 1e-100
_STEPS = 80
_ROUNDING = 1e-13


class Norm(NamedTuple):
    """The first fields of `Law`, which masses take."""

    delta: Array
    log_total: Array


class Law(NamedTuple):
    """At M log means, (M,) each: delta, log T, mu / V and its two derivatives, A and the two
    derivatives of A + log mu, E[L], V."""

    delta: Array
    log_total: Array
    h: Array
    h1: Array
    h2: Array
    a: Array
    a1: Array
    a2: Array
    level: Array
    variance: Array


def stirling_rest(k: Array) -> Array:
    """log k! - k log k + k, 0 at 0, for k >= 0."""
    at = np.maximum(k, 15.0)
    small = np.minimum(k, 15.0)
    direct = special.gammaln(small + 1.0) - special.xlogy(small, small) + small
    return np.where(k > 15.0, stirling_error(at) + 0.5 * (LOG_TWO_PI + np.log(at)), direct)


def log_factorial_about(k: Array, mean: Array) -> Array:
    """L(k) = log k! - k log mean + mean."""
    return np.asarray(stirling_rest(k) + deviance(k, mean, k - mean))


def law(log_mean: Array, exponent: float) -> Law:
    """The law at log means (M,), by tables where there are many of them."""
    return Law(*fields(log_mean, exponent))


def fields(log_mean: Array, exponent: float, first: int = len(Law._fields)) -> Array:
    """The `first` fields of the law, (first, M)."""
    large = min(math.log(_LARGE * max(exponent, 1.0 / exponent)), 200.0)
    inside = np.clip(log_mean, SMALL, large)
    found = np.array(_panels(exponent)(inside, first))
    low, high = log_mean < SMALL, log_mean > large
    for rows, limit in ((low, _small), (high, _normal)):
        if rows.any():
            found[:, rows] = limit(log_mean[rows], exponent)[:first]
    return found


@lru_cache(maxsize=64)
def _panels(exponent: float) -> Panels:
    def functions(x: Array) -> tuple[Array, Array]:
        values = computed(x, exponent)
        return values, _errors(np.exp(x), Law(*values))

    return Panels(functions)


def _errors(mean: Array, known: Law) -> Array:
    """What rounding leaves of each, cumulants of order k to that of sd^k."""
    sd, one = np.sqrt(known.variance), np.ones_like(mean)
    scales = (
        np.abs(known.delta) + 1.0 / (1.0 + sd),
        1.0 + np.abs(known.log_total),
        known.h,
        known.h * (1.0 + known.h * (1.0 + sd)) + np.abs(known.h1),
        known.h * (1.0 + known.h) * (1.0 + mean) + np.abs(known.h2),
        one + np.abs(known.a),
        one + np.abs(known.a1),
        one + sd + np.abs(known.a2),
        one + np.abs(known.level),
        known.variance,
    )
    return _ROUNDING * np.stack(scales)


def _small(x: Array, exponent: float) -> Array:
    """Fields of the law to first order in mu: lambda = mu - (2^(1 - nu) - 1) mu^2."""
    mean, of_two = capped_exp(x), 2.0 ** (1.0 - exponent)
    bend = (1.0 - of_two) * mean
    delta, lean = (1.0 - exponent) * x + bend, of_two * math.log(2.0) * mean
    total = mean * (1.0 + 0.5 * bend - exponent - delta)
    h, level, variance = 1.0 + bend, mean * (1.0 - x), mean * (1.0 - bend)
    return np.stack([delta, total, h, bend, bend, lean - x, lean, lean, level, variance])


def _normal(x: Array, exponent: float) -> Array:
    """X of variance mu / nu, L(k) = (log(2 pi mu) + X^2 / mu + X / mu) / 2 + ..."""
    mean, zero = capped_exp(x), np.zeros_like(x)
    height = 0.5 * (LOG_TWO_PI + np.minimum(x, 340.0))
    small = 0.5 / mean
    delta = (exponent - 1.0) * small
    total = height - 0.5 * math.log(exponent) - exponent * height
    level = height + 0.5 / exponent
    h = zero + exponent
    return np.stack(
        [delta, total, h, zero, zero, small, 1.0 - small, small, level, mean / exponent]
    )


def computed(log_mean: Array, exponent: float) -> Array:
    """The fields of `Law` at log means (M,), (10, M), by sums over k."""
    out = np.empty((len(Law._fields), len(log_mean)))
    mean = np.exp(log_mean)
    # Where the peak is wide and far from 0, the sum is an integral, and its steps may be long.
    wide = (mean * exponent > _FAR**2) & (mean > _WIDE**2 * exponent)
    chunk = np.where(wide, np.inf, np.floor(log_mean / _LOG_MEANS_TOGETHER))
    for one in np.unique(chunk):
        rows = np.flatnonzero(chunk == one)
        by = _integral if one == np.inf else _sum
        for few in np.array_split(rows, 1 + len(rows) // _ROWS_PER_PASS):
            out[:, few] = by(mean[few], exponent)
    return out


def _integral(mean: Array, nu: float) -> Array:
    """Fields of the law by the trapezoidal rule with steps of half an sd, good to exp(-8 pi^2)."""
    sd = np.sqrt(mean / nu)[:, None]
    gap = sd * np.arange(-_FAR, _FAR + 0.25, 0.5)
    return _solved(mean, nu, mean[:, None] + gap, gap, np.log(0.5 * sd))


def _sum(mean: Array, nu: float) -> Array:
    least, most = float(mean.min()), float(mean.max())
    spread = math.sqrt(min(most / min(nu, 1.0), most + most * most))
    low = max(0, math.floor(least - 11.0 * spread - 12.0))
    reach = 11.0 * spread + 25.0
    smooth = 1.5 * math.sqrt(min(least / nu, least + least * least))
    while True:
        k, weight = blocks(low, math.ceil(most + reach), smooth)
        # Is the last term negligible at the largest mean, at the first guess of lambda?
        top = mean.argmax()
        height = log_mass(k, mean[top], nu, _first(mean[top : top + 1], nu))
        if height[-1] < height.max() - _NEGLIGIBLE:
            break
        reach *= 1.6
    return _solved(mean, nu, k, k - mean[:, None], np.log(weight))


def log_mass(k: Array, mean: Array, nu: float, delta: Array) -> Array:
    """X delta - nu L(k)."""
    return np.asarray((k - mean) * delta - nu * log_factorial_about(k, mean))


def _solved(mean: Array, nu: float, k: Array, gap: Array, log_weight: Array) -> Array:
    level = stirling_rest(k) + deviance(k, mean[:, None], gap)
    delta, share, log_total = _solve(mean, nu, gap, level, log_weight)
    return _moments(mean, nu, delta, log_total, gap, level, share)


def _solve(
    mean: Array, nu: float, gap: Array, level: Array, log_weight: Array
) -> tuple[Array, Array, Array]:
    """delta with E[X] = 0, by Newton steps for log E[k] that stay in a bracket; the shares of the
    terms and log T."""
    delta = _first(mean, nu)
    low, high = np.full_like(mean, -np.inf), np.full_like(mean, np.inf)
    base = log_weight - nu * level
    for _ in range(_STEPS):
        height = gap * delta[:, None] + base
        top = height.max(axis=1, keepdims=True)
        share = np.exp(height - top)
        total = share.sum(axis=1)
        share /= total[:, None]
        excess = (share * gap).sum(axis=1)
        variance = (share * (gap - excess[:, None]) ** 2).sum(axis=1)
        high = np.where(excess > 0.0, delta, high)
        low = np.where(excess <= 0.0, delta, low)
        rise = np.log1p(np.maximum(excess / mean, -1.0 + 1e-15))
        with np.errstate(divide="ignore", over="ignore"):
            step = -rise * (mean + excess) / np.maximum(variance, 1e-300)
        step = np.clip(step, -3.0, 3.0)
        proposal = delta + step
        outside = (proposal <= low) | (proposal >= high)
        proposal = np.where(outside & np.isfinite(low + high), 0.5 * (low + high), proposal)
        done = np.abs(excess) <= 4e-16 * np.sqrt(variance)
        done |= np.abs(proposal - delta) <= 1e-17 * np.abs(delta)
        if done.all():
            break
        delta = np.where(done, delta, proposal)
    return delta, share, top[:, 0] + np.log(total)


def _first(mean: Array, nu: float) -> Array:
    """log lambda is near log mu + (nu - 1) log(1 + mu), and where nearly all mass is on two
    integers, j and j + 1, it is nu log(j + 1) + the log odds of j + 1."""
    if nu <= 4.0:
        return np.asarray((nu - 1.0) * np.log1p(1.0 / mean))
    whole = np.floor(mean)
    above = np.clip(mean - whole, 1e-9, 1.0 - 1e-9)
    return np.asarray(nu * np.log((whole + 1.0) / mean) + special.logit(above))


def _moments(
    mean: Array, nu: float, delta: Array, log_total: Array, gap: Array, level: Array, share: Array
) -> Array:
    def average(*factors: Array) -> Array:
        out = share
        for factor in factors:
            out = out * factor
        return np.asarray(out.sum(axis=1))

    square = gap * gap
    variance = np.maximum(average(square), _LEAST_SHARE * mean)
    third = average(square, gap)
    fourth = average(square, square) - 3.0 * variance**2
    expected = average(level)
    centred = level - expected[:, None]
    a = average(gap, centred) / variance
    rest = centred - a[:, None] * gap
    bend = average(square, rest) / variance
    h = mean / variance
    lean = third / variance
    h1 = h * (1.0 - h * lean)
    # d(mu k3 / V^2) / d log mu = k3 mu / V^2 + h (mu k4 / V^2 - 2 mu k3^2 / V^3)
    h2 = h1 * (1.0 - h * lean) - h * (h * lean + h * h * (fourth / variance - 2.0 * lean**2))
    a1 = h * bend
    a2 = h1 * bend + h * h * (average(square, gap, rest) / variance - 2.0 * bend * lean)
    return np.stack([delta, log_total, h, h1, h2, a, a1, a2, expected, variance])
