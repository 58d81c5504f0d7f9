"""Moments of vector predictors (several for each datum), with their covariances."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.posterior.extended_gaussian import Gaussian

# Rows whose joint covariance is formed at once: the blocks on its diagonal are kept.
TOGETHER = 64


def moments(conditioned: Gaussian, predictor: Predictor) -> tuple[Array, Array]:
    """Means and variances of a predictor: (N,) each, or (N, K) and (N, K, K) for K to a datum."""
    if not predictor.event:
        mean, variance = conditioned.project(predictor)
        return mean, np.maximum(variance, 0.0)
    k = predictor.event
    n = predictor.rows // k
    mean, variance = np.empty((n, k)), np.empty((n, k, k))
    step = max(1, TOGETHER // k)
    for start in range(0, n, step):
        count = min(step, n - start)
        rows = np.arange(start * k, (start + count) * k)
        part, joint = conditioned.project(some_rows(predictor, rows), full=True)
        mean[start : start + count] = part.reshape(count, k)
        blocks = joint.reshape(count, k, count, k)
        variance[start : start + count] = blocks[np.arange(count), :, np.arange(count), :]
    return mean, variance
