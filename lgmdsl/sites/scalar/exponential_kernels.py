"""Log densities whose only bend is an exponential, compiled: one exponential a row, where arrays
take three. Imported only where rows are many enough to repay numba.
"""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.numerics.compiled import compiled

_BLOCK = 512  # rows whose exponentials are computed together, in loops that vectorise
_PER_TWO, _TWO, _REST = 1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LEAST = -1080  # powers of two from here on are numbers, or 0
_POWERS = np.ldexp(1.0, np.arange(_LEAST, 512))
_TERMS = tuple(1.0 / math.factorial(k) for k in range(14, 1, -1))


@compiled
def bent(
    s: Array,
    more: Array,
    kind: AnyArray,
    centre: Array,
    rate: Array,
    level: Array,
    linear: Array,
    flat: Array,
    most: Array,
    peaked: Array,
    sign: float,
    value: Array,
    slope: Array,
    bend: Array,
) -> None:
    """l, l' and the exponential of `ExponentialSite` at s, (n,) each, with e^{sign s + more};
    `more` has one entry for all rows or one for each. Row i is of the kind `kind[i]`, or of its own
    where `kind` is empty; what is 1 where `peaked`, and the others, have one entry for each kind.

    e^x = 2^k (1 + p), p = expm1(x - k log 2) by its series, |x - k log 2| <= log(2) / 2.
    """
    own, shared = (1 if len(more) == len(s) else 0), len(kind) > 0
    x, p, twos = np.empty(_BLOCK), np.empty(_BLOCK), np.zeros(_BLOCK)
    x[:] = 0.0
    for first in range(0, len(s), _BLOCK):
        size = min(_BLOCK, len(s) - first)
        for j in range(size):
            i = first + j
            g = np.intp(kind[i]) if shared else i
            away = sign * (s[i] - centre[g]) + more[i * own]
            x[j] = most[g] if away > most[g] else away
        for j in range(_BLOCK):
            t = -746.0 if x[j] < -746.0 else x[j]
            two = math.floor(t * _PER_TWO + 0.5)
            r = (t - two * _TWO) - two * _REST
            total = _TERMS[0]
            total = total * r + _TERMS[1]
            total = total * r + _TERMS[2]
            total = total * r + _TERMS[3]
            total = total * r + _TERMS[4]
            total = total * r + _TERMS[5]
            total = total * r + _TERMS[6]
            total = total * r + _TERMS[7]
            total = total * r + _TERMS[8]
            total = total * r + _TERMS[9]
            total = total * r + _TERMS[10]
            total = total * r + _TERMS[11]
            total = total * r + _TERMS[12]
            p[j] = r + r * r * total
            twos[j] = two if two > _LEAST else _LEAST  # also where x is no number
        for j in range(size):
            i = first + j
            g = np.intp(kind[i]) if shared else i
            power = _POWERS[np.int32(twos[j]) - _LEAST]
            part = power * p[j]
            varying = rate[g] * (part + (power - peaked[g]))
            bend[i] = rate[g] * (power + part)
            value[i] = level[g] + linear[g] * (s[i] - centre[g]) - varying
            slope[i] = flat[g] - sign * varying
