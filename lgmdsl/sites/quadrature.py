"""Expected and Tilted of any smooth scalar site, from its log_density and pointwise alone.

Expectations: E[l], E[l'], E[l'']/2, and on request E[l''']/2, E[l''' t]/(4 sd) (for d2f/dv2, by
Stein's identity), on the sinh grid of numerics.expectation. Tilted: mass and moments of
exp(power l(s)) N(s; m, v) on the same grid around m, scanned and shrunk (numerics.peak), and with
them averages of the parameter slopes. All are good to 1e-9 relative; sites that declare their
landmark need no trial rules.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import ExpectedAnswer, Pointwise, PointwiseAnswer, TiltedAnswer
from lgmdsl.contract.site import Property, Site
from lgmdsl.numerics.expectations.expectation import expectations
from lgmdsl.numerics.expectations.peak import AGREEMENT, DROP, DROP_OF_TWO_PEAKS, log_moments
from lgmdsl.numerics.stable import asinh_difference

_REACH = 9.5  # sds beyond the tilted mode that the first window covers
_DOUBLINGS = 60


class Averaged(ABC):
    """A site whose averages over a Gaussian have a closed form, in place of a rule."""

    @abstractmethod
    def averaged(self, mean: Array, variance: Array) -> tuple[Array, Array, Array] | None:
        """E[l] over N(mean, variance) and its slopes in both, (N,) each; None where the rule has
        more digits."""


class Added(ABC):
    """A site whose log density may be a sum of those of sites that bend in one place each, where a
    rule about one place would need many nodes for the others."""

    @abstractmethod
    def addends(self) -> tuple[tuple[IntArray, Site], ...]:
        """Rows and their sites, the log densities of which add up; () where all rows are simple."""


def _addends(site: Site) -> tuple[tuple[IntArray, Site], ...]:
    return site.addends() if isinstance(site, Added) else ()


class NodeSites:
    """The sites of some rows at nodes (n, k), whether or not the family broadcasts."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.columns: Site | None = None
        if site.broadcasts:
            fields = {f.name: getattr(site, f.name)[:, None] for f in dataclasses.fields(site)}
            self.columns = dataclasses.replace(site, **fields)
        self._latest: tuple[IntArray, Site] | None = None

    def log_density(self, rows: IntArray, s: Array) -> Array:
        """l at nodes s (n, k) of the sites `rows`."""
        if self.columns is not None:
            return self._site_at(rows).log_density(s)
        site = self.site.take(np.repeat(rows, s.shape[1]))
        return site.log_density(s.ravel()).reshape(s.shape)

    def pointwise(self, rows: IntArray, s: Array) -> PointwiseAnswer:
        """l and its derivatives at nodes s (n, k) of the sites `rows`."""
        if self.columns is not None:
            return cast(Pointwise, self._site_at(rows)).pointwise(s)
        site = cast(Pointwise, self.site.take(np.repeat(rows, s.shape[1])))
        a = site.pointwise(s.ravel())
        parts = (p.reshape(s.shape) for p in (a.value, a.slope, a.curvature, a.third))
        return PointwiseAnswer(*parts)

    def parameter_slopes(self, rows: IntArray, s: Array) -> dict[str, Array]:
        """dl/dparameter at nodes s (n, k) of the sites `rows`, by name."""
        if self.columns is not None:
            slopes = self._site_at(rows).parameter_slopes(s)
            return {name: np.broadcast_to(v, s.shape) for name, v in slopes.items()}
        site = self.site.take(np.repeat(rows, s.shape[1]))
        return {name: v.reshape(s.shape) for name, v in site.parameter_slopes(s.ravel()).items()}

    def _site_at(self, rows: IntArray) -> Site:
        """The sites `rows` as a column, the latest of which are kept."""
        assert self.columns is not None
        latest = self._latest
        if latest is None or not (rows is latest[0] or np.array_equal(rows, latest[0])):
            latest = self._latest = rows, self.columns.take(rows)
        return latest[1]


def landmarks(site: Site, n: int) -> tuple[Array, Array, bool]:
    """Centre and distance of each site, and whether they are declared for certain."""
    declared = site.landmark()
    if declared is None:
        return np.zeros(n), np.ones(n), False
    return declared[0] + np.zeros(n), declared[1] + np.zeros(n), not site.guessed


