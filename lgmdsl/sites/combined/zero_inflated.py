"""Counts with extra zeros of a constant probability: P(0) = p + (1 - p) f(0)."""

from __future__ import annotations

from functools import cache, cached_property
from typing import cast

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
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.sites.combined.combined import (
    Outer,
    ZeroInflatedFormula,
    chained,
    chained_curve,
    derived,
    spec_of,
)
from lgmdsl.sites.combined.split_rows import (
    MANY,
    Parts,
    expected_of_parts,
    joined,
    parts_of,
    pointwise_of_parts,
    slopes_of_parts,
)
from lgmdsl.sites.combined.truncated import ZerosSite

P = "zero_inflation"


class ZeroInflatedSite(ZerosSite):
    """l = log(p + (1 - p) f(0)) where y = 0, log(1 - p) + log f(y) elsewhere."""

    zero_inflation: Array

    @cached_property
    def parts(self) -> Parts:
        """The rows above 0 and the others with their sites, where there are both: of many
        evaluations each computes its own formula alone."""
        return parts_of(self, self.y > 0.0)

    def mixed(self, u: Array) -> Outer:
        """log(p + (1 - p) e^u) and its derivatives: r, r (1 - r), ... with r the share of f(0)."""
        extra, own = self.log_extra, self.log_kept + u
        with np.errstate(invalid="ignore"):
            apart = np.where(self.zero_inflation > 0.0, own - extra, np.inf)
        share, rest, tail = sigmoids(apart)
        second = share * rest
        return Outer(np.maximum(extra, own) + tail, share, second, second * (rest - share))

    @cached_property
    def log_extra(self) -> Array:
        """log p."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.zero_inflation))

    @cached_property
    def log_kept(self) -> Array:
        """log(1 - p)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log1p(-self.zero_inflation))

    def log_density(self, s: Array) -> Array:
        if np.size(s) >= MANY and self.parts:
            return joined(self.parts, s, lambda part, s: (part.log_density(s),))[0]
        if (self.y > 0.0).all():
            return self.plain.log_density(s) + self.log_kept
        at_zero = self.mixed(np.asarray(self.above.zero.log_density(s))).value
        if not (self.y > 0.0).any():
            return at_zero
        return np.where(self.y > 0.0, self.plain.log_density(s) + self.log_kept, at_zero)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        if np.size(s) >= MANY and self.parts:
            return pointwise_of_parts(self.parts, s, variance)
        if (self.y > 0.0).all():
            a = cast(Pointwise, self.plain).pointwise(s, variance)
            return PointwiseAnswer(a.value + self.log_kept, a.slope, a.curvature, a.third)
        u = self.above.log_zero(s)
        at_zero = chained(self.mixed(u.value), u)
        above = self.y > 0.0
        if not above.any():
            third = at_zero.third * variance
            return PointwiseAnswer(at_zero.value, at_zero.slope, at_zero.curvature, third)
        plain = cast(Pointwise, self.plain).pointwise(s)
        return PointwiseAnswer(
            np.where(above, plain.value + self.log_kept, at_zero.value),
            np.where(above, plain.slope, at_zero.slope),
            np.where(above, plain.curvature, at_zero.curvature),
            np.where(above, plain.third, at_zero.third) * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        above, u = self.y > 0.0, np.asarray(self.above.zero.log_density(s))
        f = self.mixed(u)
        zero = self.above.zero.parameter_slopes(s)
        out = {
            name: np.where(above, slope, f.first * zero[name])
            for name, slope in self.plain.parameter_slopes(s).items()
        }
        with np.errstate(over="ignore"):
            gain = -np.expm1(u) * np.exp(-f.value)
        out[P] = np.where(above, -1.0 / (1.0 - self.zero_inflation), gain)
        return out

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        above, u = self.y > 0.0, self.above.log_zero(s)
        f = self.mixed(u.value)
        zero = self.above.zero.parameter_curves(s)
        out = {}
        for name, curve in self.plain.parameter_curves(s).items():
            at_zero = chained_curve(f, u, zero[name])
            out[name] = ParameterCurve(
                *(np.where(above, a, b) for a, b in zip(curve, at_zero, strict=True))
            )
        # r = (1 - p) f(0) / P(0), dr/dp = -f(0) / P(0)^2
        with np.errstate(over="ignore"):
            moved = -np.exp(u.value - 2.0 * f.value)
        flat = moved == 0.0
        u1, u2 = (np.where(flat, 0.0, part) for part in (u.slope, u.curvature))
        none = np.zeros(np.shape(moved))
        out[P] = ParameterCurve(
            self.parameter_slopes(s)[P],
            np.where(above, none, moved * u1),
            np.where(above, none, moved * ((1.0 - 2.0 * f.first) * u1**2 + u2)),
        )
        return out

    def conditional_mean(self, s: Array) -> Array:
        """(1 - p) E[Y]."""
        return np.asarray((1.0 - self.zero_inflation) * self.plain.conditional_mean(s))

    def conditional_variance(self, s: Array) -> Array:
        """(1 - p) (Var Y + p E[Y]^2)."""
        p, mean = self.zero_inflation, self.plain.conditional_mean(s)
        return np.asarray((1.0 - p) * (self.plain.conditional_variance(s) + p * mean**2))

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        extra = rng.random(np.shape(s)) < self.zero_inflation
        return np.where(extra, 0.0, self.plain.sample(s, rng))

    def cdf(self, s: Array) -> Array:
        """p + (1 - p) F(y)."""
        p = self.zero_inflation
        return np.where(self.y < 0.0, 0.0, p + (1.0 - p) * self.plain.cdf(s))

    @property
    def closed(self) -> BoolArray:
        """The rows whose expectations are those of the base family, and a constant."""
        return np.asarray((self.y > 0.0) | (self.zero_inflation <= 0.0))


class _ExpectedZeroInflated(Expected):
    """Rows above 0 as the base family has them; log P(0) is bounded: by quadrature."""

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast(ZeroInflatedSite, self)
        return expected_of_parts(site, site.closed, site.log_kept, mean, variance, second)


class _SlopesZeroInflated(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(ZeroInflatedSite, self)
        return slopes_of_parts(site, site.y > 0.0, mean, variance)


@cache
def zero_inflated(base: type[Site]) -> type[Site]:
    """The family of `base` with a parameter `zero_inflation`, p.

    Masses are at most 1, so l is bounded; where y = 0 it is not log-concave.
    """
    parts: list[type] = [ZeroInflatedSite, ZeroInflatedFormula]
    if issubclass(base, Expected):
        parts.append(_ExpectedZeroInflated)
        parts += [_SlopesZeroInflated] if issubclass(base, ExpectedSlopes) else []
    spec = spec_of(
        base,
        "zero_inflated",
        {P: None},
        properties=Property.BOUNDED,
        link="",
        summary=f"{base.spec.summary}, with extra zeros",
    )
    return derived(zero_inflated, base, parts, spec, (P,), {"guessed": True})
