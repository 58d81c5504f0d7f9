"""Log densities whose only bend is an exponential, compiled: one exponential a row, where arrays
take three. Imported only where rows are many enough to repay numba.
"""

from __future__ import annotations

import math

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.numerics.compiled import compiled

_NEAR = -1.0  # exponents from which on 1 + expm1 has all digits of the exponential


@compiled
def bent(
    s: Array,
    more: Array,
    centre: Array,
    rate: Array,
    level: Array,
    linear: Array,
    flat: Array,
    most: Array,
    peaked: BoolArray,
    sign: float,
    value: Array,
    slope: Array,
    bend: Array,
) -> None:
    """l, l' and the exponential of `ExponentialSite` at s, (n,) each, with e^{sign s + more};
    `more` has one entry for all rows or one for each."""
    own = 1 if len(more) == len(s) else 0
    for i in range(len(s)):
        away = s[i] - centre[i]
        x = min(sign * away + more[i * own], most[i])
        if peaked[i]:
            varying = rate[i] * math.expm1(x)
            bend[i] = rate[i] + varying if x > _NEAR else rate[i] * math.exp(x)
        else:
            varying = rate[i] * math.exp(x)
            bend[i] = varying
        value[i] = level[i] + linear[i] * away - varying
        slope[i] = flat[i] - sign * varying