def expected_by_quadrature(
    site: Site,
    mean: Array,
    variance: Array,
    second: bool = False,
    nodes: NodeSites | None = None,
) -> ExpectedAnswer:
    """E[l], s ~ N(mean, variance), with derivatives; variance 0 gives the limit l(mean). In closed
    form where the site has one. `nodes`: the site at nodes, where it was asked before."""
    known = None if second or not isinstance(site, Averaged) else site.averaged(mean, variance)
    if known is not None:
        return ExpectedAnswer(*known)
    if addends := _addends(site):
        total = np.zeros((5 if second else 3, len(mean)))
        for rows, part in addends:
            a = expected_by_quadrature(part, mean[rows], variance[rows], second)
            parts = (a.value, a.d_mean, a.d_variance, a.d_mean_variance, a.d_variance2)
            total[:, rows] += np.stack([p for p in parts if p is not None])
        return ExpectedAnswer(*total)
    nodes = NodeSites(site) if nodes is None else nodes
    centre, scale, declared = landmarks(site, len(mean))
    sd = np.sqrt(variance)
    # Below this sd the rule's nodes collapse to the mean: the derivatives are the limit.
    safe = np.maximum(sd, 1e-12 * np.maximum(1.0, np.abs(mean)))

    def stacked(rows: IntArray, s: Array, t: Array) -> Array:
        a = nodes.pointwise(rows, s)
        if not second:
            return np.stack([a.value, a.slope, 0.5 * a.curvature])
        sds = safe[rows][:, None]
        return np.stack(
            [a.value, a.slope, 0.5 * a.curvature, 0.5 * a.third, 0.25 * a.third * t / sds]
        )

    out = expectations(stacked, mean, safe, centre, scale, checked=not declared)
    return ExpectedAnswer(*out)


def tilted_by_quadrature(
    site: Site, mean: Array, variance: Array, power: float = 1.0
) -> TiltedAnswer:
    """log of the mass, mean and variance of N(mean, variance) t(s)^power; of rows without variance
    t(mean)^power, mean and 0."""
    wide = np.flatnonzero(variance > 0.0)
    if len(wide) < len(mean):
        out = np.stack([power * site.log_density(mean), mean, np.zeros(len(mean))])
        if len(wide):
            some = tilted_by_quadrature(site.take(wide), mean[wide], variance[wide], power)
            out[:, wide] = some.log_mass, some.mean, some.variance
        return TiltedAnswer(*out)
    v = _spread(mean, variance)
    log_mass, shift, spread = _over_tilted(site, mean, v, power, lambda rows, s, offset: offset)
    log_mass = log_mass - 0.5 * np.log(2.0 * np.pi * v)
    tilted_mean = mean + shift
    unresolved = ~(spread > 0.0)
    if np.any(unresolved):
        # A log density of 1e20 has no digits left for a width: the curvature at the peak does.
        bend = cast(Pointwise, site).pointwise(tilted_mean).curvature
        spread = np.where(unresolved, 1.0 / (1.0 / v + power * np.maximum(-bend, 0.0)), spread)
    if Property.LOG_CONCAVE in site.spec.properties:
        spread = np.minimum(spread, v)  # a theorem, kept against rounding
    return TiltedAnswer(log_mass, tilted_mean, spread)


def slopes_by_quadrature(
    site: Site, mean: Array, variance: Array, power: float = 1.0
) -> dict[str, Array]:
    """E[dl/dparameter] over N(mean, variance) t(s)^power for each continuous parameter."""
    if power == 0.0:
        return _plain_slopes(site, mean, variance)
    at_mean = site.parameter_slopes(mean)
    wide = np.flatnonzero(variance > 0.0)
    if len(wide) < len(mean):
        out = {name: np.array(plain + np.zeros(len(mean))) for name, plain in at_mean.items()}
        some = site.take(wide)
        for name, slopes in (
            slopes_by_quadrature(some, mean[wide], variance[wide], power) if len(wide) else {}
        ).items():
            out[name][wide] = slopes
        return out
    nodes = NodeSites(site)
    v = _spread(mean, variance)
    out = {}
    for name in at_mean:

        def slope(rows: IntArray, s: Array, offset: Array, name: str = name) -> Array:
            return nodes.parameter_slopes(rows, s)[name]

        out[name] = _over_tilted(site, mean, v, power, slope)[1]
    return out


def _plain_slopes(site: Site, mean: Array, variance: Array) -> dict[str, Array]:
    """E[dl/dparameter] over N(mean, variance), all parameters at the same nodes."""
    if addends := _addends(site):
        total = {name: np.zeros(len(mean)) for name in site.parameter_slopes(mean)}
        for rows, part in addends:
            for name, slope in _plain_slopes(part, mean[rows], variance[rows]).items():
                total[name][rows] += slope
        return total
    nodes = NodeSites(site)
    centre, scale, _ = landmarks(site, len(mean))
    names = tuple(site.parameter_slopes(mean))

    def stacked(rows: IntArray, s: Array, t: Array) -> Array:
        slopes = nodes.parameter_slopes(rows, s)
        return np.stack([slopes[name] for name in names])

    if not names:
        return {}
    sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))
    out = expectations(stacked, mean, sd, centre, scale, checked=True)
    return dict(zip(names, out, strict=True))


