"""The standard normal law."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.normal_tail import LOG_TWO_PI, normal_tail
from lgmdsl.sites.laws.law import Curve, Law


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
