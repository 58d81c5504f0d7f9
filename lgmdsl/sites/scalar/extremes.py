"""gev.location: block maxima, P(Y <= y) = exp(-(1 + shape z)^(-1/shape)), z = (y - s) / scale.

With q = log(1 + shape z) / shape (z at shape 0, Gumbel) and r = dq / dz = 1 / (1 + shape z),

    l = -log scale - (1 + shape) q - e^-q,   dr/dz = -shape r^2,   dq/dshape = z^2 (log(1 + x)/x)',

x = shape z. shape > 0 is the heavy tail (SciPy's genextreme has the other sign). Where 1 + shape z
<= 0, l is -inf: slope and curvature there are those of a Gaussian that leads inside
(`contract.site.Property.LIMITED`). Below shape -1 the density has no bound at its end: refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.questions import PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet, exp_ratio_derivatives, log_ratio, log_ratio_derivatives
from lgmdsl.numerics.stable import capped_exp
from lgmdsl.sites.formula import FormulaSite, Jets
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

_SERIES = 0.3  # |shape| up to which log Gamma(1 - shape) is its series
_ZETA = (float(np.euler_gamma), *(float(special.zeta(k)) / k for k in range(2, 50)))


def require_tail(family: str, shape: Array) -> None:
    """Raise DataError E303 for a shape of -1 or less."""
    if np.any(shape <= -1.0):
        raise DataError(
            Diagnostic(
                "E303",
                f"`{family}` takes a shape above -1, not {float(np.min(shape)):g}",
                note="from -1 down its density has no mode within its support, and grows without "
                "bound at its end: the likelihood has no maximum",
                help="give the shape a prior with bounds, e.g. uniform(lower = -0.5, upper = 0.5)",
            )
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
