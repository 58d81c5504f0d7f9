"""Ratios that are 0 / 0 at 0, with their derivatives: (e^x - 1) / x, (e^x - 1 - x) / x^2,
log(1 + x) / x; and log erfcx, whose derivatives cancel in the tail.

Near 0 a Taylor series, elsewhere the quotient rule; `exp_ratio(x, k)` is sum_j x^j / (j + k)!.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.numerics.stable import capped_exp

_NEAR_EXP = 2.0
_NEAR_LOG = 0.3
_ROOT_TWO = math.sqrt(2.0)


@cache
def _exp_terms(k: int) -> tuple[Array, ...]:
    """Coefficients of sum_j x^j / (j + k)! and of its three derivatives."""
    base = np.array([1.0 / math.factorial(j + k) for j in range(34)])
    return tuple(np.polynomial.polynomial.polyder(base, n) if n else base for n in range(4))


@cache
def _log_terms() -> tuple[Array, ...]:
    base = np.array([(-1.0) ** j / (j + 1.0) for j in range(40)])
    return tuple(np.polynomial.polynomial.polyder(base, n) if n else base for n in range(4))


def _series(x: Array, terms: tuple[Array, ...]) -> list[Array]:
    return [np.asarray(np.polynomial.polynomial.polyval(x, c)) for c in terms]


def exp_ratio_derivatives(x: Array, k: int) -> list[Array]:
    """(e^x - sum_{j<k} x^j / j!) / x^k for k = 1 or 2, and its derivatives 1 to 3."""
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) < _NEAR_EXP
    small = np.where(near, x, 0.0)
    far = np.where(near, _NEAR_EXP, x)
    r, e = 1.0 / far, capped_exp(far)
    r2 = r * r  # products: numpy's powers beyond the second take twenty times as long
    r3, r4 = r * r2, r2 * r2
    # e^x x^-k less the polynomial x^-k (k = 1), x^-2 + x^-1 (k = 2), differentiated term by term
    if k == 1:
        tail = [-r, r2, -2.0 * r3, 6.0 * r4]
        powers = [r, -r2, 2.0 * r3, -6.0 * r4]
    else:
        r5 = r * r4
        tail = [-r2 - r, 2.0 * r3 + r2, -6.0 * r4 - 2.0 * r3, 24.0 * r5 + 6.0 * r4]
        powers = [r2, -2.0 * r3, 6.0 * r4, -24.0 * r5]
    grown = [
        sum(math.comb(n, j) * powers[j] for j in range(n + 1))  # Leibniz
        for n in range(4)
    ]
    inside = _series(small, _exp_terms(k))
    return [np.where(near, inside[n], e * np.asarray(grown[n]) + tail[n]) for n in range(4)]


def log_ratio_derivatives(x: Array) -> list[Array]:
    """log(1 + x) / x and its derivatives 1 to 3, x > -1."""
    x = np.asarray(x, dtype=np.float64)
    near = np.abs(x) < _NEAR_LOG
    inside = _series(np.where(near, x, 0.0), _log_terms())
    far = np.where(near, 1.0, x)
    r, q = 1.0 / far, 1.0 / (1.0 + far)
    l0 = np.log1p(far) * r
    l1 = (q - l0) * r
    l2 = (-q * q - 2.0 * l1) * r
    l3 = (2.0 * q * q * q - 3.0 * l2) * r
    return [np.where(near, a, b) for a, b in zip(inside, (l0, l1, l2, l3), strict=True)]


def exp_ratio(x: Jet) -> Jet:
    """(e^x - 1) / x."""
    if not x.depth:
        safe = np.where(x.value == 0.0, 1.0, x.value)
        small = np.expm1(np.minimum(safe, _NEAR_EXP)) / safe
        large = (capped_exp(safe) - 1.0) / safe
        return x.compose(np.where(x.value == 0.0, 1.0, np.where(safe < _NEAR_EXP, small, large)))
    return x.compose(*exp_ratio_derivatives(x.value, 1))


def exp_ratio_two(x: Jet) -> Jet:
    """(e^x - 1 - x) / x^2."""
    return x.compose(*exp_ratio_derivatives(x.value, 2))


def log_ratio(x: Jet) -> Jet:
    """log(1 + x) / x, x > -1."""
    if not x.depth:  # the value alone does not cancel, only its derivatives do
        safe = np.where(x.value == 0.0, 1.0, x.value)
        return x.compose(np.where(x.value == 0.0, 1.0, np.log1p(safe) / safe))
    return x.compose(*log_ratio_derivatives(x.value))


def log_erfcx(x: Jet) -> Jet:
    """log of 2 e^{x^2 / 2} Phi(-x), which is erfcx(x / sqrt(2))."""
    z = x.value
    tail = normal_tail(-z)
    with np.errstate(over="ignore"):
        scaled = np.log(special.erfcx(np.maximum(z, 0.0) / _ROOT_TWO))
    value = np.where(z > 0.0, scaled, 0.5 * z * z + tail.log_cdf + math.log(2.0))
    return x.compose(value, -tail.excess, tail.variance, -tail.third)
