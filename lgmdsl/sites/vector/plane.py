"""The directions of a vector site's Gaussian predictors in which its density changes.

s = m + A z + (what is independent of z and does not change l), z ~ N(0, I) of r <= K coordinates.
Where l depends on the contrasts C's alone (`Site.contrasts`), and with R the symmetric root of the
variance, A = R W, W an orthonormal basis of the columns of RC: no inverse, so that variances may
be singular.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property, Site

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
