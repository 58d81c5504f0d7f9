"""The Laplace law. Its tails are exponentials, and the mass of any interval is in closed form."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.sites.laws.law import Curve, Law, Mass

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
