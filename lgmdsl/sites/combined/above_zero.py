"""log P(Y > 0 | s) of a family of counts, with derivatives, from its densities at 0, 1, 2, ...

log(1 - e^u), u = log f(0), where zeros are not nearly certain. Where they are, P(Y > 0) < 1e-3, the
difference has lost digits that only f(1), f(2), ... hold: log of their sum, if six of them are it.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import ParameterCurve, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Site
from lgmdsl.sites.combined.chain import Outer, chained, chained_curve

TERMS = 6
_RARE = -1e-3  # u above which the terms are summed
_NEGLIGIBLE = -30.0  # log of the sixth term over the first: what is left out is 1e-13 or less


class AboveZero:
    """See the module; `site` is of counts, and its own counts do not matter."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def at(self, y: float) -> Site:
        """The sites at one count."""
        changed: dict[str, Any] = {"y": np.full_like(getattr(self.site, "y"), y)}  # noqa: B009
        return dataclasses.replace(self.site, **changed)

    @cached_property
    def zero(self) -> Site:
        return self.at(0.0)

    @cached_property
    def first(self) -> tuple[Site, ...]:
        return tuple(self.at(float(k)) for k in range(1, TERMS + 1))

    def log_zero(self, s: Array) -> PointwiseAnswer:
        """log f(0)."""
        return cast(Pointwise, self.zero).pointwise(s)

    def curve(self, s: Array) -> PointwiseAnswer:
        """log P(Y > 0) with three derivatives."""
        u = self.log_zero(s)
        out = chained(log_of_rest(u.value), u)
        rare = self._rare(u.value, s)
        if not rare.any():
            return out
        summed, _ = self._summed(s)
        return PointwiseAnswer(
            *(
                np.where(rare, new, old)
                for new, old in zip(_parts(summed), _parts(out), strict=True)
            )
        )

    def log_density(self, s: Array) -> Array:
        """log P(Y > 0)."""
        u = np.asarray(self.zero.log_density(s))
        rare = self._rare(u, s)
        value = _log_rest(np.where(rare, -1.0, u))
        if not rare.any():
            return value
        levels = np.stack([site.log_density(s) for site in self.first])
        top = levels.max(axis=0)
        return np.where(rare, top + np.log(np.exp(levels - top).sum(axis=0)), value)

    def slopes(self, s: Array) -> dict[str, Array]:
        """d log P(Y > 0) / dparameter."""
        u = np.asarray(self.zero.log_density(s))
        factor = log_of_rest(u).first
        out = {n: factor * v for n, v in self.zero.parameter_slopes(s).items()}
        rare = self._rare(u, s)
        if rare.any() and out:
            share = self._summed(s)[1]
            each = [site.parameter_slopes(s) for site in self.first]
            for name in out:
                mean = sum(p * e[name] for p, e in zip(share, each, strict=True))
                out[name] = np.where(rare, mean, out[name])
        return out

    def curves(self, s: Array) -> dict[str, ParameterCurve]:
        """d log P(Y > 0) / dparameter with two derivatives in s."""
        u = self.log_zero(s)
        f = log_of_rest(u.value)
        out = {n: chained_curve(f, u, c) for n, c in self.zero.parameter_curves(s).items()}
        rare = self._rare(u.value, s)
        if not rare.any() or not out:
            return out
        share = np.stack(self._summed(s)[1])
        answers = [cast(Pointwise, site).pointwise(s) for site in self.first]
        slope, bend = (np.stack([getattr(a, n) for a in answers]) for n in ("slope", "curvature"))
        each = [site.parameter_curves(s) for site in self.first]
        for name, usual in out.items():
            b0, b1, b2 = (np.stack([c[name][k] for c in each]) for k in range(3))
            summed = _curve_of_mean(share, slope, bend, b0, b1, b2)
            out[name] = ParameterCurve(
                *(np.where(rare, new, old) for new, old in zip(summed, usual, strict=True))
            )
        return out

    def _rare(self, u: Array, s: Array) -> BoolArray:
        """Where P(Y > 0) is the sum of its first terms."""
        rare = np.asarray(u > _RARE)
        if not rare.any():
            return rare
        fall = self.first[-1].log_density(s) - self.first[0].log_density(s)
        return np.asarray(rare & (fall < _NEGLIGIBLE))

    def _summed(self, s: Array) -> tuple[PointwiseAnswer, list[Array]]:
        """log sum_k f(k) with derivatives, and the share of each term."""
        answers = [cast(Pointwise, site).pointwise(s) for site in self.first]
        value, slope, bend, third = (
            np.stack([getattr(a, name) for a in answers])
            for name in ("value", "slope", "curvature", "third")
        )
        top = value.max(axis=0)
        share = np.exp(value - top)
        total = share.sum(axis=0)
        share /= total

        def mean(v: Array) -> Array:
            return np.asarray((share * v).sum(axis=0))

        d1, d2 = mean(slope), mean(bend)
        away, bent = slope - d1, bend - d2
        curved = d2 + mean(away**2)
        thrice = mean(third) + 3.0 * mean(away * bent) + mean(away * away**2)
        return PointwiseAnswer(top + np.log(total), d1, curved, thrice), list(share)


def _curve_of_mean(
    share: Array, slope: Array, bend: Array, b0: Array, b1: Array, b2: Array
) -> ParameterCurve:
    """The mean of b0 under weights that move with s, and its two derivatives."""

    def mean(v: Array) -> Array:
        return np.asarray((share * v).sum(axis=0))

    value = mean(b0)
    off, away = b0 - value, slope - mean(slope)
    first = mean(b1) + mean(off * away)
    second = (
        mean(b2)
        + mean(off * (bend - mean(bend)))
        + 2.0 * mean((b1 - mean(b1)) * away)
        + mean(off * away**2)
    )
    return ParameterCurve(value, first, second)


def _parts(a: PointwiseAnswer) -> tuple[Array, Array, Array, Array]:
    return a.value, a.slope, a.curvature, a.third


def _log_rest(u: Array) -> Array:
    """log(1 - e^u) for u < 0, by the form that keeps its digits."""
    with np.errstate(divide="ignore"):
        near = np.log(-np.expm1(np.maximum(u, -1.0)))
        far = np.log1p(-np.exp(np.minimum(u, -0.5)))
    return np.where(u > -0.6931471805599453, near, far)


def log_of_rest(u: Array) -> Outer:
    """log(1 - e^u) and its derivatives in u: -1 / expm1(-u), ..."""
    with np.errstate(over="ignore", divide="ignore"):
        first = -1.0 / np.expm1(-np.minimum(u, 0.0))
        second = first * (1.0 - first)
        third = second * (1.0 - 2.0 * first)
    return Outer(_log_rest(u), first, second, third)
