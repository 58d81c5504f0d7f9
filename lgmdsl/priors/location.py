"""Priors about a location: normal (ordered too), cauchy, logistic, student_t and half of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.priors.positive import HALF_LOG_TAU, OnHalfLine
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


# ---- order -------------------------------------------------------------------------------------
# The probability that independent normals increase: what an ordered hyper's prior is divided by.
#
#     P(X_1 < ... < X_K) = int phi_j(t) F_{j-1}(t) G_{j+1}(t) dt  for every j,
#
# F_j(t) = int_{-inf}^t phi_j F_{j-1} the probability that the first j increase and end below t, and
# G the same from above. The derivative in an argument of entry j falls on phi_j alone.


_REACH = 9.0  # sds on either side; beyond lies 1e-19
_ORDER = 16  # points of each panel
_PANELS_PER_SD = 1.5


def log_order_probability(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """(...) log P and its slopes in mean and sd, (..., K), for means and sds (..., K)."""
    lead, count = mean.shape[:-1], mean.shape[-1]
    same = np.ptp(mean, axis=-1).max(initial=0.0) == 0.0 == np.ptp(sd, axis=-1).max(initial=0.0)
    if same:
        # every order is equally likely; the slopes still differ between entries
        value = np.full(lead, -special.gammaln(count + 1.0))
        standard = _standard(count)
        return value, standard[1] / sd, standard[2] / sd
    rows = [_row(m, s) for m, s in zip(mean.reshape(-1, count), sd.reshape(-1, count), strict=True)]
    logs, in_mean, in_sd = (np.stack(part) for part in zip(*rows, strict=True))
    return logs.reshape(lead), in_mean.reshape(mean.shape), in_sd.reshape(sd.shape)


@cache
def _standard(count: int) -> tuple[Array, Array, Array]:
    """`_row` of standard normals."""
    return _row(np.zeros(count), np.ones(count))


def _row(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    nodes, weights, below = _panels(mean, sd)
    z = (nodes - mean[:, None]) / sd[:, None]  # (K, points)
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * sd[:, None])
    count = len(mean)
    up, down = np.ones_like(z), np.ones_like(z)
    for j in range(1, count):
        up[j] = _below(density[j - 1] * up[j - 1], weights, below)
    for j in range(count - 2, -1, -1):
        product = density[j + 1] * down[j + 1]
        down[j] = float(product @ weights) - _below(product, weights, below)
    shares = density * up * down * weights
    whole = shares.sum(axis=1)
    middle = float(whole.mean())
    in_mean = (shares * z).sum(axis=1) / (sd * middle)
    in_sd = (shares * (z * z - 1.0)).sum(axis=1) / (sd * middle)
    return np.log(np.asarray(middle)), in_mean, in_sd


def _panels(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """Gauss-Legendre nodes over all the masses, fine enough for the narrowest where it lies."""
    cuts = [
        m + s * np.linspace(-_REACH, _REACH, int(2 * _REACH * _PANELS_PER_SD) + 1)
        for m, s in {(float(m), float(s)) for m, s in zip(mean, sd, strict=True)}
    ]
    edges = np.unique(np.concatenate(cuts))
    t, w, running = _rule()
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1, None] + half[:, None] * (t + 1.0)).reshape(-1)
    return nodes, (half[:, None] * w).reshape(-1), running


@cache
def _rule() -> tuple[Array, Array, Array]:
    """Nodes and weights of a panel, and the integrals of the interpolant from its left end to each
    node."""
    t, w = np.polynomial.legendre.leggauss(_ORDER)
    vander = np.polynomial.legendre.legvander(t, _ORDER - 1)
    basis = [np.polynomial.legendre.Legendre.basis(k).integ(lbnd=-1)(t) for k in range(_ORDER)]
    return t, w, np.stack(basis, axis=1) @ np.linalg.inv(vander)


def _below(values: Array, weights: Array, running: Array) -> Array:
    """The integral from the left up to each node."""
    panels = values.reshape(-1, _ORDER)
    width = weights.reshape(-1, _ORDER)
    whole = (panels * width).sum(axis=1)
    half = width.sum(axis=1) / 2.0
    before = np.concatenate([[0.0], np.cumsum(whole)[:-1]])
    return np.asarray(before[:, None] + half[:, None] * (panels @ running.T)).reshape(-1)


# ---- student -----------------------------------------------------------------------------------
# Student's t about a location, and its positive half.


@dataclass(frozen=True, eq=False)
class StudentT(OnLine):
    """location + scale t_df."""

    scale: Array
    df: Array
    location: Array = field(default_factory=left_out("student_t", "location"))
    signature = declared("prior", "student_t")

    def terms(self, value: Array) -> Terms:
        log, slope, slopes = _student_terms(
            (value - self.location) / self.scale, self.scale, self.df
        )
        return Terms(log, slope, {**slopes, "location": -slope})

    def quantile(self, p: Array) -> Array:
        return np.asarray(self.location + self.scale * special.stdtrit(self.df, p))


@dataclass(frozen=True, eq=False)
class HalfStudentT(OnHalfLine):
    """scale |t_df|; df = 1 is half_cauchy."""

    scale: Array
    df: Array
    signature = declared("prior", "half_student_t")

    def terms(self, value: Array) -> Terms:
        log, slope, slopes = _student_terms(value / self.scale, self.scale, self.df)
        return Terms(log + np.log(2.0), slope, slopes)

    def quantile(self, p: Array) -> Array:
        # by the upper tail, whose digits (1 + p) / 2 does not have near p = 1
        return np.asarray(-self.scale * special.stdtrit(self.df, 0.5 * (1.0 - p)))


def _student_terms(z: Array, scale: Array, df: Array) -> Terms:
    """log of Gamma((df + 1) / 2) / (Gamma(df / 2) sqrt(pi df) scale) (1 + z^2 / df)^-((df + 1) / 2)
    with its slopes in x = scale z, scale and df."""
    half = 0.5 * df
    # poch keeps the digits at large df, as the difference of log gammas does not
    constant = np.log(special.poch(half, 0.5)) - 0.5 * np.log(np.pi * df) - np.log(scale)
    ratio = z * z / df
    spread = np.log1p(ratio)
    bend = (df + 1.0) * ratio / (1.0 + ratio)
    slope = -(df + 1.0) * z / (df * scale * (1.0 + ratio))
    gammas = special.digamma(half + 0.5) - special.digamma(half)
    slopes = {
        "scale": (bend - 1.0) / scale,
        "df": 0.5 * (gammas - 1.0 / df - spread + bend / df),
    }
    return Terms(np.asarray(constant - 0.5 * (df + 1.0) * spread), slope, slopes)
