"""Sites whose y is known up to an interval: `event`, `lower` and `upper`, row by row.

    event 0                     right-censored: Y > y         log P(Y > y | s)
    lower, upper                Y between them                log P(lower < Y < upper | s)
    lower alone                 right-censored at lower
    upper alone                 left-censored at upper
    neither, or lower = upper   observed exactly at y         log density of y

NaN stands for an end that is not given; an infinite end, or lower <= 0 for positive y, is open.
Every family here is a location family in u = y, or u = log y: u = +-s + spread X, so a censored row
is the log mass of an interval under the law of X (`sites.laws`), and its derivatives.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.questions import Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Site
from lgmdsl.sites.base import ElementwiseSite
from lgmdsl.sites.laws import Law, Mass
from lgmdsl.sites.quadrature import Added

if TYPE_CHECKING:
    from numpy.random import Generator

ENDS = ("lower", "upper")
ARGUMENTS = ("event", *ENDS)
_STEP = 2e-3  # relative, of differences in the parameters of a law


class CensoredSite(ElementwiseSite, Added):
    """A family with rows of both kinds: those observed as `family` has them, the others censored.

    `y`, moments, draws and distribution function are those of the response itself, before any
    censoring: a draw of a censored row is a response that nothing hides.
    """

    y: Array
    event: Array
    lower: Array
    upper: Array
    guessed: ClassVar[bool] = True
    family: ClassVar[type[Site]]
    positive: ClassVar[bool] = False  # u = log y
    direction: ClassVar[float] = 1.0  # u = direction s + spread X

    @property
    @abstractmethod
    def spread(self) -> Array:
        """The scale of X."""

    @abstractmethod
    def law(self) -> Law:
        """The law of X."""

    @abstractmethod
    def interval_slopes(self, s: Array, mass: Mass, by_spread: Array) -> dict[str, Array]:
        """dl/dparameter of censored rows, from the slope in `spread`."""

    @cached_property
    def plain(self) -> Site:
        """The sites of the family, all of them observed at y."""
        fields = {f.name for f in dataclasses.fields(self.family)} - {"event"}
        values: dict[str, Any] = {name: getattr(self, name) for name in fields}
        if "event" in self.family.spec.parameters:
            values["event"] = np.ones_like(self.y)
        return self.family(**values)

    @cached_property
    def censored(self) -> BoolArray:
        bounded = ~(np.isnan(self.lower) & np.isnan(self.upper)) & (self.lower != self.upper)
        return np.asarray(bounded | (self.event == 0.0))

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The interval of u; only of use where `censored`."""
        late = self.event == 0.0
        low = np.where(late, self.y, np.where(np.isnan(self.lower), -np.inf, self.lower))
        high = np.where(late | np.isnan(self.upper), np.inf, self.upper)
        if not self.positive:
            return low, high
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(low, 0.0)), np.log(np.maximum(high, 0.0))

    @cached_property
    def rows(self) -> tuple[IntArray, IntArray]:
        """Positions of the rows that are observed exactly, and of those that are not."""
        censored = (
            self.censored.reshape(len(self.y), -1)[:, 0] if len(self.y) else np.zeros(0, bool)
        )
        return np.flatnonzero(~censored), np.flatnonzero(censored)

    @cached_property
    def observed_rows(self) -> Site:
        """The sites that are observed exactly."""
        return self.plain.take(self.rows[0])

    @cached_property
    def censored_rows(self) -> CensoredSite:
        """The sites that are censored."""
        return self.take(self.rows[1])

    def addends(self) -> tuple[tuple[IntArray, Site], ...]:
        """Long intervals twice, as right- and as left-censored rows."""
        low, high = self.ends
        with np.errstate(invalid="ignore"):
            long = self.censored & (high - low >= self.law().apart * self.spread)
        long &= np.isfinite(low) & np.isfinite(high)
        if not long.any():
            return ()
        twice, others = np.flatnonzero(long), np.flatnonzero(~long)
        both = self.take(twice)
        none = np.full(len(twice), np.nan)
        ends = [dataclasses.replace(both, **{end: none}) for end in ENDS]
        once = ((others, self.take(others)),) if len(others) else ()
        return (*((twice, part) for part in ends), *once)

    def masses(self, s: Array) -> Mass:
        """Masses of the intervals of rows that are all censored."""
        low, high = self.ends
        shape = np.shape(s)
        with np.errstate(invalid="ignore"):
            width = (high - low) / self.spread
            a, b = ((end - self.direction * s) / self.spread for end in (low, high))
        return self.law().between(
            *(np.array(np.broadcast_to(part, shape)) for part in (a, b, width))
        )

    def growing(self, s: Array) -> Array:
        """What the mass of rows that are all censored leaves out, growth(a)."""
        a = (self.ends[0] - self.direction * s) / self.spread
        return self.law().growth(a)

    def log_density(self, s: Array) -> Array:
        return self.pointwise(s).value

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        out = np.empty((4, *np.shape(s)))
        free, censored = self.rows
        if len(free):
            answer = cast(Pointwise, self.observed_rows).pointwise(s[free])
            out[:, free] = [answer.value, answer.slope, answer.curvature, answer.third]
        if len(censored):
            some = self.censored_rows
            rest, grown = some.masses(s[censored]).rest, some.growing(s[censored])
            rate = -some.direction / some.spread
            for k, part in enumerate(rest.parts):
                out[k, censored] = (part - grown) * rate**k
        return PointwiseAnswer(out[0], out[1], out[2], out[3] * variance)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        names = [n for n in self.spec.parameters if n not in ARGUMENTS]
        out = {n: np.empty(np.shape(s)) for n in names}
        free, censored = self.rows
        if len(free):
            for name, slope in self.observed_rows.parameter_slopes(s[free]).items():
                out[name][free] = slope
        if len(censored) and names:
            some, t = self.censored_rows, s[censored]
            mass = some.masses(t)
            total = np.zeros(np.shape(t))
            for end, weight in zip(some.ends, (-mass.low, mass.high), strict=True):
                x = (end - some.direction * t) / some.spread
                total += np.where(np.isfinite(x), weight * np.where(np.isfinite(x), x, 0.0), 0.0)
            for name, slope in some.interval_slopes(t, mass, -total / some.spread).items():
                out[name][censored] = slope
        return out

    def differences(self, s: Array, name: str) -> Array:
        """dl/dparameter of a law's own parameter, by five points (relative error 1e-10 or so)."""
        value = getattr(self, name)
        step = _STEP * value

        def shifted(k: int) -> Array:
            changed: dict[str, Any] = {name: value + k * step}
            return dataclasses.replace(self, **changed).log_density(s)

        return np.asarray(
            (shifted(-2) - 8.0 * shifted(-1) + 8.0 * shifted(1) - shifted(2)) / (12.0 * step)
        )

    def landmark(self) -> tuple[Array, Array]:
        """A guess: the middle of the interval, or its only end; y where it is known."""
        low, high = self.ends
        u = np.log(self.y) if self.positive else self.y
        low = np.where(self.censored & np.isfinite(low), low, np.nan)
        high = np.where(self.censored & np.isfinite(high), high, np.nan)
        one = np.where(np.isnan(low), np.where(np.isnan(high), u, high), low)
        middle = np.where(np.isnan(low) | np.isnan(high), one, 0.5 * (low + high))
        return self.direction * middle, self.spread + 0.0 * middle

    def conditional_mean(self, s: Array) -> Array:
        return self.plain.conditional_mean(s)

    def conditional_variance(self, s: Array) -> Array:
        return self.plain.conditional_variance(s)

    def sample(self, s: Array, rng: Generator) -> Array:
        return self.plain.sample(s, rng)

    def cdf(self, s: Array) -> Array:
        return self.plain.cdf(s)
