"""Delayed entry: the density given Y > entry, for any family whose rows may be right-censored.

    l - log P(Y > entry),   an interval being max(lower, entry) to upper

where log P(Y > entry) is the same family right-censored at entry. A row without entry (NaN, or not
above 0) is the family's own. Draws and the distribution function are of Y given Y > entry; mean and
variance are those of Y.
"""

from __future__ import annotations

import dataclasses
from functools import cache, cached_property
from typing import Any, ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.combined.combined import CombinedSite, derived, expanded, spec_of
from lgmdsl.sites.formula import Formula, Jets

_HALVINGS = 200
_ENDLESS = 650.0  # log times beyond which a lifetime that may never end does not
# log P(Y > entry) where exponents are cut off, so that differences from it mean nothing: what is
# left there is the density without the entry, as small as a line search must see it.
LEAST = -1e140


class EnteredSite(CombinedSite, Pointwise):
    """`base` given Y > entry."""

    y: Array
    entry: Array
    guessed: ClassVar[bool] = True

    def base_fields(self) -> dict[str, Any]:
        """Fields of the base's sites, with no interval reaching below the entry."""
        fields = super().base_fields()
        if "lower" in fields:
            low, high = fields["lower"], fields["upper"]
            bounded = (~np.isnan(low) | ~np.isnan(high)) & (low != high)
            late = bounded & (self.entry > 0.0) & ~(low >= self.entry)
            fields["lower"] = np.where(late, self.entry, low)
        return fields

    @cached_property
    def late(self) -> IntArray:
        """The rows that entered after 0."""
        entry = self.entry.reshape(len(self.y), -1)[:, 0] if len(self.y) else self.entry
        return np.flatnonzero(entry > 0.0)

    @cached_property
    def at_entry(self) -> Site:
        """The late rows right-censored at their entry: log P(Y > entry)."""
        return self.surviving(self.late, self.entry[self.late])

    def surviving(self, rows: IntArray, y: Array) -> Site:
        """log P(Y > y) of some rows."""
        site = self.plain.take(rows)
        fields = {f.name for f in dataclasses.fields(site)}
        changed: dict[str, Any] = {"y": y, "event": np.zeros_like(y)}
        changed |= {n: np.full_like(y, np.nan) for n in ("lower", "upper") if n in fields}
        return dataclasses.replace(site, **changed)

    def log_density(self, s: Array) -> Array:
        out = np.array(self.plain.log_density(s))
        if len(self.late):
            survived = self.at_entry.log_density(s[self.late])
            out[self.late] -= np.where(survived > LEAST, survived, 0.0)
        return out

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a, rows = cast(Pointwise, self.plain).pointwise(s), self.late
        out = np.array([a.value, a.slope, a.curvature, a.third])
        if len(rows):
            b = cast(Pointwise, self.at_entry).pointwise(s[rows])
            survived = np.array([b.value, b.slope, b.curvature, b.third])
            out[:, rows] -= np.where(b.value > LEAST, survived, 0.0)
        if Property.LOG_CONCAVE in self.spec.properties:
            out[2] = np.minimum(out[2], 0.0)  # a theorem, kept against rounding
        return PointwiseAnswer(out[0], out[1], out[2], out[3] * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        out = {n: np.array(v) for n, v in self.plain.parameter_slopes(s).items()}
        if len(self.late):
            for name, slope in self.at_entry.parameter_slopes(s[self.late]).items():
                out[name][self.late] -= slope
        return out

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        whole = {n: np.array(list(c)) for n, c in self.plain.parameter_curves(s).items()}
        if len(self.late):
            for name, curve in self.at_entry.parameter_curves(s[self.late]).items():
                whole[name][:, self.late] -= np.array(list(curve))
        return {name: ParameterCurve(*parts) for name, parts in whole.items()}

    @np.errstate(over="ignore", invalid="ignore")  # at the far end of the brackets
    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        """Late rows by bisection of the survivor function given entry."""
        out = np.array(self.plain.sample(s, rng))
        rows = self.late
        if not len(rows):
            return out
        t, entry = s[rows], self.entry[rows]
        target = self.at_entry.log_density(t) + np.log(1.0 - rng.random(len(rows)))
        low, high = np.log(entry), np.log(entry) + 1.0
        for _ in range(_HALVINGS):
            short = self.surviving(rows, np.exp(high)).log_density(t) > target
            if not short.any() or np.all(high[short] > _ENDLESS):
                break
            high = np.where(short, np.minimum(2.0 * high - low + 1.0, 700.0), high)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            beyond = self.surviving(rows, np.exp(middle)).log_density(t) > target
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        lasting = (0.5 * (low + high) > _ENDLESS) & (self.plain.take(rows).endless(t) > 0.0)
        out[rows] = np.where(lasting, np.inf, np.exp(0.5 * (low + high)))
        return out

    def endless(self, s: Array) -> Array:
        """P(Y = inf) / P(Y > entry)."""
        out, rows = np.array(self.plain.endless(s)), self.late
        if len(rows):
            with np.errstate(divide="ignore"):
                ahead = np.log(out[rows]) - self.at_entry.log_density(s[rows])
            out[rows] = np.exp(np.minimum(ahead, 0.0))
        return out

    def cdf(self, s: Array) -> Array:
        """1 - P(Y > y) / P(Y > entry)."""
        out, rows = np.array(self.plain.cdf(s)), self.late
        if len(rows):
            ahead = self.surviving(rows, self.y[rows]).log_density(s[rows])
            gone = ahead - self.at_entry.log_density(s[rows])
            out[rows] = -np.expm1(np.minimum(gone, 0.0))
        return out


class _EnteredFormula(Formula):
    """Formula for bases with one: what predictors for their parameters take derivatives of."""

    def formula(self, s: Jet, p: Jets) -> Jet:
        site = cast(EnteredSite, self)
        late = site.entry > 0.0
        before = site.surviving(np.arange(len(site.y)), np.where(late, site.entry, site.y))
        survived, nothing = expanded(before, s, p), jets.constant(np.zeros(()), s.order)
        kept = late & (survived.value > LEAST)
        return expanded(site.plain, s, p) - jets.where(kept, survived, nothing)


class _ExpectedEntered(Expected):
    """E[l] - E[log P(Y > entry)], both as the base family answers."""

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast(EnteredSite, self)
        a = cast(Expected, site.plain).expected(mean, variance, second)
        rows = site.late
        if not len(rows):
            return a
        b = cast(Expected, site.at_entry).expected(mean[rows], variance[rows], second)

        def less(x: Array | None, y: Array | None) -> Array | None:
            if x is None or y is None:
                return None
            out = np.array(np.broadcast_to(x, np.shape(mean)))
            out[rows] -= y
            return out

        first = [less(getattr(a, n), getattr(b, n)) for n in ("value", "d_mean", "d_variance")]
        value, d_mean, d_variance = (np.asarray(part) for part in first)
        return ExpectedAnswer(
            value,
            d_mean,
            d_variance,
            less(a.d_mean_variance, b.d_mean_variance),
            less(a.d_variance2, b.d_variance2),
        )


class _SlopesEntered(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site, out = cast(EnteredSite, self), {}
        slopes = cast(ExpectedSlopes, site.plain).expected_slopes(mean, variance)
        for name, slope in slopes.items():
            out[name] = np.array(np.broadcast_to(slope, np.shape(mean)))
        rows = site.late
        if len(rows):
            late = cast(ExpectedSlopes, site.at_entry)
            for name, slope in late.expected_slopes(mean[rows], variance[rows]).items():
                out[name][rows] -= slope
        return out


@cache
def entered(base: type[Site]) -> type[Site]:
    """The family of `base`, which takes `event`, given Y > entry.

    Log-concave where the base declares that given a late entry it stays so.
    """
    parts: list[type] = [EnteredSite, *([_EnteredFormula] if issubclass(base, Formula) else [])]
    if issubclass(base, Expected):
        parts.append(_ExpectedEntered)
        parts += [_SlopesEntered] if issubclass(base, ExpectedSlopes) else []
    kept = Property.KINKED
    if Property.LATE_CONCAVE in base.spec.properties:
        kept |= Property.LOG_CONCAVE | Property.BOUNDED
    spec = spec_of(
        base,
        "entered",
        {"entry": np.nan},
        properties=base.spec.properties & kept,
        places=(),
        scales=(),
        gaussian_scale="",
        summary=f"{base.spec.family}, given that y > entry",
    )
    return derived(entered, base, parts, spec, ("entry",), {"guessed": True})
