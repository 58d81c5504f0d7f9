"""Integrals of densities that are not log-concave: cells over all predictors but the first, and at
each of their nodes the integral over the first.

Where a density has a ridge that narrows as another predictor (a log dispersion) falls, cells in all
coordinates at once may pass over it. Given the other predictors the density of the first one is
scanned, its mode sought within the scan, and cells are laid about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site
from lgmdsl.numerics.expectations.cells import breaks, integrate

# How far from its middle the Gaussian factor is followed (what is beyond is below e^-37), points of
# the scan, halvings and Newton steps to the mode within it.
EXTENT, SCAN, STEPS = 8.7, 33, 25
# First cells of a line in widths of its peak, of the other predictors in those of theirs.
FIRST, GROWTH = 2.0, 3.0
MAX_NODES, MOST_INNER, MOST_OUTER = 500_000, 4000, 20_000
# Lines whose log mass is so far below another's count for nothing.
NEGLIGIBLE = 30.0
# rows (n,), z (n, p, r) -> (q, n, p)
Values = Callable[[IntArray, Array], Array]


def nested(
    plane: Plane, power: float, values: Values, rows: IntArray, top: Array, root: Array
) -> tuple[Array, Array, BoolArray]:
    """Log of a scale, (n,), integrals of exp(h) values, (q, n), values[0] being 1, and which rows
    are settled: h = power l - z'z / 2 less that logarithm. `top`, `root`: the mode of each row, and
    a root of the inverse curvature there."""
    frame = _frame(plane, rows)
    outer = frame[:, :, 1:]
    start = np.einsum("nij,ni->nj", outer, top)
    width = np.linalg.norm(outer.transpose(0, 2, 1) @ root, axis=2)
    scale = plane.height(rows, top, power)
    count = len(values(rows[:0], np.zeros((0, 1, plane.dimension))))

    def lines(some: IntArray, v: Array) -> Array:
        b, p = v.shape[:2]
        owner = np.repeat(some, p)
        base = (outer[some] @ (start[some][:, None, :] + v).transpose(0, 2, 1)).transpose(0, 2, 1)
        line = _Lines(plane, power, rows[owner], base.reshape(b * p, -1), frame[owner, :, 0])
        middle, peak, spread = line.modes()
        mass = peak + np.log(spread)
        np.maximum.at(largest, owner, np.where(np.isfinite(mass), mass, -np.inf))
        some_lines = np.flatnonzero(~(mass < largest[owner] - NEGLIGIBLE))
        out = np.zeros((count, b * p))
        if not len(some_lines):
            return out.reshape(count, b, p)
        line, middle, peak = line.take(some_lines), middle[some_lines], peak[some_lines]
        spread = spread[some_lines]
        edges = [breaks(FIRST * spread, -middle, np.full(len(middle), EXTENT), GROWTH)]

        def integrand(which: IntArray, t: Array) -> Array:
            z = line.at(which, middle[which][:, None] + t[:, :, 0])
            level = line.level(which, z) - peak[which][:, None]
            return np.exp(np.minimum(level, 600.0)) * values(line.rows[which], z)

        sums, settled = integrate(integrand, edges, _mass, count, MOST_INNER)
        sums = np.where(settled, sums, np.nan)
        with np.errstate(over="ignore", under="ignore"):
            out[:, some_lines] = sums * np.exp(peak - scale[owner[some_lines]])
        return out.reshape(count, b, p)

    largest = np.full(len(rows), -np.inf)
    none = np.full(start.shape, EXTENT)
    edges = [
        breaks(FIRST * width[:, i], -start[:, i], none[:, i], GROWTH) for i in range(start.shape[1])
    ]
    sums, settled = integrate(lines, edges, _mass, count, MOST_OUTER)
    return scale, sums, settled & np.isfinite(sums).all(axis=0)


def by_cells(
    plane: Plane, power: float, values: Values, rows: IntArray, top: Array, root: Array
) -> tuple[Array, Array, BoolArray]:
    """Log scale, integrals and settled rows (as `nested`), by cells in all coordinates, along the
    curvature's eigenvectors at the mode: the density of a log-concave site falls from there at
    least as the Gaussian factor does."""
    width = np.linalg.norm(root, axis=1)  # columns are eigenvectors times widths
    turn = root / width[:, None, :]
    scale = plane.height(rows, top, power)
    concave = Property.LOG_CONCAVE in plane.site.spec.properties
    other = np.zeros_like(top) if concave else -np.einsum("nij,ni->nj", turn, top)
    count = len(values(rows[:0], np.zeros((0, 1, plane.dimension))))
    reach = np.full(len(rows), EXTENT)
    edges = [breaks(FIRST * w, o, reach, GROWTH) for w, o in zip(width.T, other.T, strict=True)]

    def integrand(some: IntArray, v: Array) -> Array:
        z = top[some][:, None, :] + v @ turn[some].transpose(0, 2, 1)
        level = power * plane.log_density(rows[some], z) - 0.5 * (z * z).sum(axis=2)
        weight = np.exp(np.minimum(level - scale[some][:, None], 600.0))
        return np.asarray(weight * values(rows[some], z))

    sums, settled = integrate(integrand, edges, _mass, count, MAX_NODES)
    return scale, sums, settled


def _mass(sums: Array) -> Array:
    """What errors of the integrals are relative to: the first, the mass, or their own size."""
    return np.maximum(np.abs(sums[:1]), np.abs(sums))


def _frame(plane: Plane, rows: IntArray) -> Array:
    """Orthonormal directions of z, (n, r, r): along the first the first predictor alone changes."""
    others = np.linalg.svd(plane.axes[rows][:, 1:, :], full_matrices=True)[2]
    return np.roll(others.transpose(0, 2, 1), 1, axis=2)


class _Lines:
    """power l - z'z / 2 on lines z = base + t axis, axis'base = 0, of sites `rows`."""

    def __init__(
        self, plane: Plane, power: float, rows: IntArray, base: Array, axis: Array
    ) -> None:
        self.plane, self.power, self.rows = plane, power, rows
        self.base, self.axis = base, axis

    def take(self, some: IntArray) -> _Lines:
        """Some of the lines."""
        return _Lines(self.plane, self.power, self.rows[some], self.base[some], self.axis[some])

    def at(self, which: IntArray, t: Array) -> Array:
        """z at t (n, p) of some lines, (n, p, r)."""
        return self.base[which][:, None, :] + t[:, :, None] * self.axis[which][:, None, :]

    def level(self, which: IntArray, z: Array) -> Array:
        """power l - z'z / 2, (n, p)."""
        l = self.plane.log_density(self.rows[which], z)
        return np.asarray(self.power * l - 0.5 * (z * z).sum(axis=2))

    def modes(self) -> tuple[Array, Array, Array]:
        """Where each line is highest, how high, and its width there: Newton's method between the
        neighbours of the highest point of a scan, halving that where a step leaves it."""
        everywhere, n = np.arange(len(self.rows)), len(self.rows)
        scan = np.linspace(-EXTENT, EXTENT, SCAN)
        level = self.level(everywhere, self.at(everywhere, np.broadcast_to(scan, (n, SCAN))))
        best = np.where(np.isfinite(level), level, -np.inf).argmax(axis=1)
        low, high = scan[np.maximum(best - 1, 0)], scan[np.minimum(best + 1, SCAN - 1)]
        t = scan[best]
        bend = np.ones(n)
        active = everywhere
        for _ in range(STEPS):
            slope, curve = self._curve(active, t[active])
            bend[active] = np.maximum(curve, 1.0)
            low[active] = np.where(slope > 0.0, t[active], low[active])
            high[active] = np.where(slope > 0.0, high[active], t[active])
            step = slope / bend[active]
            new = t[active] + step
            inside = (new >= low[active]) & (new <= high[active])
            t[active] = np.where(inside, new, 0.5 * (low[active] + high[active]))
            active = active[np.abs(step) * np.sqrt(bend[active]) > 1e-3]
            if not len(active):
                break
        peak = self.level(everywhere, self.at(everywhere, t[:, None]))[:, 0]
        peak = np.maximum(peak, np.take_along_axis(level, best[:, None], axis=1)[:, 0])
        return t, peak, 1.0 / np.sqrt(bend)

    def _curve(self, which: IntArray, t: Array) -> tuple[Array, Array]:
        """Slope in t, and the curvature with its sign turned."""
        plane, rows = self.plane, self.rows[which]
        z = self.at(which, t[:, None])[:, 0]
        along = np.einsum("nkr,nr->nk", plane.axes[rows], self.axis[which])
        s = plane.mean[rows] + np.einsum("nkr,nr->nk", plane.axes[rows], z)
        local = cast(Pointwise, plane.site.take(rows)).pointwise(s)
        slope = self.power * np.einsum("nk,nk->n", along, local.slope) - t
        bend = np.einsum("nk,nkj,nj->n", along, local.curvature, along)
        return slope, 1.0 - self.power * bend


