"""E[log(1 + x^2)], x ~ N(m, v), in closed form: what a Student-t density is made of.

With z = (m + i) / sqrt(2 v) in the upper half-plane and w Faddeeva's function e^{-z^2} erfc(-iz),

    E[1 / (x + i)] = -i sqrt(pi / (2 v)) w(z),    E[log(1 + x^2)] = log(2 v) + 2 Re H(z),
    H' = -i sqrt(pi) w,    H(z) - log z -> -i pi / 2 far out,

and w' = 2i / sqrt(pi) - 2 z w. Weideman's (1994) expansion, with Z = (L + iz) / (L - iz),

    w(z) = 2 p(Z) / (L - iz)^2 + 1 / (sqrt(pi) (L - iz)),

has an integral of the same form: with P' = p

    H(z) = log(L - iz) - sqrt(pi) / L (P(Z) - P(-1)).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.polynomial.polynomial import polyval
from scipy import special

from lgmdsl.arrays import AnyArray, Array

TERMS = 48  # of the expansion, which is good to 1e-14
CHUNK = 4096  # whose powers are held at once
FAR, ORDER = 8.0, 20  # |z| from which w' comes from its series in 1 / z^2, and the terms of that


def expected_log_quadratic(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """E[log(1 + x^2)] and the expectations of its first two derivatives, (n,) each."""
    width, length, integral = np.sqrt(2.0) * sd, _length(), _integral()
    z = (mean + 1j) / width
    fraction = 2.0 * length / (length - 1j * z) - 1.0
    value = 2.0 * np.log(np.hypot(width * length + 1.0, mean))
    value -= 2.0 * np.sqrt(np.pi) / length * _polynomial(fraction, integral).real
    w = special.wofz(z)
    slope = 2.0 * np.sqrt(np.pi) / width * w.imag
    bend = 2.0j / np.sqrt(np.pi) - 2.0 * z * w
    far = np.abs(z) > FAR
    if far.any():
        square = (1.0 / z[far]) ** 2  # z^2 may overflow
        bend[far] = -1j / np.sqrt(np.pi) * square * _polynomial(square, _series())
    return value, slope, 2.0 * np.sqrt(np.pi) / width**2 * bend.imag


def _polynomial(x: AnyArray, coefficients: Array) -> AnyArray:
    """sum_k c_k x^k, (n,), of powers that are products of all before: no loop over them here."""
    out = np.empty(len(x), dtype=np.complex128)
    for first in range(0, len(x), CHUNK):
        some = slice(first, first + CHUNK)
        powers = np.broadcast_to(x[some], (len(coefficients) - 1, len(x[some])))
        out[some] = coefficients[0] + coefficients[1:] @ np.multiply.accumulate(powers, axis=0)
    return out


@cache
def _length() -> float:
    return float(2.0**-0.25 * np.sqrt(TERMS))


@cache
def _integral() -> Array:
    """The coefficients of P(Z) - P(-1), constant first; p's are Fourier coefficients of
    e^{-t^2} (L^2 + t^2) in the angle of Z."""
    length, many = _length(), 2 * TERMS
    angle = np.arange(1 - many, many) * np.pi / many
    t = length * np.tan(0.5 * angle)
    f = np.concatenate([[0.0], np.exp(-t * t) * (length**2 + t * t)])
    a = np.real(np.fft.fft(np.fft.fftshift(f)))[1 : TERMS + 1] / (2.0 * many)
    out = np.concatenate([[0.0], a / np.arange(1, TERMS + 1)])
    out[0] = -float(polyval(-1.0, out))
    return np.asarray(out)


@cache
def _series() -> Array:
    """(2k + 1)!! / 2^k."""
    k = np.arange(ORDER)
    return np.asarray(special.factorial2(2 * k + 1) / 2.0**k)
