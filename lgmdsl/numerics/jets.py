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
from typing import ClassVar, TypeAlias

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.numerics.counts import rising
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.numerics.polygamma import polygamma
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
    return x.compose(*rising.log_risings(x.value, y, x.depth))


def log_rising_exp(x: Jet, y: Array) -> Jet:
    """log Gamma(1 + e^x + y) - log Gamma(1 + e^x) for y >= 0 and every x."""
    t = np.minimum(x.value, RISEN)  # beyond which it is y x
    e = np.exp(t)
    f = rising.log_risings(1.0 + e, y, x.depth)
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
    return u.compose(*(rising.log_gamma_excess(u.value, k) for k in range(u.depth + 1)))


def log_ndtr(x: Jet) -> Jet:
    """log Phi(x)."""
    tail = normal_tail(x.value)
    return x.compose(tail.log_cdf, tail.hazard, -tail.hazard * tail.excess, tail.third)
