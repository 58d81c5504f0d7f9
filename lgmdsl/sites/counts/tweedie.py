"""tweedie.log_mean: sums of a Poisson number of gamma terms; 0 where there is none.

Mean m = e^s, variance dispersion m^power, 1 < power < 2. With b = 2 - power, c = power - 1,

    l = -R2 / b at y = 0, and at y > 0, with k = y^b / dispersion and t = s - log y,
    l = -k ((e^{b t} - 1) / b + (e^{-c t} - 1) / c) - log y + F

(Jorgensen 1997; F in `compound_poisson`, free of s). Two exponentials, so that l is concave and
its expectations are in closed form: with R1 = y e^{-c s} / dispersion, R2 = e^{b s} / dispersion,
l' = R1 - R2, l'' = -c R1 - b R2, l''' = c^2 R1 - b^2 R2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.numerics.chebyshev import Panels
from lgmdsl.numerics.counts import deviance, log_poisson
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import EXPONENT_CAP, capped_exp, stirling_error, stirling_slope
from lgmdsl.sites.base import ElementwiseSite
from lgmdsl.sites.counts.base import LARGEST
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_FAR_COUNTS = 12.0  # sds of the number of terms beyond which there is no mass
_TERMS_PER_PASS = 1 << 21  # terms at a time


class _Series(NamedTuple):
    """F, dF/dlog J and dF/da of every site, 0 where y = 0."""

    value: Array
    by_terms: Array
    by_a: Array


@dataclass(frozen=True, eq=False)
class TweedieLogMean(ElementwiseSite, Expected, ExpectedSlopes):
    """y >= 0 of mean e^s and variance dispersion e^(power s)."""

    y: Array
    dispersion: Array
    power: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "tweedie.log_mean",
        signature=declared("family", "tweedie"),
        takes=("dispersion", "power"),
        properties=Property.LOG_CONCAVE,
        link="log",
    )

    def __post_init__(self) -> None:
        wrong = ~((self.power > 1.0) & (self.power < 2.0))
        if np.any(wrong):
            raise DataError(_outside(float(np.asarray(self.power)[wrong][0])))

    @cached_property
    def seen(self) -> BoolArray:
        """Where y > 0."""
        return np.asarray(self.y > 0.0)

    @cached_property
    def exponents(self) -> tuple[Array, Array]:
        """b = 2 - power and c = power - 1."""
        return 2.0 - self.power, self.power - 1.0

    @cached_property
    def log_y(self) -> Array:
        """log y, 0 where y = 0."""
        return np.where(self.seen, np.log(np.where(self.seen, self.y, 1.0)), 0.0)

    @cached_property
    def factor(self) -> Array:
        """k = y^b / dispersion; 1 / dispersion where y = 0."""
        return np.asarray(capped_exp(self.exponents[0] * self.log_y) / self.dispersion)

    @cached_property
    def series(self) -> _Series:
        """F, of y and the parameters alone."""
        b, c = self.exponents
        shape = np.shape(self.y + b + self.dispersion)
        x = np.broadcast_to(b * self.log_y - np.log(self.dispersion * b), shape)
        a, seen = np.broadcast_to(b / c, shape), np.broadcast_to(self.seen, shape)
        out = np.zeros((3, *shape))
        for one in np.unique(a[seen]):
            rows = seen & (a == one)
            out[:, rows] = series(x[rows], float(one))
        return _Series(*out)

    def _two(self, s: Array, variance: Array | float) -> tuple[Array, Array, Array]:
        """t (s where y = 0) and the two exponentials e^{b t + b^2 v / 2}, e^{-c t + c^2 v / 2}."""
        (b, c), t = self.exponents, s - self.log_y
        up = b * t + 0.5 * b * b * variance
        down = -c * t + 0.5 * c * c * variance
        return t, np.minimum(up, EXPONENT_CAP), np.minimum(down, EXPONENT_CAP)

    def _value(self, up: Array, down: Array) -> Array:
        """The part of E[l] that depends on s."""
        b, c = self.exponents
        seen = np.expm1(up) / b + np.expm1(down) / c
        return -self.factor * np.where(self.seen, seen, np.exp(up) / b)

    def _rates(self, up: Array, down: Array) -> tuple[Array, Array]:
        """E[R1] and E[R2]."""
        first = np.where(self.seen, np.exp(down), 0.0)
        return self.factor * first, self.factor * np.exp(up)

    @cached_property
    def level(self) -> Array:
        """F - log y, 0 where y = 0."""
        return self.series.value - self.log_y

    def log_density(self, s: Array) -> Array:
        _, up, down = self._two(s, 0.0)
        return np.asarray(self._value(up, down) + self.level)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        (b, c), (_, up, down) = self.exponents, self._two(s, 0.0)
        r1, r2 = self._rates(up, down)
        return PointwiseAnswer(
            value=self._value(up, down) + self.level,
            slope=r1 - r2,
            curvature=-c * r1 - b * r2,
            third=(c * c * r1 - b * b * r2) * variance,
        )

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        (b, c), (_, up, down) = self.exponents, self._two(mean, variance)
        r1, r2 = self._rates(up, down)
        return ExpectedAnswer(
            value=self._value(up, down) + self.level,
            d_mean=r1 - r2,
            d_variance=-0.5 * (c * r1 + b * r2),
            d_mean_variance=0.5 * (c * c * r1 - b * b * r2) if second else None,
            d_variance2=-0.25 * (c**3 * r1 + b**3 * r2) if second else None,
        )

    def expected_slopes(self, mean: Array, variance: Array | float) -> dict[str, Array]:
        (b, c), (t, up, down) = self.exponents, self._two(mean, variance)
        value, f, k = self._value(up, down), self.series, self.factor
        e_up, e_down = np.exp(up), np.exp(down)
        # J = k / b, a = b / c
        by_power = -np.expm1(up) / b**2 + e_up * (t + b * variance) / b
        by_power = by_power + np.expm1(down) / c**2 + e_down * (t - c * variance) / c
        by_power = k * by_power - self.log_y * value
        by_power = by_power + f.by_terms * (1.0 / b - self.log_y) - f.by_a / c**2
        none = k * e_up * ((t + b * variance) / b - 1.0 / b**2)
        return {
            "dispersion": -(value + f.by_terms) / self.dispersion,
            "power": np.where(self.seen, by_power, none),
        }

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return self.expected_slopes(s, 0.0)

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        (b, c), (_, up, down) = self.exponents, self._two(s, 0.0)
        r1, r2 = self._rates(up, down)
        slopes = self.parameter_slopes(s)
        return {
            "dispersion": ParameterCurve(
                slopes["dispersion"],
                (r2 - r1) / self.dispersion,
                (c * r1 + b * r2) / self.dispersion,
            ),
            "power": ParameterCurve(
                slopes["power"], s * (r2 - r1), r2 - r1 + s * (b * r2 + c * r1)
            ),
        }

    def landmark(self) -> tuple[Array, Array]:
        # For Tilted alone: Expected is in closed form.
        b, _ = self.exponents
        none = np.log(self.dispersion * b) / b
        return np.where(self.seen, self.log_y, none), np.ones(np.shape(none))

    def conditional_mean(self, s: Array) -> Array:
        """e^s."""
        return capped_exp(s)

    def conditional_variance(self, s: Array) -> Array:
        """dispersion e^(power s)."""
        return np.asarray(self.dispersion * capped_exp(self.power * s))

    def _terms(self, s: Array) -> tuple[Array, Array, Array]:
        """The mean number of terms, and the shape and scale of each."""
        b, c = self.exponents
        rate = capped_exp(b * s) / (self.dispersion * b)
        return rate, b / c, self.dispersion * c * capped_exp(c * s)

    def sample(self, s: Array, rng: Generator) -> Array:
        rate, shape, scale = self._terms(s)
        terms = rng.poisson(np.minimum(rate, LARGEST)).astype(np.float64)
        return np.asarray(rng.gamma(shape * terms, scale))

    def cdf(self, s: Array) -> Array:
        """P(no term) + sum_n P(n terms) P(Gamma(n shape) <= y / scale)."""
        rate, shape, scale = (np.asarray(x) + 0.0 * s for x in self._terms(s))
        out = np.where(self.y < 0.0, 0.0, np.exp(-rate))
        sd = np.sqrt(rate)
        first = np.maximum(np.floor(rate - _FAR_COUNTS * sd - _FAR_COUNTS), 1.0)
        last = np.ceil(rate + _FAR_COUNTS * sd + 30.0)
        # Where terms are many, the sum is an integral with steps of half its narrowest feature.
        step = np.maximum(1.0, np.floor(0.4 * sd * np.minimum(1.0, 1.0 / np.sqrt(shape))))
        step = np.where(first > 1.0, step, 1.0)
        count = np.ceil((last - first) / step) + 1.0
        rows = np.flatnonzero((self.y > 0.0) & np.isfinite(count))
        rows = rows[np.argsort(count[rows], kind="stable")]
        size = max(1, int(_TERMS_PER_PASS // max(1.0, float(count[rows].max(initial=1.0)))))
        for few in (rows[i : i + size] for i in range(0, len(rows), size)):
            n = first[few, None] + step[few, None] * np.arange(count[few].max())
            mass = np.exp(log_poisson(n, rate[few, None], n - rate[few, None]))
            with np.errstate(divide="ignore"):  # where scales fall to 0: all terms lie below
                terms = (self.y[few] / scale[few])[:, None]
            upto = special.gammainc(shape[few, None] * n, terms)
            out[few] += step[few] * (mass * upto).sum(axis=1)
        return np.clip(out, 0.0, 1.0)

    def distribution(self, s: Array) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y): 0 has a mass of its own."""
        upto = self.cdf(s)
        return np.where(self.seen, upto, 0.0), upto


