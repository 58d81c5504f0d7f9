"""A smooth stand-in for the log density of the hyperparameters, through the fits that were made.

    log density(u) = c - z(u)'z(u)/2 + r(u)

r is a Gaussian process of squared exponential covariance, conditioned on values and gradients at
all fits (Rasmussen and Williams 2006, 9.4: a derivative of a Gaussian process is jointly Gaussian
with it). Far from them the density falls back to a split normal one. r's length is the one of
highest marginal likelihood; its sd given the fits says where another fit would tell most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from lgmdsl.arrays import Array
from lgmdsl.numerics.stable import sigmoids

LENGTHS = (1.0, 1.4, 2.0, 2.8, 4.0)
# What the fits' tolerances leave uncertain in values (nats) and, relative to the process, at all.
NOISE = 1e-7
ROUGH = 4.0  # nats below the highest point, where noise begins to grow
SLACK = 0.6  # nats above a tangent
DEEP = 10.0  # nats below the highest point: fits there are all but noise to the process
TURN = 1.5  # the split normal's: sides are apart beyond about two sds over it
BEND = 2.0  # of the split normal: half-axes beyond which its log falls linearly
NUMBERS_PER_PASS = (
    300_000  # numbers of one temporary: in the nearer caches it takes a third of the time
)


@dataclass(frozen=True, eq=False)
class Process:
    """r given its values and gradients: `points` (n, d), `weights` (n, 1 + d), `root` (lower
    triangular) of the observations' covariance in units of `variance`, and the length."""

    points: Array
    weights: Array
    root: Array
    variance: float
    length: float
    log_likelihood: float

    def kernel(self, u: Array) -> Array:
        """(m, n) correlations of r(u), u (m, d), with r at the points."""
        return np.asarray(np.exp(-0.5 * squares(u / self.length, self.points / self.length)))

    def mean(self, u: Array) -> Array:
        """(m,) of r at u, (m, d)."""
        level, slope = self.weights[:, 0], self.weights[:, 1:] / self.length**2
        level = level - np.einsum("nd,nd->n", self.points, slope)
        return np.asarray(np.einsum("mn,mn->m", self.kernel(u), level + u @ slope.T))

    def sd(self, u: Array) -> Array:
        """(m,) of r at u, (m, d), in nats."""
        half = self._half(u)
        left = 1.0 - np.einsum("km,km->m", half, half)
        return np.asarray(np.sqrt(self.variance * np.maximum(left, 0.0)))

    def covariance(self, u: Array) -> Array:
        """(m, m) of r at u, (m, d)."""
        half = self._half(u)
        prior = np.exp(-0.5 * squares(u / self.length, u / self.length))
        return np.asarray(self.variance * (prior - half.T @ half))

    def _half(self, u: Array) -> Array:
        """(n (1 + d), m) L^-1 cov(observations, r(u)), L the root."""
        n, d = self.points.shape
        gap = (u[:, None, :] - self.points) / self.length**2
        cross = np.concatenate([np.ones((len(u), n, 1)), gap], axis=2) * self.kernel(u)[:, :, None]
        half = solve_triangular(self.root, cross.reshape(len(u), n * (1 + d)).T, lower=True)
        return np.asarray(half)


