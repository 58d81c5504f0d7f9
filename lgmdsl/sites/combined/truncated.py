"""Counts whose zeros are never recorded: f(y) / (1 - f(0)), y from 1, for any family of counts."""

from __future__ import annotations

import dataclasses
from functools import cache, cached_property
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.combined.combined import (
    CombinedSite,
    Outer,
    TruncatedFormula,
    chained,
    chained_curve,
    derived,
    minus,
    spec_of,
)
from lgmdsl.sites.quadrature import expected_by_quadrature, slopes_by_quadrature

_ROUNDS = 30  # of draws until one is above 0, before the law itself is walked
_FARTHEST = 10_000  # counts that are walked


class ZerosSite(CombinedSite, Pointwise):
    """A family of counts whose zeros are changed."""

    y: Array

    @cached_property
    def above(self) -> AboveZero:
        """P(Y > 0) of the base family."""
        return AboveZero(self.plain)

    def log_density(self, s: Array) -> Array:
        raise NotImplementedError  # each family of zeros has its own


class TruncatedSite(ZerosSite):
    """l = log f(y) - log P(Y > 0); no density at y = 0."""

    def reason(self, row: int) -> str:
        if self.y[row] > 0.0:
            return self.plain.reason(row)
        return (
            "y is 0, and with `truncated = true` it is 1 or more: leave it out, or take hurdle = p "
            "in place of it"
        )

    def log_density(self, s: Array) -> Array:
        value = self.plain.log_density(s) - self.above.log_density(s)
        return np.where(self.y > 0.0, value, -np.inf)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        answer = minus(cast(Pointwise, self.plain).pointwise(s), self.above.curve(s), variance)
        curvature = answer.curvature
        if Property.LOG_CONCAVE in self.spec.properties:
            curvature = np.minimum(curvature, 0.0)  # a theorem, kept against rounding
        value = np.where(self.y > 0.0, answer.value, -np.inf)
        return dataclasses.replace(answer, value=value, curvature=curvature)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        rest = self.above.slopes(s)
        return {n: v - rest[n] for n, v in self.plain.parameter_slopes(s).items()}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        rest = self.above.curves(s)
        return {
            name: ParameterCurve(*(a - b for a, b in zip(curve, rest[name], strict=True)))
            for name, curve in self.plain.parameter_curves(s).items()
        }

    def conditional_mean(self, s: Array) -> Array:
        """E[Y] / P(Y > 0), 1 where that is 0 / 0."""
        mean, share = self.plain.conditional_mean(s), np.exp(self.above.log_density(s))
        return np.asarray(np.where(share > 1e-290, mean / np.maximum(share, 1e-290), 1.0))

    def conditional_variance(self, s: Array) -> Array:
        """E[Y^2] / P(Y > 0) less the square of the mean."""
        share = np.exp(self.above.log_density(s))
        plain, mean = self.plain.conditional_mean(s), self.conditional_mean(s)
        square = self.plain.conditional_variance(s) + plain**2
        spread = np.where(share > 1e-290, square / np.maximum(share, 1e-290), 1.0) - mean**2
        return np.asarray(np.maximum(spread, 0.0))

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        """Draws until one is above 0; where that is rare, by the distribution function."""
        out = np.array(self.plain.sample(s, rng))
        for _ in range(_ROUNDS):
            pending = np.flatnonzero(out <= 0.0)
            if not len(pending):
                return out
            out[pending] = self.plain.take(pending).sample(s[pending], rng)
        pending = np.flatnonzero(out <= 0.0)
        if len(pending):
            out[pending] = self.take(pending).walked(s[pending], rng.random(len(pending)))
        return out

    def walked(self, s: Array, level: Array) -> Array:
        """The least y with P(Y <= y) >= level."""
        out, total = np.ones_like(level), np.zeros_like(level)
        pending = np.arange(len(level))
        for k in range(1, _FARTHEST):
            count: dict[str, Any] = {"y": np.full_like(self.y, float(k))}
            some = dataclasses.replace(self, **count).take(pending)
            total[pending] += np.exp(some.log_density(s[pending]))
            out[pending] = k
            pending = pending[total[pending] < level[pending]]
            if not len(pending):
                break
        return out

    def cdf(self, s: Array) -> Array:
        """(F(y) - f(0)) / (1 - f(0)); where zeros are nearly certain the sum of the densities."""
        log_share = self.above.log_density(s)
        share = np.exp(log_share)
        after = 1.0 - self.plain.cdf(s)
        out = 1.0 - after / np.maximum(share, 1e-290)
        rare = share < 1e-3
        if np.any(rare):
            total = np.zeros(np.shape(out))
            for k, site in enumerate(self.above.first, start=1):
                term = np.exp(site.log_density(s) - log_share)
                total += np.where(self.y >= k, term, 0.0)
            out = np.where(rare, np.where(self.y > TERMS, np.maximum(out, total), total), out)
        return np.where(self.y < 1.0, 0.0, np.clip(out, 0.0, 1.0))