def _outside(value: float) -> Diagnostic:
    return Diagnostic(
        "E303",
        f"`tweedie` takes a power between 1 and 2, not {value:g}",
        note="1 is a Poisson number of equal terms, 2 is gamma, which has no zeros",
        help="write power = 1 + p with hyper p : unit; at 2 take gamma",
    )


# ---- compound poisson --------------------------------------------------------------------------
# Densities of compound Poisson-gamma sums: what depends on y, dispersion and power alone.
#
# With a = (2 - p) / (p - 1), J = y^(2 - p) / (phi (2 - p)) the number of terms that is likeliest at
# the mean y, and D the deviance of `numerics.deviance`, the density at mean mu is
#
#     log f(y) = -d(y, mu) / (2 phi) - log y + F(log J, a),
#     F = log sum_{j >= 1} exp(-(1 + a) D(j; J) - S(j) - S(a j)) + (log a) / 2 - log 2 pi,
#
# S being Stirling's error: the series of Dunn and Smyth (2005) about its largest term, so that
# nothing of size J is left in it. dF/dlog J = (1 + a)(E[j] - J), dF/da = E[-D - j S'(a j)] +
# 1/(2a).


_SMALL, _LARGE = -30.0, 600.0  # log J below which there is one term; the largest that is taken
_TABLE = 500  # values from which a table repays its making
_FAR, _WIDE = 12.0, 8.0  # sds to 0, and terms in an sd, from which the sum is an integral
_ROWS_PER_PASS = 4096  # rows at a time
_ROUNDING = 3e-14


