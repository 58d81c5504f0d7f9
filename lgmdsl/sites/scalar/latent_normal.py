"""Probit sites by data augmentation: zeta ~ N(s, 1), of which y says on what side of a cut it is.

For q(s) of mean m the best q(zeta) is N(m, 1) cut off there (Qi and Jaakkola 2007, (9)), whatever
the variance v, and

    f(m, v) = log t(m) - n v / 2,  shift = E sum zeta = n m + l'(m)   for n such variables.

Stretched, zeta - cut is rho times what it was, which stays on its side.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Augmented, AugmentedAnswer, Stretch
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.sites.base import ElementwiseSite


class LatentNormal(ElementwiseSite, Augmented):
    """Sites of that kind: the slopes of f in the parameters are those of log t at m."""

    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.parameter_slopes(mean)


def half_line(side: Array | float, cut: Array | float, mean: Array) -> AugmentedAnswer:
    """One variable beyond `cut`, above it for side +1 and below for -1; arrays that broadcast."""
    tail = normal_tail(np.asarray(side * (mean - cut)))
    away = side * tail.excess
    shift = cut + away
    correction = tail.log_cdf + mean * (0.5 * mean - shift)
    one = np.ones_like(away)
    stretch = Stretch(away, one, cut * away, tail.variance + tail.excess**2)
    return AugmentedAnswer(one, shift, correction, stretch)


def together(each: AugmentedAnswer, times: Array) -> AugmentedAnswer:
    """The sum over the last axis, each variable so many `times`."""

    def total(part: Array) -> Array:
        return np.asarray((times * part).sum(axis=-1))

    assert each.stretch is not None
    parts = (getattr(each.stretch, f.name) for f in fields(Stretch))
    stretch = Stretch(*(total(p) for p in parts))
    return AugmentedAnswer(
        total(each.precision), total(each.shift), total(each.correction), stretch
    )
