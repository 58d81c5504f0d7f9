"""Tail probabilities of weighted sums of independent chi-squares.

    P(sum_i w_i X_i > x),   X_i chi-square with df_i degrees of freedom

by the inversion of the moment generating function along a parabola through its saddle point that
opens away from where the integrand grows, so that small probabilities keep their digits (Rice 1980;
the sums themselves: Imhof 1961).
"""

from __future__ import annotations

import numpy as np
from scipy import optimize

from lgmdsl.arrays import Array

# The trapezoid along the contour: the rule is doubled until two agree to TOLERANCE of themselves.
POINTS, DOUBLINGS, TOLERANCE = 256, 6, 1e-9
REACH = 14.0  # of the contour's coordinate t, in which its points lie at sinh(t)


def upper_tail(x: float, weights: Array, df: Array) -> float:
    """P(sum_i w_i X_i > x) for weights (r,), of either sign and not all 0 or below, and degrees of
    freedom (r,), which need not be whole."""
    w, k = np.asarray(weights, dtype=np.float64), np.asarray(df, dtype=np.float64)
    w, k = w[w != 0.0], k[w != 0.0]
    if not (w > 0.0).any():
        return float(x < 0.0 and not w.size)
    if x <= 0.0 and not (w < 0.0).any():
        return 1.0
    unit = float(np.abs(w).max())
    w, x = w / unit, x / unit
    end = 0.5 / w.max()  # of where the moment generating function exists

    def slope(s: float) -> float:
        """Of log(M(s) exp(-sx) / s), which is convex."""
        return float((k * w / (1.0 - 2.0 * w * s)).sum()) - x - 1.0 / s

    low, high = 1e-300, end * (1.0 - 1e-15)
    top = optimize.brentq(slope, low, high, xtol=1e-15 * end) if slope(high) > 0.0 else high
    curvature = float((2.0 * k * w**2 / (1.0 - 2.0 * w * top) ** 2).sum()) + 1.0 / top**2
    width = curvature**-0.5

    def log_of(s: Array) -> Array:
        moments = -0.5 * np.log(1.0 - 2.0 * np.multiply.outer(s, w)) @ k
        return np.asarray(moments - s * x - np.log(s))

    height = log_of(np.array([top + 0j]))[0].real

    def integral(points: int) -> float:
        step = REACH / points
        t = step * np.arange(points)
        u, du = np.sinh(t), np.cosh(t)
        s = top + width * (0.5 * u**2 + 1j * u)
        slopes = width * (u + 1j) * du
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = np.nan_to_num((np.exp(log_of(s) - height) * slopes).imag)
        return float(step * (values.sum() - 0.5 * values[0]) / np.pi)

    points, known = POINTS, integral(POINTS)
    for _ in range(DOUBLINGS):
        points, before = 2 * points, known
        known = integral(points)
        if abs(known - before) <= TOLERANCE * abs(known):
            break
    with np.errstate(under="ignore"):
        return float(np.clip(known * np.exp(height), 0.0, 1.0))
