"""Priors of positive hypers with closed forms: exponential, half-normal, half-Cauchy, lognormal,
gamma, inverse gamma, and the penalised-complexity priors of sds and ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import POSITIVE, Bounds, Elementwise, GammaPower, Terms, left_out
from lgmdsl.vocabulary.lookup import declared

HALF_LOG_TAU = 0.5 * float(np.log(2.0 * np.pi))


class OnHalfLine(Elementwise):
    """Entries between 0 and infinity."""

    @property
    def bounds(self) -> Bounds:
        return POSITIVE


@dataclass(frozen=True, eq=False)
class Exponential(OnHalfLine):
    """rate exp(-rate x)."""

    rate: Array
    signature = declared("prior", "exponential")

    def terms(self, value: Array) -> Terms:
        slopes = {"rate": 1.0 / self.rate - value}
        return Terms(np.log(self.rate) - self.rate * value, -self.rate, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(-np.log1p(-p) / self.rate)


@dataclass(frozen=True, eq=False)
class HalfNormal(OnHalfLine):
    """N(0, sd^2) on its positive half."""

    sd: Array
    signature = declared("prior", "half_normal")

    def terms(self, value: Array) -> Terms:
        z = value / self.sd
        log = np.log(2.0) - HALF_LOG_TAU - np.log(self.sd) - 0.5 * z * z
        return Terms(log, -z / self.sd, {"sd": (z * z - 1.0) / self.sd})

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.sd * special.ndtri(0.5 * (1.0 + p)))


@dataclass(frozen=True, eq=False)
class HalfCauchy(OnHalfLine):
    """Cauchy around 0 on its positive half; its median is the scale."""

    scale: Array
    signature = declared("prior", "half_cauchy")

    def terms(self, value: Array) -> Terms:
        z = value / self.scale
        share = z / (1.0 + z * z)
        log = np.log(2.0 / np.pi) - np.log(self.scale) - np.log1p(z * z)
        slopes = {"scale": (2.0 * z * share - 1.0) / self.scale}
        return Terms(log, -2.0 * share / self.scale, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.scale * np.tan(0.5 * np.pi * p))


@dataclass(frozen=True, eq=False)
class Lognormal(OnHalfLine):
    """log x is N(mean, sd^2)."""

    sd: Array
    mean: Array = field(default_factory=left_out("lognormal", "mean"))
    signature = declared("prior", "lognormal")

    def terms(self, value: Array) -> Terms:
        z = (np.log(value) - self.mean) / self.sd
        log = -HALF_LOG_TAU - np.log(self.sd) - np.log(value) - 0.5 * z * z
        slopes = {"sd": (z * z - 1.0) / self.sd, "mean": z / self.sd}
        return Terms(log, -(1.0 + z / self.sd) / value, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(np.exp(self.mean + self.sd * special.ndtri(p)))


@dataclass(frozen=True, eq=False)
class Gamma(OnHalfLine):
    """rate^shape x^(shape - 1) exp(-rate x) / Gamma(shape)."""

    shape: Array
    rate: Array
    signature = declared("prior", "gamma")

    @property
    def gamma_power(self) -> GammaPower:
        return GammaPower(-0.5, self.shape, self.rate)

    def terms(self, value: Array) -> Terms:
        power = special.xlogy(self.shape - 1.0, value)
        log = self.shape * np.log(self.rate) - special.gammaln(self.shape) + power
        slopes = {
            "shape": np.log(self.rate) - special.digamma(self.shape) + np.log(value),
            "rate": self.shape / self.rate - value,
        }
        return Terms(log - self.rate * value, (self.shape - 1.0) / value - self.rate, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(special.gammaincinv(self.shape, p) / self.rate)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """The median, or the mean where that is below any data, as with shape = rate = 0.001."""
        middle = super().typical(shape)
        mean = np.broadcast_to(self.shape / self.rate, shape)
        return np.where(middle > 1e-6 * mean, middle, mean)


@dataclass(frozen=True, eq=False)
class InvGamma(OnHalfLine):
    """scale^shape x^(-shape - 1) exp(-scale / x) / Gamma(shape): 1/x is gamma(shape, scale)."""

    shape: Array
    scale: Array
    signature = declared("prior", "inv_gamma")

    @property
    def gamma_power(self) -> GammaPower:
        return GammaPower(0.5, self.shape, self.scale)

    def terms(self, value: Array) -> Terms:
        fixed = self.shape * np.log(self.scale) - special.gammaln(self.shape)
        log = fixed - (self.shape + 1.0) * np.log(value) - self.scale / value
        slopes = {
            "shape": np.log(self.scale) - special.digamma(self.shape) - np.log(value),
            "scale": self.shape / self.scale - 1.0 / value,
        }
        slope = (self.scale / value - self.shape - 1.0) / value
        # at 0 the exponential wins over the power
        return Terms(np.where(value > 0.0, log, -np.inf), slope, slopes)

    def quantile(self, p: Array) -> Array:
        # where 1/x underflows the value overflows
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(self.scale / special.gammainccinv(self.shape, p))

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """The median, or the mode where that is beyond any data, as with shape = scale = 0.001."""
        middle = super().typical(shape)
        mode = np.broadcast_to(self.scale / (self.shape + 1.0), shape)
        return np.where(middle < 1e6 * mode, middle, mode)


# ---- pc scale ----------------------------------------------------------------------------------
# Penalised-complexity priors of standard deviations and ranges.
#
# pc_sd: exponential with rate -log(alpha) / u (Simpson et al. 2017, section 3.3).
# pc_range: 1/range is exponential with rate -log(alpha) u (Fuglstad et al. 2019, theorem 2.6 at
# dimension 2, Matern smoothness 1: spde with alpha = 2 in the plane).


@dataclass(frozen=True, eq=False)
class PcSd(OnHalfLine):
    """P(sd > u) = alpha."""

    u: Array
    alpha: Array
    signature = declared("prior", "pc_sd")

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) / self.u)

    def terms(self, value: Array) -> Terms:
        rate = self.rate
        up = 1.0 / rate - value
        slopes = {"u": -up * rate / self.u, "alpha": -up / (self.alpha * self.u)}
        return Terms(np.log(rate) - rate * value, -rate, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(-np.log1p(-p) / self.rate)


@dataclass(frozen=True, eq=False)
class PcRange(OnHalfLine):
    """P(range < u) = alpha."""

    u: Array
    alpha: Array
    signature = declared("prior", "pc_range")

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log(self.alpha) * self.u)

    def terms(self, value: Array) -> Terms:
        rate = self.rate
        up = 1.0 / rate - 1.0 / value
        log = np.log(rate) - 2.0 * np.log(value) - rate / value
        slopes = {"u": up * rate / self.u, "alpha": -up * self.u / self.alpha}
        slope = (rate / value - 2.0) / value
        return Terms(np.where(value > 0.0, log, -np.inf), slope, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(-self.rate / np.log(p))
