"""The log mass of an interval under a law, with derivatives, wherever the interval lies.

log P(a < X < b) with x = (a, b) moved together: its derivatives in that shift are sums over the
conditional law of X given the interval (Louis's identities), and also what the chain rule makes of
the log tails. The first is free of cancellation in narrow intervals, the second in wide ones:

    narrow:  l' = E g',  l'' = E g'' + Var g',  l''' = E g''' + 3 Cov(g', g'') + k3(g'),   g = log f
    wide:    log P(X > a) + log(1 - e^d),   d = log P(X > b) - log P(X > a),

on the side where the mass is less. Laws whose log P(X > x) falls like e^x give it in two parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.normal_tail import LOG_TWO_PI, normal_tail
from lgmdsl.numerics.stable import EXPONENT_CAP, capped_exp
from lgmdsl.sites.scalar.cloglog import log_complement

_NODES = 16
_NARROW = -1.0  # d above which the interval counts as narrow


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of x with its first three derivatives, arrays of one shape."""

    value: Array
    first: Array
    second: Array
    third: Array

    def mirrored(self) -> Curve:
        """The function of -x, at -x."""
        return Curve(self.value, -self.first, self.second, -self.third)

    def __getitem__(self, index: IntArray) -> Curve:
        return Curve(*(np.asarray(a[index]) for a in self.parts))

    @property
    def parts(self) -> tuple[Array, Array, Array, Array]:
        return self.value, self.first, self.second, self.third


@dataclass(frozen=True, slots=True)
class Mass:
    """log P(a < X < b) + growth(a) in the common shift of a and b; `low` and `high` are the
    density at a and at b over the mass (0 at infinite ends)."""

    rest: Curve
    low: Array
    high: Array


