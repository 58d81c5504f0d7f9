"""Weights of models by their predictions of what was left out."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from lgmdsl.arrays import Array


def stacked(log_density: Array) -> Array:
    """The weights w (K,) on the simplex that maximise sum_i log sum_k w_k exp(l_ik), for log
    densities l (N, K) of each response under each model, the response left out.

    Concave; at the maximum the mean of p_ik / sum_j w_j p_ij is 1 for models of weight, and at most
    1 for the others (Yao, Vehtari, Simpson and Gelman 2018, section 3).
    """
    relative = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    count = relative.shape[1]
    start = np.full(count, 1.0 / count)
    for _ in range(50):  # EM, which is monotone, then Newton-like steps
        start = start * np.mean(relative / (relative @ start)[:, None], axis=0)

    def negative(w: Array) -> float:
        return -float(np.mean(np.log(np.maximum(relative @ w, 1e-300))))

    def slope(w: Array) -> Array:
        mixed = np.maximum(relative @ w, 1e-300)
        return np.asarray(-np.mean(relative / mixed[:, None], axis=0))

    result = optimize.minimize(
        negative,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints=optimize.LinearConstraint(np.ones((1, count)), 1.0, 1.0),
        options={"ftol": 1e-12, "maxiter": 500},
    )
    better = np.clip(result.x, 0.0, None)
    better /= better.sum()
    return np.asarray(better if negative(better) <= negative(start) else start)
