"""Student-t sites: student_t.mean(scale, df) and the potential student_t(scale, df).

l = log Gamma((df+1)/2) - log Gamma(df/2) - 1/2 log(pi df) - log scale - (df+1)/2 log(1 + x^2/df),
x = (s - y) / scale. Not log-concave: its tilted density can have two modes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy import special

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.contract.questions import (
    Augmented,
    AugmentedAnswer,
    Normed,
    ParameterCurve,
    PointwiseAnswer,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.sites.base import LocationSite, scale_curve
from lgmdsl.sites.formula import Formula, Jets
from lgmdsl.sites.quadrature import Averaged
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

NEAR_NORMAL = 200.0  # degrees of freedom: beyond, they multiply the rounding of a logarithm near 0


class StudentTSite(LocationSite, Formula, Averaged):
    """The Student-t density at s - y."""

    scale: Array
    df: Array

    @cached_property
    def constant(self) -> Array:
        """The log density at its centre, (N,)."""
        half = 0.5 * self.df
        # poch keeps the accuracy at large df, as the difference of log gammas does not.
        gammas = np.log(special.poch(half, 0.5))
        return np.asarray(gammas - 0.5 * np.log(np.pi * self.df) - np.log(self.scale))

    @cached_property
    def distance(self) -> Array:
        """scale sqrt(df): the singularities stand at y +- i distance."""
        return np.asarray(self.scale * np.sqrt(self.df))

    def formula(self, s: Jet, p: Jets) -> Jet:
        df, z = p["df"], (s - self.centre) / p["scale"]
        gammas = jets.log_rising(0.5 * df, np.full((), 0.5))
        level = gammas - 0.5 * jets.log(np.pi * df) - jets.log(p["scale"])
        return level - 0.5 * (df + 1.0) * jets.log1p(z * z / df)

    def log_density(self, s: Array) -> Array:
        x = self.residual(s) / self.distance
        return np.asarray(self.constant - 0.5 * (self.df + 1.0) * np.log1p(x * x))

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        a = self.distance
        x = self.residual(s) / a
        power = self.df + 1.0
        square = x * x
        q = 1.0 / (1.0 + square)
        slope = -power * x * q / a
        return PointwiseAnswer(
            value=self.constant + 0.5 * power * np.log(q),
            slope=slope,
            curvature=-power * (1.0 - square) * q * q / a**2,
            third=-2.0 * slope * (3.0 - square) * (q * q / a**2) * variance,
        )

    def averaged(self, mean: Array, variance: Array) -> tuple[Array, Array, Array] | None:
        """E[l] over N(mean, variance) and its slopes in both, (N,) each; None where some df is
        above `NEAR_NORMAL`. l = constant - (df + 1) / 2 log(1 + x^2), x = (s - centre) /
        distance."""
        if not (self.df <= NEAR_NORMAL).all():
            return None
        a, half = self.distance, -0.5 * (self.df + 1.0)
        # As the rule: below this sd the answer is the limit.
        sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))
        level, slope, bend = expected_log_quadratic(self.residual(mean) / a, sd / a)
        return self.constant + half * level, half * slope / a, 0.5 * half * bend / a**2

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        df = self.df
        x = self.residual(s) / self.distance
        x2 = x * x
        bend = (df + 1.0) * x2 / (1.0 + x2)
        gammas = special.digamma(0.5 * (df + 1.0)) - special.digamma(0.5 * df)
        return {
            "scale": (bend - 1.0) / self.scale,
            "df": 0.5 * (gammas - 1.0 / df - np.log1p(x2) + bend / df),
        }

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        """With D = scale^2 df + x^2: l' = -(df + 1) x / D, l'' = -(df + 1) (1/D - 2 x^2/D^2)."""
        x, square = self.residual(s), self.scale**2
        total = square * self.df + x * x
        power, share = self.df + 1.0, x * x / total
        return {
            "scale": scale_curve(self.pointwise(s), x, self.scale),
            "df": ParameterCurve(
                self.parameter_slopes(s)["df"],
                x / total * (power * square / total - 1.0),
                (2.0 * share - 1.0 + power * square / total * (1.0 - 4.0 * share)) / total,
            ),
        }

    def landmark(self) -> tuple[Array, Array]:
        return -self.residual(np.zeros_like(self.scale)), self.distance

    def noise_variance(self) -> Array:
        """scale^2 df / (df - 2), infinite up to df = 2."""
        tail = np.where(self.df > 2.0, self.df - 2.0, 1.0)
        return np.where(self.df > 2.0, self.scale**2 * self.df / tail, np.inf)

    def noise(self, shape: tuple[int, ...], rng: Generator) -> Array:
        return np.asarray(self.scale * rng.standard_t(self.df, size=shape))

    def noise_cdf(self, x: Array) -> Array:
        return np.asarray(special.stdtr(self.df, x / self.scale))


