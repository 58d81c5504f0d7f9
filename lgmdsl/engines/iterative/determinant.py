"""log|A| from probes: stochastic Lanczos quadrature, with what is known of the first moment."""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics.krylov import KrylovSolution, ritz

FEWEST = 4  # probes that a slope can be fitted to without the one it is used on


def quadratures(found: KrylovSolution, size: int) -> tuple[Array, Array]:
    """z'log(M)z and z'Mz of each probe, (m,), M = D^-1/2 A D^-1/2, |z|^2 = size."""
    logs, firsts = [], []
    for slopes, ratios in zip(found.slopes, found.ratios, strict=True):
        nodes, weights = ritz(slopes, ratios)
        logs.append(size * float(weights @ np.log(np.maximum(nodes, 1e-300))))
        firsts.append(size * float(weights @ nodes))
    return np.array(logs), np.array(firsts)


def controlled_mean(values: Array, controls: Array) -> tuple[float, float]:
    """The mean of `values` (m,) with `controls` (m,) of mean zero, and its standard error.

    The slope that a value is corrected with is fitted to the other values: one fitted to all of
    them would know what it corrects, and the mean would be biased and its error too small.
    """
    m = len(values)
    if m < 2:
        return float(values.mean()), math.inf
    corrected = values.copy()
    spread = float(np.var(controls))
    if m >= FEWEST and spread > 1e-20 * float(np.abs(values).max()):
        for i in range(m):
            x, y = np.delete(values, i), np.delete(controls, i)
            y0 = y - y.mean()
            corrected[i] -= float(y0 @ x) / float(y0 @ y0) * controls[i]
    # Student's t has a variance above one: what is reported is the sd of the error.
    error = corrected.std(ddof=1) * math.sqrt((m - 1.0) / max(m - 3.0, 1.0) / m)
    return float(corrected.mean()), float(error)
