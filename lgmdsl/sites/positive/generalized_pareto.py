"""generalized_pareto.log_scale: excesses over a threshold.

P(Y > y) = (1 + shape z)^(-1/shape) with z = y e^-s. With q = log(1 + shape z) / shape (z at shape
0) and r = dq / dlog z = z / (1 + shape z),

    l = -s - (1 + shape) q,   dr / dlog z = r (1 - shape r),   dq / dshape = z^2 (log(1 + x) / x)',

x = shape z. Where shape < 0, y ends at e^s / |shape|: l is -inf for s up to log(|shape| y). There
slope and curvature are those of a Gaussian that leads inside (`contract.site.Property.LIMITED`).
Log-concave for shape >= -1; below, the density has no bound at its end: refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet, exp_ratio_derivatives, log_ratio, log_ratio_derivatives
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.formula import Jets
from lgmdsl.sites.positive.lifetime import LifetimeSite
from lgmdsl.sites.scalar.extremes import require_tail
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_LARGE = 1e3  # shape z from which log(1 + shape z) is taken from the logarithms


@dataclass(frozen=True, eq=False)
class GeneralizedParetoLogScale(LifetimeSite):
    """y >= 0 beyond a threshold, scale e^s; shape > 0 is the heavy tail."""

    y: Array
    shape: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "generalized_pareto.log_scale",
        signature=declared("family", "generalized_pareto"),
        takes=("shape",),
        properties=Property.LOG_CONCAVE | Property.LIMITED,
        link="log",
    )

    def __post_init__(self) -> None:
        require_tail("generalized_pareto", self.shape)

    @cached_property
    def log_y(self) -> Array:
        """log y, -inf at 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.y))

    def _excess(self, s: Jet, p: Jets) -> Jet:
        """q, NaN outside the support."""
        u, shape = self.log_y - s, p["shape"]
        x = shape * jets.exp(u)
        with np.errstate(all="ignore"):
            near = jets.exp(u) * log_ratio(x)
            if not np.any(x.value > _LARGE):
                return near
            far = jets.softplus(u + jets.log(shape)) / shape
        return jets.where(x.value > _LARGE, far, near)

    def formula(self, s: Jet, p: Jets) -> Jet:
        q = self._excess(s, p)
        l = -s - (1.0 + p["shape"]) * q
        return jets.where(np.isnan(l.value), jets.constant(-np.inf, l.order), l)

    def log_survival(self, s: Jet, p: Jets) -> Jet:
        """-q."""
        l = -self._excess(s, p)
        return jets.where(np.isnan(l.value), jets.constant(-np.inf, l.order), l)

    def log_cdf(self, s: Jet, p: Jets) -> Jet:
        return jets.log1mexp(self.log_survival(s, p))

    def _parts(self, s: Array) -> tuple[Array, Array, Array, BoolArray]:
        """e^{-log z}, r, 1 - shape r, and where y is possible."""
        fall = np.maximum(capped_exp(s - self.log_y), 1e-140)
        inside = np.asarray(fall + self.shape > 0.0)
        r = 1.0 / np.where(inside, fall + self.shape, 1.0)
        return fall, r, fall * r, inside

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        _, r, rest, inside = self._parts(s)
        grow = 1.0 + self.shape
        bend = grow * r * rest
        target = np.where(inside, s, self._inner(s))
        return PointwiseAnswer(
            self.log_density(s),
            np.where(inside, grow * r - 1.0, target - s),
            np.where(inside, -bend, -1.0),
            np.where(inside, bend * (1.0 - 2.0 * self.shape * r), 0.0) * variance,
        )

    def _inner(self, s: Array) -> Array:
        """A predictor within the support, 1 beyond its edge."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(self.log_y + np.log(np.maximum(-self.shape, 0.0)) + 1.0 + 0.0 * s)

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        fall, r, rest, inside = self._parts(s)
        grow, z = 1.0 + self.shape, 1.0 / fall
        x = np.where(inside, self.shape * z, 0.0)
        with np.errstate(all="ignore"):
            near = z * z * log_ratio_derivatives(np.minimum(x, _LARGE))[1]
            q = np.where(x > _LARGE, np.log1p(x) / self.shape, z * log_ratio_derivatives(x)[0])
            by_shape = np.where(x > _LARGE, (r - q) / self.shape, near)
        zero = np.zeros(np.shape(s))
        curve = ParameterCurve(
            np.where(inside, -q - grow * by_shape, zero),
            np.where(inside, r - grow * r * r, zero),
            np.where(inside, r * rest * (2.0 * grow * r - 1.0), zero),
        )
        return {"shape": curve}

    def landmark(self) -> tuple[Array, Array]:
        return np.where(self.y > 0.0, self.log_y, 0.0), np.ones_like(self.y)

    guessed: ClassVar[bool] = True

    def conditional_mean(self, s: Array) -> Array:
        """e^s / (1 - shape); infinite from shape 1."""
        fraction = 1.0 / np.where(self.shape < 1.0, 1.0 - self.shape, 1.0)
        return np.asarray(capped_exp(s) * np.where(self.shape < 1.0, fraction, np.inf))

    def conditional_variance(self, s: Array) -> Array:
        """e^2s / ((1 - shape)^2 (1 - 2 shape)); infinite from shape 1/2."""
        k = np.minimum(self.shape, 0.5 - 1e-12)
        fraction = 1.0 / ((1.0 - k) ** 2 * (1.0 - 2.0 * k))
        return np.asarray(capped_exp(s) ** 2 * np.where(self.shape < 0.5, fraction, np.inf))

    def sample(self, s: Array, rng: Generator) -> Array:
        x = rng.exponential(size=np.shape(s))
        return np.asarray(capped_exp(s) * x * exp_ratio_derivatives(self.shape * x, 1)[0])
