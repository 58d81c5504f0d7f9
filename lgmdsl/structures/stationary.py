"""Stationary kernels sd^2 phi(r^2), r^2 = sum_d ((x_d - x'_d) / length_d)^2, and the periodic one.

phi: se exp(-r^2/2); matern (Rasmussen and Williams 2006, eq. 4.14 to 4.17); rq
(1 + r^2 / (2 alpha))^-alpha (4.19); periodic (4.31), a product over input dimensions:
sd^2 exp(-2 sum_d sin^2(pi (x_d - x'_d) / period) / length_d^2).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.errors import ModelError
from lgmdsl.structures.kernels import Kernel, Slopes
from lgmdsl.vocabulary.lookup import declared

_DIRECT = 4  # up to this many dimensions, differences; above, a product of matrices
_NEAR = 1e-5  # pairs nearer than this (relative, squared) are recomputed from differences


def squared_distances(x1: Array, x2: Array) -> Array:
    """(n1, n2) |x1_i - x2_j|^2; a GEMM for many dimensions, with near pairs from differences."""
    n1, d = len(x1), x1.shape[1]
    if d <= _DIRECT:
        direct: Array = np.zeros((n1, len(x2)))
        if d:
            np.subtract.outer(x1[:, 0], x2[:, 0], out=direct)
        direct *= direct
        for j in range(1, d):
            step = np.subtract.outer(x1[:, j], x2[:, j])
            step *= step
            direct += step
        return direct
    # The square of the distance to a common centre bounds the cancellation.
    centre = x2.mean(axis=0)
    a, b = x1 - centre, x2 - centre
    left, right = np.einsum("ij,ij->i", a, a), np.einsum("ij,ij->i", b, b)
    out: Array = (-2.0 * a) @ b.T
    out += left[:, None]
    out += right
    top = max(float(left.max(initial=0.0)), float(right.max(initial=0.0)))
    near = np.flatnonzero(out < _NEAR * top)
    for start in range(0, len(near), 1 << 16):
        rows, columns = np.divmod(near[start : start + (1 << 16)], len(x2))
        gap = x1[rows] - x2[columns]
        out[rows, columns] = np.einsum("ij,ij->i", gap, gap)
    return np.asarray(out)


@dataclass(frozen=True, eq=False)
class Stationary(Kernel):
    """sd and length are arrays: sd 0-d, length 0-d or (d,)."""

    sd: Array
    length: Array

    @abstractmethod
    def phi(self, r2: Array) -> Array:
        """phi(r^2), in place where possible."""

    @abstractmethod
    def slope(self, r2: Array) -> Array:
        """dphi/dr^2 (0 where it is infinite: r = 0 of matern 1/2)."""

    def shape_slopes(self, r2: Array, weight: Array) -> Slopes:
        """Slopes of further arguments; `weight` = adjoint sd^2."""
        return {}

    def smooth(self, x1: Array, x2: Array) -> Array:
        out = self.phi(squared_distances(x1 / self.length, x2 / self.length))
        out *= self.sd * self.sd
        return out

    def diagonal(self, x: Array) -> Array:
        return np.full(len(x), float(self.sd) ** 2)

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        a, b = x1 / self.length, x2 / self.length
        r2 = squared_distances(a, b)
        weight = adjoint * (self.sd * self.sd)
        # sum t (a_id - b_jd)^2 for each input dimension, without an (n, n, d) array
        t = weight * self.slope(r2)
        if self.length.ndim == 0:
            stretch = np.asarray(np.einsum("ij,ij->", t, r2))
        else:
            centre = b.mean(axis=0)
            a, b = a - centre, b - centre
            stretch = t.sum(axis=1) @ (a * a) + t.sum(axis=0) @ (b * b)
            stretch -= 2.0 * (a * (t @ b)).sum(axis=0)
        more = self.shape_slopes(r2, weight)
        total = np.einsum("ij,ij->", adjoint, self.phi(r2))
        return {
            "sd": np.asarray(2.0 * self.sd * total),
            "length": np.asarray(-2.0 * stretch / self.length),
            **more,
        }

    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        zero = {key: np.zeros(()) for key in self.shape_slopes(np.zeros((1, 1)), np.zeros((1, 1)))}
        sd = np.asarray(2.0 * self.sd * adjoint.sum())
        return {"sd": sd, "length": np.zeros_like(self.length), **zero}


@dataclass(frozen=True, eq=False)
class SquaredExponential(Stationary):
    """sd^2 exp(-r^2 / 2)."""

    signature = declared("kernel", "se")

    def phi(self, r2: Array) -> Array:
        r2 *= -0.5
        return np.exp(r2, out=r2)

    def slope(self, r2: Array) -> Array:
        return np.asarray(-0.5 * np.exp(-0.5 * r2))


@dataclass(frozen=True, eq=False)
class Matern(Stationary):
    """smoothness 1/2, 3/2 or 5/2; with a = sqrt(2 nu) r: e^-a, (1 + a)e^-a, (1 + a + a^2/3)e^-a."""

    smoothness: float
    signature = declared("kernel", "matern")

    def __post_init__(self) -> None:
        if float(self.smoothness) not in (0.5, 1.5, 2.5):
            raise ModelError.of(
                "E108",
                f"smoothness is 0.5, 1.5 or 2.5, not {self.smoothness:g}",
                help="matern(sd = s, length = l, smoothness = 1.5)",
            )

    def phi(self, r2: Array) -> Array:
        nu = float(self.smoothness)
        a = np.sqrt(np.maximum(r2, 0.0))
        a *= np.sqrt(2 * nu)
        decay = np.exp(-a)
        if nu == 0.5:
            return decay
        if nu == 2.5:
            a += a * a / 3.0
        a += 1.0
        decay *= a
        return decay

    def slope(self, r2: Array) -> Array:
        nu = float(self.smoothness)
        a = np.sqrt(np.maximum(r2, 0.0)) * np.sqrt(2 * nu)
        decay = np.exp(-a)
        if nu == 0.5:
            return np.asarray(np.divide(-0.5 * decay, a, out=np.zeros_like(a), where=a > 0))
        return np.asarray(-1.5 * decay if nu == 1.5 else -(5.0 / 6.0) * (1.0 + a) * decay)


def matern(sd: object, length: object, smoothness: Any) -> Matern:
    """`matern(sd, length, smoothness)` with arguments that may be numbers."""
    return Matern(
        np.asarray(sd, dtype=np.float64), np.asarray(length, dtype=np.float64), float(smoothness)
    )


@dataclass(frozen=True, eq=False)
class RationalQuadratic(Stationary):
    """sd^2 (1 + r^2 / (2 alpha))^-alpha."""

    alpha: Array

    signature = declared("kernel", "rq")

    def phi(self, r2: Array) -> Array:
        return np.asarray(np.exp(-self.alpha * np.log1p(r2 / (2.0 * self.alpha))))

    def slope(self, r2: Array) -> Array:
        return np.asarray(-0.5 * np.exp(-(self.alpha + 1.0) * np.log1p(r2 / (2.0 * self.alpha))))

    def shape_slopes(self, r2: Array, weight: Array) -> Slopes:
        u = r2 / (2.0 * self.alpha)
        slope = self.phi(r2) * (u / (1.0 + u) - np.log1p(u))
        return {"alpha": np.asarray(np.einsum("ij,ij->", weight, slope))}


@dataclass(frozen=True, eq=False)
class Periodic(Kernel):
    """sd^2 exp(-2 sum_d sin^2(pi (x_d - x'_d) / period) / length_d^2)."""

    sd: Array
    length: Array
    period: Array
    signature = declared("kernel", "periodic")

    def smooth(self, x1: Array, x2: Array) -> Array:
        out = np.zeros((len(x1), len(x2)))
        for d, length in enumerate(self._lengths(x1)):
            wave = np.sin(np.subtract.outer(x1[:, d], x2[:, d]) * (np.pi / self.period))
            wave *= wave
            wave *= -2.0 / length**2
            out += wave
        np.exp(out, out=out)
        out *= self.sd * self.sd
        return out

    def diagonal(self, x: Array) -> Array:
        return np.full(len(x), float(self.sd) ** 2)

    def _lengths(self, x: Array) -> Array:
        return np.broadcast_to(self.length, (x.shape[1],))

    def smooth_slopes(self, x1: Array, x2: Array, adjoint: Array) -> Slopes:
        t = adjoint * self.smooth(x1, x2)
        length, period = np.zeros(x1.shape[1]), 0.0
        for d, size in enumerate(self._lengths(x1)):
            angle = np.subtract.outer(x1[:, d], x2[:, d]) * (np.pi / self.period)
            wave = np.sin(angle)
            length[d] = 4.0 / size**3 * np.einsum("ij,ij,ij->", t, wave, wave)
            # d/dperiod of -2 sin^2(angle) / length^2, with dangle/dperiod = -angle / period
            turn = 2.0 * np.sin(2.0 * angle) * angle
            period += float(np.einsum("ij,ij->", t, turn)) / (float(self.period) * size**2)
        return {
            "sd": np.asarray(2.0 * t.sum() / self.sd),
            "length": np.asarray(length.sum()) if self.length.ndim == 0 else length,
            "period": np.asarray(period),
        }

    def diagonal_slopes(self, x: Array, adjoint: Array) -> Slopes:
        sd = np.asarray(2.0 * self.sd * adjoint.sum())
        return {"sd": sd, "length": np.zeros_like(self.length), "period": np.zeros(())}
