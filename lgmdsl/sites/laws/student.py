"""The Student-t law. Far in the tail its mass over its density is a continued fraction.

P(X <= -x) = I_z(df/2, 1/2) / 2 with z = df / (df + x^2), whose continued fraction (DLMF 8.17.22)
is 1 / (1 + d1 / (1 + ...)); all the powers before it are those of the density: the ratio is
x / df times the fraction, which neither underflows nor cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.sites.laws.law import Curve, Law, one_each

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
