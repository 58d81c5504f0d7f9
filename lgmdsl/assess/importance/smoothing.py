"""Pareto-smoothed importance weights of many functionals of the same draws.

Vehtari, Simpson, Gelman, Yao, Gabry (2024), Pareto smoothed importance sampling, section 2: the
largest weights are replaced by the quantiles of a generalised Pareto distribution, fitted to them
as in Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
distribution, equations 7 and 8.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from lgmdsl.arrays import Array

# Weights that differ by no more, relative to the largest, are constant.
CONSTANT = 1e-6
FEWEST = 5  # of the largest weights
PRIOR_B, PRIOR_K, PRIOR_AT = 3.0, 10.0, 0.5  # of the estimate's prior


@np.errstate(all="ignore")
def smoothed(log_ratios: Array) -> tuple[Array, Array]:
    """Log weights (n, m), each column adding up to 1, and k-hat (m,), -inf where the largest are
    one value; from log ratios (n, m)."""
    log_weights = log_ratios - log_ratios.max(axis=0)
    n = len(log_weights)
    tail = math.ceil(min(n / 5, 3.0 * math.sqrt(n)))
    shapes = np.full(log_weights.shape[1], -np.inf)
    if tail >= FEWEST:
        for j, column in enumerate(log_weights.T):
            order = np.argpartition(column, n - tail - 1)[n - tail - 1 :]
            order = order[np.argsort(column[order], kind="stable")]
            cutoff, largest = float(np.exp(column[order[0]])), order[1:]
            above = np.exp(column[largest]) - cutoff
            if not np.isfinite(column).all() or not above[-1] - above[0] > CONSTANT:
                shapes[j] = -np.inf if np.isfinite(column).all() else np.inf
                continue
            shapes[j], scale = pareto(above)
            levels = (np.arange(tail) + 0.5) / tail
            column[largest] = np.minimum(np.log(_quantile(levels, shapes[j], scale) + cutoff), 0.0)
    return log_weights - special.logsumexp(log_weights, axis=0), shapes


def pareto(x: Array) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution at 0 for sorted values (n,) above 0;
    the shape is drawn to 0.5 with the weight of ten values."""
    n = len(x)
    count = 30 + int(math.sqrt(n))
    b = 1.0 - np.sqrt(count / (np.arange(count) + 0.5))
    quartile = max(float(x[int(n / 4 + 0.5) - 1]), 1e-300)
    b = b / (PRIOR_B * quartile) + 1.0 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    level = n * (np.log(-b / k) - k - 1.0)
    level = np.where(np.isfinite(level), level, -np.inf)
    weight = np.exp(level - special.logsumexp(level))
    mean = float(weight @ b)
    shape = float(np.log1p(-mean * x).mean())
    scale = -shape / mean
    return (n * shape + PRIOR_K * PRIOR_AT) / (n + PRIOR_K), scale


def _quantile(levels: Array, shape: float, scale: float) -> Array:
    if abs(shape) < 1e-12:
        return -scale * np.log1p(-levels)
    return np.asarray(scale * np.expm1(-shape * np.log1p(-levels)) / shape)