@dataclass(frozen=True, eq=False)
class Surrogate:
    """`process`: r; `constant`: the split normal's height, `stretch` (d, 2) its half-axes; `top`:
    the highest of the `values` (n,) at the points, whose `gradients` are (n, d)."""

    process: Process
    constant: float
    top: float
    stretch: Array
    values: Array
    gradients: Array

    @property
    def points(self) -> Array:
        """(n, d) places u of the fits."""
        return self.process.points

    def __call__(self, u: Array) -> Array:
        """(m,) the log density at u, (m, d): never above that of the highest point of the fits, for
        what is higher has been found by the search for the mode, nor, away from all fits, above
        the tangent at the nearest, as no concave function is."""
        out = np.empty(len(u))
        for part in self._chunks(len(u)):
            value = (
                self.process.mean(u[part]) + split_normal(u[part], self.constant, self.stretch)[0]
            )
            out[part] = np.minimum(value, self._ceiling(u[part]))
        return np.minimum(self.top, out)

    def sd(self, u: Array) -> Array:
        """(m,) what the fits leave uncertain of the log density at u, (m, d), in nats."""
        out = np.empty(len(u))
        for part in self._chunks(len(u)):
            out[part] = self.process.sd(u[part])
        return out

    def _chunks(self, count: int) -> list[slice]:
        step = max(1, NUMBERS_PER_PASS // max(1, self.points.size))
        return [slice(k, k + step) for k in range(0, count, step)]

    def _ceiling(self, u: Array) -> Array:
        """(m,) the tangent at the nearest fit, SLACK nats up, where that is farther than one half-
        axis or DEEP, so that the process does not follow it; no bound elsewhere."""
        scale = self.stretch.mean(axis=1)
        square = squares(u / scale, self.points / scale)
        near = square.argmin(axis=1)
        away = u - self.points[near]
        tangent = self.values[near] + np.einsum("md,md->m", self.gradients[near], away) + SLACK
        far = square[np.arange(len(u)), near] > 1.0
        return np.where(far | (self.values[near] < self.top - DEEP), tangent, np.inf)


def squares(u: Array, points: Array) -> Array:
    """(m, n) squared distances of u (m, d) from points (n, d)."""
    out = np.einsum("md,md->m", u, u)[:, None] - 2.0 * u @ points.T
    return np.asarray(np.maximum(out + np.einsum("nd,nd->n", points, points), 0.0))


def split_normal(u: Array, height: float, stretch: Array) -> tuple[Array, Array]:
    """(m,) the log density at u, (m, d), of a split normal with half-axes `stretch` (d, 2), and its
    gradient, (m, d). Its sd goes over from one side's to the other's, TURN deep: a density that is
    smooth at the mode leaves r smooth there too, which a jump of the curvature would not."""
    low, high = stretch.T
    steep = TURN / (0.5 * (low + high))
    up, down, _ = sigmoids(steep * u)
    sd = low * down + high * up
    z = u / sd
    root = np.sqrt(1.0 + (z / BEND) ** 2)
    dz = 1.0 / sd - z * (high - low) * up * down * steep / sd
    return height - BEND**2 * np.sum(root - 1.0, axis=1), -z / root * dz


def surrogate(
    points: Array,
    values: Array,
    gradients: Array,
    stretch: Array,
    lengths: Sequence[float] = LENGTHS,
) -> Surrogate:
    """Through values (n,) and gradients (n, d) of the log density at points (n, d) of u; `stretch`
    (d, 2): the lengths of the split normal's half-axes; `lengths`: those of r to choose from."""
    top = float(values.max())
    normal, slope = split_normal(points, top, stretch)
    target = np.concatenate([(values - normal)[:, None], gradients - slope], axis=1).reshape(-1)
    # A fit far down says that the density is low there, and no more.
    rough = np.repeat(np.exp(2.0 * np.clip(top - values - ROUGH, 0.0, 12.0)), 1 + points.shape[1])
    fits = [conditioned(points, target, NOISE * rough, length) for length in lengths]
    best = max(fits, key=lambda f: f.log_likelihood)
    return Surrogate(best, top, top, stretch, values, gradients)


def conditioned(points: Array, target: Array, noise: Array, length: float) -> Process:
    """r of that length given values and gradients `target` (n (1 + d),) up to `noise`, its variance
    at its most likely value."""
    covariance = joint_covariance(points, length)
    covariance[np.diag_indices_from(covariance)] += noise
    root: Array = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    half = solve_triangular(root, target, lower=True)
    weights = solve_triangular(root, half, lower=True, trans="T")
    variance = max(float(half @ half) / len(target), 1e-12)
    likelihood = -0.5 * len(target) * np.log(variance) - np.log(np.diag(root)).sum()
    return Process(
        points, weights.reshape(len(points), -1), root, variance, length, float(likelihood)
    )


def joint_covariance(points: Array, length: float) -> Array:
    """(n (1 + d), n (1 + d)): cov of (r, dr/dz) at all points, a point's entries together."""
    n, d = points.shape
    gap = (points[:, None, :] - points) / length
    kernel = np.exp(-0.5 * np.einsum("mnd,mnd->mn", gap, gap))
    out = np.empty((n, 1 + d, n, 1 + d))
    out[:, 0, :, 0] = kernel
    first = np.moveaxis(gap, 2, 1) * kernel[:, None, :] / length  # cov(r(x), dr(x')/dx'_j)
    out[:, 0, :, 1:] = np.moveaxis(first, 1, 2)
    out[:, 1:, :, 0] = -first
    second = np.eye(d)[None, :, None, :] - np.einsum("mni,mnj->minj", gap, gap)
    out[:, 1:, :, 1:] = second * kernel[:, None, :, None] / length**2
    return out.reshape(n * (1 + d), n * (1 + d))
