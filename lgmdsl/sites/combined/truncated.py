"""Counts whose zeros are never recorded: f(y) / (1 - f(0)), y from 1, for any family of counts."""

from __future__ import annotations

import dataclasses
from functools import cache, cached_property
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.combined.above_zero import TERMS, AboveZero
from lgmdsl.sites.combined.chain import minus
from lgmdsl.sites.combined.combined import CombinedSite, derived, spec_of
from lgmdsl.sites.combined.formulas import TruncatedFormula
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
