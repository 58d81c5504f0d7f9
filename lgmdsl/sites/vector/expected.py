"""E[l], E[l'] and E[l''] / 2 of vector sites of up to three coordinates, s ~ N(m, V).

The trapezoidal rule on a lattice about the mean, in sds of the predictors, its step shorter by root
two until its even points alone agree; then cells. The lattice reaches farther where l grows so fast
that its border counts (exp(-2 s) at an sd of 5 has its mass 10 sds from the mean).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import ExpectedAnswer, Pointwise
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations.cells import breaks, integrate
from lgmdsl.sites.vector.plane import Plane, planes

# The first step and the most halvings by root two, the reaches, in sds.
STEP, LEVELS, REACHES = 0.7, {0: 1, 1: 9, 2: 6, 3: 3}, (6.8, 9.5, 13.5, 19.0, 27.0, 38.0)
# Between the rule and its even points, of twice the step, relative to 1 or the value: errors of the
# rule itself are the square of that, or less.
AGREEMENT, BORDER, RIM = 5e-5, 1e-9, 0.6
CHUNK = 1 << 18
MOST = 500_000  # evaluations by cells

# rows (n,), z (n, p, r) -> (q, n, p)
Values = Callable[[IntArray, Array], Array]


def expected_by_lattice(site: Site, mean: Array, variance: Array) -> ExpectedAnswer:
    """Of sites with means (N, K) and variances (N, K, K); NaN where no rule settles."""
    n, k = mean.shape
    out = ExpectedAnswer(np.empty(n), np.empty((n, k)), np.empty((n, k, k)))
    upper = np.triu_indices(k)
    for rows, plane in planes(site, mean, variance):

        def values(some: IntArray, z: Array, plane: Plane = plane) -> Array:
            sites, s = plane.at(some, z)
            a = cast(Pointwise, sites).pointwise(s)
            parts = [a.value, *a.slope.T, *(0.5 * a.curvature[:, upper[0], upper[1]]).T]
            return np.stack(parts).reshape(-1, *z.shape[:2])

        sums = averages(plane, values, 1 + k + len(upper[0]))
        out.value[rows], out.d_mean[rows] = sums[0], sums[1 : 1 + k].T
        half = np.empty((len(rows), k, k))
        half[:, upper[0], upper[1]] = half[:, upper[1], upper[0]] = sums[1 + k :].T
        out.d_variance[rows] = half
    return out


def expected_slopes_by_lattice(site: Site, mean: Array, variance: Array) -> dict[str, Array]:
    """E[dl/dparameter] for each continuous parameter, (N,)."""
    names = tuple(site.parameter_slopes(mean))
    if not names:
        return {}
    out = np.empty((len(names), len(mean)))
    for rows, plane in planes(site, mean, variance):

        def values(some: IntArray, z: Array, plane: Plane = plane) -> Array:
            sites, s = plane.at(some, z)
            slopes = sites.parameter_slopes(s)
            return np.stack([slopes[name].reshape(z.shape[:2]) for name in names])

        out[:, rows] = averages(plane, values, len(names))
    return dict(zip(names, out, strict=True))


@np.errstate(all="ignore")
def averages(plane: Plane, values: Values, count: int) -> Array:
    """E[values(z)], z ~ N(0, I), (q, N); NaN where no rule settles."""
    n, r = len(plane.mean), plane.dimension
    if r not in LEVELS:
        raise ValueError(f"no lattice over {r} coordinates is small")
    out = np.empty((count, n))
    pending, reach = np.arange(n), np.zeros(n, dtype=np.int64)
    for level in range(LEVELS[r]):
        left = [pending[:0]]
        for far in range(len(REACHES)):
            rows = pending[reach[pending] == far]
            rule = _rule(r, level, far)
            pieces = len(rows) * len(rule.points) * count // CHUNK
            for few in np.array_split(rows, min(max(1, pieces), len(rows))) if len(rows) else ():
                gap, border = _lattice(values, few, rule, out)
                wide = (border > BORDER) & (far < len(REACHES) - 1)
                reach[few] += wide  # and at this level at once: the next reach is next
                # What is not finite is as far as numbers go: no finer rule changes it.
                rough = (gap > AGREEMENT) & ~wide
                left.append(few[rough])
                pending = np.union1d(pending, few[wide])
        pending = np.sort(np.concatenate(left))
        if not len(pending):
            return out
    _by_cells(plane, values, pending, reach[pending], out)
    return out


class _Rule:
    """Points (P, r) of a lattice within a ball, their weights, which are even, which at the rim."""

    def __init__(self, dimension: int, step: float, reach: float) -> None:
        half = int(reach / step)
        whole = np.arange(-half, half + 1)
        axes = np.meshgrid(*[whole] * dimension, indexing="ij")
        index = np.stack(axes, axis=-1).reshape(-1, dimension) if dimension else np.zeros((1, 0))
        points = step * index
        radius = np.sqrt((points * points).sum(axis=1))
        inside = radius <= reach
        self.points, self.even = points[inside], (index[inside] % 2 == 0).all(axis=1)
        weight = np.exp(-0.5 * radius[inside] ** 2)
        self.weight = weight / weight.sum()
        self.coarse = weight[self.even] / weight[self.even].sum()
        self.rim = radius[inside] > reach - RIM


@cache
def _rule(dimension: int, level: int, reach: int) -> _Rule:
    return _Rule(dimension, STEP / np.sqrt(2.0) ** level, REACHES[reach])


def _lattice(values: Values, rows: IntArray, rule: _Rule, out: Array) -> tuple[Array, Array]:
    """Fills in rows; how far the even points are off, and what the rim holds."""
    z = np.broadcast_to(rule.points, (len(rows), *rule.points.shape))
    y = values(rows, z)
    fine = y @ rule.weight
    coarse = y[:, :, rule.even] @ rule.coarse
    out[:, rows] = fine
    size = np.maximum(1.0, np.abs(fine))
    border = (np.abs(y[:, :, rule.rim]) @ rule.weight[rule.rim]) / size
    return (np.abs(fine - coarse) / size).max(axis=0), border.max(axis=0)


def _by_cells(plane: Plane, values: Values, rows: IntArray, reach: IntArray, out: Array) -> None:
    far = np.asarray(REACHES)[np.maximum(reach, 1)]
    none = np.zeros(len(rows))
    edges = [breaks(np.full(len(rows), 1.0), none, far, 2.0)] * plane.dimension
    constant = (2.0 * np.pi) ** (-0.5 * plane.dimension)

    def integrand(some: IntArray, z: Array) -> Array:
        weight = constant * np.exp(-0.5 * (z * z).sum(axis=2))
        return np.asarray(values(rows[some], z) * weight)

    def size(sums: Array) -> Array:
        return np.maximum(1.0, np.abs(sums))

    sums, settled = integrate(integrand, edges, size, len(out), MOST)
    out[:, rows] = np.where(settled, sums, np.nan)