class _Excess(CombinedSite, Pointwise):
    """-log P(Y > 0) as sites of its own, for quadrature."""

    @cached_property
    def above(self) -> AboveZero:
        return AboveZero(self.plain)

    def log_density(self, s: Array) -> Array:
        return -self.above.log_density(s)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = self.above.curve(s)
        return PointwiseAnswer(-a.value, -a.slope, -a.curvature, -a.third * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {name: -slope for name, slope in self.above.slopes(s).items()}


@cache
def _excess(base: type[Site]) -> type[Site]:
    spec = spec_of(base, "above_zero", {}, properties=Property.NONE)
    return derived(_excess, base, (_Excess,), spec, (), {"guessed": True})


class _ExpectedTruncated(Expected):
    """E[l] = E[log f(y)], in closed form, - E[log P(Y > 0)], which grows no faster than s."""

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast(TruncatedSite, self)
        plain = cast(Expected, site.plain).expected(mean, variance, second)
        rest = expected_by_quadrature(_rest(site), mean, variance, second)
        return summed(plain, rest)


class _SlopesTruncated(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(TruncatedSite, self)
        plain = cast(ExpectedSlopes, site.plain).expected_slopes(mean, variance)
        rest = slopes_by_quadrature(_rest(site), mean, variance, 0.0)
        return {name: slope + rest[name] for name, slope in plain.items()}


def _rest(site: TruncatedSite) -> Site:
    return _excess(site.base)(**site.base_fields())


def summed(a: ExpectedAnswer, b: ExpectedAnswer) -> ExpectedAnswer:
    """The expectation of a sum of two sites."""

    def both(x: Array | None, y: Array | None) -> Array | None:
        return None if x is None or y is None else x + y

    return ExpectedAnswer(
        a.value + b.value,
        a.d_mean + b.d_mean,
        a.d_variance + b.d_variance,
        both(a.d_mean_variance, b.d_mean_variance),
        both(a.d_variance2, b.d_variance2),
    )


@cache
def truncated(base: type[Site]) -> type[Site]:
    """The family of `base` given that y > 0. Raises TypeError for a family that is no counts.

    A natural exponential family stays one on its smaller support, so it stays log-concave; of
    others that is not known. Masses are at most 1, so l is bounded.
    """
    kept = base.spec.properties & (Property.LOG_CONCAVE | Property.NATURAL)
    shape = Property.LOG_CONCAVE | Property.NATURAL
    properties = Property.BOUNDED | (shape if kept == shape else Property.NONE)
    parts: list[type] = [TruncatedSite, TruncatedFormula]
    if issubclass(base, Expected):
        parts.append(_ExpectedTruncated)
        parts += [_SlopesTruncated] if issubclass(base, ExpectedSlopes) else []
    spec = spec_of(
        base,
        "truncated",
        {},
        properties=properties,
        link="",
        summary=f"{base.spec.summary}, given that y > 0",
    )
    return derived(truncated, base, parts, spec, (), {"guessed": True})


# ---- above zero --------------------------------------------------------------------------------
# log P(Y > 0 | s) of a family of counts, with derivatives, from its densities at 0, 1, 2, ...
#
# log(1 - e^u), u = log f(0), where zeros are not nearly certain. Where they are, P(Y > 0) < 1e-3,
# the difference has lost digits that only f(1), f(2), ... hold: log of their sum, if six of them
# are it.


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
