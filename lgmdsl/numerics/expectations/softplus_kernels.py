"""Expectations of softplus and of the log-sum-exp of three classes, compiled (`log_sum_exp` has the
formulas). Imported only where they are many enough to repay numba.

Rules over N(0, 1) are Gauss-Hermite's from a table, or the trapezoidal one, whose nodes and weights
are made for each row. Over many sds a softplus takes `expectation`'s rule instead, s = pi sinh(u),
as of a function that bends at 0 and whose singularities stand at +- i pi.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.compiled import compiled

Table: TypeAlias = tuple[IntArray, Array, Array]  # where each rule starts; nodes, weights
Rules: TypeAlias = tuple[IntArray, IntArray]  # of each row: in the table, or half the nodes


@compiled
def _rule(which: int, half: int, reach: float, table: Table, t: Array, w: Array) -> int:
    """Nodes and weights into t and w, and how many: the rule `which` of the table, or, below 0,
    the trapezoidal one of 2 half + 1 nodes."""
    starts, nodes, weights = table
    if which >= 0:
        count = starts[which + 1] - starts[which]
        for k in range(count):
            t[k], w[k] = nodes[starts[which] + k], weights[starts[which] + k]
        return int(count)
    step, total = reach / half, 0.0
    for k in range(2 * half + 1):
        t[k] = (k - half) * step
        w[k] = math.exp(-0.5 * t[k] * t[k])
        total += w[k]
    for k in range(2 * half + 1):
        w[k] /= total
    return 2 * half + 1


@compiled
def _softplus(mean: float, sd: float, count: int, t: Array, w: Array) -> tuple[float, ...]:
    """E[softplus(x)], E[sigma(x)], E[sigma(-x)] and E[sigma(x) sigma(-x)] for x ~ N(m, sd^2)."""
    value, up, down, bend = 0.0, 0.0, 0.0, 0.0
    for k in range(count):
        x = mean + sd * t[k]
        e = math.exp(-abs(x))
        large = 1.0 / (1.0 + e)
        small = e * large
        level = math.log1p(e)
        if x >= 0.0:
            value += w[k] * (x + level)
            up += w[k] * large
            down += w[k] * small
        else:
            value += w[k] * level
            up += w[k] * small
            down += w[k] * large
        bend += w[k] * (large * small)
    return value, up, down, bend


_DECAY, _REACH, _STEP = 31.0, 8.3, 0.3  # as in `expectation`


@compiled
def _wide_softplus(mean: float, sd: float) -> tuple[float, ...]:
    """E[softplus(x)], E[sigma(x)], E[sigma(-x)] and E[sigma(x) sigma(-x)] of a wide Gaussian; NaN
    of what is not finite, which has no number of nodes."""
    if not (math.isfinite(mean) and math.isfinite(sd)):
        return math.nan, math.nan, math.nan, math.nan
    x, ratio = mean / math.pi, sd / math.pi
    r = abs(x) / ratio
    tau = 0.25 * (math.sqrt(r * r + 16.0 * _DECAY) - r)
    best = math.hypot(r + tau, 1.0 / ratio) * math.sqrt(2.0 * _DECAY - tau * tau)
    nearest = math.hypot(r, 1.0 / ratio) * math.sqrt(2.0 * _DECAY)
    step = min(2.0 * math.pi / max(4.0 / math.pi * best, nearest), _STEP)
    middle = math.asinh(x)
    before = math.ceil((middle - math.asinh(x - _REACH * ratio)) / step)
    after = math.ceil((math.asinh(x + _REACH * ratio) - middle) / step)
    value, up, down, bend, total = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(-before, after + 1):
        e = math.exp(0.5 * k * step)
        sinh, cosh = 0.5 * (e - 1.0 / e), 0.5 * (e + 1.0 / e)
        # s - m without cancellation, but far beyond 0, where s itself is good enough.
        offset = 2.0 * sinh * (math.hypot(1.0, x) * cosh + x * sinh)
        if 10.0 < abs(x) < 60.0 * ratio:
            offset = math.sinh(middle + k * step) - x
        t, place = offset / ratio, x + offset
        w = math.exp(-0.5 * t * t) * math.sqrt(1.0 + place * place)
        total += w
        s = math.pi * place
        e = math.exp(-abs(s))
        large = 1.0 / (1.0 + e)
        small = e * large
        value += w * (max(s, 0.0) + math.log1p(e))
        up += w * (large if s >= 0.0 else small)
        down += w * (small if s >= 0.0 else large)
        bend += w * (large * small)
    return value / total, up / total, down / total, bend / total


@compiled
def softplus(mean: Array, sd: Array, rules: Rules, reach: float, table: Table, out: Array) -> None:
    """The four expectations of each row into out, (4, n)."""
    which, half = rules
    room = max(2 * half.max() + 1, np.diff(table[0]).max())
    t, w = np.empty(room), np.empty(room)
    for i in range(len(mean)):
        if half[i] == 0:
            out[0, i], out[1, i], out[2, i], out[3, i] = _wide_softplus(mean[i], sd[i])
        else:
            count = _rule(which[i], half[i], reach, table, t, w)
            out[0, i], out[1, i], out[2, i], out[3, i] = _softplus(mean[i], sd[i], count, t, w)


@compiled
def three(
    nested: tuple[Array, Array, Array, Array, Array],
    outer_rules: Rules,
    inner_rules: Rules,
    reach: float,
    table: Table,
    out: Array,
) -> None:
    """Into out, (7, n): E of the value, of the probabilities of the three classes, and of their
    products p_0 p_1, p_0 p_2, p_1 p_2; `spread` is the inner class' sd, `inner_half` 0 where it is
    wide."""
    mu, sd, centre, slope, spread = nested
    (outer, outer_half), (inner, inner_half) = outer_rules, inner_rules
    room = max(2 * max(outer_half.max(), inner_half.max()) + 1, np.diff(table[0]).max())
    t, w, u, v = np.empty(room), np.empty(room), np.empty(room), np.empty(room)
    for i in range(len(mu)):
        many = _rule(outer[i], outer_half[i], reach, table, t, w)
        count = 0
        # Beyond this softplus(s) is s, or e^s, wherever the Gaussian is: to e^-40.
        limit = 40.0 + 9.0 * spread[i] + spread[i] * spread[i]
        if inner_half[i] > 0:
            count = _rule(inner[i], inner_half[i], reach, table, u, v)
        value, p0, p1, p2, p01, p02, p12 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(many):
            away = sd[i] * t[j]
            x = mu[i] + away
            e = math.exp(-abs(x))
            large = 1.0 / (1.0 + e)
            up = large if x >= 0.0 else e * large
            down = e * large if x >= 0.0 else large
            level = max(x, 0.0) + math.log1p(e)
            at = centre[i] + slope[i] * away - level
            if abs(at) > limit:
                tiny = math.exp(0.5 * spread[i] * spread[i] - abs(at))
                f, one, rest, bend = (at, 1.0, tiny, tiny) if at > 0.0 else (tiny, tiny, 1.0, tiny)
            elif count > 0:
                f, one, rest, bend = _softplus(at, spread[i], count, u, v)
            else:
                f, one, rest, bend = _wide_softplus(at, spread[i])
            value += w[j] * (level + f)
            p0 += w[j] * (down * rest)
            p1 += w[j] * (up * rest)
            p2 += w[j] * one
            # E[(1 - P)^2] = E[1 - P] - E[P (1 - P)].
            p01 += w[j] * (up * down * (rest - bend))
            p02 += w[j] * (down * bend)
            p12 += w[j] * (up * bend)
        out[0, i], out[1, i], out[2, i], out[3, i] = value, p0, p1, p2
        out[4, i], out[5, i], out[6, i] = p01, p02, p12
