"""Truncated Taylor arithmetic in a few variables: a formula written once gives its derivatives.

A `Jet` holds the Taylor coefficients of an array-valued function up to an order (at most 3) in
variables that are numbered 0, 1, ...: `coefficients[(0, 0, 1)]` is that of h0^2 h1, and () is the
value. A coefficient that is absent is 0, so structure costs nothing. Variables with negative
numbers enter to first order alone: terms with two of them are dropped, and never computed. Griewank
and Walther (2008, chapter 13) have the algebra.

>>> import numpy as np
>>> from lgmdsl.numerics import jets
>>> x = jets.variable(np.array([0.5]), 0)
>>> f = jets.log(1.0 + x * x)
>>> [round(float(f.derivative(*(0,) * k)[0]), 6) for k in range(4)]
[0.223144, 0.8, 0.96, -2.816]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, TypeAlias

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.numerics import log_gamma
from lgmdsl.numerics.log_gamma import polygamma
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.numerics.stable import EXPONENT_CAP, capped_exp, sigmoids

ORDER = 3
LOG_TWO = math.log(2.0)
RISEN = 200.0
Key: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Jet:
    """Coefficients by their variables, sorted; arrays that broadcast with one another."""

    coefficients: Mapping[Key, Array]
    order: int = ORDER

    # numpy then leaves array + Jet to Jet
    __array_ufunc__: ClassVar[None] = None

    @property
    def value(self) -> Array:
        return self.coefficients[()]

    def derivative(self, *variables: int) -> Array:
        """The mixed derivative in some variables, (0, 0, 1): d3f / dx0^2 dx1; 0 where there is
        none."""
        key = tuple(sorted(variables))
        times = math.prod(math.factorial(n) for n in Counter(key).values())
        known = self.coefficients.get(key)
        return np.zeros(np.shape(self.value)) if known is None else np.asarray(times * known)

    @property
    def fixed(self) -> bool:
        """Whether it depends on no variable."""
        return len(self.coefficients) == 1

    @property
    def depth(self) -> int:
        """How many derivatives `compose` takes."""
        if self.fixed:
            return 0
        first_order = all(key[0] < 0 for key in self.coefficients if key)
        return min(1, self.order) if first_order else self.order

    def compose(self, *derivatives: Array) -> Jet:
        """g(self) from g, g', g'', ... at its value, `depth` derivatives at least."""
        depth = self.depth
        step = Jet({k: c for k, c in self.coefficients.items() if k}, self.order)
        total: dict[Key, Array] = {(): derivatives[0]}
        power: Mapping[Key, Array] = step.coefficients
        for k in range(1, depth + 1):
            share = derivatives[k] / math.factorial(k)
            for key, c in power.items():
                total[key] = total[key] + share * c if key in total else share * c
            if k < depth:
                power = _product(power, step.coefficients, self.order)
        return Jet(total, self.order)

    def __add__(self, other: Jet | Array | float) -> Jet:
        if not isinstance(other, Jet):
            return Jet({**self.coefficients, (): self.value + other}, self.order)
        total = dict(self.coefficients)
        for key, c in other.coefficients.items():
            total[key] = total[key] + c if key in total else c
        return Jet(total, self.order)

    __radd__ = __add__

    def __neg__(self) -> Jet:
        return Jet({k: np.negative(c) for k, c in self.coefficients.items()}, self.order)

    def __sub__(self, other: Jet | Array | float) -> Jet:
        return self + (-other)

    def __rsub__(self, other: Array | float) -> Jet:
        return (-self) + other

    def __mul__(self, other: Jet | Array | float) -> Jet:
        if not isinstance(other, Jet):
            scaled = {k: np.asarray(c * other) for k, c in self.coefficients.items()}
            return Jet(scaled, self.order)
        return Jet(_product(self.coefficients, other.coefficients, self.order), self.order)

    __rmul__ = __mul__

    def __truediv__(self, other: Jet | Array | float) -> Jet:
        if not isinstance(other, Jet):
            return Jet({k: c / other for k, c in self.coefficients.items()}, self.order)
        return self * reciprocal(other)

    def __rtruediv__(self, other: Array | float) -> Jet:
        return reciprocal(self) * other


