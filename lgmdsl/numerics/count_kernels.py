"""What log masses of counts are made of, compiled: deviances, and log Gamma(x + y) - log Gamma(x)
of whole y and its derivatives in x, by their terms.

    log (x (x + 1) ... (x + y - 1)) and sums of 1 / (x + j), -1 / (x + j)^2, 2 / (x + j)^3

All terms of a sum have one sign. Imported only where numbers are many enough to repay numba.
"""

from __future__ import annotations

import math

from lgmdsl.arrays import Array
from lgmdsl.numerics.compiled import compiled

_HUGE = 1e140  # of a product, before its logarithm is taken


@compiled
def log_rising_sums(x: Array, y: Array, order: int, out: Array) -> None:
    """Into out, (order + 1, n), order up to 3; y of whole numbers."""
    for i in range(x.shape[0]):
        a, count = x[i], int(y[i])
        log, product = 0.0, 1.0
        first, second, third = 0.0, 0.0, 0.0
        for j in range(count):
            z = a + j
            if z > _HUGE or z < 1.0 / _HUGE:
                log += math.log(z)
            else:
                product *= z
            if product > _HUGE or product < 1.0 / _HUGE:
                log += math.log(product)
                product = 1.0
            if order > 0:
                r = 1.0 / z
                first += r
                if order > 1:
                    second -= r * r
                    if order > 2:
                        third += 2.0 * r * r * r
        out[0, i] = log + math.log(product)
        if order > 0:
            out[1, i] = first
        if order > 1:
            out[2, i] = second
        if order > 2:
            out[3, i] = third


@compiled
def deviances(x: Array, mean: Array, excess: Array, near: float, terms: int, out: Array) -> None:
    """`deviance.deviance` of flat arrays; `near`, `terms`: of the series of log1p(u) - u."""
    for i in range(len(x)):
        m = max(mean[i], 1e-300)
        u = excess[i] / m
        if abs(u) < near:
            r = u / (2.0 + u)
            square, total = r * r, 2.0 / (2 * terms + 1)
            for k in range(terms - 1, 0, -1):
                total = total * square + 2.0 / (2 * k + 1)
            out[i] = x[i] * (r * (square * total - u)) + excess[i] * u
        else:
            out[i] = (x[i] * math.log(x[i] / m) if x[i] != 0.0 else 0.0) - excess[i]
