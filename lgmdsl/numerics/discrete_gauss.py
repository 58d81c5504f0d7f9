"""Sums over many consecutive integers of a smooth function, at few points.

The Gauss rule of the uniform measure on 0, 1, ..., L - 1: its orthogonal polynomials are Gram's,
with recurrence coefficients k^2 (L^2 - k^2) / (4 (4 k^2 - 1)) about the middle, so that n points
are exact for polynomials of degree 2 n - 1 (Golub and Welsch 1969). With n >= L the points are the
integers themselves.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg import eigh_tridiagonal

from lgmdsl.arrays import Array

POINTS = 16


@lru_cache(maxsize=256)
def points_of(length: int) -> tuple[Array, Array]:
    """At most `POINTS` points in [0, length - 1] and their weights, which add up to length."""
    if length <= POINTS:
        return np.arange(length, dtype=np.float64), np.ones(length)
    k = np.arange(1.0, POINTS)
    off = np.sqrt(k * k * (float(length) ** 2 - k * k) / (4.0 * (4.0 * k * k - 1.0)))
    x, vectors = eigh_tridiagonal(np.zeros(POINTS), off)
    return np.asarray(x + 0.5 * (length - 1.0)), np.asarray(length * vectors[0] ** 2)


def blocks(low: int, high: int, longest: float) -> tuple[Array, Array]:
    """Points and weights for the sum over low, ..., high of a function that is smooth over
    `longest` integers, and over half its distance to -1 (as log Gamma(1 + k) is)."""
    points, weights, start = [], [], low
    while start <= high:
        length = min(max(float(POINTS), min(longest, float(start))), float(high - start + 1))
        # Lengths in powers of 2, so that their rules are made once.
        size = int(length) if length <= POINTS else 1 << int(np.log2(length))
        x, w = points_of(size)
        points.append(start + x)
        weights.append(w)
        start += size
    return np.concatenate(points), np.concatenate(weights)
