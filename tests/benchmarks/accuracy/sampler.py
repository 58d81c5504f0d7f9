"""An exact sampler of latent Gaussian posteriors: Hamiltonian Monte Carlo, many chains at once.

    s = offset + sum_k g_k(theta) B_k x_k,  x_k ~ N(0, I), or flat;  u = (x, log theta)

Leapfrog steps in coordinates that the covariance of a warm-up whitens, and an acceptance step that
uses log densities alone, so that slopes by differences cost nothing in exactness (a leapfrog step
is reversible and keeps volume for any force). Split R-hat and effective sizes as in Gelman et al.,
Bayesian Data Analysis (third edition, 2013), section 11.4 and 11.5.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.site import Site

from .cases import Hyper

STEP = 1e-5  # of differences, relative to the scale of s
REACH = 0.5 * math.pi  # of a trajectory, in whitened sds


@dataclass(frozen=True, eq=False)
class Density:
    """`columns` (rows, latents); `scale`: which hyper multiplies each latent's column, or -1;
    `flat`: latents without a prior."""

    site: Site
    offset: Array
    columns: Array
    scale: IntArray
    flat: BoolArray
    hypers: tuple[Hyper, ...]

    @property
    def size(self) -> int:
        return int(self.columns.shape[1])

    @property
    def dims(self) -> int:
        return self.size + len(self.hypers)

    def factors(self, u: Array) -> Array:
        """g of each latent, (chains, latents)."""
        theta = np.exp(u[:, self.size :])
        whole = np.column_stack([theta, np.ones(len(u))])
        return np.asarray(whole[:, self.scale])

    def predict(self, u: Array) -> Array:
        return np.asarray(self.offset + (self.factors(u) * u[:, : self.size]) @ self.columns.T)

    def sites(self, s: Array) -> Array:
        """log densities, (chains, rows)."""
        many = self._many(len(s))
        with np.errstate(all="ignore"):
            return np.asarray(many.log_density(s.ravel()).reshape(s.shape))

    def _many(self, chains: int) -> Site:
        kept: dict[int, Site] = self.__dict__.setdefault("_kept", {})
        if chains not in kept:
            fields: dict[str, Any] = {}
            for f in dataclasses.fields(self.site):
                value = getattr(self.site, f.name)
                fields[f.name] = np.tile(value, (chains, *[1] * (value.ndim - 1)))
            kept[chains] = dataclasses.replace(self.site, **fields)
        return kept[chains]

    def prior(self, u: Array) -> Array:
        x = np.where(self.flat, 0.0, u[:, : self.size])
        out = -0.5 * (x * x).sum(axis=1)
        for k, h in enumerate(self.hypers):
            t = u[:, self.size + k]
            out = out + h.log_density(np.exp(t)) + t
        return np.asarray(out)

    def __call__(self, u: Array) -> Array:
        """Log density up to a constant, (chains,)."""
        u = np.clip(u, -1e6, 1e6)
        u[:, self.size :] = np.clip(u[:, self.size :], -40.0, 20.0)
        value = self.sites(self.predict(u)).sum(axis=1) + self.prior(u)
        return np.asarray(np.where(np.isnan(value), -np.inf, value))

    def slope(self, u: Array) -> Array:
        """Of the log density, (chains, dims)."""
        u = u.copy()
        u[:, self.size :] = np.clip(u[:, self.size :], -40.0, 20.0)
        s, factor = self.predict(u), self.factors(u)
        h = STEP * (1.0 + np.abs(s))
        both = self.sites(np.concatenate([s + h, s - h]))
        r = (both[: len(u)] - both[len(u) :]) / (2.0 * h)
        r = np.clip(np.where(np.isfinite(r), r, 0.0), -1e8, 1e8)
        pulled = r @ self.columns
        out = np.empty_like(u)
        x = u[:, : self.size]
        out[:, : self.size] = factor * pulled - np.where(self.flat, 0.0, x)
        for k, hyper in enumerate(self.hypers):
            t = u[:, self.size + k]
            own = self.scale == k
            up, down = (hyper.log_density(np.exp(t + d)) for d in (1e-5, -1e-5))
            out[:, self.size + k] = (
                (factor[:, own] * pulled[:, own] * x[:, own]).sum(axis=1)
                + (up - down) / 2e-5 + 1.0
            )  # fmt: skip
        return out


@dataclass(frozen=True, eq=False)
class Draws:
    """`values` (chains, draws, quantities); the largest split R-hat, the smallest effective
    size."""

    values: Array
    rhat: float
    ess: float
    accepted: float
    gradients: int


def drawn(
    density: Density, values: Callable[[Array], Array], seconds: float, wanted: float,
    chains: int = 32, seed: int = 0,
) -> Draws:  # fmt: skip
    """Draws of `values(u)`, until the smallest effective size is `wanted` and R-hat below 1.01, or
    for so many CPU seconds."""
    rng = np.random.default_rng(seed)
    middle, root = _laplace(density)
    u = middle + 1.3 * rng.normal(size=(chains, density.dims)) @ root.T
    worse = ~np.isfinite(density(u))
    u[worse] = middle
    step, spent = 0.3, 0
    began = time.process_time()
    for length in (60, 100, 160):
        kept = []
        for k in range(length):
            u, rate, used = _moved(density, u, middle, root, step, rng)
            step *= math.exp((rate - 0.8) * (0.5 if k < length // 2 else 0.15))
            step = min(max(step, 1e-3), 1.2)
            spent += used
            if k >= length // 3:
                kept.append(u)
        every = np.concatenate(kept)
        middle = every.mean(axis=0)
        covariance = np.atleast_2d(np.cov(every.T))
        shrink = min(0.5, density.dims / len(every))
        diagonal = np.diag(np.diag(covariance))
        root = np.asarray(np.linalg.cholesky((1.0 - shrink) * covariance + shrink * diagonal))
    saved: list[Array] = []
    rates: list[float] = []
    rhat, ess = math.inf, 0.0
    while True:
        for _ in range(100):
            u, rate, used = _moved(density, u, middle, root, step, rng)
            saved.append(values(u))
            rates.append(rate)
            spent += used
        stacked = np.stack(saved, axis=1)
        if len(saved) >= 300:
            rhat, ess = diagnosed(stacked)
        late = time.process_time() - began > seconds
        if late or (len(saved) >= 500 and ess >= wanted and rhat < 1.01):
            rhat, ess = diagnosed(stacked)
            return Draws(stacked, rhat, ess, float(np.mean(rates)), spent)


def _moved(
    density: Density, u: Array, middle: Array, root: Array, step: float, rng: np.random.Generator
) -> tuple[Array, float, int]:
    """One trajectory of every chain; the mean acceptance probability; steps."""
    w = np.linalg.solve(root, (u - middle).T).T
    p = rng.normal(size=w.shape)
    eps = step * rng.uniform(0.85, 1.15)
    count = max(1, math.ceil(rng.uniform(0.6, 1.0) * REACH / eps))
    before = density(u) - 0.5 * (p * p).sum(axis=1)
    with np.errstate(all="ignore"):
        p = p + 0.5 * eps * density.slope(u) @ root
        for k in range(count):
            w = w + eps * p
            force = density.slope(middle + w @ root.T) @ root
            p = p + (eps if k < count - 1 else 0.5 * eps) * force
        new = middle + w @ root.T
        log_ratio = density(new) - 0.5 * (p * p).sum(axis=1) - before
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    chance = np.exp(np.minimum(log_ratio, 0.0))
    taken = rng.random(len(u)) < chance
    u = _interwoven(density, np.where(taken[:, None], new, u), rng)
    return u, float(chance.mean()), count + 1


def _interwoven(density: Density, u: Array, rng: np.random.Generator) -> Array:
    """Metropolis steps of each log sd t with its latents z = x e^t, and so the likelihood, held
    (Yu and Meng, 2011): log density p(t) - n t - |z|^2 e^(-2t) / 2."""
    u = u.copy()
    for k, h in enumerate(density.hypers):
        own = density.scale == k
        n, at = int(own.sum()), density.size + k
        if not n:
            continue
        for _ in range(4):
            t = u[:, at]
            move = rng.normal(size=len(u)) * 2.0 / math.sqrt(n)
            square = (u[:, : density.size][:, own] ** 2).sum(axis=1)
            gain = 0.5 * square * (1.0 - np.exp(-2.0 * move)) + (1.0 - n) * move
            gain += h.log_density(np.exp(t + move)) - h.log_density(np.exp(t))
            taken = np.log(rng.random(len(u))) < gain
            move = np.where(taken, move, 0.0)
            u[:, at] += move
            u[:, : density.size] *= np.where(own, np.exp(-move)[:, None], 1.0)
    return u


def _laplace(density: Density) -> tuple[Array, Array]:
    """A mode of x at hypers of 0.5, and a root of the covariance there."""
    u = np.zeros(density.dims)
    u[density.size :] = math.log(0.5)

    def lost(x: Array) -> tuple[float, Array]:
        point = np.concatenate([x, u[density.size :]])[None]
        return -float(density(point)[0]), -density.slope(point)[0, : density.size]

    end = optimize.minimize(lost, u[: density.size], jac=True, method="L-BFGS-B",
                            options={"maxiter": 300})  # fmt: skip
    u[: density.size] = end.x
    s = density.predict(u[None])
    h = 1e-3
    near = density.sites(np.concatenate([s + h, s, s - h]))
    bend = np.clip(-(near[0] - 2 * near[1] + near[2]) / h**2, 1e-4, 1e6)
    columns = density.columns * density.factors(u[None])[0]
    precision = (columns.T * bend) @ columns + np.diag(np.where(density.flat, 1e-6, 1.0))
    root = np.eye(density.dims)
    root[: density.size, : density.size] = np.linalg.cholesky(np.linalg.inv(precision))
    root[density.size :] *= 0.4
    return u, root


def diagnosed(values: Array) -> tuple[float, float]:
    """The largest split R-hat and the smallest effective size of (chains, draws, quantities)."""
    half = values.shape[1] // 2
    split = np.concatenate([values[:, :half], values[:, half : 2 * half]])
    chains, draws, _ = split.shape
    within = split.var(axis=1, ddof=1).mean(axis=0)
    between = draws * split.mean(axis=1).var(axis=0, ddof=1)
    whole = (draws - 1) / draws * within + between / draws
    rhat = float(np.sqrt(whole / within).max())
    away = split - split.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(away, 2 * draws, axis=1)) ** 2
    lags = np.fft.irfft(spectrum, axis=1)[:, :draws].mean(axis=0) / draws
    rho = 1.0 - (within - lags * draws / (draws - 1)) / whole
    pairs = rho[0 : draws - 1 : 2] + rho[1:draws:2]
    positive = np.cumprod(pairs > 0.0, axis=0).astype(bool)
    pairs = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time_ = np.maximum(-1.0 + 2.0 * pairs.sum(axis=0), 0.2)
    return rhat, float((chains * draws / time_).min())
