"""Continuation ratios: each class is stopped at or passed, in order (Fienberg 1980).

P(Y = k) = F(phi_k - s) prod_{j < k} F(s - phi_j), and the last class is the product alone: a sum of
log F at as many cuts as y has reached. Cuts need not increase for it to be a distribution.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import AugmentedAnswer, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.sites.laws import Curve
from lgmdsl.sites.ordinal.classes import OrdinalSite, ShiftedLogistic
from lgmdsl.sites.scalar.probit import LatentNormal, half_line, together
from lgmdsl.vocabulary.lookup import declared

_SHAPE = Property.LOG_CONCAVE | Property.BOUNDED


class Continuation(OrdinalSite):
    """Sums of log F over the cuts that y has reached."""

    guessed: ClassVar[bool] = True  # as many bends as there are cuts
    distance: ClassVar[float]

    @abstractmethod
    def log_law(self, x: Array) -> Curve:
        """log F(x) of a law that is symmetric about 0."""

    @cached_property
    def reached(self) -> BoolArray:
        """The cuts that y has passed, and the one that it was stopped at."""
        return np.asarray(self.above | self.at_cut)

    @cached_property
    def side(self) -> Array:
        """+1 for the cuts that y has passed, -1 for the one it was stopped at, 0 for the others."""
        return np.where(self.above, 1.0, np.where(self.at_cut, -1.0, 0.0))

    def terms(self, s: Array) -> Curve:
        """log F of each cut with its derivatives in s, 0 at cuts beyond y: a last axis (L,)."""
        sign = np.where(self.at_cut, -1.0, 1.0)
        curve = self.log_law(sign * (s[..., None] - self.cuts))
        parts = (p * sign**k for k, p in enumerate(curve.parts))
        return Curve(*(np.where(self.reached, p, 0.0) for p in parts))

    def log_density(self, s: Array) -> Array:
        return np.asarray(self.terms(s).value.sum(axis=-1))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        value, first, second, third = (p.sum(axis=-1) for p in self.terms(s).parts)
        return PointwiseAnswer(value, first, second, third * variance)

    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        terms = self.terms(s)
        return -terms.first, -terms.second, -terms.third

    def upto(self, s: Array) -> Array:
        passed = self.log_law(s[..., None] - self.cuts).value
        return np.asarray(-np.expm1(np.cumsum(passed, axis=-1)))

    def landmark(self) -> tuple[Array, Array]:
        """A guess: the middle of the cuts that y has reached."""
        share = self.reached / self.reached.sum(axis=-1, keepdims=True)
        centre = np.asarray((share * self.cuts).sum(axis=-1))
        return centre, np.full_like(centre, self.distance)


@dataclass(frozen=True, eq=False)
class ContinuationLogit(Continuation, ShiftedLogistic):
    """P(Y = j | Y >= j, s) = sigma(phi_j - s)."""

    y: Array
    cuts: Array
    distance: ClassVar[float] = np.pi
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.logit.continuation",
        signature=declared("family", "ordinal"),
        takes=("cuts",),
        properties=_SHAPE | Property.SUPER_GAUSSIAN,
        link="logit",
        indexed=("cuts",),
    )

    @property
    def constant(self) -> Array:
        return np.zeros_like(self.y)

    @property
    def constant_slopes(self) -> Array:
        return np.zeros_like(self.cuts)

    def log_law(self, x: Array) -> Curve:
        up, down, bent = sigmoids(x)
        return Curve(-(np.maximum(-x, 0.0) + bent), down, -up * down, up * down * (up - down))


@dataclass(frozen=True, eq=False)
class ContinuationProbit(Continuation, LatentNormal):
    """P(Y = j | Y >= j, s) = Phi(phi_j - s)."""

    y: Array
    cuts: Array
    distance: ClassVar[float] = 2.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.probit.continuation",
        signature=declared("family", "ordinal"),
        takes=("cuts",),
        properties=_SHAPE,
        link="probit",
        indexed=("cuts",),
    )

    def log_law(self, x: Array) -> Curve:
        tail = normal_tail(x)
        return Curve(tail.log_cdf, tail.hazard, -tail.hazard * tail.excess, tail.third)

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        """A variable zeta at each cut that y has reached, above those that it has passed."""
        each = half_line(np.where(self.at_cut, -1.0, 1.0), self.cuts, mean[..., None])
        return together(each, np.asarray(self.reached, dtype=np.float64))
