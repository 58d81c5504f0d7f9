"""rw1 and rw2: random walks at regular, circular or unequal positions.

rw1: increments z_{i+1} - z_i ~ N(0, g_i), g the gaps (Rue and Held 2005, section 3.3.1).
rw2: Q = H'B^-1 H, H the change of slope at every inner point and B = diag((g_{i-1} + g_i)/2), the
Galerkin solution of z'' = white noise with lumped mass (Lindgren and Rue 2008, section 3); with
g = 1 the second differences. Both then scaled; variances, determinants and null spaces are closed
forms in O(n), for Q = D'WD with D of full row rank and null basis N:
    Q^+ = P R W^-1 R'P,  DR = I,  P = I - NN';    |Q|_+ = |W| |DD'|,
    |DD'| = prod d_i^2 / det(N_E)^2,  d_i the last coefficient of row i, E the first points.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.contract.structure import Extension, Members, Structure
from lgmdsl.structures.ordered.extensions import FARTHEST, Links, Recursion, both_ends, extended
from lgmdsl.structures.shared.content import Content, banded, diagonal
from lgmdsl.structures.shared.refusals import Refused, too_short
from lgmdsl.structures.shared.scaled import (
    ScaledPrecision,
    UnitPrecision,
    nothing_tied,
    sums_to_zero,
    unit_of,
)
from lgmdsl.vocabulary.lookup import declared

Pieces = tuple[SparseMatrix, Array, float, SparseMatrix]  # Q, diag Q^+, log|Q|_+, null basis


@dataclass(frozen=True, eq=False)
class Walk(ScaledPrecision):
    """`cyclic`: the last member is the neighbour of the first one."""

    cyclic: bool = False
    members: ClassVar[Members] = Members.ORDERED

    @abstractmethod
    def process(self, variance: float, gap: float, fitted: Array, new: Array) -> Extension:
        """New members at sorted places: differences over the mean gap have this variance."""

    def extension(self, places: Array, new: Array) -> Extension:
        """The increments' variance is that of the fitted walk; `unit.scale` is its own."""
        if self.cyclic:
            raise Refused(
                "E302",
                f"{{axis}} cannot take new members: `{self.name}` closes its circle",
                label="the last member is followed by the first",
                help="ask for the fitted members",
            )
        gap = float(np.diff(np.unique(places)).mean())
        variance = float(self.sd) ** 2 / float(self.unit.scale[0])

        def core(fitted: Array, asked: Array) -> Extension:
            return self.process(variance, gap, fitted, asked)

        return extended(self.name, places, new, core)


class FirstOrderWalk(Walk):
    """rw1, scaled; tied to sum zero unless `sum_to_zero` is false."""

    signature = declared("structure", "rw1")

    def process(self, variance: float, gap: float, fitted: Array, new: Array) -> Extension:
        return brownian(variance / gap)(fitted, new)


class SecondOrderWalk(Walk):
    """rw2, scaled; its line has density 1 unless it is cyclic."""

    signature = declared("structure", "rw2")

    def process(self, variance: float, gap: float, fitted: Array, new: Array) -> Extension:
        return second_order(variance / gap**3, fitted, new)


def rw1(
    size: int, sd: object, cyclic: bool, sum_to_zero: bool, at: Array | None = None
) -> Structure:
    """A random walk of order 1. Raises Refused (E205, E303, E104)."""
    if size < 2:
        raise too_short("rw1", size, 2)
    unit = _walk(1, size, cyclic, _key(at, cyclic), sum_to_zero)
    return FirstOrderWalk(unit, np.asarray(sd), cyclic)


def rw2(
    size: int, sd: object, cyclic: bool, sum_to_zero: bool, at: Array | None = None
) -> Structure:
    """A random walk of order 2. Raises Refused (E205, E303, E104)."""
    if size < 3:
        raise too_short("rw2", size, 3)
    unit = _walk(2, size, cyclic, _key(at, cyclic), sum_to_zero)
    return SecondOrderWalk(unit, np.asarray(sd), cyclic)


def _key(positions: Array | None, cyclic: bool) -> Content | None:
    if positions is None:
        return None
    if cyclic:
        raise Refused(
            "E104",
            "`cyclic = true` and `at` exclude one another",
            "at",
            label="nothing says where the circle closes",
            help="leave out `at`, with every point of the circle in {axis}; or leave out `cyclic`",
        )
    return Content(np.asarray(positions, dtype=np.float64))


def sorted_gaps(positions: Array, name: str) -> tuple[IntArray, Array]:
    """The order of the positions and the gaps between them. Raises Refused (E303)."""
    order = np.argsort(positions, kind="stable")
    gaps = np.diff(positions[order])
    if not (gaps > 0).all():
        again = np.isin(positions, positions[order][1:][gaps == 0])
        raise Refused(
            "E303",
            f"positions of `{name}` repeat",
            "at",
            entries=np.flatnonzero(again),
            label="every point of the axis needs a distinct position",
            help="merge those members, so that rows which share a position map to one: "
            "data when[row] : {index}",
        )
    return order, gaps


