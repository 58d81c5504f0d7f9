"""Zeros of a constant probability before a family of counts or of positive numbers: P(0) = p.

P(y) = (1 - p) f(y) / (1 - f(0)) for counts y > 0, (1 - p) f(y) for positive ones. A row with y = 0
says nothing of the predictor.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.classes import Separable
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    ParameterCurve,
    Pointwise,
    PointwiseAnswer,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
    Widths,
    WidthsAnswer,
)
from lgmdsl.contract.site import Property, Site
from lgmdsl.sites.combined.combined import CombinedSite, HurdleFormula, derived, spec_of
from lgmdsl.sites.combined.split_rows import MANY, Parts, joined, parts_of, pointwise_of_parts
from lgmdsl.sites.combined.truncated import truncated
from lgmdsl.sites.scalar.logistic import BernoulliLogit

P = "hurdle"


class HurdleSite(CombinedSite, Pointwise):
    """l = log p where y = 0, log(1 - p) + log of the density above 0 elsewhere."""

    y: Array
    hurdle: Array

    @property
    def passed(self) -> BoolArray:
        """The rows above 0."""
        return np.asarray(self.y > 0.0)

    @cached_property
    def plain(self) -> Site:
        """The family above 0; at rows with y = 0 at y = 1, which is not used."""
        values = self.base_fields()
        values["y"] = np.where(self.passed, self.y, 1.0)
        return self.above()(**values)

    @cached_property
    def parts(self) -> Parts:
        """The rows above 0, and their sites, where there are both kinds."""
        return parts_of(self.plain, self.passed)[:1]

    @classmethod
    def above(cls) -> type[Site]:
        """The family of y given y > 0."""
        return truncated(cls.base) if cls.base.spec.discrete else cls.base

    @classmethod
    def closed_forms(cls, parameters: frozenset[str]) -> tuple[type, ...]:
        return (HurdleTerms,) if parameters == {P} else ()

    @property
    def log_share(self) -> Array:
        """log of P(Y = 0) or P(Y > 0)."""
        with np.errstate(divide="ignore"):
            return np.where(self.passed, np.log1p(-self.hurdle), np.log(self.hurdle))

    def log_density(self, s: Array) -> Array:
        if np.size(s) >= MANY and self.parts:
            return joined(self.parts, s, lambda part, s: (part.log_density(s),))[0] + self.log_share
        return np.where(self.passed, self.plain.log_density(s), 0.0) + self.log_share

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        if np.size(s) >= MANY and self.parts:
            a = pointwise_of_parts(self.parts, s, variance)
            return PointwiseAnswer(a.value + self.log_share, a.slope, a.curvature, a.third)
        a = cast(Pointwise, self.plain).pointwise(s, variance)
        value, *rest = (
            np.where(self.passed, part, 0.0) for part in (a.value, a.slope, a.curvature, a.third)
        )
        return PointwiseAnswer(value + self.log_share, *rest)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        out = self._where_passed(self.plain.parameter_slopes(s))
        p = self.hurdle
        with np.errstate(divide="ignore"):
            out[P] = np.where(self.passed, -1.0 / (1.0 - p), 1.0 / p) + 0.0 * s
        return out

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        none = np.zeros(np.shape(s))
        out = {
            name: ParameterCurve(*(np.where(self.passed, part, 0.0) for part in curve))
            for name, curve in self.plain.parameter_curves(s).items()
        }
        return {**out, P: ParameterCurve(self.parameter_slopes(s)[P], none, none)}

    def _where_passed(self, slopes: dict[str, Array]) -> dict[str, Array]:
        return {name: np.where(self.passed, slope, 0.0) for name, slope in slopes.items()}

    def landmark(self) -> tuple[Array, Array] | None:
        return self.plain.landmark()

    def conditional_mean(self, s: Array) -> Array:
        """(1 - p) E[Y | Y > 0]."""
        return np.asarray((1.0 - self.hurdle) * self.plain.conditional_mean(s))

    def conditional_variance(self, s: Array) -> Array:
        """(1 - p) (Var[Y | Y > 0] + p E[Y | Y > 0]^2)."""
        p, mean = self.hurdle, self.plain.conditional_mean(s)
        return np.asarray((1.0 - p) * (self.plain.conditional_variance(s) + p * mean**2))

    def sample(self, s: Array, rng: np.random.Generator) -> Array:
        zero = rng.random(np.shape(s)) < self.hurdle
        return np.where(zero, 0.0, self.plain.sample(s, rng))

    def cdf(self, s: Array) -> Array:
        """p + (1 - p) F(y | Y > 0)."""
        return self._upto(self.plain.cdf(s))

    def endless(self, s: Array) -> Array:
        return np.asarray((1.0 - self.hurdle) * self.plain.endless(s))

    def distribution(self, s: Array) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y): they differ by p at y = 0."""
        below, upto = (self._upto(part) for part in self.plain.distribution(s))
        return np.where(self.passed, below, 0.0), upto

    def _upto(self, share: Array) -> Array:
        p = self.hurdle
        inside = p + (1.0 - p) * np.where(self.passed, share, 0.0)
        return np.where(self.y < 0.0, 0.0, inside)


