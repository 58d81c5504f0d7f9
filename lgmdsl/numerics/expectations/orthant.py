"""Which of several correlated Gaussians is the largest, by the GHK simulator with fixed points.

P(x_k > x_j for all j) is an orthant of the K - 1 differences; with LL' their covariance the t_i are
taken one after another from normals cut where the i-th difference is 0, and the mass is the mean of
the product of what the cuts leave (Geweke 1989; Hajivassiliou, McFadden and Ruud 1996). The last of
them needs no points; where one or two others do, they lie on a lattice of normal scores.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray

POINTS = 1024
REACH, STEP = 8.0, {1: 0.25, 2: 0.4}


def largest(mean: Array, covariance: Array, offered: BoolArray) -> Array:
    """P(x_k is the largest of those on offer), (N, K), x ~ N(mean, covariance), positive definite;
    0 for what is not on offer. Rows add up to 1; errors are 1e-12 up to three on offer, 3e-6 of
    four, then about 1e-4."""
    n, size = mean.shape
    out = np.zeros((n, size))
    counts = offered.sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        classes = np.argsort(~offered[rows], axis=1, kind="stable")[:, :count]
        m = np.take_along_axis(mean[rows], classes, axis=1)
        v = covariance[rows[:, None, None], classes[:, :, None], classes[:, None, :]]
        for k in range(int(count)):
            turn = np.eye(int(count))[np.arange(count) != k] * -1.0
            turn[:, k] = 1.0
            out[rows, classes[:, k]] = positive(m @ turn.T, turn @ v @ turn.T)
    return np.asarray(out / np.maximum(out.sum(axis=1, keepdims=True), 1e-300))


def positive(mean: Array, covariance: Array) -> Array:
    """P(x > 0 in every entry), (N,), of x ~ N(mean, covariance), (N, D) and (N, D, D)."""
    n, size = mean.shape
    if not size:
        return np.ones(n)
    root, (u, weight) = np.linalg.cholesky(covariance), _rule(size - 1)
    t = np.zeros((n, len(u), size - 1))
    mass = np.ones((n, len(u)))
    for i in range(size):
        level = mean[:, None, i] + np.einsum("npj,nj->np", t[:, :, :i], root[:, i, :i])
        share = special.ndtr(level / root[:, None, i, i])
        mass *= share
        if i == size - 1:
            break
        # -t is a normal cut to below moved / root_ii.
        t[:, :, i] = -special.ndtri(np.maximum(u[:, i] * share, 1e-300))
    return np.asarray(mass @ weight)


@cache
def _rule(size: int) -> tuple[Array, Array]:
    """Points of the unit cube, (P, D), and their weights."""
    if not size:
        return np.zeros((1, 0)), np.ones(1)
    if size in STEP:
        line = STEP[size] * np.arange(-int(REACH / STEP[size]), int(REACH / STEP[size]) + 1)
        score = np.stack(np.meshgrid(*[line] * size, indexing="ij"), axis=-1).reshape(-1, size)
        density = np.exp(-0.5 * (score**2).sum(axis=1))
        heavy = density > 1e-14
        return special.ndtr(score[heavy]), density[heavy] / density[heavy].sum()
    from scipy.stats import qmc  # slow to import

    net = qmc.Sobol(size, scramble=True, rng=0).random(POINTS)
    return np.clip(net, 1e-12, 1.0 - 1e-12), np.full(POINTS, 1.0 / POINTS)
