"""What the built-in families share: elementwise algebra, and sites centred on an observation."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Site
from lgmdsl.numerics.stable import of_counts

if TYPE_CHECKING:
    from numpy.random import Generator


class ElementwiseSite(Site, Pointwise):
    """A scalar family whose formulas are elementwise, so that fields (N, 1) meet s (N, k)."""

    broadcasts: ClassVar[bool] = True


class LocationSite(ElementwiseSite):
    """l depends on s - y (observed) or on s (potential): the field y, if any, is the centre."""

    def residual(self, s: Array) -> Array:
        """s - y, or s for a potential."""
        y: Array | None = getattr(self, "y", None)
        return s if y is None else s - y

    @property
    def centre(self) -> Array:
        """The s of no residual, (N,)."""
        return -self.residual(np.zeros(len(self)))

    def conditional_mean(self, s: Array) -> Array:
        """E[y | s] = s, the centre of symmetry (which exists where the mean does not)."""
        if self.spec.potential:
            return super().conditional_mean(s)
        return np.array(s, dtype=np.float64)

    def conditional_variance(self, s: Array) -> Array:
        """Var[y | s], the same for every s."""
        if self.spec.potential:
            return super().conditional_variance(s)
        return np.asarray(self.noise_variance() + 0.0 * s)

    def noise_variance(self) -> Array:
        """Var[y - s], (N,)."""
        raise NotImplementedError  # each family of location sites has its own

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        """Draws of y - s."""
        raise NotImplementedError  # each family of location sites has its own

    def sample(self, s: Array, rng: Generator) -> Array:
        """One draw of y given s, (N,)."""
        if self.spec.potential:
            return super().sample(s, rng)
        return s + self.noise(np.shape(s), rng)

    def noise_cdf(self, x: Array) -> Array:
        """P(y - s <= x), (N,)."""
        raise NotImplementedError  # each family of location sites has its own

    def cdf(self, s: Array) -> Array:
        """P(Y <= y | s), (N,)."""
        if self.spec.potential:
            return super().cdf(s)
        return self.noise_cdf(-self.residual(s))


def binomial_cdf(y: Array, n: Array | float, failure: Array) -> Array:
    """P(Y <= y) of n trials that fail with probability `failure`: 0 for y < 0, 1 for y >= n."""
    remaining = np.asarray(n - y)
    inside = (y >= 0.0) & (remaining > 0.0)
    inner = special.betainc(
        np.where(inside, remaining, 1.0), np.where(inside, y, 0.0) + 1.0, failure
    )
    return np.where(inside, inner, np.where(y < 0.0, 0.0, 1.0))


def scale_curve(l: PointwiseAnswer, residual: Array, scale: Array) -> ParameterCurve:
    """The curve in `scale` of l = f(residual / scale) - log scale, from l and its derivatives."""
    x = residual
    return ParameterCurve(
        -(1.0 + x * l.slope) / scale,
        -(l.slope + x * l.curvature) / scale,
        -(2.0 * l.curvature + x * l.third) / scale,
    )


def log_factorial(y: Array) -> Array:
    """log y!, (N,)."""
    return of_counts(_log_gamma_above, y)


def _log_gamma_above(y: Array) -> Array:
    return np.asarray(special.gammaln(y + 1.0))


class CountSite(ElementwiseSite):
    """A family over counts y, with log y! computed once."""

    y: Array

    @cached_property
    def log_factorial(self) -> Array:
        """log y!, (N,)."""
        return log_factorial(self.y)


def answer(value: Array, slope: Array, curvature: Array, third: Array) -> PointwiseAnswer:
    """The four arrays at one common shape (a constant derivative may come unexpanded)."""
    shape = np.shape(value)
    return PointwiseAnswer(
        value,
        np.broadcast_to(slope, shape),
        np.broadcast_to(curvature, shape),
        np.broadcast_to(third, shape),
    )