class _ExpectedHurdle(Expected):
    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        site = cast(HurdleSite, self)
        rows = np.flatnonzero(site.passed)
        out = np.zeros((5, len(mean)))
        if len(rows):
            plain = cast(Expected, site.plain.take(rows))
            a = plain.expected(mean[rows], variance[rows], second)
            parts = [a.value, a.d_mean, a.d_variance]
            if second:
                assert a.d_mean_variance is not None and a.d_variance2 is not None
                parts += [a.d_mean_variance, a.d_variance2]
            out[: len(parts), rows] = parts
        return ExpectedAnswer(out[0] + site.log_share, out[1], out[2], *(out[3:] if second else ()))


class _SlopesHurdle(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(HurdleSite, self)
        rows = np.flatnonzero(site.passed)
        out = {n: np.zeros(len(mean)) for n in site.plain.parameter_slopes(mean)}
        if len(rows):
            plain = cast(ExpectedSlopes, site.plain.take(rows))
            for name, slope in plain.expected_slopes(mean[rows], variance[rows]).items():
                out[name][rows] = slope
        return {**out, P: site.parameter_slopes(mean)[P]}


@cache
def hurdle(base: type[Site]) -> type[Site]:
    """The family of `base` with a parameter `hurdle`, p, the probability of y = 0.

    Rows with y = 0 do not move with s: it is log-concave and bounded as the family above 0 is.
    """
    positive = truncated(base) if base.spec.discrete else base
    kept = Property.LOG_CONCAVE | Property.BOUNDED | Property.KINKED
    parts: list[type] = [HurdleSite, HurdleFormula]
    if issubclass(positive, Expected):
        parts.append(_ExpectedHurdle)
        parts += [_SlopesHurdle] if issubclass(positive, ExpectedSlopes) else []
    observed: dict[str, Any] = {} if base.spec.discrete else {"observed": ("nonnegative",)}
    spec = spec_of(
        base,
        "hurdle",
        {P: None},
        properties=positive.spec.properties & kept,
        link="",
        gaussian_scale="",
        places=(),
        scales=(),
        summary=f"{base.spec.summary}, zeros apart",
        **observed,
    )
    return derived(hurdle, base, parts, spec, (P,), {"guessed": True})


MODIFIED: dict[str, Callable[[type[Site]], type[Site]]] = {}


# ---- hurdle terms ------------------------------------------------------------------------------
# The terms of a hurdle whose share of zeros has a predictor: scalar sites.
#
#     l(s) = l_+(s_0) where y > 0   +   log sigma(s_1) or log sigma(-s_1)
#
# Nothing couples the two predictors, so the compiler makes a Bernoulli site of whether y is 0 and,
# of rows above 0, a site of the family there (Mullahy 1986). Both are rows of one block.


# What holds of both families holds of their rows together, what may be of one of them.
BOTH = Property.LOG_CONCAVE | Property.SUPER_GAUSSIAN | Property.BOUNDED
EITHER = Property.KINKED | Property.LIMITED


class HurdleTerms(Separable):
    """Families of `base` with a hurdle whose logit is a predictor, and no other such predictor."""

    base: type[CombinedSite]
    note = "hurdle to a Bernoulli site of the zeros and one of each row above 0: exact"

    @classmethod
    def terms(cls) -> type[Site]:
        hurdle = cast(Any, cls.base)
        return hurdle_terms(hurdle.above())

    @staticmethod
    def reached(y: Array, size: int) -> BoolArray:
        return np.column_stack([y > 0.0, np.ones(len(y), dtype=bool)])


class TermsSite(CombinedSite, Pointwise):
    """Rows of `base` where `term` is 0, of whether y is 0 where it is 1."""

    y: Array
    term: Array

    @cached_property
    def parts(self) -> tuple[tuple[IntArray, Site], ...]:
        """The rows of each family, and its sites."""
        of_zero = self.term > 0.0
        out: list[tuple[IntArray, Site]] = []
        for rows, zero in ((np.flatnonzero(~of_zero), False), (np.flatnonzero(of_zero), True)):
            if len(rows):
                y = np.asarray(self.y[rows] == 0.0, dtype=np.float64)
                out.append((rows, BernoulliLogit(y) if zero else self.plain.take(rows)))
        return tuple(out)

    @cached_property
    def plain(self) -> Site:
        """The family at every row, at those of a zero at y = 1."""
        values = self.base_fields()
        values["y"] = np.where(self.y > 0.0, self.y, 1.0)
        return self.base(**values)

    def together(self, ask: Callable[[Any, IntArray], Any]) -> Any:
        """The answers of each family at its rows, in one."""
        parts = [(rows, ask(site, rows)) for rows, site in self.parts]
        return _joined(parts, len(self)) if parts else ask(self.plain, np.arange(0))

    def log_density(self, s: Array) -> Array:
        return cast(Array, self.together(lambda site, rows: site.log_density(s[rows])))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        v = np.broadcast_to(variance, np.shape(s))
        answer = self.together(lambda site, rows: site.pointwise(s[rows], v[rows]))
        return cast(PointwiseAnswer, answer)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return self.of_all(self.together(lambda site, rows: site.parameter_slopes(s[rows])), s)

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        answer = self.together(lambda site, rows: site.parameter_curves(s[rows]))
        return cast("dict[str, ParameterCurve]", answer)

    def landmark(self) -> tuple[Array, Array] | None:
        parts = [(rows, site.landmark()) for rows, site in self.parts]
        if not parts or any(mark is None for _, mark in parts):
            return None
        return cast("tuple[Array, Array]", _joined(parts, len(self)))

    def of_all(self, slopes: dict[str, Array], s: Array) -> dict[str, Array]:
        """Slopes in every parameter of the family, 0 where no row is above 0."""
        return {name: slopes.get(name, np.zeros(np.shape(s))) for name in self._moving}

    @cached_property
    def _moving(self) -> tuple[str, ...]:
        one = self.plain.take(np.arange(min(len(self), 1)))
        return tuple(one.parameter_slopes(np.zeros(np.shape(cast(Any, one).y))))

    @property
    def censored(self) -> BoolArray:
        return np.zeros(len(self), dtype=bool)


class _Expected(Expected):
    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        answer = cast(TermsSite, self).together(
            lambda site, rows: site.expected(mean[rows], variance[rows], second)
        )
        return cast(ExpectedAnswer, answer)


class _ExpectedSlopes(ExpectedSlopes):
    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        site = cast(TermsSite, self)
        slopes = site.together(lambda part, rows: part.expected_slopes(mean[rows], variance[rows]))
        return site.of_all(slopes, mean)


class _Tilted(Tilted):
    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        answer = cast(TermsSite, self).together(
            lambda site, rows: site.tilted(mean[rows], variance[rows], power)
        )
        return cast(TiltedAnswer, answer)


class _TiltedSlopes(TiltedSlopes):
    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        site = cast(TermsSite, self)
        slopes = site.together(
            lambda part, rows: part.tilted_slopes(mean[rows], variance[rows], power)
        )
        return site.of_all(slopes, mean)


class _Widths(Widths):
    def widths(self, s: Array, z: Array) -> WidthsAnswer:
        answer = cast(TermsSite, self).together(lambda site, rows: site.widths(s[rows], z[rows]))
        return cast(WidthsAnswer, answer)

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        site = cast(TermsSite, self)
        slopes = site.together(lambda part, rows: part.width_slopes(s[rows], z[rows]))
        return site.of_all(slopes, s)


_PARTS: tuple[tuple[type, type], ...] = (
    (Expected, _Expected),
    (ExpectedSlopes, _ExpectedSlopes),
    (Tilted, _Tilted),
    (TiltedSlopes, _TiltedSlopes),
    (Widths, _Widths),
)


@cache
def hurdle_terms(above: type[Site]) -> type[Site]:
    """The terms of a hurdle before the family `above`, that of y > 0; `term` says which."""
    families = (above, BernoulliLogit)
    mixins = [part for question, part in _PARTS if all(issubclass(f, question) for f in families)]
    one, other = (f.spec.properties for f in families)
    spec = spec_of(
        above,
        "hurdle_terms",
        {"term": None},
        properties=(one & other & BOTH) | ((one | other) & EITHER),
        link="",
        gaussian_scale="",
        places=(),
        scales=(),
        summary="the terms of a hurdle",
    )
    return derived(hurdle_terms, above, (TermsSite, *mixins), spec, ("term",), {"guessed": True})


def _joined(parts: list[tuple[IntArray, Any]], size: int) -> Any:
    """Answers at rows (arrays, tuples, dictionaries and data classes of these) as one of `size`
    rows; 0 where a dictionary of some rows lacks an entry."""
    first = parts[0][1]
    if any(answer is None for _, answer in parts):
        return None
    if isinstance(first, dict):
        names = dict.fromkeys(name for _, answer in parts for name in answer)
        return {
            name: _joined([(rows, a[name]) for rows, a in parts if name in a], size)
            for name in names
        }
    if isinstance(first, tuple):
        columns = [_joined([(r, a[k]) for r, a in parts], size) for k in range(len(first))]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    if dataclasses.is_dataclass(first):
        values = {
            f.name: _joined([(r, getattr(a, f.name)) for r, a in parts], size)
            for f in dataclasses.fields(first)
        }
        return type(cast(Any, first))(**values)
    more = np.broadcast_shapes(*(np.shape(answer)[1:] for _, answer in parts))
    out = np.zeros((size, *more))
    for rows, answer in parts:
        out[rows] = answer
    return out