def series(log_terms: Array, a: float) -> tuple[Array, Array, Array]:
    """F and its derivatives in log J and in a, at log J (M,)."""
    x = np.minimum(log_terms, _LARGE)
    inside = np.maximum(x, _SMALL)
    known = _panels(a)(inside) if len(x) >= _TABLE else computed(inside, a)
    low = x < _SMALL
    if low.any():
        known = np.where(low, _one_term(x, a), known)
    return known[0], known[1], known[2]


@lru_cache(maxsize=32)
def _panels(a: float) -> Panels:
    def functions(x: Array) -> tuple[Array, Array]:
        values = computed(x, a)
        sd = np.exp(0.5 * x) / math.sqrt(1.0 + a)
        scales = (
            1.0 + np.abs(values[0]),
            (1.0 + a) * (1.0 + sd) + np.abs(values[1]),
            1.0 + np.abs(values[2]),
        )
        return values, _ROUNDING * np.stack(scales)

    return Panels(functions)


def _one_term(x: Array, a: float) -> Array:
    gap = -x - 1.0 + np.exp(x)  # D(1; J)
    size = np.array(a)
    level = -(1.0 + a) * gap - stirling_error(np.ones(1)) - stirling_error(size)
    by_a = -gap - stirling_slope(size) + 0.5 / a
    return np.stack([level + _constant(a), (1.0 + a) * (1.0 - np.exp(x)), by_a])


def _constant(a: float) -> float:
    return 0.5 * math.log(a) - LOG_TWO_PI


def computed(x: Array, a: float) -> Array:
    """F, dF/dlog J and dF/da at log J (M,), (3, M), by sums over j."""
    terms = np.exp(x)
    sd = np.sqrt(terms / (1.0 + a))
    out = np.empty((3, len(x)))
    wide = (terms > _FAR * sd + 1.0) & (sd > _WIDE)
    for rows in (np.flatnonzero(wide), np.flatnonzero(~wide)):
        for few in np.array_split(rows, 1 + len(rows) // _ROWS_PER_PASS) if len(rows) else ():
            middle, spread = terms[few, None], sd[few, None]
            if wide[few[0]]:
                gap = spread * np.arange(-_FAR, _FAR + 0.25, 0.5)
                out[:, few] = _summed(middle + gap, middle, gap, 0.5 * spread, a)
                continue
            first = np.maximum(np.floor(middle - _FAR * spread - _FAR), 1.0)
            last = middle + _FAR * spread + 30.0
            j = first + np.arange(math.ceil(float((last - first).max())) + 1.0)
            out[:, few] = _summed(j, middle, j - middle, np.ones_like(spread), a)
    return out


def _summed(j: Array, middle: Array, gap: Array, weight: Array, a: float) -> Array:
    apart = deviance(j, middle, gap)
    level = -(1.0 + a) * apart - stirling_error(j) - stirling_error(a * j)
    top = level.max(axis=1, keepdims=True)
    share = weight * np.exp(level - top)
    total = share.sum(axis=1)
    share /= total[:, None]
    value = top[:, 0] + np.log(total) + _constant(a)
    by_terms = (1.0 + a) * (share * gap).sum(axis=1)
    by_a = 0.5 / a - (share * (apart + j * stirling_slope(a * j))).sum(axis=1)
    return np.stack([value, by_terms, by_a])