@dataclass(frozen=True, eq=False, slots=True)
class Exponential(Jet):
    """e^logarithm. Its logarithm, powers and reciprocal are taken of the exponent, without a way
    through e^x, which may be beyond doubles."""

    logarithm: Jet = Jet({})


@dataclass(frozen=True, eq=False, slots=True)
class Sigmoid(Jet):
    """1 / (1 + e^-logit): its log odds are the logit."""

    logit: Jet = Jet({})


def _product(a: Mapping[Key, Array], b: Mapping[Key, Array], order: int) -> dict[Key, Array]:
    total: dict[Key, Array] = {}
    for left, x in a.items():
        for right, y in b.items():
            if len(left) + len(right) > order:
                continue
            key = tuple(sorted(left + right))
            if len(key) < 2 or key[1] >= 0:
                total[key] = total[key] + x * y if key in total else x * y
    return total


def variable(value: Array, number: int, order: int = ORDER) -> Jet:
    """The variable of that number at `value`."""
    base: dict[Key, Array] = {(): np.asarray(value, dtype=np.float64)}
    if order:
        base[number,] = np.ones(())
    return Jet(base, order)


def constant(value: Array | float, order: int = ORDER) -> Jet:
    """What depends on no variable."""
    return Jet({(): np.asarray(value, dtype=np.float64)}, order)


def where(mask: BoolArray, a: Jet, b: Jet) -> Jet:
    """a where the mask holds, b elsewhere."""
    zero = np.zeros(())
    keys = dict.fromkeys((*a.coefficients, *b.coefficients))
    return Jet(
        {k: np.where(mask, a.coefficients.get(k, zero), b.coefficients.get(k, zero)) for k in keys},
        a.order,
    )


def exp(x: Jet) -> Jet:
    """e^x, capped at e^340."""
    e = capped_exp(x.value)
    return Exponential(x.compose(e, e, e, e).coefficients, x.order, x)


def expm1(x: Jet) -> Jet:
    """e^x - 1, capped."""
    e = capped_exp(x.value)
    return x.compose(np.expm1(np.minimum(x.value, EXPONENT_CAP)), e, e, e)


def reciprocal(x: Jet) -> Jet:
    """1 / x."""
    if isinstance(x, Exponential):
        return exp(-x.logarithm)
    r = 1.0 / x.value
    if x.fixed:
        return x.compose(r)
    square = r * r
    return x.compose(r, -square, 2.0 * square * r, -6.0 * square * square)


def log(x: Jet) -> Jet:
    """log x."""
    if isinstance(x, Exponential):
        return x.logarithm
    if x.fixed:
        return x.compose(np.log(x.value))
    r = 1.0 / x.value
    square = r * r
    return x.compose(np.log(x.value), r, -square, 2.0 * square * r)


def log1p(x: Jet) -> Jet:
    """log(1 + x)."""
    if x.fixed:
        return x.compose(np.log1p(x.value))
    r = 1.0 / (1.0 + x.value)
    square = r * r
    return x.compose(np.log1p(x.value), r, -square, 2.0 * square * r)


def power(x: Jet, exponent: float | Array) -> Jet:
    """x to a power that is a number, x > 0."""
    if isinstance(x, Exponential):
        return exp(x.logarithm * exponent)
    slopes = [np.asarray(x.value**exponent)]
    for k in range(x.depth):
        slopes.append(slopes[-1] * (exponent - k) / x.value)
    return x.compose(*slopes)


def sqrt(x: Jet) -> Jet:
    """The root."""
    return power(x, 0.5)


def softplus(x: Jet) -> Jet:
    """log(1 + e^x)."""
    up, down, tail = sigmoids(x.value)
    value, bend = np.maximum(x.value, 0.0) + tail, up * down
    return x.compose(value, up, bend, bend * (down - up))


def sigmoid(x: Jet) -> Jet:
    """1 / (1 + e^-x)."""
    up, down, _ = sigmoids(x.value)
    bend = up * down
    whole = x.compose(up, bend, bend * (down - up), bend * (1.0 - 6.0 * bend))
    return Sigmoid(whole.coefficients, x.order, x)


