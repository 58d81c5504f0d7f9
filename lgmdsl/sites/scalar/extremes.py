"""Extreme values: gev.location and generalized_pareto.log_scale.

gev.location: block maxima, P(Y <= y) = exp(-(1 + shape z)^(-1/shape)), z = (y - s) / scale.

With q = log(1 + shape z) / shape (z at shape 0, Gumbel) and r = dq / dz = 1 / (1 + shape z),

    l = -log scale - (1 + shape) q - e^-q,   dr/dz = -shape r^2,   dq/dshape = z^2 (log(1 + x)/x)',

x = shape z. shape > 0 is the heavy tail (SciPy's genextreme has the other sign). Where 1 + shape z
<= 0, l is -inf: slope and curvature there are those of a Gaussian that leads inside
(`contract.site.Property.LIMITED`). Below shape -1 the density has no bound at its end: refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet, exp_ratio_derivatives, log_ratio, log_ratio_derivatives
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.formula import FormulaSite, Jets
from lgmdsl.sites.lifetime import LifetimeSite
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_SERIES = 0.3  # |shape| up to which log Gamma(1 - shape) is its series
_ZETA = (float(np.euler_gamma), *(float(special.zeta(k)) / k for k in range(2, 50)))


def require_tail(family: str, shape: Array) -> None:
    """Raise DataError E303 for a shape of -1 or less."""
    if np.any(shape <= -1.0):
        raise DataError.of(
            "E303",
            f"`{family}` takes a shape above -1, not {float(np.min(shape)):g}",
            note="from -1 down its density has no mode within its support, and grows without "
            "bound at its end: the likelihood has no maximum",
            help="give the shape a prior with bounds, e.g. uniform(lower = -0.5, upper = 0.5)",
        )


@dataclass(frozen=True, eq=False)
class GevLocation(FormulaSite):
    """Generalised extreme values about s."""

    y: Array
    scale: Array
    shape: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "gev.location",
        signature=declared("family", "gev"),
        takes=("scale", "shape"),
        properties=Property.BOUNDED | Property.LIMITED,
        link="identity",
        places=("y",),
        scales=("scale",),
    )

    def __post_init__(self) -> None:
        require_tail("gev", self.shape)

    def reduced(self, s: Jet, p: Jets) -> Jet:
        """q, NaN outside the support."""
        z = (self.y - s) / p["scale"]
        with np.errstate(all="ignore"):
            return z * log_ratio(p["shape"] * z)

    def formula(self, s: Jet, p: Jets) -> Jet:
        q = self.reduced(s, p)
        with np.errstate(all="ignore"):
            l = -jets.log(p["scale"]) - (1.0 + p["shape"]) * q - jets.exp(-q)
        outside = ~np.isfinite(q.value)
        return jets.where(outside, jets.constant(-np.inf, l.order), l)

    def _standard(self, s: Array) -> tuple[Array, Array, Array, BoolArray]:
        """z, q, r, and where y is possible."""
        z = (self.y - s) / self.scale
        inside = np.asarray(1.0 + self.shape * z > 0.0)
        x = np.where(inside, self.shape * z, 0.0)
        q = z * log_ratio_derivatives(x)[0]
        return z, q, 1.0 / (1.0 + x), inside

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        k, rate = self.shape, 1.0 / self.scale
        z, q, r, inside = self._standard(s)
        e, grow = capped_exp(-q), 1.0 + k
        # in z; with e' = -e r and r' = -k r^2
        first = r * (e - grow)
        second = r * r * (k * grow - grow * e)
        third = r * r * r * (grow * (1.0 + 2.0 * k) * e - 2.0 * k * k * grow)
        l = -np.log(self.scale) - grow * q - e
        towards = np.where(inside, 0.0, self._inner(z) - z)  # z is to change by that
        return PointwiseAnswer(
            np.where(inside, l, -np.inf),
            np.where(inside, -first, -towards) * rate,
            np.where(inside, second, -1.0) * rate**2,
            np.where(inside, -third, 0.0) * rate**3 * variance,
        )

    def _inner(self, z: Array) -> Array:
        """A z within the support, 1 inside of its edge -1 / shape."""
        k = np.where(self.shape == 0.0, 1.0, self.shape)
        return np.asarray(-1.0 / k + np.sign(k) + 0.0 * z)

    def landmark(self) -> tuple[Array, Array]:
        return self.y, self.scale

    guessed: ClassVar[bool] = True

    def cdf(self, s: Array) -> Array:
        """exp(-e^-q); 0 below the support and 1 above it."""
        _, q, _, inside = self._standard(s)
        return np.where(inside, np.exp(-capped_exp(-q)), np.where(self.shape > 0.0, 0.0, 1.0))

    def conditional_mean(self, s: Array) -> Array:
        """s + scale (Gamma(1 - shape) - 1) / shape; infinite from shape 1."""
        return np.asarray(s + self.scale * _mean(self.shape))

    def conditional_variance(self, s: Array) -> Array:
        """scale^2 (Gamma(1 - 2 shape) - Gamma(1 - shape)^2) / shape^2; infinite from shape 1/2."""
        k = np.minimum(self.shape, 0.5)
        flat = np.abs(k) < 1e-4
        safe = np.where(flat, 1.0, k)
        first, second = _log_gamma(k), _log_gamma(2.0 * k)
        with np.errstate(over="ignore", invalid="ignore"):
            exact = np.exp(2.0 * first) * np.expm1(second - 2.0 * first) / safe**2
        near = np.pi**2 / 6.0 + k * (2.0 * special.zeta(3.0) + np.euler_gamma * np.pi**2 / 3.0)
        ratio = np.where(self.shape < 0.5, np.where(flat, near, exact), np.inf)
        return np.asarray(self.scale**2 * ratio + 0.0 * s)

    def sample(self, s: Array, rng: Generator) -> Array:
        """s + scale (x^-shape - 1) / shape of a unit exponential x."""
        level = -np.log(rng.exponential(size=np.shape(s)) + 1e-320)
        return np.asarray(s + self.scale * level * exp_ratio_derivatives(self.shape * level, 1)[0])


def _log_gamma(k: Array) -> Array:
    """log Gamma(1 - k), k < 1, to full relative accuracy at small k."""
    small = np.where(np.abs(k) < _SERIES, k, 0.0)
    series = np.polynomial.polynomial.polyval(small, (0.0, *_ZETA))
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = special.gammaln(np.where(k < 1.0, 1.0 - k, 1.0))
    return np.where(k < 1.0, np.where(np.abs(k) < _SERIES, series, exact), np.inf)


def _mean(k: Array) -> Array:
    """(Gamma(1 - k) - 1) / k; Euler's constant at 0."""
    level = _log_gamma(k)
    ratio = level / np.where(k == 0.0, 1.0, k)
    ratio = np.where(k == 0.0, np.euler_gamma, ratio)
    with np.errstate(over="ignore", invalid="ignore"):
        value = ratio * exp_ratio_derivatives(np.where(k < 1.0, level, 0.0), 1)[0]
    return np.where(k < 1.0, value, np.inf)


# ---- generalized pareto ------------------------------------------------------------------------
# generalized_pareto.log_scale: excesses over a threshold.
#
# P(Y > y) = (1 + shape z)^(-1/shape) with z = y e^-s. With q = log(1 + shape z) / shape (z at shape
# 0) and r = dq / dlog z = z / (1 + shape z),
#
# l = -s - (1 + shape) q,   dr / dlog z = r (1 - shape r),   dq / dshape = z^2 (log(1 + x) / x)',
#
# x = shape z. Where shape < 0, y ends at e^s / |shape|: l is -inf for s up to log(|shape| y). There
# slope and curvature are those of a Gaussian that leads inside (`contract.site.Property.LIMITED`).
# Log-concave for shape >= -1; below, the density has no bound at its end: refused.


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
