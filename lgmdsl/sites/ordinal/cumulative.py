"""Cumulative links: P(Y <= j) = F(phi_j - s), F logistic or normal (McCullagh 1980).

log P(Y = k) is the log mass of an interval between two cuts, l = phi_{k-1} and u = phi_k:

    logit:  log sigma(u - s) + log sigma(s - l) + log(1 - e^{l - u}),

two shifted logistic sites and a constant; the normal law's masses come from `sites.laws`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import (
    AugmentedAnswer,
    PointwiseAnswer,
    Stretch,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
)
from lgmdsl.contract.site import Property, SiteSpec, entry_name
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.sites.laws import Mass, NormalLaw
from lgmdsl.sites.ordinal.classes import OrdinalSite, ShiftedLogistic
from lgmdsl.sites.quadrature import slopes_by_quadrature, tilted_by_quadrature
from lgmdsl.sites.scalar.probit import LatentNormal, half_line, probit_moments
from lgmdsl.vocabulary.lookup import declared

_SHAPE = Property.LOG_CONCAVE | Property.BOUNDED


class Cumulative(OrdinalSite):
    """The mass of a law between the cuts around y."""

    guessed: ClassVar[bool] = True  # two bends, as far apart as the cuts
    distance: ClassVar[float]

    def landmark(self) -> tuple[Array, Array]:
        """A guess: between the cuts, or the only one."""
        low, high = self.ends
        low, high = np.where(np.isinf(low), high, low), np.where(np.isinf(high), low, high)
        return 0.5 * (low + high), np.full_like(low, self.distance)

    def around(self, low: Array, high: Array) -> Array:
        """A value at the cut below y and one at the cut above it, as a row over all cuts."""
        return np.where(self.at_cut, high[..., None], np.where(self.below, low[..., None], 0.0))


@dataclass(frozen=True, eq=False)
class OrdinalLogit(Cumulative, ShiftedLogistic):
    """P(Y <= j | s) = sigma(phi_j - s): proportional odds."""

    y: Array
    cuts: Array
    distance: ClassVar[float] = np.pi
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.logit",
        signature=declared("family", "ordinal"),
        takes=("cuts",),
        properties=_SHAPE | Property.SUPER_GAUSSIAN,
        link="logit",
        indexed=("cuts",),
    )

    @cached_property
    def constant(self) -> Array:
        """log(1 - e^{l - u}), in the shape of y."""
        low, high = self.ends
        return np.asarray(np.log(-np.expm1(low - high)))

    @property
    def constant_slopes(self) -> Array:
        return self.around(-self.gap, self.gap)

    @cached_property
    def gap(self) -> Array:
        """1 / (e^{u - l} - 1), in the shape of y."""
        low, high = self.ends
        with np.errstate(over="ignore"):
            return np.asarray(1.0 / np.expm1(high - low))

    @cached_property
    def side(self) -> Array:
        return np.where(self.at_cut, -1.0, np.where(self.below, 1.0, 0.0))

    def log_density(self, s: Array) -> Array:
        return self.pointwise(s).value

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        low, high = self.ends
        a_up, a_down, a_bent = sigmoids(s - low)
        b_up, b_down, b_bent = sigmoids(high - s)
        first, second = a_up * a_down, b_up * b_down
        return PointwiseAnswer(
            value=self.constant
            - (np.maximum(low - s, 0.0) + a_bent)
            - (np.maximum(s - high, 0.0) + b_bent),
            slope=a_down - b_down,
            curvature=-first - second,
            third=(first * (a_up - a_down) - second * (b_up - b_down)) * variance,
        )

    def cut_slopes(self, s: Array) -> Array:
        low, high = self.ends
        return self.around(-special.expit(low - s) - self.gap, special.expit(s - high) + self.gap)

    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        low, high = self.ends
        gap = self.gap
        a_up, a_down, _ = sigmoids(s - low)
        b_up, b_down, _ = sigmoids(high - s)
        first, second = a_up * a_down, b_up * b_down
        return (
            self.around(-a_down - gap, b_down + gap),
            self.around(first, second),
            self.around(first * (a_down - a_up), second * (b_up - b_down)),
        )

    def upto(self, s: Array) -> Array:
        return np.asarray(special.expit(self.cuts - s[..., None]))


@dataclass(frozen=True, eq=False)
class OrdinalProbit(Cumulative, LatentNormal, Tilted, TiltedSlopes):
    """P(Y <= j | s) = Phi(phi_j - s). The tilted moments at power 1 are in closed form."""

    y: Array
    cuts: Array
    distance: ClassVar[float] = 2.0
    spec: ClassVar[SiteSpec] = SiteSpec(
        "ordinal.probit",
        signature=declared("family", "ordinal"),
        takes=("cuts",),
        properties=_SHAPE,
        link="probit",
        indexed=("cuts",),
    )

    def mass(self, s: Array, spread: Array | float = 1.0) -> Mass:
        """Mass of N(s, spread^2) between the cuts around y, in units of `spread`."""
        low, high = self.ends
        a, b, width = ((low - s) / spread, (high - s) / spread, (high - low) / spread)
        shape = np.broadcast_shapes(np.shape(a), np.shape(b))
        return NormalLaw().between(*(np.array(np.broadcast_to(p, shape)) for p in (a, b, width)))

    def log_density(self, s: Array) -> Array:
        return self.mass(s).rest.value

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        rest = self.mass(s).rest
        return PointwiseAnswer(rest.value, -rest.first, rest.second, -rest.third * variance)

    def cut_slopes(self, s: Array) -> Array:
        mass = self.mass(s)
        return self.around(-mass.low, mass.high)

    def cut_curves(self, s: Array) -> tuple[Array, Array, Array]:
        mass = self.mass(s)
        parts = []
        for end, density in zip(self.ends, (-mass.low, mass.high), strict=True):
            # density e^{-(end - s)^2 / 2} / P: its logarithm has the slope end - s - l'.
            away = np.where(np.isinf(end), 0.0, end - s) + mass.rest.first
            slope = density * away
            parts.append((density, slope, slope * away - density * (1.0 + mass.rest.second)))
        (l0, l1, l2), (u0, u1, u2) = parts
        return self.around(l0, u0), self.around(l1, u1), self.around(l2, u2)

    def upto(self, s: Array) -> Array:
        return np.asarray(special.ndtr(self.cuts - s[..., None]))

    @property
    def edge(self) -> tuple[BoolArray, Array, Array]:
        """Whether y is the first or the last class, on which side of its only cut that is, and that
        cut (of classes between two, the lower one), in the shape of y."""
        low, high = self.ends
        first = np.isinf(low)
        return first | np.isinf(high), np.where(first, -1.0, 1.0), np.where(first, high, low)

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        """zeta between the cuts around y; between two it cannot be stretched."""
        one, side, cut = self.edge
        outer, inner = half_line(side, cut, mean), self.mass(mean).rest
        shift = np.where(one, outer.shift, mean - inner.first)
        correction = np.where(one, outer.correction, inner.value + mean * (0.5 * mean - shift))
        assert outer.stretch is not None
        parts = (np.where(one, getattr(outer.stretch, f.name), 0.0) for f in fields(Stretch))
        return AugmentedAnswer(outer.precision, shift, correction, Stretch(*parts))

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        """With r^2 = 1 + v the mass is that between the cuts under N(m, r^2): its logarithm's
        first two derivatives in m give the moments (as GPML, equations 3.80 to 3.87)."""
        if power != 1.0:
            return tilted_by_quadrature(self, mean, variance, power)
        root = np.sqrt(1.0 + variance)
        rest = self.mass(mean, root).rest
        inner = TiltedAnswer(
            rest.value,
            mean - variance / root * rest.first,
            variance * (1.0 + variance * (1.0 + rest.second)) / (1.0 + variance),
        )
        one, sign, cut = self.edge
        outer = probit_moments(sign, np.where(one, mean - cut, 0.0), variance)
        return TiltedAnswer(
            np.where(one, outer.log_mass, inner.log_mass),
            np.where(one, outer.mean + cut, inner.mean),
            np.where(one, outer.variance, inner.variance),
        )

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        """d log mass / dcut: the density of N(m, 1 + v) at the cut over the mass."""
        if power != 1.0:
            return slopes_by_quadrature(self, mean, variance, power)
        root = np.sqrt(1.0 + variance)
        mass = self.mass(mean, root)
        slopes = self.around(-mass.low / root, mass.high / root)
        return {entry_name("cuts", j): slopes[..., j] for j in range(self.levels)}