@dataclass(frozen=True, eq=False)
class StudentTMean(StudentTSite):
    """y = s + scale * t_df."""

    y: Array
    scale: Array
    df: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "student_t.mean",
        signature=declared("family", "student_t"),
        takes=("scale", "df"),
        properties=Property.BOUNDED,
        link="identity",
        places=("y",),
        scales=("scale",),
        centred="student_t",
    )


@dataclass(frozen=True, eq=False)
class StudentTPotential(StudentTSite, Normed, Augmented):
    """The Student-t density at s: g = constant - (df+1)/2 log(1 + x / (df scale^2)).

    The mixture of N(s | 0, 1 / alpha) over alpha ~ gamma(a, b), a = df / 2, b = df scale^2 / 2,
    whose best q(alpha) is gamma(a + 1/2, b + x / 2), x = E[s^2]: then f = l(sqrt(x)), the bound of
    a super-Gaussian site at its best width.
    """

    scale: Array
    df: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "student_t",
        signature=declared("potential", "student_t"),
        takes=("scale", "df"),
        properties=Property.SUPER_GAUSSIAN | Property.BOUNDED,
        scales=("scale",),
        gaussian_scale="scale",
    )

    @property
    def beta(self) -> Array:
        return np.zeros_like(self.scale)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        square = self.distance**2
        half = 0.5 * (self.df + 1.0)
        total = square + x
        return self.constant - half * np.log1p(x / square), -half / total, half / total**2

    def weights(self, mean: Array, variance: Array) -> AugmentedAnswer:
        x = mean * mean + variance
        g, slope, _ = self.g(x)
        return AugmentedAnswer(-2.0 * slope, np.zeros_like(x), g - slope * x)

    def weight_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.width_slopes(mean, variance)

    def of_norm(self, members: Array) -> tuple[StudentTPotential, Array]:
        """The multivariate t, (1 + ||s||^2 / (df scale^2))^(-(df + n)/2): one alpha ~ gamma(a, b)
        for the group, which is the potential of df + n - 1 with df scale^2 as it is."""
        df, more = self.df + members - 1.0, 0.5 * (members - 1.0)
        half = 0.5 * self.df
        rise = special.poch(half, more)
        gammas = np.where(
            np.isfinite(rise),
            np.log(np.minimum(rise, np.finfo(float).max)),
            special.gammaln(half + more) - special.gammaln(half),
        )
        site = StudentTPotential(self.scale * np.sqrt(self.df / df), df)
        return site, gammas - more * np.log(np.pi * self.df) - 2.0 * more * np.log(self.scale)

    def norm_slopes(self, length: Array, members: Array) -> dict[str, Array]:
        df = self.df
        x2 = (length / self.distance) ** 2
        bend = (df + members) * x2 / (1.0 + x2)
        gammas = special.digamma(0.5 * (df + members)) - special.digamma(0.5 * df)
        return {
            "scale": (bend - members) / self.scale,
            "df": 0.5 * (gammas - members / df - np.log1p(x2) + bend / df),
        }