@lru_cache(maxsize=8)
def _walk(
    degree: int, size: int, cyclic: bool, positions: Content | None, tied: bool
) -> UnitPrecision:
    if cyclic:
        q, variances, log_det, null = _circle(degree, size)
    else:
        order, gaps = np.arange(size), np.ones(size - 1)
        if positions is not None:
            assert isinstance(positions.value, np.ndarray)
            order, gaps = sorted_gaps(positions.value, f"rw{degree}")
            gaps = gaps / gaps.mean()
        q, variances, log_det, null = _first(gaps) if degree == 1 else _second(gaps)
        back = np.argsort(order)
        q, null = sp.csr_array(q[back][:, back]), sp.csr_array(null[back])
    rows = sums_to_zero(size) if tied else nothing_tied(size)
    return unit_of(q, variances, log_det, null, rows)


def _differences(weights: Array, *coefficients: Array) -> SparseMatrix:
    """D'WD with D_{i, i + k} = coefficients[k]_i."""
    rows = len(weights)
    d = banded(coefficients, range(len(coefficients)), (rows, rows + len(coefficients) - 1))
    return sp.csr_array(d.T @ (diagonal(weights) @ d))


def _level(size: int) -> SparseMatrix:
    return sp.csr_array(np.full((size, 1), size**-0.5))


def _circle(degree: int, size: int) -> Pieces:
    """Eigenvalues (2 - 2 cos(2 pi k / n))^degree, of product n^(2 degree) without the zero."""
    one = sp.eye_array(size, format="csr")
    forward = sp.csr_array(one[np.roll(np.arange(size), -1)])
    q = sp.csr_array(2.0 * one - forward - forward.T)
    n = float(size)
    if degree == 1:
        variance = (n * n - 1.0) / (12.0 * n)
    else:
        q, variance = sp.csr_array(q @ q), (n * n - 1.0) * (n * n + 11.0) / (720.0 * n)
    return q, np.full(size, variance), 2.0 * degree * float(np.log(n)), _level(size)


def _first(gaps: Array) -> Pieces:
    """Column j of PR is a step after point j, less its mean."""
    n = len(gaps) + 1
    ones = np.ones(n - 1)
    q = _differences(1.0 / gaps, -ones, ones)
    below = np.arange(1, n) / n  # the share of the points before step j
    after, before = gaps * below**2, gaps * (1.0 - below) ** 2
    zero = np.zeros(1)
    variances = np.concatenate([zero, np.cumsum(after)])
    variances += np.concatenate([np.cumsum(before[::-1])[::-1], zero])
    return q, variances, float(np.log(n) - np.log(gaps).sum()), _level(n)


def _second(gaps: Array) -> Pieces:
    """Column j of PR is the hinge (x - x_j)_+ at inner point j, less its regression on a line."""
    n, lumped = len(gaps) + 1, 0.5 * (gaps[:-1] + gaps[1:])
    x = np.concatenate([[0.0], np.cumsum(gaps)])
    x -= x.mean()
    spread = float(x @ x)
    q = _differences(1.0 / lumped, 1.0 / gaps[:-1], -1.0 / gaps[:-1] - 1.0 / gaps[1:], 1 / gaps[1:])
    null = np.column_stack([np.full(n, n**-0.5), x / np.sqrt(spread)])
    knots = x[1:-1]
    # sums over the points after each knot
    count = np.arange(n - 2, 0, -1.0)
    total, square = (np.cumsum(p[::-1])[::-1][2:] for p in (x, x * x))
    level = (total - count * knots) / n
    slope = (square - total * knots) / spread
    # residuals (1 - slope) x - (knot + level) after the knot, -(level + slope x) before it
    log_det = -float(np.log(lumped).sum()) - 2.0 * float(np.log(gaps[1:]).sum())
    log_det += float(np.log(n * spread / gaps[0] ** 2))
    variances = _squares(x, 1.0 - slope, -(knots + level), lumped, after=True)
    variances += _squares(x, slope, level, lumped, after=False)
    return q, variances, log_det, sp.csr_array(null)


def _squares(x: Array, slope: Array, level: Array, weight: Array, after: bool) -> Array:
    """sum_j weight_j (slope_j x_i + level_j)^2, over the knots j before (or from) each point i."""
    parts = []
    for term in (weight * slope**2, 2.0 * weight * slope * level, weight * level**2):
        if after:
            parts.append(np.concatenate([[0.0, 0.0], np.cumsum(term)]))
        else:
            parts.append(np.concatenate([np.cumsum(term[::-1])[::-1], [0.0, 0.0]]))
    # the knot of inner point j lies at point j + 1: `before` covers i <= j + 1, `after` i > j + 1
    if not after:
        parts = [np.concatenate([p[:1], p[:-1]]) for p in parts]
    return np.asarray((parts[0] * x + parts[1]) * x + parts[2])


# ---- walk members ------------------------------------------------------------------------------
# New members of random walks, given the fitted ones.
#
# rw1 is Brownian motion: linear between neighbours, and flat beyond the ends.
#
# rw2 beyond its ends goes on in the steps of its own axis, with the second differences of the
# fitted walk. Between the members (fitted ones, or of those steps) it is the integrated Wiener
# process given them all, to whose second derivative the second differences of the walk tend
# (Lindgren and Rue 2008; Wahba 1978): its mean is the natural cubic spline. Neither depends on what
# else is asked for, as the second differences of a walk over old and new places together would.


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