# ---- plane -------------------------------------------------------------------------------------
# The directions of a vector site's Gaussian predictors in which its density changes.
#
# s = m + A z + (what is independent of z and does not change l), z ~ N(0, I) of r <= K coordinates.
# Where l depends on the contrasts C's alone (`Site.contrasts`), and with R the symmetric root of
# the variance, A = R W, W an orthonormal basis of the columns of RC: no inverse, so that variances
# may be singular.


NEWTONS, CUTS, CLOSE = 60, 30, 1e-7
# Where a site is not log-concave its mode is sought from these places as well, in sds.
AROUND = 2.0


@dataclass(frozen=True, eq=False)
class Plane:
    """N sites over r coordinates: `axes` A, (N, K, r); `rest`, (N, K, K): the covariance of s that
    z does not carry."""

    site: Site
    mean: Array
    axes: Array
    rest: Array

    @property
    def dimension(self) -> int:
        """r."""
        return int(self.axes.shape[2])

    def at(self, rows: IntArray, z: Array) -> tuple[Site, Array]:
        """The sites of rows (b,), each repeated, and s at z (b, p, r), both b p long."""
        s = self.mean[rows][:, None, :] + z @ self.axes[rows].transpose(0, 2, 1)
        return self.site.take(np.repeat(rows, z.shape[1])), s.reshape(-1, s.shape[2])

    def log_density(self, rows: IntArray, z: Array) -> Array:
        """l at z (b, p, r), (b, p)."""
        site, s = self.at(rows, z)
        return site.log_density(s).reshape(z.shape[:2])

    def moments(self, centre: Array, covariance: Array) -> tuple[Array, Array]:
        """Mean and covariance of s where z has `centre` (N, r) and `covariance` (N, r, r)."""
        across = self.axes.transpose(0, 2, 1)
        spread = self.rest + self.axes @ covariance @ across
        mean = self.mean + np.einsum("nkr,nr->nk", self.axes, centre)
        return mean, 0.5 * (spread + spread.transpose(0, 2, 1))

    def curve(self, rows: IntArray, z: Array, power: float) -> tuple[Array, Array, Array]:
        """power l - z'z / 2 at z (n, r): its slope, and the eigenvalues (at least 1) and vectors of
        its curvature with the sign turned."""
        asked, axes = cast(Pointwise, self.site.take(rows)), self.axes[rows]
        local: PointwiseAnswer = asked.pointwise(self.mean[rows] + np.einsum("nkr,nr->nk", axes, z))
        across = axes.transpose(0, 2, 1)
        bend = np.eye(z.shape[1]) - power * (across @ local.curvature @ axes)
        values, turn = np.linalg.eigh(0.5 * (bend + bend.transpose(0, 2, 1)))
        slope = power * np.einsum("nkr,nk->nr", axes, local.slope) - z
        return slope, np.maximum(values, 1.0), turn

    def height(self, rows: IntArray, z: Array, power: float) -> Array:
        """power l - z'z / 2 at z (n, r)."""
        level = self.log_density(rows, z[:, None, :])[:, 0]
        return np.asarray(power * level - 0.5 * (z * z).sum(axis=1))


