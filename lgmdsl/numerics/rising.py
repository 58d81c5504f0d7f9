"""Differences of log Gamma and simple functions, with derivatives, without cancellation for large
x: log Gamma(x + y) - log Gamma(x), and x log x - x - log Gamma(x)."""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.polygamma import polygamma

_LARGE = 20.0
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
    small = np.minimum(x, _LARGE)
    direct: Array
    if derivative == 0:
        direct = special.gammaln(small + y) - special.gammaln(small)
    else:
        k = derivative - 1
        direct = polygamma(k, small + y) - polygamma(k, small)
    if not np.any(x > _LARGE):
        return np.asarray(direct)
    return np.where(x > _LARGE, _series(np.maximum(x, _LARGE), y, derivative), direct)


def log_gamma_excess(x: Array, derivative: int) -> Array:
    """x log x - x - log Gamma(x) for x > 0, or its derivative 1, 2 or 3 in log x, (N,): half the
    log of x / (2 pi), less the error of Stirling's formula."""
    small, large = np.minimum(x, _LARGE), np.maximum(x, _LARGE)
    log, one = special.xlogy(small, small), 1.0 + small
    if derivative == 0:
        direct = log - small - special.gammaln(one) + np.log(small)
    else:
        direct = log - small * special.digamma(one) + (1.0 if derivative == 1 else small)
        if derivative > 1:
            direct = direct - (2.0 * derivative - 3.0) * small**2 * polygamma(1, one)
        if derivative == 3:
            direct = direct + small - small**3 * polygamma(2, one)
    error = np.zeros_like(large)
    for k, c in enumerate(_STIRLING):
        error = error + c * (-2.0 * k - 1.0) ** derivative * large ** (-2.0 * k - 1.0)
    line = (0.5 * np.log(large / (2.0 * np.pi)), 0.5, 0.0, 0.0)[derivative]
    return np.where(x > _LARGE, line - error, direct)


def _series(x: Array, y: Array, derivative: int) -> Array:
    """By Stirling's series, (x - 1/2) log x - x + ..., as differences that are products with y."""
    z, ratio = x + y, y / x
    leaned = np.log1p(ratio)
    if derivative == 0:
        # (z - 1/2) log z - (x - 1/2) log x - y
        total = y * np.log(z) + (x - 0.5) * leaned - y
    elif derivative == 1:
        total = leaned + 0.5 * _gap(x, z, 1)
    elif derivative == 2:
        total = -_gap(x, z, 1) - 0.5 * _gap(x, z, 2)
    else:
        total = _gap(x, z, 2) + _gap(x, z, 3)
    for k, c in enumerate(_STIRLING):
        first = 2 * k + 1  # c x^-first
        factor = c
        for step in range(derivative):
            factor *= -(first + step)
        total = total - factor * _gap(x, z, first + derivative)
    return np.asarray(total)


def _gap(x: Array, z: Array, power: int) -> Array:
    """x^-power - z^-power for z >= x, by the factor z - x."""
    u, w = 1.0 / z, 1.0 / x
    total = np.zeros_like(x)
    for k in range(power):
        total = total + u**k * w ** (power - 1 - k)
    return np.asarray((z - x) * u * w * total)