def log_odds(p: Jet) -> Jet:
    """log p - log(1 - p), of 0 <= p <= 1: infinite at the ends."""
    if isinstance(p, Sigmoid):
        return p.logit
    v = p.value
    with np.errstate(divide="ignore"):
        value = np.log(v) - np.log1p(-v)
        if p.fixed:
            return p.compose(value)
        return p.compose(
            value,
            1.0 / v + 1.0 / (1.0 - v),
            1.0 / (1.0 - v) ** 2 - 1.0 / v**2,
            2.0 / (v * v**2) + 2.0 / ((1.0 - v) * (1.0 - v) ** 2),
        )


def logaddexp(a: Jet, b: Jet) -> Jet:
    """log(e^a + e^b), of finite values."""
    return a + softplus(b - a)


def log1mexp(x: Jet) -> Jet:
    """log(1 - e^x), x < 0."""
    v = x.value
    with np.errstate(divide="ignore", over="ignore"):
        near = np.log(-np.expm1(np.maximum(v, -LOG_TWO)))
        value = np.where(v > -LOG_TWO, near, np.log1p(-np.exp(np.minimum(v, -LOG_TWO))))
        r = 1.0 / np.expm1(np.minimum(-v, 700.0))
    second = -r * (1.0 + r)
    return x.compose(value, -r, second, (1.0 + 2.0 * r) * second)


def gammaln(x: Jet) -> Jet:
    """log Gamma(x), x > 0."""
    slopes = [polygamma(k, x.value) for k in range(x.depth)]
    return x.compose(special.gammaln(x.value), *slopes)


def log_rising(x: Jet, y: Array) -> Jet:
    """log Gamma(x + y) - log Gamma(x) for x > 0, y >= 0, where x is large next to y too."""
    return x.compose(*log_gamma.log_risings(x.value, y, x.depth))


def log_rising_exp(x: Jet, y: Array) -> Jet:
    """log Gamma(1 + e^x + y) - log Gamma(1 + e^x) for y >= 0 and every x."""
    t = np.minimum(x.value, RISEN)  # beyond which it is y x
    e = np.exp(t)
    f = log_gamma.log_risings(1.0 + e, y, x.depth)
    slopes = [f[0] + y * (x.value - t)]
    if x.depth > 0:
        slopes.append(e * f[1])
    if x.depth > 1:
        slopes.append(e * (f[1] + e * f[2]))
    if x.depth > 2:
        slopes.append(e * (f[1] + e * (3.0 * f[2] + e * f[3])))
    return x.compose(*slopes)


def log_gamma_excess(x: Jet) -> Jet:
    """x log x - x - log Gamma(x), x > 0."""
    u = log(x)
    return u.compose(*(log_gamma.log_gamma_excess(u.value, k) for k in range(u.depth + 1)))


def log_ndtr(x: Jet) -> Jet:
    """log Phi(x)."""
    tail = normal_tail(x.value)
    return x.compose(tail.log_cdf, tail.hazard, -tail.hazard * tail.excess, tail.third)


# ---- ratios ------------------------------------------------------------------------------------
# Ratios that are 0 / 0 at 0, with their derivatives: (e^x - 1) / x, (e^x - 1 - x) / x^2,
# log(1 + x) / x; and log erfcx, whose derivatives cancel in the tail.
#
# Near 0 a Taylor series, elsewhere the quotient rule; `exp_ratio(x, k)` is sum_j x^j / (j + k)!.


_NEAR_EXP = 2.0
_NEAR_LOG = 0.3
_ROOT_TWO = math.sqrt(2.0)


@cache
def _exp_terms(k: int) -> tuple[Array, ...]:
    """Coefficients of sum_j x^j / (j + k)! and of its three derivatives."""
    base = np.array([1.0 / math.factorial(j + k) for j in range(34)])
    return tuple(np.polynomial.polynomial.polyder(base, n) if n else base for n in range(4))


