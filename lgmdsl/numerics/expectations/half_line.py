"""Expectations and moments of functions with a cusp at zero: one exponential grid for each side.

With x = +-e^u the cusp moves to u = -infinity, where the Jacobian kills it, and each side is
analytic in u: the trapezoidal rule converges as fast as for smooth functions on the line.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.expectations.peak import DROP_OF_TWO_PEAKS, log_moments

# rows (n,), x > 0 (n, k) -> an even function of x at those rows, (n, k)
Level = Callable[[IntArray, Array], Array]

NODES = 640
REACH = 8.5
_DEPTH = 42.0  # e-folds: what lies nearer to the cusp holds less than 1e-18 of the mass
_CHUNK = 128


def moments_of_power(
    mean: Array, sd: Array, power: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """E|x|^p, x ~ N(mean, sd^2), and its derivatives in m, v, (m, v), (v, v), for |m| <= 9 sd.

    In units of sd, ratio r = m / sd: derivatives fall on the Gaussian, as Hermite polynomials.
    """
    ratio = mean / sd
    out = np.empty((5, len(mean)))
    for start in range(0, len(mean), _CHUNK):
        rows = slice(start, start + _CHUNK)
        r, p = ratio[rows, None], power[rows, None]
        low = -_DEPTH / (1.0 + p)
        step = (np.log(np.abs(r) + REACH) - low) / (NODES - 1)
        x = np.exp(low + step * np.arange(NODES))
        area = x ** (p + 1.0) * step / np.sqrt(2.0 * np.pi)
        sums = np.zeros((5, r.shape[0]))
        for side in (1.0, -1.0):
            t = side * x - r
            weight = area * np.exp(-0.5 * t * t)
            t2 = t * t
            for k, hermite in enumerate(
                (1.0, t, 0.5 * (t2 - 1.0), 0.5 * t * (t2 - 3.0), 0.25 * (t2 * (t2 - 6.0) + 3.0))
            ):
                sums[k] += (weight * hermite).sum(axis=1)
        out[:, rows] = sums
    unit = sd**power
    by = np.stack([unit, unit / sd, unit / sd**2, unit / sd**3, unit / sd**4])
    value, d_mean, d_variance, mixed, second = out * by
    return value, d_mean, d_variance, mixed, second


def tilted_sides(level: Level, mean: Array, sd: Array, decay: Array) -> tuple[Array, Array, Array]:
    """log mass, mean and variance of exp(level(x)) N(x; mean, sd^2), level even with a cusp at 0.

    `level(rows, x)` takes x > 0, (n, k), and falls with x; `decay` (N,) is the width over which it
    falls by one. No density constant but the Gaussian's is added.
    """
    return _signed(mean, _sides(level, mean, sd, decay, None), sd)


def average_over_sides(level: Level, value: Level, mean: Array, sd: Array, decay: Array) -> Array:
    """E[value(|x|)] under the density of `tilted_sides`; `value(rows, x)` as `level`."""
    (log_a, a, _), (log_b, b, _) = _sides(level, mean, sd, decay, value)
    log_b = log_b - 0.5 * (mean / sd) ** 2  # see _signed
    total = np.logaddexp(log_a, log_b)
    return np.asarray(np.exp(log_a - total) * a + np.exp(log_b - total) * b)


def _sides(
    level: Level, mean: Array, sd: Array, decay: Array, value: Level | None
) -> list[tuple[Array, Array, Array]]:
    """log mass, and mean and variance of the distance from the mean (of `value` if given), on the
    mean's side of the cusp and on the other."""
    size = np.abs(mean)
    with np.errstate(divide="ignore"):
        narrowest = np.minimum(np.minimum(sd, decay), sd * (sd / np.maximum(size, 1e-300)))
    parts = []
    for side in (1.0, -1.0):
        anchor = np.where((size > sd) & (side > 0), size, sd)
        origin = np.log(anchor)

        def log_f(
            rows: IntArray,
            w: Array,
            side: float = side,
            anchor: Array = anchor,
            origin: Array = origin,
        ) -> tuple[Array, Array]:
            # The distance to |mean|, without cancellation where sd is tiny next to it.
            a = anchor[rows][:, None]
            m = size[rows][:, None]
            away = (a - side * m) + a * np.expm1(w)
            x = a * np.exp(w)
            square = away * away if side > 0 else x * (x + 2.0 * m)  # less m^2: added below
            gauss = -0.5 * square / sd[rows][:, None] ** 2
            logarithm = level(rows, x) + gauss + w + origin[rows][:, None]
            if value is not None:
                return logarithm, value(rows, x)
            return logarithm, away if side > 0 else x

        low = np.log(narrowest) - _DEPTH - origin
        peaks = np.stack([np.maximum(size + k * sd, narrowest) for k in (-1.0, 0.0, 1.0)], axis=1)
        # Only the mean's own side can have two peaks, one of them as narrow as sd.
        finest = np.clip(1.1 * sd / (size + 8.0 * sd), 1e-3, 0.3)
        step = finest if side > 0 else np.full_like(sd, 0.3)
        high = np.log(size + 10.0 * sd) - origin
        mass, away, spread = log_moments(
            log_f, low, high, step, np.log(peaks) - origin[:, None], DROP_OF_TWO_PEAKS
        )
        parts.append((mass, away, spread))
    return parts


def _signed(
    mean: Array, parts: list[tuple[Array, Array, Array]], sd: Array
) -> tuple[Array, Array, Array]:
    """Both sides together, mirrored back to the sign of the mean."""
    (mass, away, spread), (other, beyond, width) = parts
    # As if the mean were positive: |m| + away on its side, where m^2 was left out of the other's.
    size = np.abs(mean)
    other = other - 0.5 * (size / sd) ** 2
    log_mass, position, variance = merge(mass, size + away, spread, other, -beyond, width)
    constant = -0.5 * np.log(2.0 * np.pi) - np.log(sd)
    return log_mass + constant, np.where(mean < 0.0, -position, position), variance


def merge(
    log_a: Array, mean_a: Array, var_a: Array, log_b: Array, mean_b: Array, var_b: Array
) -> tuple[Array, Array, Array]:
    """log mass, mean and variance of the sum of two positive densities with given ones."""
    total = np.logaddexp(log_a, log_b)
    a, b = np.exp(log_a - total), np.exp(log_b - total)
    gap = mean_a - mean_b
    return total, a * mean_a + b * mean_b, a * var_a + b * var_b + a * b * gap * gap
