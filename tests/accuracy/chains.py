"""Exact posteriors of Markov chains of any length: forward and backward filters on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from lgmdsl.arrays import Array

REACH, POINTS = 6.0, 361  # of the grid, in stationary sds
LEVELS = (0.05, 0.95)


@dataclass(frozen=True, eq=False)
class Marginals:
    """Means, sds, (n,), and 5 and 95 % points, (2, n), of every latent; the log evidence."""

    mean: Array
    sd: Array
    quantiles: Array
    log_evidence: float


def filtered(n: int, sd: float, rho: float, log_density: Callable[[Array], Array]) -> Marginals:
    """Posterior of z_1, ..., z_n, a stationary autoregression with this sd and rho, observed by
    `log_density`, which maps a grid (g,) to log p(y_t | z_t), (n, g)."""
    grid = np.linspace(-REACH * sd, REACH * sd, POINTS)
    width = grid[1] - grid[0]
    step = stats.norm.pdf(grid[None, :], rho * grid[:, None], sd * np.sqrt(1.0 - rho**2)) * width
    step /= step.sum(axis=1, keepdims=True)
    logs = log_density(grid)
    top = logs.max(axis=1)
    likelihood = np.exp(logs - top[:, None])
    start = stats.norm.pdf(grid, 0.0, sd) * width
    forward, evidence = np.empty((n, POINTS)), float(top.sum())
    now = start / start.sum()
    for t in range(n):
        now = (now if t == 0 else now @ step) * likelihood[t]
        total = now.sum()
        now = now / total
        forward[t], evidence = now, evidence + float(np.log(total))
    backward = np.ones(POINTS)
    smoothed = np.empty((n, POINTS))
    for t in reversed(range(n)):
        product = forward[t] * backward
        smoothed[t] = product / product.sum()
        backward = step @ (likelihood[t] * backward)
        backward = backward / backward.max()
    mean = smoothed @ grid
    spread = np.sqrt(smoothed @ grid**2 - mean**2)
    below = np.cumsum(smoothed, axis=1) - 0.5 * smoothed
    quantiles = np.array([[np.interp(a, row, grid) for row in below] for a in LEVELS])
    return Marginals(mean, spread, quantiles, evidence)
