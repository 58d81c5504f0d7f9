"""log Gamma: its differences, derivatives of digamma, and integrals of norms.

Differences from simple functions come with derivatives, without cancellation for large x:
log Gamma(x + y) - log Gamma(x), and x log x - x - log Gamma(x).
"""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array

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
    from lgmdsl.numerics.count_kernels import log_rising_sums

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


# ---- polygamma ---------------------------------------------------------------------------------
# The first two derivatives of digamma, several times faster than the zeta functions of SciPy.
#
# psi^(k)(x) by the recurrence to x + 10 and the asymptotic series there (Abramowitz and Stegun
# 6.4.12 to 6.4.14), to 2e-15 relative for x > 0.


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


# ---- radial ------------------------------------------------------------------------------------
# Logarithms of what densities of a norm in n dimensions integrate to.
#
# int f(||s||) ds over R^n = S_n int_0^inf r^(n-1) f(r) dr,   S_n = 2 pi^(n/2) / Gamma(n/2)


def log_sphere(n: Array) -> Array:
    """log S_n: the surface of the unit sphere, log 2 for n = 1."""
    return np.asarray(np.log(2.0) + 0.5 * n * np.log(np.pi) - special.gammaln(0.5 * n))


def log_power_integral(n: Array, power: Array) -> Array:
    """log int_0^inf r^(n-1) exp(-r^power) dr = log Gamma(n / power) - log power."""
    return np.asarray(special.gammaln(n / power) - np.log(power))


def log_sech2_integral(n: Array) -> Array:
    """log int_0^inf r^(n-1) sech(r)^2 dr = log(4 Gamma(n) 2^-n eta(n - 1)), eta Dirichlet's, from
    sech(r)^2 = 4 sum_k (-1)^(k-1) k e^(-2 k r)."""
    return np.asarray((2.0 - n) * np.log(2.0) + special.gammaln(n) + np.log(_eta(n - 1.0)))


def _eta(s: Array) -> Array:
    """sum_k (-1)^(k-1) k^-s at s = 0, 1, 2, ...: 1/2, log 2, (1 - 2^(1-s)) zeta(s)."""
    above = np.maximum(s, 2.0)
    value = -np.expm1((1.0 - above) * np.log(2.0)) * special.zeta(above)
    return np.where(s == 0.0, 0.5, np.where(s == 1.0, np.log(2.0), value))
