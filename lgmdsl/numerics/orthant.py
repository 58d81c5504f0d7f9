"""Which of several correlated Gaussians is the largest, by the GHK simulator with fixed points.

P(x_k > x_j for all j) is an orthant of the K - 1 differences; with LL' their covariance the t_i are
taken one after another from normals cut where the i-th difference is 0, and the mass is the mean of
the product of what the cuts leave (Geweke 1989; Hajivassiliou, McFadden and Ruud 1996).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray

POINTS = 1024


def largest(mean: Array, covariance: Array, offered: BoolArray) -> Array:
    """P(x_k is the largest of those on offer), (N, K), x ~ N(mean, covariance), positive definite;
    0 for what is not on offer. Errors are about 1e-4, and rows add up to 1."""
    n, size = mean.shape
    out = np.zeros((n, size))
    counts = offered.sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        at = np.argsort(~offered[rows], axis=1, kind="stable")[:, :count]
        m = np.take_along_axis(mean[rows], at, axis=1)
        v = covariance[rows[:, None, None], at[:, :, None], at[:, None, :]]
        for k in range(int(count)):
            turn = np.eye(int(count))[np.arange(count) != k] * -1.0
            turn[:, k] = 1.0
            out[rows, at[:, k]] = positive(m @ turn.T, turn @ v @ turn.T)
    return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1e-300))


def positive(mean: Array, covariance: Array) -> Array:
    """P(x > 0 in every entry), (N,), of x ~ N(mean, covariance), (N, D) and (N, D, D)."""
    n, size = mean.shape
    if not size:
        return np.ones(n)
    root, u = np.linalg.cholesky(covariance), _points(size)
    t = np.zeros((n, len(u), size))
    mass = np.ones((n, len(u)))
    for i in range(size):
        moved = mean[:, None, i] + np.einsum("npj,nj->np", t[:, :, :i], root[:, i, :i])
        left = special.ndtr(moved / root[:, None, i, i])
        mass *= left
        # -t is a normal cut to below moved / root_ii.
        t[:, :, i] = -special.ndtri(np.maximum(u[:, i] * left, 1e-300))
    return np.asarray(mass.mean(axis=1))


@cache
def _points(size: int) -> Array:
    """(POINTS, D) of the unit cube."""
    from scipy.stats import qmc  # slow to import

    net = qmc.Sobol(size, scramble=True, rng=0).random(POINTS)
    return np.asarray(np.clip(net, 1e-12, 1.0 - 1e-12))
