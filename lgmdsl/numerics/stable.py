"""Elementary functions that neither overflow nor cancel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import AnyArray, Array, BoolArray

# exp(340) = 4.6e147: no fit goes there, and its square is still a number.
EXPONENT_CAP = 340.0
COMPILED_FROM = 20_000  # numbers from which on compiled loops repay the loading of numba
_SMALL = 255  # counts that a byte holds


def small_counts(y: Array) -> AnyArray | None:
    """y, (n,), as bytes where all are small whole numbers and many; else None."""
    if y.ndim != 1 or y.size < 2 * _SMALL or not ((y >= 0.0) & (y <= _SMALL)).all():
        return None
    whole = y.astype(np.uint8)
    return whole if (whole == y).all() else None


def of_counts(function: Callable[[Array], Array], y: Array) -> Array:
    """function(y), (n,), from a table where all y are small whole numbers."""
    whole = small_counts(y)
    return function(y) if whole is None else np.asarray(function(np.arange(_SMALL + 1.0))[whole])


def capped_exp(x: Array) -> Array:
    """exp(min(x, 340)): finite for every x, so that a line search sees a bad value, not NaN."""
    return np.asarray(np.exp(np.minimum(x, EXPONENT_CAP)))


def softplus(x: Array) -> Array:
    """log(1 + e^x), without overflow."""
    return np.asarray(np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))))


def sigmoids(x: Array) -> tuple[Array, Array, Array]:
    """sigma(x), sigma(-x) and log(1 + e^-|x|), each to full relative accuracy in both tails."""
    if x.ndim == 1 and x.size >= COMPILED_FROM:
        from lgmdsl.numerics import exponential_kernels

        out = np.empty((3, x.size))
        exponential_kernels.sigmoids(x, *out)
        return out[0], out[1], out[2]
    e = np.exp(-np.abs(x))
    large = 1.0 / (1.0 + e)
    small = e * large
    positive = x >= 0.0
    return (
        np.where(positive, large, small),
        np.where(positive, small, large),
        np.log1p(e),
    )


def asinh_difference(x: Array, step: Array) -> Array:
    """asinh(x + step) - asinh(x), without cancellation where step is tiny next to x.

    (y - x)(y + x) / (y sqrt(1 + x^2) + x sqrt(1 + y^2)) is its sinh where x, y share a sign.
    """
    y = x + step
    same = x * y > 0.0
    below = y * np.hypot(1.0, x) + x * np.hypot(1.0, y)
    # Dividing first keeps the product of two large factors inside the double range.
    near = np.arcsinh(step * ((x + y) / np.where(same, below, 1.0)))
    return np.where(same, near, np.arcsinh(y) - np.arcsinh(x))


def stirling_error(x: Array) -> Array:
    """log Gamma(x + 1) - (x log x - x + log(2 pi x) / 2) for x > 0, to 1e-15 or so."""
    large = np.maximum(x, 15.0)
    square = large * large
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / large
    small = np.minimum(x, 15.0)
    direct = special.gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small
    return np.asarray(np.where(x > 15.0, series, direct - 0.5 * np.log(2.0 * np.pi)))


def stirling_slope(x: Array) -> Array:
    """The derivative of `stirling_error`, psi(1 + x) - log x - 1 / (2 x), x > 0."""
    large = np.maximum(x, 15.0)
    square = 1.0 / (large * large)
    tail = 1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132)))
    small = np.minimum(x, 15.0)
    direct = special.digamma(1.0 + small) - np.log(small) - 0.5 / small
    return np.asarray(np.where(x > 15.0, -square * tail, direct))


# ---- softmax -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shares:
    """p = softmax(s), 1 - p and log p, each to full relative accuracy, (N, K)."""

    p: Array
    rest: Array
    log_p: Array


def shares(s: Array, offered: BoolArray) -> Shares:
    """Softmax of s (N, K) among the classes offered, (N, K); where none is, no p is above 0."""
    masked = np.where(offered, s, -np.inf)
    first = masked.argmax(axis=1)[:, None]
    top = np.take_along_axis(masked, first, axis=1)
    some = np.isfinite(top)
    d = masked - np.where(some, top, 0.0)
    others = np.exp(d)
    np.put_along_axis(others, first, 0.0, axis=1)
    odds = others.sum(axis=1, keepdims=True)  # of all but the largest, relative to it
    p = others / (1.0 + odds)
    np.put_along_axis(p, first, some / (1.0 + odds), axis=1)
    rest = 1.0 - p
    np.put_along_axis(rest, first, odds / (1.0 + odds), axis=1)
    return Shares(p, rest, d - np.log1p(odds))


def covariances(shares: Shares) -> Array:
    """diag(p) - pp', (N, K, K), its diagonal p (1 - p) without cancellation."""
    out = -shares.p[:, :, None] * shares.p[:, None, :]
    k = np.arange(shares.p.shape[1])
    out[:, k, k] = shares.p * shares.rest
    return np.asarray(out)
