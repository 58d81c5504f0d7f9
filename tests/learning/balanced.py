"""Balanced nested Gaussian models: their evidence in closed form by strata, exact posteriors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from lgmdsl.arrays import AnyArray, Array

NESTED = """lgm 1
index obs
index row
index cell
data y[obs] : real
data r[obs] : row
data k[obs] : cell
HYPERS
latent b0 ~ normal(sd = 3)
latent a[row] ~ normal(sd = sa)
latent e[cell] ~ normal(sd = se)
let eta[obs] = b0 + a[r] + e[k]
observe y ~ normal(mean = eta, sd = s)
"""
NAMES = ("sa", "se", "s")
LEVELS = np.array([0.025, 0.5, 0.975])


def half_cauchy() -> str:
    """NESTED with half-Cauchy priors of scale 2."""
    prior = "positive ~ half_cauchy(scale = 2)"
    return NESTED.replace("HYPERS", "\n".join(f"hyper {n} : {prior}" for n in NAMES))


def spiked() -> str:
    """NESTED with Gamma(1, 5e-5) on precisions, which peak at sds of 0.006."""
    prior = "positive ~ inv_gamma(shape = 1, scale = 0.00005)"
    lines = (f"hyper v{n} : {prior}\nhyper {n} : positive = sqrt(v{n})" for n in NAMES)
    return NESTED.replace("HYPERS", "\n".join(lines))


def log_half_cauchy(s: Array) -> Array:
    return np.asarray(np.log(1.0 / np.pi) - np.log1p((s / 2.0) ** 2))


def log_spiked(s: Array) -> Array:
    """Of s, where s^2 ~ inv_gamma(1, 5e-5)."""
    return np.asarray(np.log(2.0 * 5e-5) - 3.0 * np.log(s) - 5e-5 / s**2)


@dataclass(frozen=True)
class Balanced:
    """`y` of `shape` rows, cells in a row, and replicates."""

    y: Array
    shape: tuple[int, int, int]

    @classmethod
    def drawn(cls, seed: int, shape: tuple[int, int, int], sds: tuple[float, ...]) -> Balanced:
        """With sds of rows, cells and noise."""
        rng = np.random.default_rng(seed)
        rows, cells, _ = shape
        mean = sds[0] * rng.normal(size=(rows, 1, 1)) + sds[1] * rng.normal(size=(rows, cells, 1))
        return cls((0.7 + mean + sds[2] * rng.normal(size=shape)).reshape(-1), shape)

    @property
    def data(self) -> dict[str, AnyArray]:
        rows, cells, each = self.shape
        k = np.repeat(np.arange(rows * cells), each)
        return {"y": self.y, "r": k // cells, "k": k}

    def log_likelihood(self, x: Array) -> Array:
        """(...,) at log sds x, (..., 3): independent strata of the means of rows, of cells in rows
        and of replicates."""
        rows, cells, each = self.shape
        y = self.y.reshape(self.shape)
        mean, row, cell = y.mean(), y.mean((1, 2)), y.mean(2)
        va, ve, v = np.moveaxis(np.exp(2.0 * x), -1, 0)
        between = v + each * ve + cells * each * va
        parts = (
            (1, y.size * mean**2, between + y.size * 9.0),
            (rows - 1, cells * each * np.sum((row - mean) ** 2), between),
            (rows * (cells - 1), each * np.sum((cell - row[:, None]) ** 2), v + each * ve),
            (rows * cells * (each - 1), np.sum((y - cell[:, :, None]) ** 2), v),
        )
        out = -0.5 * y.size * np.log(2.0 * np.pi) + np.zeros_like(v)
        for df, squares, variance in parts:
            out = out - 0.5 * (df * np.log(variance) + squares / variance)
        return np.asarray(out)

    def exact(
        self, log_prior: Callable[[Array], Array], size: int = 121
    ) -> tuple[float, dict[str, tuple[float, float, Array]]]:
        """log p(y), and mean, sd and quantiles at LEVELS of each sd, on a lattice of log sds that
        ends where the marginal density is 16 nats below its top."""

        def density(x: Array) -> Array:
            return np.asarray(self.log_likelihood(x) + (log_prior(np.exp(x)) + x).sum(axis=-1))

        low, high = np.array([-12.0, -12.0, -4.0]), np.array([6.0, 6.0, 3.0])
        for count in (21, 21, 25, size):
            axes = [np.linspace(a, b, count) for a, b in zip(low, high, strict=True)]
            log = density(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1))
            top = float(log.max())
            if count == size:
                break
            for j, axis in enumerate(axes):
                kept = np.flatnonzero(log.max(axis=tuple({0, 1, 2} - {j})) > top - 16.0)
                step = axis[1] - axis[0]
                low[j] = max(low[j], axis[kept[0]] - step)
                high[j] = min(high[j], axis[kept[-1]] + step)
        weight = np.exp(log - top)
        cell = float(np.prod([a[1] - a[0] for a in axes]))
        out = {}
        for j, (name, axis) in enumerate(zip(NAMES, axes, strict=True)):
            marginal = weight.sum(axis=tuple({0, 1, 2} - {j}))
            x = np.linspace(axis[0], axis[-1], 4001)
            p = np.exp(CubicSpline(axis, np.log(np.maximum(marginal, 1e-300)))(x))
            p /= p.sum()
            s = np.exp(x)
            mean = float(p @ s)
            quantiles = np.exp(np.interp(LEVELS, np.cumsum(p) - 0.5 * p, x))
            out[name] = mean, float(np.sqrt(p @ (s - mean) ** 2)), quantiles
        return top + float(np.log(weight.sum() * cell)), out