# ---- log quadratic -----------------------------------------------------------------------------
# E[log(1 + x^2)], x ~ N(m, v), in closed form: what a Student-t density is made of.
#
# With z = (m + i) / sqrt(2 v) in the upper half-plane and w Faddeeva's function e^{-z^2} erfc(-iz),
#
#     E[1 / (x + i)] = -i sqrt(pi / (2 v)) w(z),    E[log(1 + x^2)] = log(2 v) + 2 Re H(z),
#     H' = -i sqrt(pi) w,    H(z) - log z -> -i pi / 2 far out,
#
# and w' = 2i / sqrt(pi) - 2 z w. Weideman's (1994) expansion, with Z = (L + iz) / (L - iz),
#
#     w(z) = 2 p(Z) / (L - iz)^2 + 1 / (sqrt(pi) (L - iz)),
#
# has an integral of the same form: with P' = p
#
#     H(z) = log(L - iz) - sqrt(pi) / L (P(Z) - P(-1)).


TERMS = 48  # of the expansion, which is good to 1e-14
ROWS_PER_PASS = 4096  # whose powers are held at once
FAR, ORDER = 8.0, 20  # |z| from which w' comes from its series in 1 / z^2, and the terms of that


def expected_log_quadratic(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """E[log(1 + x^2)] and the expectations of its first two derivatives, (n,) each."""
    width, length, integral = np.sqrt(2.0) * sd, _length(), _integral()
    z = (mean + 1j) / width
    fraction = 2.0 * length / (length - 1j * z) - 1.0
    value = 2.0 * np.log(np.hypot(width * length + 1.0, mean))
    value -= 2.0 * np.sqrt(np.pi) / length * _polynomial(fraction, integral).real
    w = special.wofz(z)
    slope = 2.0 * np.sqrt(np.pi) / width * w.imag
    bend = 2.0j / np.sqrt(np.pi) - 2.0 * z * w
    far = np.abs(z) > FAR
    if far.any():
        square = (1.0 / z[far]) ** 2  # z^2 may overflow
        bend[far] = -1j / np.sqrt(np.pi) * square * _polynomial(square, _series())
    return value, slope, 2.0 * np.sqrt(np.pi) / width**2 * bend.imag


def _polynomial(x: AnyArray, coefficients: Array) -> AnyArray:
    """sum_k c_k x^k, (n,), of powers that are products of all before: no loop over them here."""
    out = np.empty(len(x), dtype=np.complex128)
    for first in range(0, len(x), ROWS_PER_PASS):
        some = slice(first, first + ROWS_PER_PASS)
        powers = np.broadcast_to(x[some], (len(coefficients) - 1, len(x[some])))
        out[some] = coefficients[0] + coefficients[1:] @ np.multiply.accumulate(powers, axis=0)
    return out


@cache
def _length() -> float:
    return float(2.0**-0.25 * np.sqrt(TERMS))


@cache
def _integral() -> Array:
    """The coefficients of P(Z) - P(-1), constant first; p's are Fourier coefficients of
    e^{-t^2} (L^2 + t^2) in the angle of Z."""
    length, many = _length(), 2 * TERMS
    angle = np.arange(1 - many, many) * np.pi / many
    t = length * np.tan(0.5 * angle)
    f = np.concatenate([[0.0], np.exp(-t * t) * (length**2 + t * t)])
    a = np.real(np.fft.fft(np.fft.fftshift(f)))[1 : TERMS + 1] / (2.0 * many)
    out = np.concatenate([[0.0], a / np.arange(1, TERMS + 1)])
    out[0] = -float(polyval(-1.0, out))
    return np.asarray(out)


@cache
def _series() -> Array:
    """(2k + 1)!! / 2^k."""
    k = np.arange(ORDER)
    return np.asarray(special.factorial2(2 * k + 1) / 2.0**k)
