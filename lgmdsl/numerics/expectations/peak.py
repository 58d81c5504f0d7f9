"""Mass, mean and variance of positive functions given by their logarithm, whatever their scale.

No mode is searched for: a window known to hold all the mass is scanned and shrunk to where the
logarithm is within 40 of its maximum, then the trapezoidal rule is applied and its step halved
until two rules agree. For analytic integrands halving the step squares the error (at least).

Where a support ends within the window (the logarithm is -inf beyond) its end is found by bisection,
and the rule is the tanh-sinh one (Takahasi and Mori 1974), which is as fast for algebraic zeros and
jumps at the end: halving a plain step took 65,536 nodes for those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray

# rows (n,), u (n, k) -> log integrand in u (with the Jacobian) and position, both (n, k)
LogIntegrand = Callable[[IntArray, Array], tuple[Array, Array]]

DROP = 40.0
# A second peak e^-40 below the first still matters for the variance if it is 1e5 widths away.
DROP_OF_TWO_PEAKS = 80.0
SCAN = 32
FIRST = 32
AGREEMENT = 1e-7
NODES_PER_PASS = 1 << 17
SHRINKS = 40
BISECTIONS = 60
SPAN = 3.2  # of the tanh-sinh rule: its ends are e^-38 of the window away from the support's
ROUNDING = 1e-15  # of the logarithms: 4 units in the last place
MAX_INTERVALS = 1 << 16  # intervals: what has not settled by then has no more digits


def log_moments(
    f: LogIntegrand,
    low: Array,
    high: Array,
    step: Array,
    anchors: Array,
    drop: float = DROP,
    agreement: float = AGREEMENT,
) -> tuple[Array, Array, Array]:
    """log integral, mean and variance of the position, each (N,).

    `low`, `high` (N,): a window that holds the mass; `step` (N,): the largest step allowed;
    `anchors` (N, j): points of the window where narrow peaks may stand, scanned in addition;
    `drop`: what lies this far below the largest logarithm is left out; `agreement`: of two rules,
    in log mass, in the mean relative to the sd, and in the variance relative to itself.
    """
    low, high, top = _shrink(f, low, high, anchors, drop)
    low, high, ended = _ends(f, low, high, top)
    intervals = np.maximum(FIRST, 2 * np.ceil((high - low) / (2.0 * step))).astype(np.int64)
    intervals = np.where(ended, 2 * intervals, intervals)
    intervals = 16 * ((intervals + 15) // 16)
    out = np.zeros((3, len(low)))
    pending = np.arange(len(low))
    while len(pending):
        agreed = np.zeros(len(pending), dtype=bool)
        # Rows of one rule together: the sign says which.
        kind = np.where(ended[pending], -intervals[pending], intervals[pending])
        for k in np.unique(kind):
            n, cut = int(abs(k)), bool(k < 0)
            for chunk in _chunks(np.flatnonzero(kind == k), n):
                rows = pending[chunk]
                window = low[rows], high[rows], cut
                out[:, rows], agreed[chunk] = _trapezoid(f, rows, *window, n, agreement)
        pending = pending[~agreed & (intervals[pending] < MAX_INTERVALS)]
        intervals[pending] *= 2
    return out[0], out[1], out[2]


def _chunks(members: IntArray, width: int) -> list[IntArray]:
    rows = max(1, NODES_PER_PASS // width)
    return [members[i : i + rows] for i in range(0, len(members), rows)]


def _shrink(
    f: LogIntegrand, low: Array, high: Array, anchors: Array, drop: float
) -> tuple[Array, Array, Array]:
    """The window where f is within `drop` of its largest scanned value, and one cell each side; and
    where that value is."""
    low, high, top = low.copy(), high.copy(), low.copy()
    grid = np.linspace(0.0, 1.0, SCAN + 1)
    pending = np.arange(len(low))
    for _ in range(SHRINKS):
        shrunk = np.zeros(len(pending), dtype=bool)
        for chunk in _chunks(np.arange(len(pending)), SCAN + 1 + anchors.shape[1]):
            rows = pending[chunk]
            old_low, old_high = low[rows], high[rows]
            width = old_high - old_low
            scan = old_low[:, None] + width[:, None] * grid
            points = np.concatenate([scan, anchors[rows]], axis=1)
            values, _ = f(rows, points)
            # Not `>`: against a maximum of -1e20 the 40 are lost to rounding.
            near = values >= values.max(axis=1, keepdims=True) - drop
            top[rows] = np.take_along_axis(points, values.argmax(axis=1)[:, None], axis=1)[:, 0]
            cell = width / SCAN
            first = np.min(np.where(near, points, np.inf), axis=1)
            last = np.max(np.where(near, points, -np.inf), axis=1)
            low[rows] = np.maximum(old_low, first - cell)
            high[rows] = np.minimum(old_high, last + cell)
            shrunk[chunk] = high[rows] - low[rows] < 0.6 * width
        pending = pending[shrunk]
        if not len(pending):
            break
    return low, high, top


def _ends(f: LogIntegrand, low: Array, high: Array, top: Array) -> tuple[Array, Array, BoolArray]:
    """The window without what lies beyond the ends of the support, and where that was cut off."""
    ends, ended = np.stack([low, high], axis=1), np.zeros(len(low), dtype=np.bool_)
    beyond = np.isneginf(f(np.arange(len(low)), ends)[0])
    for side in range(2):
        rows = np.flatnonzero(beyond[:, side])
        if not len(rows):
            continue
        rows = rows[np.isfinite(f(rows, top[rows, None])[0][:, 0])]
        inside, outside = top[rows], ends[rows, side]
        for _ in range(BISECTIONS):
            middle = 0.5 * (inside + outside)
            possible = ~np.isneginf(f(rows, middle[:, None])[0][:, 0])
            inside = np.where(possible, middle, inside)
            outside = np.where(possible, outside, middle)
        ends[rows, side], ended[rows] = inside, True
    return ends[:, 0], ends[:, 1], ended


@cache
def _tanh_sinh(n: int) -> tuple[Array, Array, Array]:
    """Nodes as shares of the window from both of its ends, and the logarithms of what a step of
    1 / n is stretched by."""
    t = np.linspace(-SPAN, SPAN, n + 1)
    x = np.pi * np.sinh(t)
    up, down = special.expit(x), special.expit(-x)
    return up, down, np.log(2.0 * np.pi * SPAN * np.cosh(t) * up * down)


def _rule(
    f: LogIntegrand, rows: IntArray, low: Array, high: Array, ended: bool, n: int
) -> tuple[Array, Array]:
    """Logarithm of the integrand, and position, at n + 1 nodes of equal weight (high - low) / n."""
    width = (high - low)[:, None]
    if not ended:
        return f(rows, low[:, None] + width / n * np.arange(n + 1))
    up, down, stretch = _tanh_sinh(n)
    u = np.where(up < 0.5, low[:, None] + width * up, high[:, None] - width * down)
    values, position = f(rows, u)
    return values + stretch, position


def _trapezoid(
    f: LogIntegrand,
    rows: IntArray,
    low: Array,
    high: Array,
    ended: bool,
    n: int,
    agreement: float,
) -> tuple[Array, Array]:
    """The rule with n intervals, and whether the rule with n / 2 agrees."""
    step = (high - low) / n
    values, position = _rule(f, rows, low, high, ended, n)
    top = values.max(axis=1, keepdims=True)
    weight = np.exp(values - top)
    fine = _moments(weight, position, step, top[:, 0])
    coarse = _moments(weight[:, ::2], position[:, ::2], 2.0 * step, top[:, 0])
    spread = np.sqrt(fine[2])
    gap = np.maximum(
        np.abs(fine[0] - coarse[0]),
        np.maximum(
            np.abs(fine[1] - coarse[1]) / np.where(spread > 0.0, spread, 1.0),
            0.2 * np.abs(fine[2] - coarse[2]) / np.where(fine[2] > 0.0, fine[2], 1.0),
        ),
    )
    # Logarithms of 1e9 have no more digits than these.
    return fine, gap <= agreement + ROUNDING * np.abs(top[:, 0])


def _moments(weight: Array, position: Array, step: Array, top: Array) -> Array:
    # The coarse rule may miss a peak that no double can resolve: then it must only disagree.
    total = np.maximum(weight.sum(axis=1), 1e-300)
    mean = (weight * position).sum(axis=1) / total
    variance = (weight * (position - mean[:, None]) ** 2).sum(axis=1) / total
    return np.stack([top + np.log(step * total), mean, variance])


# ---- half line ---------------------------------------------------------------------------------
# Expectations and moments of functions with a cusp at zero: one exponential grid for each side.
#
# With x = +-e^u the cusp moves to u = -infinity, where the Jacobian kills it, and each side is
# analytic in u: the trapezoidal rule converges as fast as for smooth functions on the line.


# rows (n,), x > 0 (n, k) -> an even function of x at those rows, (n, k)
Level = Callable[[IntArray, Array], Array]

NODES = 640
REACH = 8.5
_DEPTH = 42.0  # e-folds: what lies nearer to the cusp holds less than 1e-18 of the mass
_ROWS_PER_PASS = 128


def moments_of_power(
    mean: Array, sd: Array, power: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """E|x|^p, x ~ N(mean, sd^2), and its derivatives in m, v, (m, v), (v, v), for |m| <= 9 sd.

    In units of sd, ratio r = m / sd: derivatives fall on the Gaussian, as Hermite polynomials.
    """
    ratio = mean / sd
    out = np.empty((5, len(mean)))
    for start in range(0, len(mean), _ROWS_PER_PASS):
        rows = slice(start, start + _ROWS_PER_PASS)
        r, p = ratio[rows, None], power[rows, None]
        low = -_DEPTH / (1.0 + p)
        step = (np.log(np.abs(r) + REACH) - low) / (NODES - 1)
        x = np.exp(low + step * np.arange(NODES))
        area = x ** (p + 1.0) * step / np.sqrt(2.0 * np.pi)
        sums = np.zeros((5, r.shape[0]))
        for side in (1.0, -1.0):
            t = side * x - r
            weight = area * np.exp(-0.5 * t * t)
            t2 = t * t
            for k, hermite in enumerate(
                (1.0, t, 0.5 * (t2 - 1.0), 0.5 * t * (t2 - 3.0), 0.25 * (t2 * (t2 - 6.0) + 3.0))
            ):
                sums[k] += (weight * hermite).sum(axis=1)
        out[:, rows] = sums
    unit = sd**power
    by = np.stack([unit, unit / sd, unit / sd**2, unit / sd**3, unit / sd**4])
    value, d_mean, d_variance, mixed, second = out * by
    return value, d_mean, d_variance, mixed, second


def tilted_sides(level: Level, mean: Array, sd: Array, decay: Array) -> tuple[Array, Array, Array]:
    """log mass, mean and variance of exp(level(x)) N(x; mean, sd^2), level even with a cusp at 0.

    `level(rows, x)` takes x > 0, (n, k), and falls with x; `decay` (N,) is the width over which it
    falls by one. No density constant but the Gaussian's is added.
    """
    return _signed(mean, _sides(level, mean, sd, decay, None), sd)


def average_over_sides(level: Level, value: Level, mean: Array, sd: Array, decay: Array) -> Array:
    """E[value(|x|)] under the density of `tilted_sides`; `value(rows, x)` as `level`."""
    (log_a, a, _), (log_b, b, _) = _sides(level, mean, sd, decay, value)
    log_b = log_b - 0.5 * (mean / sd) ** 2  # see _signed
    total = np.logaddexp(log_a, log_b)
    return np.asarray(np.exp(log_a - total) * a + np.exp(log_b - total) * b)


def _sides(
    level: Level, mean: Array, sd: Array, decay: Array, value: Level | None
) -> list[tuple[Array, Array, Array]]:
    """log mass, and mean and variance of the distance from the mean (of `value` if given), on the
    mean's side of the cusp and on the other."""
    size = np.abs(mean)
    with np.errstate(divide="ignore"):
        narrowest = np.minimum(np.minimum(sd, decay), sd * (sd / np.maximum(size, 1e-300)))
    parts = []
    for side in (1.0, -1.0):
        anchor = np.where((size > sd) & (side > 0), size, sd)
        origin = np.log(anchor)

        def log_f(
            rows: IntArray,
            w: Array,
            side: float = side,
            anchor: Array = anchor,
            origin: Array = origin,
        ) -> tuple[Array, Array]:
            # The distance to |mean|, without cancellation where sd is tiny next to it.
            a = anchor[rows][:, None]
            m = size[rows][:, None]
            away = (a - side * m) + a * np.expm1(w)
            x = a * np.exp(w)
            square = away * away if side > 0 else x * (x + 2.0 * m)  # less m^2: added below
            gauss = -0.5 * square / sd[rows][:, None] ** 2
            logarithm = level(rows, x) + gauss + w + origin[rows][:, None]
            if value is not None:
                return logarithm, value(rows, x)
            return logarithm, away if side > 0 else x

        low = np.log(narrowest) - _DEPTH - origin
        peaks = np.stack([np.maximum(size + k * sd, narrowest) for k in (-1.0, 0.0, 1.0)], axis=1)
        # Only the mean's own side can have two peaks, one of them as narrow as sd.
        finest = np.clip(1.1 * sd / (size + 8.0 * sd), 1e-3, 0.3)
        step = finest if side > 0 else np.full_like(sd, 0.3)
        high = np.log(size + 10.0 * sd) - origin
        mass, away, spread = log_moments(
            log_f, low, high, step, np.log(peaks) - origin[:, None], DROP_OF_TWO_PEAKS
        )
        parts.append((mass, away, spread))
    return parts


def _signed(
    mean: Array, parts: list[tuple[Array, Array, Array]], sd: Array
) -> tuple[Array, Array, Array]:
    """Both sides together, mirrored back to the sign of the mean."""
    (mass, away, spread), (other, beyond, width) = parts
    # As if the mean were positive: |m| + away on its side, where m^2 was left out of the other's.
    size = np.abs(mean)
    other = other - 0.5 * (size / sd) ** 2
    log_mass, position, variance = merge(mass, size + away, spread, other, -beyond, width)
    constant = -0.5 * np.log(2.0 * np.pi) - np.log(sd)
    return log_mass + constant, np.where(mean < 0.0, -position, position), variance


def merge(
    log_a: Array, mean_a: Array, var_a: Array, log_b: Array, mean_b: Array, var_b: Array
) -> tuple[Array, Array, Array]:
    """log mass, mean and variance of the sum of two positive densities with given ones."""
    total = np.logaddexp(log_a, log_b)
    a, b = np.exp(log_a - total), np.exp(log_b - total)
    gap = mean_a - mean_b
    return total, a * mean_a + b * mean_b, a * var_a + b * var_b + a * b * gap * gap
