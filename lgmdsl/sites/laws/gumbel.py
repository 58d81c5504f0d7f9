"""The law of the log of a unit exponential: P(X > x) = exp(-e^x)."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.stable import EXPONENT_CAP, capped_exp
from lgmdsl.sites.laws.law import Curve, Law, Mass
from lgmdsl.sites.scalar.cloglog import log_complement


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
