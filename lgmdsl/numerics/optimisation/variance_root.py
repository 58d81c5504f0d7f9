"""The variance of one Gaussian coordinate whose precision depends on that variance.

    1/v = c + T(v)     <=>     x + log(c + T(e^x)) = 0,   x = log v,

by Newton in x inside a bracket of signs. Plain iteration v <- 1/(c + T(v)) may cycle for ever; the
bracket cannot. Of several roots it returns one at which log(v)/2 - c v/2 + f has a maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable

LONGEST = 3.0  # of a step in log v while a side is open: a factor of 20
ROUNDS = 200
SMALLEST, LARGEST = -690.0, 690.0  # log v of doubles


def solve_variance(
    weight: Callable[[float], tuple[float, float]],
    cavity: float,
    start: float,
    accuracy: float = 1e-10,
) -> float:
    """v with 1/v = cavity + T(v), to `accuracy` relative. `weight(v)` gives T = -2 f_v and dT/dv.

    `start` > 0 is where Newton begins; where doubles hold no root the last trial is returned.
    """
    low, high = -math.inf, math.inf
    x = math.log(start)
    for _ in range(ROUNDS):
        v = math.exp(x)
        value, slope = weight(v)
        precision = cavity + value
        if precision > 0.0 and math.isfinite(precision):
            miss = x + math.log(precision)  # > 0: v is too large
            rate = 1.0 + slope * v / precision
        else:  # no such Gaussian: v must grow where T is negative, shrink where it is not finite
            miss = -math.inf if precision <= 0.0 else math.inf
            rate = 0.0
        if abs(miss) <= accuracy:
            return v
        if miss > 0.0:
            high = x
        else:
            low = x
        step = -miss / rate if rate > 0.0 else -math.copysign(LONGEST, miss)
        # A Newton step that does not settle it may be the last one that rounding allows.
        step = max(-LONGEST, min(LONGEST, step))
        following = x + step
        if not low < following < high:
            following = 0.5 * (low + high)
        if not SMALLEST < following < LARGEST or following == x:
            break
        x = following
    return math.exp(x)
