"""Mass, mean and covariance of N(s; m, V) t(s)^power for vector sites of up to three coordinates.

About the mode, in the unit of its curvature, by the trapezoidal rule on a lattice, whose even
points alone must agree; else about the mean and covariance so found, on a finer lattice; in three
dimensions, where sites are not log-concave, on lattices about the mode that widen with the distance
from it; and where that does not settle either, by cells (`nested`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import Radial, TiltedAnswer
from lgmdsl.contract.site import Property, Site
from lgmdsl.errors import MethodError
from lgmdsl.sites.vector.nested import Plane, by_cells, mode, nested, planes

MOST_COORDINATES = 3
# The lattice: its first step and reach in sds; a step is shorter by root two each time, and the
# reach longer where points at the border still count.
STEP, REACHES = 0.65, (7.0, 8.5, 10.5, 13.5)
LEVELS = {0: 1, 1: 6, 2: 3, 3: 3}
# Of log mass, mean and covariance by the rule and by its even points, of twice the step, in sds:
# 1.3 times what they differ by of a Gaussian in three dimensions. The rule itself misses the square
# of that, or less.
# Of densities that did not agree at the first step, but in three dimensions: TIGHTER as close.
AGREEMENT, TIGHTER = (7e-5, 3.2e-4, 1.6e-3), 0.1
# What the outermost RIM of a lattice may hold: three times what it holds of a Gaussian.
RIM, BORDER = 0.6, {0: 1.0, 1: 1e-9, 2: 4e-9, 3: 2e-8}
NODES_PER_PASS = 1 << 18
# Lattices that widen, r = sinh(a u) / a: a, and the level of the step. A peak 8 times narrower than
# the Gaussian factor is within reach of the first one, 40 times of the others.
WIDENING = ((0.25, 1), (0.4, 1), (0.4, 2))

# rows (n,), z (n, p, r) -> (q, n, p)
Values = Callable[[IntArray, Array], Array]


def tilted_by_lattice(site: Site, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
    """Tilted moments of sites with means (N, K) and variances (N, K, K); NaN where no rule
    settles."""
    n, k = mean.shape
    out = TiltedAnswer(np.empty(n), np.empty((n, k)), np.empty((n, k, k)))
    for rows, plane in planes(site, mean, variance):
        mass, centre, spread, _ = _averages(plane, power, None)
        out.log_mass[rows] = mass
        out.mean[rows], out.variance[rows] = plane.moments(centre, spread)
    return out


def slopes_by_lattice(
    site: Site, mean: Array, variance: Array, power: float = 1.0
) -> dict[str, Array]:
    """E[dl/dparameter] over N(mean, variance) t^power for each continuous parameter, (N,)."""
    names = tuple(site.parameter_slopes(mean))
    if not names:
        return {}
    out = np.empty((len(names), len(mean)))
    for rows, plane in planes(site, mean, variance):

        def slopes(some: IntArray, z: Array, plane: Plane = plane) -> Array:
            sites, s = plane.at(some, z)
            values = sites.parameter_slopes(s)
            return np.stack([values[name].reshape(z.shape[:2]) for name in names])

        out[:, rows] = _averages(plane, power, slopes)[3]
    return dict(zip(names, out, strict=True))


@np.errstate(all="ignore")  # what overflows counts for nothing; what is not finite is NaN
def _averages(
    plane: Plane, power: float, values: Values | None
) -> tuple[Array, Array, Array, Array]:
    """log mass (N,), mean (N, r) and covariance (N, r, r) of z, and averages of `values` (q, N)."""
    n, r = len(plane.mean), plane.dimension
    if r > MOST_COORDINATES:
        name = plane.site.spec.name
        message = (
            f"{name} has {r} directions in its predictors here: tilted moments are had of up to "
            f"{MOST_COORDINATES} (that many predictors, or one class more)"
        )
        help = "take natural-gradient or laplace"
        if isinstance(plane.site, Radial):
            help = "take laplace or double-loop"
        raise MethodError.of("E501", message, help=help)
    extra = 0 if values is None else len(values(np.zeros(0, dtype=np.intp), np.zeros((0, 1, r))))
    out = _Moments(np.zeros(n), np.zeros((n, r)), np.zeros((n, r, r)), np.zeros((extra, n)))
    top, root = mode(plane, power)
    frame_centre, frame_root = top.copy(), root.copy()
    reach = np.zeros(n, dtype=np.int64)
    pending = np.arange(n)
    for level in range(LEVELS[r]):
        left = []
        for far in np.unique(reach[pending]):
            rows = pending[reach[pending] == far]
            rule = _rule(r, level, int(far))
            for few in _chunks(rows, len(rule.points) * (r + extra)):
                moments, settled, border = _lattice(
                    plane, power, values, few, frame_centre[few], frame_root[few], rule
                )
                out.put(few, moments)
                reach[few] = np.minimum(reach[few] + border, len(REACHES) - 1)
                rough = few[~settled]
                left.append(rough)
                _reframe(frame_centre, frame_root, out, rough)
        pending = np.sort(np.concatenate([np.zeros(0, dtype=np.intp), *left]))
        if not len(pending):
            break
    if r == MOST_COORDINATES and Property.LOG_CONCAVE not in plane.site.spec.properties:
        pending = _widened(plane, power, values, pending, top, root, out)
    if len(pending):
        _by_cells(plane, power, values, pending, top, root, out)
    return out.log_mass, out.centre, out.spread, out.extra


class _Moments:
    """log mass, mean, covariance of z, and averages, of all rows."""

    def __init__(self, log_mass: Array, centre: Array, spread: Array, extra: Array) -> None:
        self.log_mass, self.centre, self.spread, self.extra = log_mass, centre, spread, extra

    def put(self, rows: IntArray, some: _Moments) -> None:
        """The moments of some rows."""
        self.log_mass[rows], self.centre[rows] = some.log_mass, some.centre
        self.spread[rows], self.extra[:, rows] = some.spread, some.extra


class _Rule:
    """Points (P, r) of a lattice within a ball, which of them are even, which at the border, and
    the log of a point's volume. With `widening` a, a point at u stands at distance sinh(a u) / a,
    where its volume is larger by cosh(a u) (sinh(a u) / (a u))^(r - 1)."""

    def __init__(self, dimension: int, step: float, reach: float, widening: float = 0.0) -> None:
        half = int(reach / step)
        whole = np.arange(-half, half + 1)
        axes = np.meshgrid(*[whole] * dimension, indexing="ij")
        index = np.stack(axes, axis=-1).reshape(-1, dimension) if dimension else np.zeros((1, 0))
        points = step * index
        radius = np.sqrt((points * points).sum(axis=1))
        inside = radius <= reach
        self.points, self.even = points[inside], (index[inside] % 2 == 0).all(axis=1)
        self.border = radius[inside] > reach - RIM
        self.log_volume = dimension * np.log(step)
        self.log_growth: Array | None = None
        if widening:
            angle = widening * radius[inside]
            factor = np.sinh(angle) / np.where(angle > 0.0, angle, 1.0)
            factor[angle == 0.0] = 1.0
            self.points = self.points * factor[:, None]
            self.log_growth = np.log(np.cosh(angle)) + (dimension - 1) * np.log(factor)
        self.tolerance = 1.0 if step == STEP or dimension == 3 else TIGHTER


@cache
def _rule(dimension: int, level: int, reach: int, widening: float = 0.0) -> _Rule:
    return _Rule(dimension, STEP / np.sqrt(2.0) ** level, REACHES[reach], widening)


def _chunks(rows: IntArray, width: int) -> list[IntArray]:
    return np.array_split(rows, max(1, len(rows) * width // NODES_PER_PASS)) if len(rows) else []


def _lattice(
    plane: Plane,
    power: float,
    values: Values | None,
    rows: IntArray,
    centre: Array,
    root: Array,
    rule: _Rule,
) -> tuple[_Moments, BoolArray, IntArray]:
    """The rule about a frame, whether its even points agree, and which rows need a longer reach."""
    u = rule.points
    z = centre[:, None, :] + u @ root.transpose(0, 2, 1)
    log = power * plane.log_density(rows, z) - 0.5 * (z * z).sum(axis=2)
    if rule.log_growth is not None:
        log = log + rule.log_growth
    top = log.max(axis=1)
    weight = np.exp(log - top[:, None])
    total = weight.sum(axis=1)
    y = np.zeros((0, *log.shape)) if values is None else values(rows, z)
    fine = _sums(weight, u, y)
    some = rule.even
    coarse = _sums(weight[:, some], u[some], y[:, :, some])
    gap = np.abs(np.log(2.0**plane.dimension * coarse[0] / fine[0])) / AGREEMENT[0]
    sd = np.sqrt(np.maximum(np.einsum("nii->ni", fine[2]), 1e-300))
    gap = np.maximum(
        gap, (np.abs(fine[1] - coarse[1]) / sd).max(axis=1, initial=0.0) / AGREEMENT[1]
    )
    share = np.abs(fine[2] - coarse[2]) / (sd[:, :, None] * sd[:, None, :])
    gap = np.maximum(gap, share.max(axis=(1, 2), initial=0.0) / AGREEMENT[2])
    size = np.maximum(1.0, np.abs(fine[3]))
    gap = np.maximum(
        gap, (np.abs(fine[3] - coarse[3]) / size).max(axis=0, initial=0.0) / AGREEMENT[0]
    )
    border = weight[:, rule.border].sum(axis=1) > BORDER[plane.dimension] * total
    settled = (gap <= rule.tolerance) & ~border
    r = plane.dimension
    log_mass = top + np.log(total) + rule.log_volume - 0.5 * r * np.log(2.0 * np.pi)
    log_mass = log_mass + np.linalg.slogdet(root)[1]
    moments = _Moments(
        log_mass,
        centre + np.einsum("nij,nj->ni", root, fine[1]),
        root @ fine[2] @ root.transpose(0, 2, 1),
        fine[3],
    )
    return moments, settled, border.astype(np.int64)


def _sums(weight: Array, u: Array, y: Array) -> tuple[Array, Array, Array, Array]:
    """Total, mean and covariance of u, averages of y."""
    total = weight.sum(axis=1)
    share = weight / total[:, None]
    mean = share @ u
    r = u.shape[1]
    pairs = (u[:, :, None] * u[:, None, :]).reshape(len(u), r * r)
    square = (share @ pairs).reshape(-1, r, r)
    return (
        total,
        mean,
        square - mean[:, :, None] * mean[:, None, :],
        np.einsum("np,qnp->qn", share, y),
    )


def _reframe(centre: Array, root: Array, moments: _Moments, rows: IntArray) -> None:
    """The next frame of rows that did not settle: the moments, where they are any."""
    if not len(rows):
        return
    spread, mean = moments.spread[rows], moments.centre[rows]
    good = np.asarray(np.isfinite(mean).all(axis=1) & np.isfinite(spread).all(axis=(1, 2)))
    values, turn = np.linalg.eigh(np.where(good[:, None, None], spread, np.eye(spread.shape[1])))
    before = np.linalg.svd(root[rows], compute_uv=False).min(axis=1) ** 2
    good &= values.min(axis=1, initial=np.inf) > 1e-4 * before
    kept = rows[good]
    centre[kept] = mean[good]
    root[kept] = turn[good] * np.sqrt(values[good])[:, None, :]


def _widened(
    plane: Plane,
    power: float,
    values: Values | None,
    pending: IntArray,
    top: Array,
    root: Array,
    out: _Moments,
) -> IntArray:
    """The rows that do not settle on lattices that widen: a narrow peak (of a heavy-tailed density)
    has its unit about the mode, and the Gaussian factor one that is many times as large."""
    for widening, level in WIDENING:
        left = []
        for row in np.split(pending, len(pending)) if len(pending) else []:
            rule = _rule(plane.dimension, level, len(REACHES) - 1, widening)
            moments, settled, _ = _lattice(plane, power, values, row, top[row], root[row], rule)
            if settled[0]:
                out.put(row, moments)
            else:
                left.append(row)
        pending = np.concatenate([pending[:0], *left])
    return pending


def _by_cells(
    plane: Plane,
    power: float,
    values: Values | None,
    rows: IntArray,
    top: Array,
    root: Array,
    out: _Moments,
) -> None:
    """Sums relative to the last lattice's mean and sds, NaN where they do not settle."""
    r = plane.dimension
    sd = np.sqrt(np.maximum(np.einsum("nii->ni", out.spread[rows]), 0.0))
    middle = out.centre[rows]
    widths = np.linalg.norm(root[rows], axis=2)
    usable = np.isfinite(middle) & np.isfinite(sd) & (sd > 1e-3 * widths)
    middle, sd = np.where(usable, middle, top[rows]), np.where(usable, sd, widths)
    upper = np.triu_indices(r)
    place = np.full(len(plane.mean), -1)
    place[rows] = np.arange(len(rows))

    def terms(some: IntArray, z: Array) -> Array:
        u = (z - middle[place[some]][:, None, :]) / sd[place[some]][:, None, :]
        parts = [np.ones(z.shape[:2]), *(u[:, :, i] for i in range(r))]
        parts += [u[:, :, i] * u[:, :, j] for i, j in zip(*upper, strict=True)]
        if values is not None:
            parts += list(values(some, z))
        return np.stack(parts)

    concave = Property.LOG_CONCAVE in plane.site.spec.properties
    rule = nested if not concave and 1 < r == plane.axes.shape[1] else by_cells
    scale, sums, settled = rule(plane, power, terms, rows, top[rows], root[rows])
    count = 1 + r + len(upper[0])
    total = np.where(settled, sums[0], np.nan)
    with np.errstate(all="ignore"):
        mean = (sums[1 : 1 + r] / total).T
        square = np.empty((len(rows), r, r))
        square[:, upper[0], upper[1]] = (sums[1 + r : count] / total).T
        square[:, upper[1], upper[0]] = square[:, upper[0], upper[1]]
        square -= mean[:, :, None] * mean[:, None, :]
        square *= sd[:, :, None] * sd[:, None, :]
        mass = scale + np.log(total) - 0.5 * r * np.log(2.0 * np.pi)
        out.put(rows, _Moments(mass, middle + sd * mean, square, sums[count:] / total))
