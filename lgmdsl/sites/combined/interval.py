"""Responses known up to an interval, of any family that gives its tails (`sites.tails`).

    event 0, or lower alone     log P(Y > y), log P(Y > lower)
    upper alone                 log P(Y <= upper)
    lower, upper                log (P(Y > lower) - P(Y > upper)), by the smaller tail

of narrow intervals the integral of the density over log y (Gauss-Legendre), which does not cancel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.combined.combined import CombinedSite, chained, chained_curve, derived, spec_of
from lgmdsl.sites.combined.split_rows import expected_of_parts, slopes_of_parts
from lgmdsl.sites.combined.truncated import log_of_rest
from lgmdsl.sites.tails import Tail, Tails

ENDS = {"event": 1.0, "lower": np.nan, "upper": np.nan}
_NARROW = -0.5  # log of the ratio of the tails at the ends above which an interval is narrow
NEVER = -1e140  # l where a tail has no logarithm in doubles any more
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


_Answer: TypeAlias = tuple[PointwiseAnswer, dict[str, ParameterCurve]]


class _Part(NamedTuple):
    """Some rows, and l there with its curves in the parameters."""

    rows: IntArray
    answer: PointwiseAnswer
    curves: dict[str, ParameterCurve]


class IntervalSite(CombinedSite, Pointwise):
    """`base` where y is observed, the mass of an interval elsewhere."""

    y: Array
    event: Array
    lower: Array
    upper: Array
    guessed: ClassVar[bool] = True

    def base_fields(self) -> dict[str, Any]:
        """Fields of the base's sites, all rows observed."""
        fields = super().base_fields()
        return {**fields, "event": np.ones_like(self.y)} if "event" in fields else fields

    @cached_property
    def censored(self) -> BoolArray:
        bounded = ~(np.isnan(self.lower) & np.isnan(self.upper)) & (self.lower != self.upper)
        return np.asarray(bounded | (self.event == 0.0))

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The interval of each row, 0 and infinity where it is open; of use where `censored`."""
        late = self.event == 0.0
        low = np.where(late, self.y, np.where(np.isnan(self.lower), 0.0, self.lower))
        high = np.where(late | np.isnan(self.upper), np.inf, self.upper)
        return np.maximum(low, 0.0), high

    @cached_property
    def continuous(self) -> tuple[str, ...]:
        """The parameters that have slopes."""
        rows = np.arange(min(len(self.y), 1))
        slopes = self.plain.take(rows).parameter_slopes(np.zeros(len(rows)))
        return tuple(slopes)

    def log_density(self, s: Array) -> Array:
        return self.pointwise(s).value

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        out = np.zeros((4, *np.shape(s)))
        with np.errstate(all="ignore"):
            for rows, answer, _ in self._parts(s, False):
                out[:, rows] = [answer.value, answer.slope, answer.curvature, answer.third]
        lost = ~np.isfinite(out).all(axis=0)
        out = np.where(lost, np.array([NEVER, 0.0, 0.0, 0.0]).reshape(4, *(1,) * np.ndim(s)), out)
        return PointwiseAnswer(out[0], out[1], out[2], out[3] * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {name: curve.value for name, curve in self.parameter_curves(s).items()}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        whole = {name: np.zeros((3, *np.shape(s))) for name in self.continuous}
        with np.errstate(all="ignore"):
            for rows, _, curves in self._parts(s, True):
                for name, curve in curves.items():
                    whole[name][:, rows] = np.nan_to_num(list(curve), posinf=0.0, neginf=0.0)
        return {name: ParameterCurve(*parts) for name, parts in whole.items()}

    def _parts(self, s: Array, curves: bool) -> Iterator[_Part]:
        """Rows of each kind."""
        low, high = self.ends
        names = self.continuous if curves else ()
        hidden = self.censored.reshape(len(self.y), -1)[:, 0] if len(self.y) else self.censored
        low, high = (e.reshape(len(self.y), -1)[:, 0] if len(self.y) else e for e in (low, high))
        seen = np.flatnonzero(~hidden)
        if len(seen):
            site = self.plain.take(seen)
            answer = cast(Pointwise, site).pointwise(s[seen])
            yield _Part(seen, answer, site.parameter_curves(s[seen]) if curves else {})
        for rows, above in (
            (np.flatnonzero(hidden & (high == np.inf) & (low > 0.0)), True),
            (np.flatnonzero(hidden & (high < np.inf) & (low <= 0.0)), False),
        ):
            if len(rows):
                tail = self._tail(rows, low if above else high, s[rows], above, names)
                yield _Part(rows, tail.answer, tail.curves)
        between = np.flatnonzero(hidden & (high < np.inf) & (low > 0.0))
        if len(between):
            yield from self._between(between, low, high, s, names)

    def _tail(
        self, rows: IntArray, ends: Array, s: Array, above: bool, names: tuple[str, ...]
    ) -> Tail:
        """A tail of some rows beyond an end."""
        return cast(Tails, self._at(rows, ends[rows])).tail(s, above, names)

    def _at(self, rows: IntArray, y: Array) -> Site:
        """The sites of some rows at other values of y."""
        site = self.plain.take(rows)
        old: Array = vars(site)["y"]
        changed: dict[str, Any] = {"y": y.reshape(len(rows), *(1,) * (old.ndim - 1))}
        return dataclasses.replace(site, **changed)

    def _between(
        self, rows: IntArray, low: Array, high: Array, s: Array, names: tuple[str, ...]
    ) -> Iterator[_Part]:
        """log(P(Y > low) - P(Y > high)) = log P(Y > low) + log(1 - e^d), d the difference of the
        logs of both; or the mirror image."""
        t = s[rows]
        ups = [self._tail(rows, e, t, True, names) for e in (low, high)]
        downs = [self._tail(rows, e, t, False, names) for e in (high, low)]
        upper = ups[0].answer.value < downs[0].answer.value
        # Of each predictor, not of each row: at the nodes of quadrature a row goes several ways.
        narrow = np.where(upper, _gap(*ups), _gap(*downs)) > _NARROW
        whole = _chosen(upper, _difference(*ups), _difference(*downs))
        few = np.flatnonzero(narrow.reshape(len(narrow), -1).any(axis=1))
        yield _Part(rows, *whole)
        if len(few):
            fine = self._integrated(rows[few], low, high, t[few], names)
            kept = _some(whole[0], few), _some_curves(whole[1], few)
            yield _Part(rows[few], *_chosen(narrow[few], (fine.answer, fine.curves), kept))

    def _integrated(
        self, rows: IntArray, low: Array, high: Array, s: Array, names: tuple[str, ...]
    ) -> _Part:
        """l and its curves by the density at nodes of log y, with Louis's identities for the
        derivatives."""
        a, width = np.log(low[rows]), np.log(high[rows] / low[rows])
        count, after = len(_NODES), (1,) * (s.ndim - 1)
        u = a + 0.5 * width * (_NODES[:, None] + 1.0)
        # All nodes in one call, nodes first.
        site = self._at(np.tile(rows, count), np.exp(u).reshape(-1))
        repeated = np.tile(s, (count, *after))

        def by_node(values: Array) -> Array:
            whole = np.broadcast_to(values, repeated.shape)
            return np.asarray(whole.reshape(count, *s.shape))

        whole = cast(Pointwise, site).pointwise(repeated)
        value, slopes, bends, thirds = (
            by_node(part) for part in (whole.value, whole.slope, whole.curvature, whole.third)
        )
        jacobian = u + np.log(0.5 * width * _WEIGHTS[:, None])
        level = value + jacobian.reshape(count, -1, *after)
        known = site.parameter_curves(repeated) if names else {}
        top = level.max(axis=0)
        share = np.exp(level - top)
        total = share.sum(axis=0)
        share /= total

        def mean(values: Array) -> Array:
            return np.asarray((share * values).sum(axis=0))

        d1, d2 = mean(slopes), mean(bends)
        away, bent = slopes - d1, bends - d2
        third = mean(thirds) + 3.0 * mean(away * bent) + mean(away * away**2)
        answer = PointwiseAnswer(top + np.log(total), d1, d2 + mean(away**2), third)
        curves = {}
        for name in names:
            b0, b1, b2 = (by_node(part) for part in known[name])
            value, first = mean(b0), mean(b1)
            off, grown = b0 - value, b1 - first
            curves[name] = ParameterCurve(
                value,
                first + mean(off * away),
                mean(b2) + mean(off * bent) + 2.0 * mean(grown * away) + mean(off * away * away),
            )
        return _Part(rows, answer, curves)

    def landmark(self) -> tuple[Array, Array] | None:
        """A guess: where the family itself bends, at y."""
        return self.plain.landmark()


def _difference(big: Tail, small: Tail) -> tuple[PointwiseAnswer, dict[str, ParameterCurve]]:
    """log(e^big - e^small) with derivatives."""
    a, b = big.answer, small.answer
    with np.errstate(all="ignore"):
        d = PointwiseAnswer(
            b.value - a.value, b.slope - a.slope, b.curvature - a.curvature, b.third - a.third
        )
        f = log_of_rest(np.minimum(d.value, 0.0))
        more = chained(f, d)
        answer = PointwiseAnswer(
            *(getattr(a, n) + getattr(more, n) for n in ("value", "slope", "curvature", "third"))
        )
        curves = {}
        for name, curve in big.curves.items():
            by = ParameterCurve(*(x - y for x, y in zip(small.curves[name], curve, strict=True)))
            rest = chained_curve(f, d, by)
            curves[name] = ParameterCurve(*(x + y for x, y in zip(curve, rest, strict=True)))
    return answer, curves


def _gap(big: Tail, small: Tail) -> Array:
    """The logarithm of the ratio of the masses beyond the two ends."""
    return np.asarray(small.answer.value - big.answer.value)


def _chosen(which: BoolArray, first: _Answer, other: _Answer) -> _Answer:
    """The first where `which`, else the other, element by element."""
    fields = ("value", "slope", "curvature", "third")
    pairs = ((getattr(first[0], n), getattr(other[0], n)) for n in fields)
    answer = PointwiseAnswer(*(np.where(which, x, y) for x, y in pairs))
    curves = {
        name: ParameterCurve(
            *(np.where(which, x, y) for x, y in zip(curve, other[1][name], strict=True))
        )
        for name, curve in first[1].items()
    }
    return answer, curves


def _some(a: PointwiseAnswer, rows: IntArray) -> PointwiseAnswer:
    return PointwiseAnswer(a.value[rows], a.slope[rows], a.curvature[rows], a.third[rows])


def _some_curves(curves: dict[str, ParameterCurve], rows: IntArray) -> dict[str, ParameterCurve]:
    return {n: ParameterCurve(*(part[rows] for part in c)) for n, c in curves.items()}


class _ExpectedInterval(Expected):
    """Rows that are observed as the base family has them, the others by quadrature."""

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast(IntervalSite, self)
        zero = np.zeros(len(mean))
        return expected_of_parts(site, ~site.censored, zero, mean, variance, second)


class _SlopesInterval(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(IntervalSite, self)
        return slopes_of_parts(site, ~site.censored, mean, variance)


@cache
def interval(base: type[Site]) -> type[Site]:
    """The family of `base` with `event`, `lower` and `upper`. Raises TypeError where it gives no
    tails.

    Bounded as masses are; log-concave is not claimed.
    """
    if not issubclass(base, Tails):
        raise TypeError(f"{base.spec.name} gives no tails")
    parts: list[type] = [IntervalSite]
    if issubclass(base, Expected):
        parts.append(_ExpectedInterval)
        parts += [_SlopesInterval] if issubclass(base, ExpectedSlopes) else []
    added = {n: v for n, v in ENDS.items() if n not in base.spec.parameters}
    spec = spec_of(
        base,
        "censored",
        added,
        properties=base.spec.properties & (Property.BOUNDED | Property.KINKED),
        summary=f"{base.spec.family}, known up to an interval in some rows",
    )
    return derived(interval, base, parts, spec, tuple(added), {"guessed": True})
