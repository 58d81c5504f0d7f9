"""The first two derivatives of digamma, several times faster than the zeta functions of SciPy.

psi^(k)(x) by the recurrence to x + 10 and the asymptotic series there (Abramowitz and Stegun 6.4.12
to 6.4.14), to 2e-15 relative for x > 0.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array

_SHIFT = 10
# B_2, B_4, ..., B_16
_BERNOULLI = (
    1.0 / 6.0,
    -1.0 / 30.0,
    1.0 / 42.0,
    -1.0 / 30.0,
    5.0 / 66.0,
    -691.0 / 2730.0,
    7.0 / 6.0,
    -3617.0 / 510.0,
)


def trigamma(x: Array) -> Array:
    """psi'(x)."""
    x = np.asarray(x, dtype=np.float64)
    near = x < _SHIFT
    w = 1.0 / np.where(near, x + _SHIFT, x)
    square, tail = w * w, np.zeros_like(x)
    for b in reversed(_BERNOULLI):
        tail = (tail + b) * square
    total = w * (1.0 + 0.5 * w + tail)
    if near.any():
        steps = np.zeros_like(x)
        for j in range(_SHIFT - 1, -1, -1):
            steps += 1.0 / (x + j) ** 2
        total = np.where(near, total + steps, total)
    return np.asarray(total)


def tetragamma(x: Array) -> Array:
    """psi''(x)."""
    x = np.asarray(x, dtype=np.float64)
    near = x < _SHIFT
    w = 1.0 / np.where(near, x + _SHIFT, x)
    square, tail = w * w, np.zeros_like(x)
    for k in range(len(_BERNOULLI), 0, -1):
        tail = (tail + (2 * k + 1) * _BERNOULLI[k - 1]) * square
    total = square * (1.0 + w + tail)
    if near.any():
        steps = np.zeros_like(x)
        for j in range(_SHIFT - 1, -1, -1):
            v = 1.0 / (x + j)
            steps += 2.0 * v * v * v
        total = np.where(near, total + steps, total)
    return np.asarray(-total)


def polygamma(k: int, x: Array) -> Array:
    """psi^(k)(x), k up to 2, x > 0."""
    return np.asarray((special.digamma, trigamma, tetragamma)[k](x))
