"""Priors of real hypers about a location: normal (of ordered ones too), cauchy, logistic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.order import log_order_probability
from lgmdsl.priors.positive import HALF_LOG_TAU
from lgmdsl.priors.prior import REAL, Bounds, Elementwise, Terms, left_out, summed_to
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


# Ordered hypers are cuts on the scale of a link: a search that starts at scores of a prior with an
# sd of 100 has no way back from there.
WIDEST = 2.0


@dataclass(frozen=True, eq=False)
class Normal(Elementwise):
    """N(mean, sd^2) entry by entry; on an ordered hyper, given that the entries increase."""

    sd: Array
    mean: Array = field(default_factory=left_out("normal", "mean"))
    type: str = "real"
    signature = declared("prior", "normal")

    @property
    def bend(self) -> Array:
        return np.asarray(self.sd**-2.0)

    @property
    def bounds(self) -> Bounds:
        return REAL

    def terms(self, value: Array) -> Terms:
        z = (value - self.mean) / self.sd
        log = -HALF_LOG_TAU - np.log(self.sd) - 0.5 * z * z
        slopes = {"sd": (z * z - 1.0) / self.sd, "mean": z / self.sd}
        return Terms(log, -z / self.sd, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.mean + self.sd * special.ndtri(p))

    def log_density(self, value: Array) -> float:
        value = np.asarray(value, dtype=np.float64)
        density = super().log_density(value)
        if self.type != "ordered":
            return density
        if not (np.diff(value, axis=-1) > 0.0).all():
            return -np.inf
        mean, sd = self._whole(value.shape)
        return density - float(log_order_probability(mean, sd)[0].sum())

    def gradient(self, value: Array) -> dict[str, Array]:
        out = super().gradient(value)
        if self.type == "ordered":
            mean, sd = self._whole(np.shape(value))
            _, in_mean, in_sd = log_order_probability(mean, sd)
            out["mean"] = out["mean"] - summed_to(in_mean, in_mean, self.mean.shape)
            out["sd"] = out["sd"] - summed_to(in_sd, in_sd, self.sd.shape)
        return out

    def sample(self, rng: Generator, shape: tuple[int, ...] = ()) -> Array:
        if self.type != "ordered":
            return super().sample(rng, shape)
        if self.mean.ndim == self.sd.ndim == 0:
            return np.sort(super().sample(rng, shape), axis=-1)
        return self._ordered(rng, shape)

    def typical(self, shape: tuple[int, ...] = ()) -> Array:
        """The mean; on an ordered hyper, Blom's expected normal scores, increasing, no wider than
        sds of `WIDEST`."""
        if self.type != "ordered":
            return super().typical(shape)
        count = shape[-1]
        score = special.ndtri((np.arange(count) + 0.625) / (count + 0.25))
        mean, sd = self._whole(shape)
        sd = np.minimum(sd, WIDEST)
        value = np.sort(mean + sd * score, axis=-1)
        # entries that coincide (means that run down) are set apart
        gap = 1e-3 * sd.min(axis=-1, keepdims=True)
        steps = np.maximum(np.diff(value, axis=-1), gap)
        return np.asarray(np.cumsum(np.concatenate([value[..., :1], steps], axis=-1), axis=-1))

    def _whole(self, shape: tuple[int, ...]) -> tuple[Array, Array]:
        return np.broadcast_to(self.mean, shape), np.broadcast_to(self.sd, shape)

    def _ordered(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        """Draws kept where they increase: row by row, until every row has one."""
        mean, sd = (m.reshape(-1, shape[-1]) for m in self._whole(shape))
        out = np.empty(mean.shape)
        pending = np.arange(len(out))
        while len(pending):
            out[pending] = mean[pending] + sd[pending] * rng.standard_normal(
                (len(pending), shape[-1])
            )
            pending = pending[~(np.diff(out[pending], axis=-1) > 0.0).all(axis=-1)]
        return out.reshape(shape)


class OnLine(Elementwise):
    """Entries anywhere on the line."""

    @property
    def bounds(self) -> Bounds:
        return REAL


@dataclass(frozen=True, eq=False)
class Cauchy(OnLine):
    """1 / (pi scale (1 + z^2)), z = (x - location) / scale."""

    scale: Array
    location: Array = field(default_factory=left_out("cauchy", "location"))
    signature = declared("prior", "cauchy")

    def terms(self, value: Array) -> Terms:
        z = (value - self.location) / self.scale
        # 1 / hypot(1, z): z^2 overflows where the density does not
        near = 1.0 / np.hypot(1.0, z)
        share = z * near * near
        log = 2.0 * np.log(near) - np.log(np.pi * self.scale)
        slopes = {
            "scale": (2.0 * z * share - 1.0) / self.scale,
            "location": 2.0 * share / self.scale,
        }
        return Terms(log, -2.0 * share / self.scale, slopes)

    def quantile(self, p: Array) -> Array:
        # tan(pi (p - 1/2)) = -1 / tan(pi p), which keeps the digits of a small p
        turn = np.where(p < 0.25, -1.0 / np.tan(np.pi * p), np.tan(np.pi * (p - 0.5)))
        return np.asarray(self.location + self.scale * turn)


@dataclass(frozen=True, eq=False)
class Logistic(OnLine):
    """sech^2(z / 2) / (4 scale), z = (x - location) / scale."""

    scale: Array
    location: Array = field(default_factory=left_out("logistic", "location"))
    signature = declared("prior", "logistic")

    def terms(self, value: Array) -> Terms:
        z = (value - self.location) / self.scale
        half = np.tanh(0.5 * z)
        size = np.abs(z)
        log = -size - 2.0 * np.log1p(np.exp(-size)) - np.log(self.scale)
        slopes = {"scale": (z * half - 1.0) / self.scale, "location": half / self.scale}
        return Terms(log, -half / self.scale, slopes)

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.location + self.scale * special.logit(p))