class Law(ABC):
    """A continuous law on the line; fields, if any, are parameters that broadcast with x.

    `apart`: the length from which an interval's mass is the product of P(X > a) and P(X <= b) to
    rounding, wherever it lies: P(X > a + length) / P(X > a) is at most 1e-16 where a >= 0, and so
    is P(X <= b - length) / P(X <= b) where b <= 0.
    """

    apart: ClassVar[float] = math.inf

    @abstractmethod
    def density(self, x: Array) -> Curve:
        """log f(x)."""

    @abstractmethod
    def below(self, x: Array) -> Curve:
        """log P(X <= x)."""

    @abstractmethod
    def above(self, x: Array) -> Curve:
        """log P(X > x) + growth(x)."""

    def log_growth(self, x: Array) -> Array | None:
        """log of growth(x) = e^{x + shift}, None where log P(X > x) grows no faster than x^2."""
        return None

    @abstractmethod
    def take(self, index: tuple[IntArray, ...]) -> Law:
        """The law of some elements of x, by their positions."""

    def growth(self, x: Array) -> Array:
        """What `above` leaves out, and every derivative of it."""
        log_growth = self.log_growth(x)
        return np.zeros(np.shape(x)) if log_growth is None else capped_exp(log_growth)

    def between(self, a: Array, b: Array, width: Array) -> Mass:
        """The mass from a to b = a + width, arrays of one shape; either end may be infinite."""
        shape = np.shape(a)
        out, low, high = np.zeros((4, *shape)), np.zeros(shape), np.zeros(shape)
        left, right = np.isneginf(a), np.isposinf(b)
        both = ~left & ~right
        for one, end, side in ((left & ~right, b, 1.0), (right & ~left, a, -1.0)):
            index = np.nonzero(one)
            if len(index[0]):
                law, x = self.take(index), end[index]
                curve = law.below(x) if side > 0.0 else law.above(x)
                for k, part in enumerate(curve.parts):
                    out[k][index] = part
                hazard = curve.first if side > 0.0 else law.growth(x) - curve.first
                (high if side > 0.0 else low)[index] = hazard
        index = np.nonzero(both)
        if len(index[0]):
            found_mass = self.take(index).inside(a[index], b[index], width[index])
            for k, part in enumerate(found_mass.rest.parts):
                out[k][index] = part
            low[index], high[index] = found_mass.low, found_mass.high
        return Mass(Curve(*out), low, high)

    def inside(self, a: Array, b: Array, width: Array) -> Mass:
        """The mass of intervals with finite ends, one-dimensional arrays."""
        grown, more = self.growth(a), self.growth(a) * np.expm1(np.minimum(width, 700.0))
        ups, downs = (self.above(a), self.above(b)), (self.below(a), self.below(b))
        upper = ups[0].value - grown < downs[1].value
        fall = np.where(upper, ups[1].value - ups[0].value - more, downs[0].value - downs[1].value)
        out, low, high = np.zeros((4, *a.shape)), np.zeros(a.shape), np.zeros(a.shape)
        narrow = ~(fall < _NARROW)
        for index, wide in (
            (np.flatnonzero(narrow), None),
            (np.flatnonzero(upper & ~narrow), ups),
            (np.flatnonzero(~upper & ~narrow), downs),
        ):
            if not len(index):
                continue
            if wide is None:
                mass = self.take((index,))._narrow(a[index], b[index], width[index])
            else:
                grows = (grown[index], more[index]) if wide is ups else None
                mass = _wide(wide[0][index], wide[1][index], fall[index], grows)
            extra = 0.0 if wide is ups else grown[index]
            out[:, index] = [part + extra for part in mass.rest.parts]
            low[index], high[index] = mass.low, mass.high
        return Mass(Curve(*out), low, high)

    def _narrow(self, a: Array, b: Array, width: Array) -> Mass:
        nodes, weights = _legendre()
        x = a[:, None] + width[:, None] * nodes
        every = np.broadcast_to(np.arange(len(a))[:, None], x.shape)
        g = self.take((every,)).density(x)
        top = g.value.max(axis=1)
        share = weights * np.exp(g.value - top[:, None])
        total = share.sum(axis=1)
        share /= total[:, None]

        def mean(v: Array) -> Array:
            return np.asarray((share * v).sum(axis=1))

        slope, bend = mean(g.first), mean(g.second)
        away, bent = g.first - slope[:, None], g.second - bend[:, None]
        third = mean(g.third) + 3.0 * mean(away * bent) + mean(away * away**2)
        value = top + np.log(total * width)
        low, high = (np.exp(self.density(end).value - value) for end in (a, b))
        return Mass(Curve(value, slope, bend + mean(away**2), third), low, high)


def _wide(a: Curve, b: Curve, fall: Array, grows: tuple[Array, Array] | None) -> Mass:
    """log P(X > a) + log(1 - e^fall), for `above` at both ends; or the mirror image."""
    near, far = (a, b) if grows is not None else (b, a)
    more = 0.0 if grows is None else grows[1]
    q = np.exp(fall)
    # e^fall underflows long before its derivatives, which may be as large as doubles get.
    alive = q > 1e-290
    d1, d2, d3 = (
        np.where(alive, f - n - more, 0.0)
        for f, n in zip(far.parts[1:], near.parts[1:], strict=True)
    )
    p = 1.0 - q
    phi1, phi2, phi3 = -q / p, -q / p**2, -q * (1.0 + q) / p**3
    rest = Curve(
        near.value + np.log1p(-q),
        near.first + phi1 * d1,
        near.second + phi2 * d1**2 + phi1 * d2,
        near.third + phi3 * d1**3 + 3.0 * phi2 * d1 * d2 + phi1 * d3,
    )
    at_near, at_far = near.first, far.first
    if grows is not None:
        at_near, at_far = grows[0] - near.first, np.where(alive, grows[0] + more - far.first, 0.0)
    ends = at_near / p, at_far * q / p
    return Mass(rest, *(ends if grows is not None else ends[::-1]))


