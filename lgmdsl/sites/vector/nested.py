"""Integrals of densities that are not log-concave: cells over all predictors but the first, and at
each of their nodes the integral over the first.

Where a density has a ridge that narrows as another predictor (a log dispersion) falls, cells in all
coordinates at once may pass over it. Given the other predictors the density of the first one is
scanned, its mode sought within the scan, and cells are laid about that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property
from lgmdsl.numerics.expectations.cells import breaks, integrate
from lgmdsl.sites.vector.plane import Plane

# How far from its middle the Gaussian factor is followed (what is beyond is below e^-37), points of
# the scan, halvings and Newton steps to the mode within it.
EXTENT, SCAN, STEPS = 8.7, 33, 25
# First cells of a line in widths of its peak, of the other predictors in those of theirs.
FIRST, GROWTH = 2.0, 3.0
MOST, MOST_INNER, MOST_OUTER = 500_000, 4000, 20_000
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

    sums, settled = integrate(integrand, edges, _mass, count, MOST)
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
