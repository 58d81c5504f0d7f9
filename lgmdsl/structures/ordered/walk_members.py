"""New members of random walks, given the fitted ones.

rw1 is Brownian motion: linear between neighbours, and flat beyond the ends.

rw2 beyond its ends goes on in the steps of its own axis, with the second differences of the fitted
walk. Between the members (fitted ones, or of those steps) it is the integrated Wiener process given
them all, to whose second derivative the second differences of the walk tend (Lindgren and Rue 2008;
Wahba 1978): its mean is the natural cubic spline. Neither depends on what else is asked for, as
the second differences of a walk over old and new places together would.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.contract.structure import Extension
from lgmdsl.structures.ordered.extensions import FARTHEST, Links, Recursion, both_ends
from lgmdsl.structures.shared.refusals import Refused

# A cubic spline forgets a knot at least by half at the next one: what is further away is rounding.
FAR = 60
# Places are on the grid where they miss it by less than this share of a step.
ON_GRID = 1e-9
# The most steps between the first fitted place and the last one, and the share of a step by which
# the rounding of its places may miss a grid.
FINEST, MISSED = 1e6, 1e-6


def brownian(variance: float) -> Links:
    """Increments over a gap g have variance g `variance`."""
    return Links(
        lambda gap: (1.0, variance * gap),
        lambda a, b: (b / (a + b), a / (a + b), variance * a * b / (a + b)),
    )


def second_order(variance: float, fitted: Array, new: Array) -> Extension:
    """rw2 at sorted distinct places; slopes change by `variance` in each unit of length."""
    step = grid_step(fitted)
    if (np.maximum(fitted[0] - new, new - fitted[-1]) > FARTHEST * step).any():
        raise Refused(
            "E302",
            "a new place of `rw2` is too far from those of {axis}",
            label=f"at most {FARTHEST:.2g} steps of {step:g} are possible",
        )
    before, after = (fitted[0] - new) / step, (new - fitted[-1]) / step
    beyond = np.maximum(before, after)
    grid = (beyond > 0) & (np.abs(beyond - np.round(beyond)) <= ON_GRID * np.maximum(beyond, 1.0))
    ends = [_needed(side, grid) for side in (before, after)]
    outer = both_ends(
        _beyond(variance, fitted, step, ends[0], first=True),
        _beyond(variance, fitted, step, ends[1], first=False),
    )
    places = np.concatenate([fitted[0] - step * ends[0][::-1], fitted[-1] + step * ends[1]])
    positions = _places_of(new, grid, places)
    if grid.all():
        return Extension(
            sp.csr_array(outer.weights[positions]), outer.covariance[np.ix_(positions, positions)]
        )
    knots = np.concatenate([fitted, places])
    inner = spline(variance, knots, new[~grid])
    # a new member is one of the outer ones, or the spline through these and the fitted ones
    n, m = len(fitted), len(new)
    by_knot = sp.lil_array((m, len(knots)))
    by_knot[np.flatnonzero(grid), n + positions] = 1.0
    from_knots = sp.csr_array(by_knot)
    rows = np.flatnonzero(~grid)
    put = sp.csr_array((np.ones(len(rows)), (rows, np.arange(len(rows)))), shape=(m, len(rows)))
    from_knots = sp.csr_array(from_knots + put @ inner.weights)
    outside = sp.csr_array(from_knots[:, n:])
    weights = sp.csr_array(from_knots[:, :n] + outside @ outer.weights)
    covariance = np.asarray(outside @ (outside @ outer.covariance).T)
    covariance[np.ix_(rows, rows)] += inner.covariance
    return Extension(weights, 0.5 * (covariance + covariance.T))


def grid_step(places: Array) -> float:
    """The step of the grid that all places lie on, in any unit; their mean
    gap where the span has no such grid of at most `FINEST` steps."""
    gaps = np.diff(places)
    span = float(places[-1] - places[0])
    step, rest = 0.0, span / FINEST
    for gap in np.unique(gaps).tolist():
        other = gap
        while other > rest:
            step, other = other, abs(step - other * round(step / other))
        if step <= rest:
            break
    if step > rest:
        step = span / round(span / step)
        steps = (places - places[0]) / step
        if (np.abs(steps - np.round(steps)) <= MISSED).all():
            return step
    return float(gaps.mean())


def _needed(away: Array, grid: BoolArray) -> IntArray:
    """Steps beyond an end, sorted: those asked for, and the knots of what lies between steps."""
    parts = [np.round(away[grid & (away > 0)])]
    between = away[~grid]
    if between.size:
        parts += [np.arange(1.0, FAR + 2.0)]
        whole = np.floor(between[between > 0])
        parts += [(whole[:, None] + np.arange(-FAR, FAR + 2.0)).reshape(-1)]
    steps = np.unique(np.concatenate(parts))
    return steps[steps >= 1].astype(np.int64)


def _places_of(new: Array, grid: BoolArray, places: Array) -> IntArray:
    """Where the members on the grid stand among `places`, the nearest ones."""
    order = np.argsort(places)
    asked, ordered = new[grid], places[order]
    if not asked.size:
        return np.zeros(0, dtype=np.int64)
    right = np.clip(np.searchsorted(ordered, asked), 1, max(len(ordered) - 1, 1))
    right = np.minimum(right, len(ordered) - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.abs(ordered[left] - asked) <= np.abs(ordered[right] - asked)
    return np.asarray(order[np.where(nearer, left, right)], dtype=np.int64)


def _beyond(variance: float, fitted: Array, step: float, steps: IntArray, first: bool) -> Extension:
    """So many steps beyond an end: d_t = d_{t-1} + e, z_t = z_{t-1} + d_t. The first slope changes
    at the last fitted member, whose share of the noise is half of the gaps on both of its sides."""
    n = len(fitted)
    gap = float(fitted[1] - fitted[0] if first else fitted[-1] - fitted[-2])
    end, inner = (0, 1) if first else (n - 1, n - 2)
    # the last member, and the step on the last slope
    share = step / gap
    state = sp.csr_array(
        (np.array([1.0, share, -share]), ([0, 1, 1], [end, end, inner])), shape=(2, n)
    )
    onward, both = np.array([[1.0, 1.0], [0.0, 1.0]]), np.ones(2)
    begins = variance * step**2 * 0.5 * (gap + step)
    return Recursion(onward, both, variance * step**3, begins, state).ahead(steps)


def spline(variance: float, knots: Array, new: Array) -> Extension:
    """The integrated Wiener process at sorted places `new`, strictly inside, given its values at
    `knots`, in any order: z'' = white noise of intensity `variance`.

    Slopes d at the knots have the precision of the gaps, 4/g and 2/g, and d'r with r = 6 dz / g^2
    on both ends (Wecker and Ansley 1983); between two knots a member is the cubic through values
    and slopes, and what is left has the Green function of a beam that is clamped at both ends.
    """
    order = np.argsort(knots)
    cell = np.searchsorted(knots[order], new) - 1
    near, interval = _near(cell, len(knots))
    x = knots[order][near]
    g = np.diff(x)
    h, s = g[interval], new - x[interval]
    u = s / h
    rows = np.arange(len(new))
    # cubic Hermite functions of values and slopes at both ends
    values = _entries(
        rows, interval, (1.0 + 2.0 * u) * (1.0 - u) ** 2, u * u * (3.0 - 2.0 * u), len(x)
    )
    slopes = _entries(rows, interval, s * (1.0 - u) ** 2, -s * u * (1.0 - u), len(x))
    middle = np.zeros((2, len(x)))
    middle[1, :-1] += 4.0 / g
    middle[1, 1:] += 4.0 / g
    middle[0, 1:] = 2.0 / g
    solved = sla.solveh_banded(middle, slopes.T.toarray())  # T^-1 H', (knots, m)
    jump = _entries(np.arange(len(g)), np.arange(len(g)), -6.0 / g**2, 6.0 / g**2, len(x))
    ends = abs(_entries(np.arange(len(g)), np.arange(len(g)), 1.0 + 0 * g, 1.0 + 0 * g, len(x)))
    weights = sp.csr_array(values + sp.csr_array(solved.T @ (ends.T @ jump)))
    covariance = slopes @ solved
    covariance += np.where(cell[:, None] == cell, _beam(s, h), 0.0)
    spread = sp.csr_array(
        (np.ones(len(near)), (np.arange(len(near)), order[near])), shape=(len(near), len(knots))
    )
    return Extension(sp.csr_array(weights @ spread), 0.5 * variance * (covariance + covariance.T))


def _near(cell: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """The knots that are near enough to some cell, and each cell's place among them."""
    change = np.zeros(count + 1)
    np.add.at(change, np.maximum(cell - FAR, 0), 1.0)
    np.add.at(change, np.minimum(cell + FAR + 2, count), -1.0)
    near = np.flatnonzero(np.cumsum(change[:-1]) > 0.5)
    return near, np.searchsorted(near, cell)


def _entries(
    rows: IntArray, column: IntArray, first: Array, second: Array, size: int
) -> SparseMatrix:
    """Rows with two entries, at `column` and the next column."""
    where = (np.concatenate([rows, rows]), np.concatenate([column, column + 1]))
    return sp.csr_array((np.concatenate([first, second]), where), shape=(len(rows), size))


def _beam(s: Array, h: Array) -> Array:
    """a^2 (h - b)^2 (h (b - a) + 2 b (h - a)) / (6 h^3) for a <= b, pairs of places in one cell."""
    a, b = np.minimum.outer(s, s), np.maximum.outer(s, s)
    h = h[:, None]
    return np.asarray(a * a * (h - b) ** 2 * (h * (b - a) + 2.0 * b * (h - a)) / (6.0 * h**3))