def one_each(parameter: Array, index: tuple[IntArray, ...]) -> Array:
    """A parameter, (N,) or (N, 1), at the positions of elements of x."""
    return np.asarray((parameter if parameter.ndim == 1 else parameter[:, 0])[index[0]])


@cache
def _legendre() -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return 0.5 * (nodes + 1.0), 0.5 * weights


# ---- normal ------------------------------------------------------------------------------------
# The standard normal law.


class NormalLaw(Law):
    """f = exp(-x^2 / 2) / sqrt(2 pi)."""

    apart: ClassVar[float] = 9.0

    def density(self, x: Array) -> Curve:
        return Curve(-0.5 * (x * x + LOG_TWO_PI), -x, np.full_like(x, -1.0), np.zeros_like(x))

    def below(self, x: Array) -> Curve:
        tail = normal_tail(x)
        return Curve(tail.log_cdf, tail.hazard, -tail.hazard * tail.excess, tail.third)

    def above(self, x: Array) -> Curve:
        return self.below(-x).mirrored()

    def take(self, index: tuple[IntArray, ...]) -> NormalLaw:
        return self


# ---- gumbel ------------------------------------------------------------------------------------
# The law of the log of a unit exponential: P(X > x) = exp(-e^x).


class GumbelLaw(Law):
    """f = exp(x - e^x)."""

    def density(self, x: Array) -> Curve:
        rate = capped_exp(x)
        return Curve(x - rate, 1.0 - rate, -rate, -rate)

    def below(self, x: Array) -> Curve:
        return Curve(*log_complement(x))

    def above(self, x: Array) -> Curve:
        zero = np.zeros_like(x)
        return Curve(zero, zero, zero, zero)

    def log_growth(self, x: Array) -> Array:
        return x

    def take(self, index: tuple[IntArray, ...]) -> GumbelLaw:
        return self

    def inside(self, a: Array, b: Array, width: Array) -> Mass:
        """log P + e^a = log(1 - exp(-D)), D = e^b - e^a = e^(a + log(e^width - 1))."""
        log_more = width + np.log(-np.expm1(-width))
        rest = self.below(a + log_more)
        # e^b e^-D / (1 - e^-D), and e^a (1 + 1 / (e^D - 1)); rest.first is D / (e^D - 1).
        high = rest.first / -np.expm1(-width)
        low = self.growth(a) + rest.first / np.expm1(np.minimum(width, EXPONENT_CAP))
        return Mass(rest, low, high)


# ---- laplace -----------------------------------------------------------------------------------
# The Laplace law. Its tails are exponentials, and the mass of any interval is in closed form.


_LOG_TWO = float(np.log(2.0))


class LaplaceLaw(Law):
    """f = exp(-|x|) / 2. The log mass of an interval has a jump in its second derivative where an
    end is 0."""

    def density(self, x: Array) -> Curve:
        zero = np.zeros_like(x)
        return Curve(-np.abs(x) - _LOG_TWO, -np.sign(x), zero, zero)

    def below(self, x: Array) -> Curve:
        left, rest = x < 0.0, 0.5 * np.exp(-np.abs(x))
        hazard = rest / (1.0 - rest)
        second = -hazard * (1.0 + hazard)
        return Curve(
            np.where(left, x - _LOG_TWO, np.log1p(-rest)),
            np.where(left, 1.0, hazard),
            np.where(left, 0.0, second),
            np.where(left, 0.0, -second * (1.0 + 2.0 * hazard)),
        )

    def above(self, x: Array) -> Curve:
        return self.below(-x).mirrored()

    def take(self, index: tuple[IntArray, ...]) -> LaplaceLaw:
        return self

    def inside(self, a: Array, b: Array, width: Array) -> Mass:
        """On one side of 0 a difference of exponentials of constant slope; about 0 the mass is
        1 - (e^a + e^-b) / 2."""
        right, one_side = a >= 0.0, (a >= 0.0) | (b <= 0.0)
        near, zero = np.where(right, -a, b), np.zeros_like(a)
        lost = -np.expm1(-width)
        slope = np.where(right, -1.0, 1.0)
        inner, outer = 1.0 / lost, np.exp(-width) / lost
        up, down = (0.5 * np.exp(np.where(one_side, 0.0, e)) for e in (a, -b))
        mass = -0.5 * (
            np.expm1(np.where(one_side, -1.0, a)) + np.expm1(np.where(one_side, 0.0, -b))
        )
        p1, p2 = (down - up) / mass, -(down + up) / mass
        rest = Curve(
            np.where(one_side, near - _LOG_TWO + np.log(lost), np.log(mass)),
            np.where(one_side, slope, p1),
            np.where(one_side, zero, p2 - p1**2),
            np.where(one_side, zero, p1 - 3.0 * p1 * p2 + 2.0 * p1**3),
        )
        low = np.where(one_side, np.where(right, inner, outer), up / mass)
        high = np.where(one_side, np.where(right, outer, inner), down / mass)
        return Mass(rest, low, high)


