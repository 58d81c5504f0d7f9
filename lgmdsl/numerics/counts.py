"""Log masses of counts, and sums over many of them.

Masses are written as deviances about their means: nothing of size y log y to cancel.

D(x; m) = x log(x / m) + m - x >= 0, so that y log m - m - log y! = -D(y; m) - log(2 pi y) / 2 -
stirling_error(y) (Loader 2000, Fast and accurate computation of binomial probabilities).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special
from scipy.linalg import eigh_tridiagonal

from lgmdsl.arrays import Array
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import stirling_error

_NEAR = 0.25  # |u| below which log1p(u) - u takes its series
_TERMS = 9
_COMPILED_FROM = 20_000  # deviances from which compiled ones repay the loading of numba


def _series(u: Array) -> Array:
    """log(1 + u) - u for |u| < 1/4: with r = u / (2 + u), -r u + 2 (r^3 / 3 + r^5 / 5 + ...)."""
    r = u / (2.0 + u)
    square, total = r * r, np.full(np.shape(r), 2.0 / (2 * _TERMS + 1))
    for k in range(_TERMS - 1, 0, -1):
        total *= square
        total += 2.0 / (2 * k + 1)
    return np.asarray(r * (square * total - u))


def deviance(x: Array, mean: Array, excess: Array) -> Array:
    """D(x; mean) for x >= 0 and mean > 0, with excess = x - mean as accurately as it is known."""
    if np.size(excess) >= _COMPILED_FROM:
        return _compiled(x, mean, excess)
    mean = np.maximum(mean, 1e-300)  # an underflow is no division by 0
    u = np.asarray(excess / mean)
    far = ~(np.abs(u) < _NEAR)
    close = np.where(far, 0.0, u)
    out = np.asarray(x * _series(close) + excess * close)
    if far.any():
        y, m, e = (np.broadcast_to(part, out.shape)[far] for part in (x, mean, excess))
        with np.errstate(divide="ignore", over="ignore"):
            out[far] = special.xlogy(y, y / m) - e
    return out


def _compiled(x: Array, mean: Array, excess: Array) -> Array:
    from lgmdsl.numerics.count_kernels import deviances

    every = np.broadcast_arrays(x, mean, excess)
    counts, means, gaps = (np.ravel(np.asarray(part, np.float64)) for part in every)
    out = np.empty(len(counts))
    deviances(counts, means, gaps, _NEAR, _TERMS, out)
    return out.reshape(every[0].shape)


def log_peak(y: Array) -> Array:
    """log of the largest Poisson mass of y over all means, at y: y log y - y - log y!."""
    at = np.maximum(y, 1e-300)
    peak = -0.5 * (LOG_TWO_PI + np.log(at)) - stirling_error(at)
    return np.where(y > 0.0, peak, 0.0)


def log_poisson(y: Array, mean: Array, excess: Array, peak: Array | None = None) -> Array:
    """y log mean - mean - log y!, excess = y - mean; peak = log_peak(y) where it is at hand."""
    seen = (log_peak(y) if peak is None else peak) - deviance(y, mean, excess)
    return np.where(y > 0.0, seen, -mean)


def log_choose(n: Array, y: Array) -> Array:
    """log of n! / (y! (n - y)!), whole numbers or not."""
    return np.asarray(
        special.gammaln(n + 1.0) - special.gammaln(y + 1.0) - special.gammaln(n - y + 1.0)
    )


def log_binomial(y: Array, rest: Array, p: Array, q: Array, excess: Array) -> Array:
    """log of C(n, y) p^y q^rest, n = y + rest of positive reals, q = 1 - p, excess = y - n p."""
    n = y + rest
    errors = stirling_error(n) - stirling_error(y) - stirling_error(rest)
    spread = 0.5 * (np.log(n / rest) - np.log(y) - LOG_TWO_PI)
    return np.asarray(errors + spread - deviance(y, n * p, excess) - deviance(rest, n * q, -excess))


# ---- discrete gauss ----------------------------------------------------------------------------
# Sums over many consecutive integers of a smooth function, at few points.
#
# The Gauss rule of the uniform measure on 0, 1, ..., L - 1: its orthogonal polynomials are Gram's,
# with recurrence coefficients k^2 (L^2 - k^2) / (4 (4 k^2 - 1)) about the middle, so that n points
# are exact for polynomials of degree 2 n - 1 (Golub and Welsch 1969). With n >= L the points are
# the integers themselves.


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
