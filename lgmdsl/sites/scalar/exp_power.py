"""The potential exp_power(scale, power): exp(-|s / scale|^power) / (2 scale Gamma(1 + 1/power)).

0 < power <= 2: power 1 is the Laplace density of the same scale, power 2 the normal one of sd
scale / sqrt 2. Below 2 the curvature at 0 is infinite, below 1 the slope as well: the family
counts as kinked, is log-concave only for power >= 1, and answers Expected and Tilted itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import (
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Normed,
    PointwiseAnswer,
    Tilted,
    TiltedAnswer,
    TiltedSlopes,
)
from lgmdsl.contract.site import Property, SiteSpec
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.numerics.expectations.expectation import expectations
from lgmdsl.numerics.expectations.peak import (
    average_over_sides,
    moments_of_power,
    tilted_sides,
)
from lgmdsl.numerics.log_gamma import log_power_integral, log_sphere
from lgmdsl.sites.base import LocationSite
from lgmdsl.vocabulary.lookup import declared

_NEAREST = 1e-60  # |x| below which derivatives are those at this distance, to stay finite
_FAR = 9.0  # sds from the cusp beyond which it carries less than 1e-17 of the mass


@dataclass(frozen=True, eq=False)
class ExpPowerPotential(LocationSite, Expected, ExpectedSlopes, Tilted, TiltedSlopes, Normed):
    """The exponential-power (generalised Gaussian) density at s."""

    scale: Array
    power: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "exp_power",
        signature=declared("potential", "exp_power"),
        takes=("scale", "power"),
        properties=Property.SUPER_GAUSSIAN | Property.KINKED | Property.BOUNDED,
        scales=("scale",),
    )

    def __post_init__(self) -> None:
        if np.any(~(self.power > 0.0) | (self.power > 2.0)):
            raise DataError(_outside(float(np.max(self.power))))

    @property
    def constant(self) -> Array:
        """-log(2 scale Gamma(1 + 1/power)), (N,)."""
        return np.asarray(-np.log(2.0 * self.scale) - special.gammaln(1.0 + 1.0 / self.power))

    def log_density(self, s: Array) -> Array:
        return np.asarray(self.constant - np.abs(s / self.scale) ** self.power)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        """Slope 0 at s = 0; higher derivatives there as at |s| = 1e-60 scale."""
        p, a = self.power, self.scale
        x = np.maximum(np.abs(s) / a, _NEAREST)
        sign = np.sign(s)
        first = p * x ** (p - 1.0)
        return PointwiseAnswer(
            value=self.log_density(s),
            slope=-sign * first / a,
            curvature=-(p - 1.0) * first / x / a**2,
            third=-sign * (p - 1.0) * (p - 2.0) * first / x**2 / a**3 * variance,
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        p = self.power
        x = np.abs(s / self.scale)
        bend = x**p
        gain = special.digamma(1.0 + 1.0 / p) / p**2
        return {
            "scale": (p * bend - 1.0) / self.scale,
            "power": gain - special.xlogy(bend, np.maximum(x, _NEAREST)),
        }

    def landmark(self) -> tuple[Array, Array]:
        return np.zeros_like(self.scale), self.scale

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        a = self.scale
        m = mean / a
        sd = np.maximum(np.sqrt(variance) / a, 1e-12 * np.maximum(np.abs(m), 1e-20))
        out = np.empty((5, len(mean)))
        near = np.abs(m) < _FAR * sd
        if np.any(near):
            out[:, near] = moments_of_power(m[near], sd[near], self.power[near])
        if not np.all(near):
            out[:, ~near] = _smooth_power(m[~near], sd[~near], self.power[~near])
        value, d_mean, d_variance, mixed, twice = -out
        return ExpectedAnswer(
            self.constant + value,
            d_mean / a,
            d_variance / a**2,
            mixed / a**3 if second else None,
            twice / a**4 if second else None,
        )

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        a = self.scale
        point = variance <= 0.0
        sd = np.sqrt(np.where(point, 1.0, variance)) / a

        def level(rows: IntArray, x: Array) -> Array:
            return np.asarray(-power * x ** self.power[rows][:, None])

        decay = power ** (-1.0 / self.power)
        log_mass, position, spread = tilted_sides(level, mean / a, sd, decay)
        return TiltedAnswer(
            np.where(point, power * self.log_density(mean), log_mass + power * self.constant),
            np.where(point, mean, a * position),
            np.where(point, 0.0, a**2 * spread),
        )

    def tilted_slopes(self, mean: Array, variance: Array, power: float = 1.0) -> dict[str, Array]:
        """E[(p u - 1) / a] and E[gain - u log(|s| / a)] with u = |s / a|^p."""
        a, p = self.scale, self.power
        point = variance <= 0.0
        sd = np.sqrt(np.where(point, 1.0, variance)) / a

        def bend(rows: IntArray, x: Array) -> Array:
            return np.asarray(x ** p[rows][:, None])

        def level(rows: IntArray, x: Array) -> Array:
            return -power * bend(rows, x)

        def logarithmic(rows: IntArray, x: Array) -> Array:
            return np.asarray(special.xlogy(bend(rows, x), np.maximum(x, _NEAREST)))

        rules = level, mean / a, sd, power ** (-1.0 / p)
        u, bent = (average_over_sides(rules[0], f, *rules[1:]) for f in (bend, logarithmic))
        gain = special.digamma(1.0 + 1.0 / p) / p**2
        plain = self.parameter_slopes(mean)
        return {
            "scale": np.where(point, plain["scale"], (p * u - 1.0) / a),
            "power": np.where(point, plain["power"], gain - bent),
        }

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        """The tilted ones at a power too small to change the density."""
        with np.errstate(over="ignore"):
            return self.tilted_slopes(mean, variance, 1e-200)

    @property
    def beta(self) -> Array:
        return np.zeros_like(self.scale)

    def g(self, x: Array) -> tuple[Array, Array, Array]:
        p, square = self.power, self.scale**2
        u = np.maximum(x / square, _NEAREST)
        slope = -0.5 * p * u ** (0.5 * p - 1.0)
        value = self.constant - (x / square) ** (0.5 * p)
        return value, slope / square, (0.5 * p - 1.0) * slope / u / square**2

    def of_norm(self, members: Array) -> tuple[ExpPowerPotential, Array]:
        """exp(-(||s|| / scale)^power) / (S_n Gamma(n / power) / power scale^n)."""
        size = log_sphere(members) + log_power_integral(members, self.power)
        return self, -size - members * np.log(self.scale) - self.constant

    def norm_slopes(self, length: Array, members: Array) -> dict[str, Array]:
        p = self.power
        x = length / self.scale
        bend = x**p
        gain = 1.0 / p + special.digamma(members / p) * members / p**2
        return {
            "scale": (p * bend - members) / self.scale,
            "power": gain - special.xlogy(bend, np.maximum(x, _NEAREST)),
        }


def _smooth_power(mean: Array, sd: Array, power: Array) -> Array:
    """E|x|^p and its derivatives in m, v, (m, v), (v, v), where the cusp is out of reach."""

    def stacked(rows: IntArray, x: Array, t: Array) -> Array:
        p = power[rows][:, None]
        size = np.maximum(np.abs(x), _NEAREST)
        value = size**p
        slope = p * value / x
        curvature = (p - 1.0) * slope / x
        third = (p - 2.0) * curvature / x
        fourth = 0.25 * third * t / sd[rows][:, None]
        return np.stack([value, slope, 0.5 * curvature, 0.5 * third, fourth])

    return expectations(stacked, mean, sd, np.zeros_like(mean), sd, checked=False)


def _outside(value: float) -> Diagnostic:
    return Diagnostic(
        "E303",
        f"`exp_power` takes a power in (0, 2], not {value:g}",
        note="above 2 the density is not super-Gaussian; power 1 is laplace, 2 is normal",
    )