@cache
def _log_terms() -> tuple[Array, ...]:
    base = np.array([(-1.0) ** j / (j + 1.0) for j in range(40)])
    return tuple(np.polynomial.polynomial.polyder(base, n) if n else base for n in range(4))


def _series(x: Array, terms: tuple[Array, ...]) -> list[Array]:
    return [np.asarray(np.polynomial.polynomial.polyval(x, c)) for c in terms]


def exp_ratio_derivatives(x: Array, k: int) -> list[Array]:
    """(e^x - sum_{j<k} x^j / j!) / x^k for k = 1 or 2, and its derivatives 1 to 3."""
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) < _NEAR_EXP
    small = np.where(near, x, 0.0)
    far = np.where(near, _NEAR_EXP, x)
    r, e = 1.0 / far, capped_exp(far)
    r2 = r * r  # products: numpy's powers beyond the second take twenty times as long
    r3, r4 = r * r2, r2 * r2
    # e^x x^-k less the polynomial x^-k (k = 1), x^-2 + x^-1 (k = 2), differentiated term by term
    if k == 1:
        tail = [-r, r2, -2.0 * r3, 6.0 * r4]
        powers = [r, -r2, 2.0 * r3, -6.0 * r4]
    else:
        r5 = r * r4
        tail = [-r2 - r, 2.0 * r3 + r2, -6.0 * r4 - 2.0 * r3, 24.0 * r5 + 6.0 * r4]
        powers = [r2, -2.0 * r3, 6.0 * r4, -24.0 * r5]
    grown = [
        sum(math.comb(n, j) * powers[j] for j in range(n + 1))  # Leibniz
        for n in range(4)
    ]
    inside = _series(small, _exp_terms(k))
    return [np.where(near, inside[n], e * np.asarray(grown[n]) + tail[n]) for n in range(4)]


def log_ratio_derivatives(x: Array) -> list[Array]:
    """log(1 + x) / x and its derivatives 1 to 3, x > -1."""
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) < _NEAR_LOG
    inside = _series(np.where(near, x, 0.0), _log_terms())
    far = np.where(near, 1.0, x)
    r, q = 1.0 / far, 1.0 / (1.0 + far)
    l0 = np.log1p(far) * r
    l1 = (q - l0) * r
    l2 = (-q * q - 2.0 * l1) * r
    l3 = (2.0 * q * q * q - 3.0 * l2) * r
    return [np.where(near, a, b) for a, b in zip(inside, (l0, l1, l2, l3), strict=True)]


def exp_ratio(x: Jet) -> Jet:
    """(e^x - 1) / x."""
    if not x.depth:
        safe = np.where(x.value == 0.0, 1.0, x.value)
        small = np.expm1(np.minimum(safe, _NEAR_EXP)) / safe
        large = (capped_exp(safe) - 1.0) / safe
        return x.compose(np.where(x.value == 0.0, 1.0, np.where(safe < _NEAR_EXP, small, large)))
    return x.compose(*exp_ratio_derivatives(x.value, 1))


def exp_ratio_two(x: Jet) -> Jet:
    """(e^x - 1 - x) / x^2."""
    return x.compose(*exp_ratio_derivatives(x.value, 2))


def log_ratio(x: Jet) -> Jet:
    """log(1 + x) / x, x > -1."""
    if not x.depth:  # the value alone does not cancel, only its derivatives do
        safe = np.where(x.value == 0.0, 1.0, x.value)
        return x.compose(np.where(x.value == 0.0, 1.0, np.log1p(safe) / safe))
    return x.compose(*log_ratio_derivatives(x.value))


def log_erfcx(x: Jet) -> Jet:
    """log of 2 e^{x^2 / 2} Phi(-x), which is erfcx(x / sqrt(2))."""
    z = x.value
    tail = normal_tail(-z)
    with np.errstate(over="ignore"):
        scaled = np.log(special.erfcx(np.maximum(z, 0.0) / _ROOT_TWO))
    value = np.where(z > 0.0, scaled, 0.5 * z * z + tail.log_cdf + math.log(2.0))
    return x.compose(value, -tail.excess, tail.variance, -tail.third)
