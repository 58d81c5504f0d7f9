"""Deviances of many counts, one by one in registers. Importing this module imports numba."""

from __future__ import annotations

from math import log

from lgmdsl.arrays import Array
from lgmdsl.numerics.compiled import compiled


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
            out[i] = (x[i] * log(x[i] / m) if x[i] != 0.0 else 0.0) - excess[i]
