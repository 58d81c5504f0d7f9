"""Logarithms of what densities of a norm in n dimensions integrate to.

int f(||s||) ds over R^n = S_n int_0^inf r^(n-1) f(r) dr,   S_n = 2 pi^(n/2) / Gamma(n/2)
"""

from __future__ import annotations

import numpy as np
from scipy import special

from lgmdsl.arrays import Array


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
