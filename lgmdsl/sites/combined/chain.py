"""Derivatives of f(u(s)) from those of f in u and of u in s, and in a parameter of u."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer


class Outer(NamedTuple):
    """f, f', f'', f''' at u, arrays of its shape."""

    value: Array
    first: Array
    second: Array
    third: Array


@np.errstate(all="ignore")  # where it is not finite, it is not used
def chained(f: Outer, u: PointwiseAnswer) -> PointwiseAnswer:
    """f(u(s)) with three derivatives in s (`u.third` is the plain one). Where f' is 0, so are all:
    u may be as large as doubles get there."""
    flat = f.first == 0.0
    u1, u2, u3 = (np.where(flat, 0.0, part) for part in (u.slope, u.curvature, u.third))
    bend = f.second * u1  # products: a cube by `**` takes 20 times as long
    return PointwiseAnswer(
        f.value,
        f.first * u1,
        bend * u1 + f.first * u2,
        f.third * u1 * u1 * u1 + 3.0 * bend * u2 + f.first * u3,
    )


@np.errstate(all="ignore")
def chained_curve(f: Outer, u: PointwiseAnswer, by: ParameterCurve) -> ParameterCurve:
    """d f(u(s)) / dparameter with two derivatives in s, from those of u, `by`."""
    flat = f.first == 0.0
    u1, u2 = (np.where(flat, 0.0, part) for part in (u.slope, u.curvature))
    b0, b1, b2 = (np.where(flat, 0.0, part) for part in by)
    return ParameterCurve(
        f.first * b0,
        f.second * u1 * b0 + f.first * b1,
        f.third * u1**2 * b0 + f.second * (u2 * b0 + 2.0 * u1 * b1) + f.first * b2,
    )


def minus(a: PointwiseAnswer, b: PointwiseAnswer, variance: Array | float) -> PointwiseAnswer:
    """a - b, both with the plain third derivative, contracted with `variance` now."""
    return PointwiseAnswer(
        a.value - b.value,
        a.slope - b.slope,
        a.curvature - b.curvature,
        (a.third - b.third) * variance,
    )