def _spread(mean: Array, variance: Array) -> Array:
    """The variance; where it is 0, one too small to change the mean in double precision."""
    return np.where(variance <= 0.0, 1e-300 + 1e-24 * np.maximum(1.0, mean * mean), variance)


def _over_tilted(
    site: Site,
    mean: Array,
    v: Array,
    power: float,
    value: Callable[[IntArray, Array, Array], Array],
) -> tuple[Array, Array, Array]:
    """log of the integral of t(s)^power exp(-(s - mean)^2 / (2 v)); mean and variance under it of
    value(rows, s, s - mean)."""
    nodes = NodeSites(site)
    centre, scale, declared = landmarks(site, len(mean))
    sd = np.sqrt(v)
    x = (mean - centre) / scale
    u0 = np.arcsinh(x)

    def log_f(rows: IntArray, w: Array) -> tuple[Array, Array]:
        a, u = scale[rows][:, None], u0[rows][:, None]
        offset = 2.0 * a * np.sinh(0.5 * w) * np.cosh(u + 0.5 * w)
        s = mean[rows][:, None] + offset
        jacobian = np.log(np.cosh(u + w)) + np.log(a)
        level = power * nodes.log_density(rows, s) + jacobian
        return level - 0.5 * (offset / sd[rows][:, None]) ** 2, value(rows, s, offset)

    low, high = _window(site, mean, v, sd, power)
    towards = centre - mean
    curved = cast(Pointwise, site).pointwise(centre).curvature
    with np.errstate(divide="ignore"):
        width = 1.0 / (scale * np.sqrt(power * np.abs(curved) + 1.0 / v))
    step = np.clip(width, 0.02, 0.5)
    drop = DROP
    if Property.LOG_CONCAVE not in site.spec.properties:
        drop = DROP_OF_TWO_PEAKS
        # Peaks may stand at the mean, at the centre and where the search from the mean ended.
        low = np.minimum(low, np.minimum(towards, 0.0) - _REACH * sd)
        high = np.maximum(high, np.maximum(towards, 0.0) + _REACH * sd)
        # The peak of the Gaussian factor may be one of two: the step must resolve it.
        far = np.hypot(1.0, np.abs(x) + 8.0 * sd / scale)
        step = np.minimum(step, np.maximum(1.1 * sd / (scale * far), 1e-3))
    anchors = np.stack([asinh_difference(x, k * sd / scale) for k in (-1.0, 0.0, 1.0)], axis=1)
    anchors = np.concatenate([anchors, asinh_difference(x, -x)[:, None]], axis=1)
    low_u, high_u = asinh_difference(x, low / scale), asinh_difference(x, high / scale)
    agreement = AGREEMENT if declared else 1e-9
    return log_moments(log_f, low_u, high_u, step, anchors, drop, agreement)


def _window(
    site: Site, mean: Array, variance: Array, sd: Array, power: float
) -> tuple[Array, Array]:
    """Offsets from the mean between which the tilted mode lies, widened by 9.5 sd.

    From the mean, steps doubled in the direction of the slope until it turns: for a log-concave
    site the mode is then bracketed, and the tilted density is no wider than the Gaussian factor.
    """
    slope_site = cast(Pointwise, site)
    start = slope_site.pointwise(mean)
    uphill, outside = np.sign(start.slope), np.isneginf(start.value)
    reached = np.zeros_like(mean)
    before = np.zeros_like(mean)
    pending = np.flatnonzero(uphill != 0.0)
    for k in range(_DOUBLINGS):
        if not len(pending):
            break
        before[pending] = reached[pending]
        reached[pending] = uphill[pending] * sd[pending] * (2.0**k)
        some = cast(Pointwise, site.take(pending))
        answer = some.pointwise(mean[pending] + reached[pending])
        slope = power * answer.slope - reached[pending] / variance[pending]
        # From outside of a support its slope leads inside, whatever the Gaussian's is.
        still = outside[pending] & np.isneginf(answer.value)
        pending = pending[(slope * uphill[pending] > 0.0) | still]
    return np.minimum(before, reached) - _REACH * sd, np.maximum(before, reached) + _REACH * sd
