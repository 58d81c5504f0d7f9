"""Differences of log Gamma and simple functions, with derivatives, without cancellation for large
x: log Gamma(x + y) - log Gamma(x), and x log x - x - log Gamma(x)."""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.polygamma import polygamma

_LARGE = 20.0
# Numbers from which compiled sums repay the loading of numba (0.25 s), and the longest of them.
_MANY, _MOST = 5_000, 60.0
# B_2k / (2k (2k - 1)) of Stirling's series of log Gamma
_STIRLING = (
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
)


def log_rising(x: Array, y: Array, derivative: int) -> Array:
    """The function (`derivative` 0) or its derivative 1, 2 or 3 in x, for x > 0, y >= 0."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    out, some = np.zeros(x.shape), y > 0.0
    large = some & (x > _LARGE)
    if large.any():
        out[large] = _series(x[large], y[large], derivative)
    small = some & ~large
    if small.any():
        a, b = x[small], y[small]
        if derivative == 0:
            out[small] = special.gammaln(a + b) - special.gammaln(a)
        else:
            k = derivative - 1
            out[small] = polygamma(k, a + b) - polygamma(k, a)
    return out


def log_risings(x: Array, y: Array, order: int) -> tuple[Array, ...]:
    """`log_rising` and its derivatives up to an order: where there are many x, and y are small
    whole numbers, by the terms of their sums."""
    x, y = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    if x.size < _MANY or y.max() > _MOST or (y != np.floor(y)).any():
        return tuple(log_rising(x, y, k) for k in range(order + 1))
    # Loads numba.
    from lgmdsl.numerics.counts.count_kernels import log_rising_sums

    out = np.empty((order + 1, x.size))
    log_rising_sums(x.ravel(), y.ravel(), order, out)
    return tuple(out.reshape(order + 1, *x.shape))


def log_gamma_excess(log_x: Array, derivative: int) -> Array:
    """x log x - x - log Gamma(x) for x > 0, or its derivative 1, 2 or 3 in log x, (N,): half the
    log of x / (2 pi), less the error of Stirling's formula."""
    cut = np.log(_LARGE)
    lower = np.minimum(log_x, cut)
    small, large = np.exp(lower), np.exp(np.clip(log_x, cut, 700.0))
    log, one = small * lower, 1.0 + small
    if derivative == 0:
        direct = log - small - special.gammaln(one) + lower
    else:
        direct = log - small * special.digamma(one) + (1.0 if derivative == 1 else small)
        if derivative > 1:
            direct = direct - (2.0 * derivative - 3.0) * small**2 * polygamma(1, one)
        if derivative == 3:
            direct = direct + small - small**3 * polygamma(2, one)
    error = np.zeros_like(large)
    for k, c in enumerate(_STIRLING):
        error = error + c * (-2.0 * k - 1.0) ** derivative * large ** (-2.0 * k - 1.0)
    line = (0.5 * (log_x - np.log(2.0 * np.pi)), 0.5, 0.0, 0.0)[derivative]
    return np.where(log_x > cut, line - error, direct)


def _series(x: Array, y: Array, derivative: int) -> Array:
    """log Gamma(x + y) - log Gamma(x) or a derivative in x, by Stirling's series, (x - 1/2) log x -
    x + ..., as differences that are products with y."""
    z, ratio = x + y, y / x
    leaned = np.log1p(ratio)
    if derivative == 0:
        # (z - 1/2) log z - (x - 1/2) log x - y
        total = y * np.log(z) + (x - 0.5) * leaned - y
    elif derivative == 1:
        total = leaned + 0.5 * _gap(x, leaned, 1)
    elif derivative == 2:
        total = -_gap(x, leaned, 1) - 0.5 * _gap(x, leaned, 2)
    else:
        total = _gap(x, leaned, 2) + _gap(x, leaned, 3)
    for k, c in enumerate(_STIRLING):
        first = 2 * k + 1  # c x^-first
        factor = c
        for step in range(derivative):
            factor *= -(first + step)
        total = total - factor * _gap(x, leaned, first + derivative)
    return np.asarray(total)


def _gap(x: Array, lean: Array, power: int) -> Array:
    """x^-power - z^-power for z = x e^lean, lean >= 0."""
    return np.asarray(-(x**-power) * np.expm1(-power * lean))
