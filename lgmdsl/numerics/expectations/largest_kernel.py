"""Compiled: log P that one of K Gaussians s_k + e_k, e_k ~ N(0, 1), is the largest, and its slopes.

    P = E_u prod_j Phi(u + s_y - s_j), u ~ N(0, 1),

by the trapezoidal rule about the integrand's maximum, its step set by the curvature there and its
ends by what the terms still add. Imported only where points are many enough to repay numba.
"""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.numerics.compiled import reordering

NEWTONS = 60
CLOSE = 0.3  # of the maximum, in units of u
STEP = 0.75  # in sds of the integrand at its maximum
SMALLEST = 1e-9  # of the sum: where the terms end
ROOT_TWO_PI = sqrt(2.0 * np.pi)
# For x >= 0, (x + MIDDLE) (1 - Phi(x)) / phi(x) is a polynomial in (x - MIDDLE) / (x + MIDDLE), to
# 2e-11.
MIDDLE = 5.0


def _coefficients() -> Array:
    def scaled(t: Array) -> Array:
        x = MIDDLE * (1.0 + t) / (1.0 - t)
        return np.asarray(ROOT_TWO_PI / 2.0 * special.erfcx(x / np.sqrt(2.0)) * (x + MIDDLE))

    interpolate: Any = chebyshev.chebinterpolate
    return np.asarray(chebyshev.cheb2poly(interpolate(scaled, 14)), dtype=np.float64)


COEFFICIENTS = _coefficients()


def log_largest(s: Array, y: IntArray, offered: BoolArray) -> tuple[Array, Array]:
    """log P(y is the largest of those on offer), (P, N), and its slopes, (P, N, K), at s (P, N, K);
    y (N,), offered (N, K). -inf where y is not on offer. Errors of 1e-7."""
    value, slope = np.zeros(s.shape[:2]), np.zeros(s.shape)
    _all_points(np.ascontiguousarray(s), y, offered, COEFFICIENTS, value, slope)
    return value, slope


@reordering
def mills(x: float, coefficients: Array) -> float:
    """(1 - Phi(x)) / phi(x) for x >= 0."""
    one = 1.0 / (x + MIDDLE)
    t = (x - MIDDLE) * one
    # Four chains of every fourth coefficient: they do not wait for one another.
    square, c = t * t, coefficients
    by = square * square
    p0 = ((c[12] * by + c[8]) * by + c[4]) * by + c[0]
    p1 = ((c[13] * by + c[9]) * by + c[5]) * by + c[1]
    p2 = ((c[14] * by + c[10]) * by + c[6]) * by + c[2]
    p3 = (c[11] * by + c[7]) * by + c[3]
    return float(((p1 + p3 * square) * t + (p0 + p2 * square)) * one)


@reordering
def _hazard(z: float, coefficients: Array) -> float:
    """phi(z) / Phi(z)."""
    ratio = mills(abs(z), coefficients)
    if z < 0.0:
        return 1.0 / ratio
    density = exp(-0.5 * z * z) / ROOT_TWO_PI
    return density / (1.0 - density * ratio)


@reordering
def _term(u: float, lead: Array, count: int, top: float, coefficients: Array, out: Array) -> float:
    """The integrand over exp(at), and hazards into `out`."""
    level, factor = -0.5 * u * u - top, 1.0
    for j in range(count):
        z = u + lead[j]
        ratio = mills(abs(z), coefficients)
        if z < 0.0:
            out[j] = 1.0 / ratio
            level -= 0.5 * z * z
            factor *= ratio / ROOT_TWO_PI
        else:
            density = exp(-0.5 * z * z) / ROOT_TWO_PI
            below = 1.0 - density * ratio
            out[j] = density / below
            factor *= below
    return exp(level) * factor


@reordering
def _all_points(
    s: Array, y: IntArray, offered: BoolArray, coefficients: Array, value: Array, slope: Array
) -> None:
    points, rows, classes = s.shape
    lead, hazard, total = np.empty(classes), np.empty(classes), np.empty(classes)
    rivals = np.empty(classes, np.int64)
    for n in range(rows):
        chosen, count = y[n], 0
        for k in range(classes):
            if offered[n, k] and k != chosen:
                rivals[count] = k
                count += 1
        possible = 0 <= chosen < classes and offered[n, min(max(chosen, 0), classes - 1)]
        u = 0.0
        for p in range(points):
            if not possible:
                value[p, n] = -np.inf
                continue
            if count == 0:
                continue
            for j in range(count):
                lead[j] = s[p, n, chosen] - s[p, n, rivals[j]]
            bend = 1.0
            for _ in range(NEWTONS):
                rise, bend = -u, 1.0
                for j in range(count):
                    z = u + lead[j]
                    h = _hazard(z, coefficients)
                    rise += h
                    bend += h * (z + h)
                u += rise / bend
                if abs(rise / bend) < CLOSE:
                    break
            top = -0.5 * u * u
            for j in range(count):
                if u + lead[j] < 0.0:
                    top -= 0.5 * (u + lead[j]) ** 2
            step, mass = STEP / sqrt(bend), 0.0
            total[:count] = 0.0
            for side in (1.0, -1.0):
                k = 0 if side > 0.0 else 1
                while True:
                    w = _term(u + side * k * step, lead, count, top, coefficients, hazard)
                    mass += w
                    for j in range(count):
                        total[j] += w * hazard[j]
                    if not w > SMALLEST * mass:
                        break
                    k += 1
            value[p, n] = min(top + log(mass * step / ROOT_TWO_PI), 0.0)
            for j in range(count):
                g = total[j] / mass
                slope[p, n, chosen] += g
                slope[p, n, rivals[j]] -= g
