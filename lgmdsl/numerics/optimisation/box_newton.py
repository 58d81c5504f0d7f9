"""Newton's method for a convex function in a box, by projection (Bertsekas 1982).

    x <- x + t d,   d = -H_FF^-1 g_F on the free coordinates F, zero on those that a bound holds

A coordinate is held where it stands at a bound and the gradient pushes it outwards. Steps end at
the bounds, and short of those that are walls, where the slope of f is infinite; t is shortened
until Armijo's rule holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray

SUFFICIENT = 1e-4
SHRINK, TRIALS = 0.3, 8
REACH = 0.99  # of the way to a wall
FLAT = 3  # steps whose gain is rounding: x is still the better for a few of them


class Evaluated(Protocol):
    """f at x. `noise`: differences of f below this are rounding."""

    @property
    def x(self) -> Array: ...

    @property
    def value(self) -> float: ...

    @property
    def noise(self) -> float: ...

    @property
    def gradient(self) -> Array: ...

    def step(self, free: BoolArray) -> Array | None:
        """d above; None where H_FF has no factor."""


P = TypeVar("P", bound=Evaluated)


@dataclass(frozen=True)
class Box:
    """low <= x <= high; a coordinate within `slack` of a bound stands at it. `wall`: both of its
    bounds are walls."""

    low: Array
    high: Array
    slack: Array
    wall: BoolArray

    def held(self, x: Array, gradient: Array) -> BoolArray:
        """Which coordinates a bound keeps from going down the gradient."""
        below = (x <= self.low + self.slack) & (gradient > 0.0)
        above = (x >= self.high - self.slack) & (gradient < 0.0)
        return np.asarray(below | above)

    def clip(self, x: Array) -> Array:
        """The nearest point of the box."""
        return np.clip(x, self.low, self.high)

    def shortened(self, x: Array, d: Array) -> Array:
        """x + d in the box, at most REACH of the way to a wall."""
        reach = np.where(self.wall, REACH, 1.0)
        low, high = x + reach * (self.low - x), x + reach * (self.high - x)
        return self.clip(np.clip(x + d, low, high))


def newton_in_box(
    evaluate: Callable[[Array, P], P | None],
    start: P,
    box: Box,
    settled: Callable[[P, BoolArray], bool],
    limit: int = 30,
) -> P:
    """Steps from `start` until `settled(point, held)`, or until no step lowers f.

    `evaluate(x, before)` is f at x, before being the point that the step leaves; None outside f's
    domain.
    """
    now, flat = start, 0
    for _ in range(limit):
        gradient = now.gradient
        bound = box.held(now.x, gradient)
        if settled(now, bound):
            break
        d = now.step(~bound)
        if d is None:
            break
        flat += bool(-(gradient @ d) < now.noise)
        following = _search(evaluate, now, box, d) if flat <= FLAT else None
        if following is None:
            break
        now = following
    return now


def _search(evaluate: Callable[[Array, P], P | None], now: P, box: Box, d: Array) -> P | None:
    t, gradient = 1.0, now.gradient
    for _ in range(TRIALS):
        x = box.shortened(now.x, t * d)
        expected = float(gradient @ (x - now.x))
        if expected < 0.0:
            tried = evaluate(x, now)
            if tried is not None and tried.value <= now.value + SUFFICIENT * expected + now.noise:
                return tried
        t *= SHRINK
    return None