def planes(site: Site, mean: Array, variance: Array) -> Iterator[tuple[IntArray, Plane]]:
    """Rows whose sites depend on equally many coordinates, and their plane."""
    n, k = mean.shape
    values, turn = np.linalg.eigh(variance)
    sds = np.sqrt(np.maximum(values, 0.0))
    contrasts = site.contrasts(k)
    if contrasts is None:
        yield np.arange(n), Plane(site, mean, turn * sds[:, None, :], np.zeros_like(variance))
        return
    root = (turn * sds[:, None, :]) @ turn.transpose(0, 2, 1)
    contrasts = np.broadcast_to(contrasts, (n, *np.shape(contrasts)[-2:]))
    counts = (contrasts != 0.0).any(axis=1).sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        some = root[rows]
        basis = np.linalg.svd(some @ contrasts[rows][:, :, :count], full_matrices=False)[0]
        axes = some @ basis
        rest = some @ some - axes @ axes.transpose(0, 2, 1)
        yield rows, Plane(site.take(rows), mean[rows], axes, rest)


def mode(plane: Plane, power: float) -> tuple[Array, Array]:
    """Where power l - z'z / 2 is largest, (N, r), and a root of the inverse curvature there,
    (N, r, r), no wider than that of the standard normal."""
    n, r = len(plane.mean), plane.dimension
    everywhere = np.arange(n)
    z = _climb(plane, np.zeros((n, r)), power)
    if Property.LOG_CONCAVE not in plane.site.spec.properties:
        best = plane.height(everywhere, z, power)
        for axis in range(r):
            for side in (-AROUND, AROUND):
                start = np.zeros((n, r))
                start[:, axis] = side
                other = _climb(plane, start, power)
                height = plane.height(everywhere, other, power)
                higher = height > best
                z[higher], best = other[higher], np.where(higher, height, best)
    _, values, turn = plane.curve(everywhere, z, power)
    return z, turn / np.sqrt(values)[:, None, :]


def _climb(plane: Plane, z: Array, power: float) -> Array:
    """Newton's method with the curvature's concave part, each step halved until it rises."""
    z = z.copy()
    height = plane.height(np.arange(len(z)), z, power)
    active = np.flatnonzero(np.isfinite(height))
    for _ in range(NEWTONS):
        if not len(active):
            break
        slope, values, turn = plane.curve(active, z[active], power)
        along = np.einsum("nji,nj->ni", turn, slope) / values
        step = np.einsum("nij,nj->ni", turn, along)
        # In units of the width at the point.
        size = np.sqrt((along * along * values).sum(axis=1))
        pending = np.flatnonzero(size > CLOSE)
        share = 1.0
        stuck = np.zeros(len(z), dtype=bool)
        stuck[active[size > CLOSE]] = True
        for _ in range(CUTS):
            rows = active[pending]
            tried = z[rows] + share * step[pending]
            level = plane.height(rows, tried, power)
            up = level >= height[rows] - 1e-13 * (1.0 + np.abs(height[rows]))
            z[rows[up]], height[rows[up]] = tried[up], level[up]
            stuck[rows[up]] = False
            pending = pending[~up]
            if not len(pending):
                break
            share *= 0.5
        active = active[(size > CLOSE) & ~stuck[active]]
    return z
