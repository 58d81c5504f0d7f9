"""Censored Laplace responses. The log mass of an interval bends abruptly at its ends, so that no
rule may cross them: its averages are Gauss-Legendre sums over panels that begin and end there.

Of rows observed exactly all answers are the family's own, in closed form.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
)
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.sites.censored.censored import CensoredSite
from lgmdsl.sites.censored.families import censored_spec
from lgmdsl.sites.laws import LaplaceLaw, Law, Mass
from lgmdsl.sites.scalar.laplace import LaplaceMean

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(14)
_BELOW = (-10.0, -8.0, -6.0, -4.5, -3.0, -2.0, -1.0)
_SDS = np.array([*_BELOW, 0.0, *(-sd for sd in _BELOW)])
_GRADES = 14  # panels on each side of an end, whose widths grow in proportion
_FAR = 40.0  # scales from an end beyond which the log mass is linear to rounding


@dataclass(frozen=True, eq=False)
class LaplaceCensored(CensoredSite, Expected, ExpectedSlopes, Tilted, TiltedSlopes):
    """y = s + Laplace noise of a scale, censored. Log-concave, as the mass of an interval is."""

    y: Array
    scale: Array
    event: Array
    lower: Array
    upper: Array
    family: ClassVar[type[Site]] = LaplaceMean
    spec: ClassVar[SiteSpec] = censored_spec(
        LaplaceMean, Property.LOG_CONCAVE | Property.KINKED | Property.BOUNDED
    )

    @property
    def spread(self) -> Array:
        return self.scale

    def law(self) -> Law:
        return LaplaceLaw()

    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        return {"scale": by_spread}

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        out = np.zeros((5, len(mean)))
        free, censored = self.rows
        if len(free):
            a = self._observed.expected(mean[free], variance[free], True)
            assert a.d_mean_variance is not None and a.d_variance2 is not None
            parts = (a.value, a.d_mean, a.d_variance, a.d_mean_variance, a.d_variance2)
            out[:, free] = parts
        if len(censored):
            out[:, censored] = _expected(self.censored_rows, mean[censored], variance[censored])
        return ExpectedAnswer(out[0], out[1], out[2], *(out[3:] if second else ()))

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.tilted_slopes(mean, variance, 0.0)

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        out = np.zeros((3, len(mean)))
        free, censored = self.rows
        if len(free):
            a = self._observed.tilted(mean[free], variance[free], power)
            out[:, free] = a.log_mass, a.mean, a.variance
        if len(censored):
            site, m, v = self.censored_rows, mean[censored], variance[censored]
            offset, share, log_mass = _shares(site, m, v, power)
            shift = (share * offset).sum(axis=1)
            spread = (share * (offset - shift[:, None]) ** 2).sum(axis=1)
            point = v <= 0.0
            out[0, censored] = np.where(point, power * site.log_density(m), log_mass)
            out[1, censored] = np.where(point, m, m + shift)
            # Of a log-concave factor: no wider than the Gaussian, kept against rounding.
            out[2, censored] = np.where(point, 0.0, np.minimum(spread, v))
        return TiltedAnswer(out[0], out[1], out[2])

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        out = np.zeros(len(mean))
        free, censored = self.rows
        if len(free):
            own = self._observed.tilted_slopes(mean[free], variance[free], power)
            out[free] = own["scale"]
        if len(censored):
            site, m, v = self.censored_rows, mean[censored], variance[censored]
            offset, share, _ = _shares(site, m, v, power)
            slope = _columns(site).parameter_slopes(m[:, None] + offset)["scale"]
            average = (share * slope).sum(axis=1)
            out[censored] = np.where(v <= 0.0, site.parameter_slopes(m)["scale"], average)
        return {"scale": out}

    @property
    def _observed(self) -> LaplaceMean:
        site = self.observed_rows
        assert isinstance(site, LaplaceMean)
        return site


def _expected(site: CensoredSite, mean: Array, variance: Array) -> Array:
    """f, f_m, f_v, f_mv, f_vv of rows that are all censored. To E[l'''] and its slope in m the
    jumps of l'' at the ends add, each times the Gaussian density there."""
    offset, share, _ = _shares(site, mean, variance, 0.0)
    a = _columns(site).pointwise(mean[:, None] + offset)
    sd = _sd(site, mean, variance)

    def average(values: Array) -> Array:
        return np.asarray((share * values).sum(axis=1))

    third, fourth = average(a.third), average(a.third * offset) / sd**2
    for end, sign in zip(site.ends, (-1.0, 1.0), strict=True):
        finite = np.isfinite(end)
        place = np.where(finite, end, mean)
        r = np.where(finite, (place - mean) / sd, 100.0)
        density = np.exp(-0.5 * np.minimum(r * r, 1400.0)) / (sd * np.sqrt(2.0 * np.pi))
        jump = (
            sign
            * np.exp(np.minimum(-site.log_density(place), 700.0))
            * (density / site.spread)
            / site.spread
        )
        third += jump
        fourth += jump * np.where(finite, r, 0.0) / sd
    first = [average(a.value), average(a.slope), 0.5 * average(a.curvature)]
    return np.array([*first, 0.5 * third, 0.25 * fourth])


def _sd(site: CensoredSite, mean: Array, variance: Array) -> Array:
    """The sd; where it is 0, one that changes no mean in double precision."""
    return np.maximum(np.sqrt(variance), 1e-10 * site.spread + 1e-14 * np.abs(mean))


def _columns(site: CensoredSite) -> CensoredSite:
    fields = {f.name: getattr(site, f.name)[:, None] for f in dataclasses.fields(site)}
    return dataclasses.replace(site, **fields)


def _shares(
    site: CensoredSite, mean: Array, variance: Array, power: float
) -> tuple[Array, Array, Array]:
    """Offsets from the mean, (N, k), their shares under t^power N(mean, variance), and the log of
    its mass."""
    sd = _sd(site, mean, variance)
    # Where l is linear, of slope +-1 / scale, the Gaussian factor moves by as much.
    moved = [0.0 * sd] + [sign * power * sd * (sd / site.spread) for sign in (-1.0, 1.0) if power]
    edges = [c[:, None] + sd[:, None] * _SDS for c in moved]
    least = 0.25 * np.minimum(site.spread, sd)
    most = np.maximum(10.0 * sd, _FAR * site.spread)
    grades = least[:, None] * (most / least)[:, None] ** np.linspace(0.0, 1.0, _GRADES)
    for end in site.ends:
        at_end = np.where(np.isfinite(end), end - mean, 0.0)[:, None]
        edges += [at_end, at_end - grades, at_end + grades]
    window = [np.stack(moved).min(axis=0) - 10.0 * sd, np.stack(moved).max(axis=0) + 10.0 * sd]
    cuts = np.clip(np.concatenate(edges, axis=1), window[0][:, None], window[1][:, None])
    cuts = np.sort(cuts, axis=1)
    half = 0.5 * np.diff(cuts, axis=1)[:, :, None]
    middle = 0.5 * (cuts[:, 1:] + cuts[:, :-1])[:, :, None]
    offset = (middle + half * _NODES).reshape(len(mean), -1)
    weight = ((half / sd[:, None, None]) * _WEIGHTS).reshape(len(mean), -1)
    with np.errstate(divide="ignore"):
        level = np.log(weight) - 0.5 * (offset / sd[:, None]) ** 2
    if power:
        level = level + power * _columns(site).log_density(mean[:, None] + offset)
    top = level.max(axis=1)
    share = np.exp(level - top[:, None])
    total = share.sum(axis=1)
    log_mass = top + np.log(total) - 0.5 * np.log(2.0 * np.pi)
    return offset, share / total[:, None], log_mass
