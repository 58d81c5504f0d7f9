"""Where increasing functions reach their levels, each entry by itself: brackets, scales and the end
of an iteration are an entry's own, so that it has the same answer among any others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray

ROUNDS = 400
# Normal scores within which functions are told apart, and to what scores and places are found.
FARTHEST, SCORE, PLACE = 38.0, 1e-11, 1e-11

# places (n,), entries (n,) -> values in [0, 1], (n,)
Increasing = Callable[[Array, IntArray], Array]


def reached(
    below: Increasing,
    level: Array,
    start: Array,
    step: Array,
    ends: tuple[Array, Array],
    whole: bool = False,
) -> Array:
    """The first x between the `ends` with below(x) >= level: an end where there is none inside, or
    where `below` is NaN there; NaN where it is NaN inside. `whole`: among whole numbers.

    From `start` in steps that double to a bracket, then the Illinois rule on normal scores, where
    distribution functions are nearly straight, with a bisection at every third turn.
    """
    low, high = (np.array(np.broadcast_to(e, level.shape), dtype=np.float64) for e in ends)
    ends_low, ends_high = low.copy(), high.copy()
    at_low, at_high = np.full(level.shape, np.nan), np.full(level.shape, np.nan)
    target = special.ndtri(level)
    x = np.clip(np.where(np.isfinite(start), start, 0.0), low, high)
    x = np.round(x) if whole else x
    width = np.where(np.isfinite(step) & (step > 0.0), step, 1.0)
    width = np.maximum(np.round(width), 1.0) if whole else width
    out, before = np.full(level.shape, np.nan), np.zeros(level.shape)
    active = np.arange(len(level))
    for turn in range(ROUNDS):
        if not len(active):
            break
        here, value = x[active], below(x[active], active)
        # Sums of weights are 1 up to rounding, on either side.
        gap = np.clip(special.ndtri(np.clip(value, 0.0, 1.0)), -FARTHEST, FARTHEST) - target[active]
        above = value >= level[active]
        up, down = active[above], active[~above]
        # An end that stays for a second time loses half of its gap.
        at_low[up] *= np.where(before[up] > 0.0, 0.5, 1.0)
        at_high[down] *= np.where(before[down] < 0.0, 0.5, 1.0)
        before[active] = np.where(above, 1.0, -1.0)
        high[up], at_high[up] = here[above], gap[above]
        low[down], at_low[down] = here[~above], gap[~above]
        lost = np.isnan(value)
        fled = lost & ((here == ends_low[active]) | (here == ends_high[active]))
        out[active[fled]] = here[fled]
        if whole:
            done = high[active] - low[active] <= 1.0
        else:
            near = np.abs(gap) <= SCORE
            out[active[near]] = here[near]
            scale = np.maximum(np.abs(here), 1.0)
            done = near | (high[active] - low[active] <= PLACE * scale)
        closed = done & ~lost & np.isnan(out[active])
        out[active[closed]] = high[active[closed]]
        active = active[~(done | lost)]
        x[active] = _next(low, high, at_low, at_high, width, active, turn, whole)
        # A place that comes next although it is known is the answer: nothing lies between.
        ended = (x[active] == low[active]) & ~np.isnan(at_low[active])
        ended |= (x[active] == high[active]) & ~np.isnan(at_high[active])
        out[active[ended]] = x[active[ended]]
        active = active[~ended]
    return out


def _next(
    low: Array,
    high: Array,
    at_low: Array,
    at_high: Array,
    width: Array,
    active: IntArray,
    turn: int,
    whole: bool,
) -> Array:
    """Where to look next: beyond what is known, or within the bracket."""
    a, b, f, g = low[active], high[active], at_low[active], at_high[active]
    w = width[active]
    with np.errstate(all="ignore"):
        middle = a + 0.5 * (b - a)
        secant = a - f * (b - a) / (g - f)
    inside = (secant > a) & (secant < b) & (turn % 3 != 2)
    x = np.where(inside, secant, middle)
    x = np.where(np.isnan(f), np.maximum(b - w, a), x)
    x = np.where(np.isnan(g), np.minimum(a + w, b), x)
    width[active] = np.where(np.isnan(f) | np.isnan(g), 2.0 * w, w)
    if whole:
        x = np.where(np.isnan(f) | np.isnan(g), x, np.clip(np.round(x), a + 1.0, b - 1.0))
    return np.asarray(x)
