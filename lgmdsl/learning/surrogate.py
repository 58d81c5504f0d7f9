"""A smooth stand-in for the log density of the hyperparameters, through the fits that were made.

    log density(u) = c - z(u)'z(u)/2 + r(u)

r is a Gaussian process of squared exponential covariance, conditioned on values and gradients at
all fits (Rasmussen and Williams 2006, 9.4: a derivative of a Gaussian process is jointly Gaussian
with it). Far from them the density falls back to a split normal one. r's length is the one of
highest marginal likelihood.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics.stable import sigmoids

LENGTHS = (1.0, 1.4, 2.0, 2.8)
# What the fits' tolerances leave uncertain in values (nats) and, relative to the process, at all.
NOISE = 1e-7
ROUGH = 4.0  # nats below the highest point, where noise begins to grow
SLACK = 0.6  # nats above a tangent
TURN = 1.5  # the split normal's: sides are apart beyond about two sds over it
CHUNK = 2_000_000


@dataclass(frozen=True, eq=False)
class Surrogate:
    """`points`: (n, d) of u, with `values` and `gradients` of the log density; `weights`:
    (n, 1 + d) of the process; `constant`: the split normal's height, `stretch` its half-axes."""

    points: Array
    weights: Array
    length: float
    constant: float
    top: float
    stretch: Array
    values: Array
    gradients: Array

    def __call__(self, u: Array) -> Array:
        """(m,) the log density at u, (m, d): never above that of the highest point of the fits, for
        what is higher has been found by the search for the mode, nor, away from all fits, above
        the tangent at the nearest, as no concave function is."""
        out = np.empty(len(u))
        step = max(1, CHUNK // max(1, self.points.size))
        for k in range(0, len(u), step):
            part = u[k : k + step]
            gap = (part[:, None, :] - self.points) / self.length
            kernel = np.exp(-0.5 * np.einsum("mnd,mnd->mn", gap, gap))
            slopes = np.einsum("mnd,nd->mn", gap, self.weights[:, 1:]) / self.length
            value = np.einsum("mn,mn->m", kernel, self.weights[:, 0] + slopes)
            value += self.normal(part)[0]
            out[k : k + step] = np.minimum(value, self._ceiling(part))
        return np.minimum(self.top, out)

    def _ceiling(self, u: Array) -> Array:
        """(m,) the tangent at the nearest fit, SLACK nats up, where that is farther than one half-
        axis; no bound elsewhere."""
        scale = self.stretch.mean(axis=1)
        square = np.sum(((u[:, None, :] - self.points) / scale) ** 2, axis=2)
        near = square.argmin(axis=1)
        away = u - self.points[near]
        tangent = self.values[near] + np.einsum("md,md->m", self.gradients[near], away) + SLACK
        return np.where(square[np.arange(len(u)), near] > 1.0, tangent, np.inf)

    def normal(self, u: Array) -> tuple[Array, Array]:
        """(m,) the log density of the split normal, and its gradient, (m, d). Its sd goes over from
        one side's to the other's, TURN deep: a density that is smooth at the mode leaves r smooth
        there too, which a jump of the curvature would not."""
        low, high = self.stretch.T
        steep = TURN / (0.5 * (low + high))
        up, down, _ = sigmoids(steep * u)
        sd = low * down + high * up
        z = u / sd
        slope = -z / sd + z * z * (high - low) * up * down * steep / sd
        return self.constant - 0.5 * np.einsum("md,md->m", z, z), slope


def surrogate(points: Array, values: Array, gradients: Array, stretch: Array) -> Surrogate:
    """Through values (n,) and gradients (n, d) of the log density at points (n, d) of u; `stretch`
    (d, 2): the lengths of the split normal's half-axes."""
    top = float(values.max())
    nothing = np.zeros((len(points), 1 + points.shape[1]))
    whole = Surrogate(points, nothing, 1.0, top, top, stretch, values, gradients)
    normal, slope = whole.normal(points)
    target = np.concatenate([(values - normal)[:, None], gradients - slope], axis=1).reshape(-1)
    # A fit far down says that the density is low there, and no more.
    rough = np.repeat(np.exp(2.0 * np.clip(top - values - ROUGH, 0.0, 12.0)), 1 + points.shape[1])
    fits = [_conditioned(points, target, NOISE * rough, length) for length in LENGTHS]
    _, weights, length = max(fits, key=lambda f: f[0])
    return replace(whole, weights=weights.reshape(len(points), -1), length=length)


def _conditioned(
    points: Array, target: Array, noise: Array, length: float
) -> tuple[float, Array, float]:
    """log marginal likelihood with the process's scale at its best, weights, and the length."""
    covariance = joint_covariance(points, length)
    covariance[np.diag_indices_from(covariance)] += noise
    root = np.linalg.cholesky(covariance)
    half = np.linalg.solve(root, target)
    weights = np.linalg.solve(root.T, half)
    scale = max(float(half @ half) / len(target), 1e-12)
    likelihood = -0.5 * len(target) * np.log(scale) - np.log(np.diag(root)).sum()
    return float(likelihood), weights, length


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
