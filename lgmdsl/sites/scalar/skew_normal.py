"""skew_normal.mean: Azzalini's skew normal by its mean, sd and third standardised moment.

With delta its skewness parameter, m = sqrt(2 / pi) delta, h = sqrt(1 - m^2) and r = (y - s) / sd,

    l = log 2 + log h - log sd - 1/2 log(2 pi) - z^2 / 2 + log Phi(alpha z),   z = h r + m,

alpha = delta / sqrt(1 - delta^2), skew = (4 - pi) / 2 (m / h)^3 (Azzalini 1985; centred parameters,
Arellano-Valle and Azzalini 2008). l is log-concave in s. delta goes with the cube root of the skew,
yet dl / dskew exists at 0: (r^3 - 3 r) / 6. Near 0 it is a series in m, whose first two powers
cancel in l, elsewhere dl/dm over dskew/dm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.polynomial import polynomial
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import ParameterCurve, PointwiseAnswer
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.normal_tail import LOG_TWO_PI, normal_tail
from lgmdsl.sites.base import LocationSite, scale_curve
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

MOST = 0.99527  # of |skew|: that of a half-normal is 0.995271746...
_B = math.sqrt(2.0 / math.pi)
_C = 0.5 * (4.0 - math.pi)
_NEAR = 0.03  # m max(1, |r|) below which dl / dskew is its series
# dl / dskew as sum_k m^k P_k(r): coefficients of 1, r, r^2, ... by computer algebra
_SERIES: tuple[tuple[float, ...], ...] = (
    (0.0, -0.5, 0.0, 1.0 / 6.0),
    (0.10996539438758128, 0.0, -0.21993078877516256, 0.0, 0.036655131462527094),
    (0.0, -0.006661190215763593, 0.0, 0.004440793477175729, 0.0, -0.0004440793477175729),
    (
        -0.06641327562329644, 0.0, 0.14692160576240412, 0.0, -0.031534461551639636, 0.0,
        -0.003829259401224844,
    ),
    (
        0.0, -0.30254118992011436, 0.0, 0.24525698345216246, 0.0, -0.026581793450969303, 0.0,
        -0.001377433125052967,
    ),
    (
        -0.11109443992827982, 0.0, 0.18151926297944193, 0.0, -0.009615362637996427, 0.0,
        -0.010189225299617492, 0.0, -6.115684387723977e-05,
    ),
    (
        0.0, -0.4875931096803009, 0.0, 0.3928649168405406, 0.0, -0.047319713015212185, 0.0,
        -0.0006448807390990613, 0.0, 0.0001520706808808429,
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class SkewNormalMean(LocationSite):
    """y of mean s, with the sd and the skewness given."""

    y: Array
    sd: Array
    skew: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "skew_normal.mean",
        signature=declared("family", "skew_normal"),
        takes=("sd", "skew"),
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        link="identity",
        places=("y",),
        scales=("sd",),
    )
    guessed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if np.any(~(np.abs(self.skew) < MOST)):
            worst = float(self.skew.flat[int(np.argmax(np.abs(self.skew)))])
            raise DataError.of(
                "E303",
                f"`skew_normal` takes a skew between -{MOST:g} and {MOST:g}, not {worst:g}",
                note="no skew normal is more skewed than the half-normal",
                help="give the skew a prior with bounds, e.g. "
                "uniform(lower = -0.99, upper = 0.99), or take gev or lognormal",
            )

    @cached_property
    def parts(self) -> tuple[Array, Array, Array]:
        """m, h and alpha."""
        root = np.cbrt(self.skew / _C)  # m / h
        m = root / np.sqrt(1.0 + root * root)
        delta = m / _B
        return m, np.asarray(1.0 / np.sqrt(1.0 + root * root)), delta / np.sqrt(1.0 - delta * delta)

    def _standard(self, s: Array) -> Array:
        m, h, _ = self.parts
        return np.asarray(m - h * self.residual(s) / self.sd)

    def log_density(self, s: Array) -> Array:
        _, h, alpha = self.parts
        z = self._standard(s)
        level = math.log(2.0) + np.log(h) - np.log(self.sd) - 0.5 * LOG_TWO_PI
        return np.asarray(level - 0.5 * z * z + special.log_ndtr(alpha * z))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        _, h, alpha = self.parts
        z, rate = self._standard(s), -h / self.sd
        tail = normal_tail(alpha * z)
        return PointwiseAnswer(
            self.log_density(s),
            rate * (alpha * tail.hazard - z),
            -(rate**2) * (1.0 + alpha**2 * tail.hazard * tail.excess),
            (rate * alpha) ** 3 * tail.third * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {name: curve.value for name, curve in self.parameter_curves(s).items()}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        x = self.residual(s)
        skew = self._skew_curve(np.asarray(-x / self.sd))
        return {
            "sd": scale_curve(self.pointwise(s), x, self.sd),
            "skew": ParameterCurve(skew[0], -skew[1] / self.sd, skew[2] / self.sd**2),
        }

    def _skew_curve(self, r: Array) -> list[Array]:
        """dl / dskew and its first two derivatives in r."""
        m = self.parts[0] + 0.0 * r
        near = np.abs(m) * np.maximum(1.0, np.abs(r)) < _NEAR
        far = np.where(near, 2.0 * _NEAR, m)  # any value at which nothing cancels
        l = _formula(jets.variable(r, 0), jets.variable(far, 1))
        bend = 3.0 * _C * far**2 * (1.0 - far**2) ** -2.5
        inside = np.where(near, r, 0.0)
        out = []
        for n in range(3):
            series = np.zeros(np.shape(r))
            for terms in reversed(_SERIES):
                series = series * np.where(near, m, 0.0) + polynomial.polyval(
                    inside, polynomial.polyder(terms, n) if n else np.array(terms)
                )
            out.append(np.where(near, series, l.derivative(*(0,) * n, 1) / bend))
        return out

    def landmark(self) -> tuple[Array, Array]:
        return self.y, self.sd

    def noise_variance(self) -> Array:
        return np.asarray(self.sd**2)

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        m, h, _ = self.parts
        delta = m / _B
        half, whole = np.abs(rng.standard_normal(shape)), rng.standard_normal(shape)
        return np.asarray(self.sd / h * (delta * half + np.sqrt(1.0 - delta * delta) * whole - m))

    def noise_cdf(self, x: Array) -> Array:
        """Phi(z) - 2 T(z, alpha), T Owen's function."""
        m, h, alpha = self.parts
        z = m + h * x / self.sd
        upto = special.ndtr(z) - 2.0 * special.owens_t(z, alpha)
        return np.asarray(np.clip(upto, 0.0, 1.0))


def _formula(r: Jet, m: Jet) -> Jet:
    """What varies with m in l at a fixed r."""
    square = m * m
    h = jets.sqrt(1.0 - square)
    alpha = m / (_B * jets.sqrt(1.0 - square / _B**2))
    z = h * r + m
    return jets.log(h) - 0.5 * z * z + jets.log_ndtr(alpha * z)