# ---- student -----------------------------------------------------------------------------------
# The Student-t law. Far in the tail its mass over its density is a continued fraction.
#
# P(X <= -x) = I_z(df/2, 1/2) / 2 with z = df / (df + x^2), whose continued fraction (DLMF 8.17.22)
# is 1 / (1 + d1 / (1 + ...)); all the powers before it are those of the density: the ratio is
# x / df times the fraction, which neither underflows nor cancels.


_LEAST = 1e-250  # tails below it nearly underflow
_TERMS = 60


@dataclass(frozen=True, eq=False)
class StudentLaw(Law):
    """f = Gamma((df + 1) / 2) / (Gamma(df / 2) sqrt(pi df)) (1 + x^2 / df)^(-(df + 1) / 2)."""

    df: Array

    @cached_property
    def constant(self) -> Array:
        """log f(0)."""
        gammas = np.log(special.poch(0.5 * self.df, 0.5))
        return np.asarray(gammas - 0.5 * np.log(np.pi * self.df))

    def take(self, index: tuple[IntArray, ...]) -> StudentLaw:
        return StudentLaw(one_each(self.df, index))

    def density(self, x: Array) -> Curve:
        df = self.df
        square = x * x / df
        q = 1.0 / (1.0 + square)
        power = (df + 1.0) / df
        return Curve(
            self.constant - 0.5 * (df + 1.0) * np.log1p(square),
            -power * x * q,
            -power * (1.0 - square) * q * q,
            2.0 * power * x / df * (3.0 - square) * q * q * q,
        )

    def below(self, x: Array) -> Curve:
        df = self.df + 0.0 * x
        g = self.density(x)
        tail = special.stdtr(df, -np.abs(x))
        far = (x < 0.0) & (tail < _LEAST)
        with np.errstate(divide="ignore"):
            value = np.where(x < 0.0, np.log(tail), np.log1p(-tail))
        if np.any(far):
            ratio = -x[far] / df[far] * _fraction(-x[far], df[far])
            value[far] = g.value[far] + np.log(ratio)
        hazard = np.exp(g.value - value)
        over = g.first - hazard
        second = hazard * over
        return Curve(value, hazard, second, second * over + hazard * (g.second - second))

    def above(self, x: Array) -> Curve:
        return self.below(-x).mirrored()


def _fraction(x: Array, df: Array) -> Array:
    a, b = 0.5 * df, 0.5
    z = df / (df + x * x)
    value = np.ones_like(z)
    for m in range(_TERMS, 0, -1):
        even = m * (b - m) * z / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        odd = -(a + m - 1.0) * (a + b + m - 1.0) * z / ((a + 2.0 * m - 2.0) * (a + 2.0 * m - 1.0))
        value = 1.0 + odd / (1.0 + even / value)
    return 1.0 / value
