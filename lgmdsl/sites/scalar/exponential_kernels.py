"""Log densities whose only bend is an exponential, compiled: one exponential a row, where arrays
take three. Imported only where rows are many enough to repay numba.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.numerics.compiled import compiled
from lgmdsl.numerics.exponential_kernels import BLOCK, LEAST, POWERS, halved


@compiled
def bent(
    s: Array,
    more: Array,
    kind: AnyArray,
    tables: tuple[Array, Array, Array, Array, Array, Array, Array],
    sign: float,
    out: tuple[Array, Array, Array],
) -> None:
    """l, l' and the exponential of `ExponentialSite` at s, (n,) each, with e^{sign s + more};
    `more` has one entry for all rows or one for each. Row i is of the kind `kind[i]`, or of its own
    where `kind` is empty; the tables, `peaked` 1 or 0, have one entry for each kind."""
    (value, slope, bend), (centre, rate, level, linear, flat, most, peaked) = out, tables
    own, shared = (1 if len(more) == len(s) else 0), len(kind) > 0
    x, p, k = np.zeros(BLOCK), np.empty(BLOCK), np.empty(BLOCK)
    for first in range(0, len(s), BLOCK):
        size = min(BLOCK, len(s) - first)
        for j in range(size):
            i = first + j
            g = np.intp(kind[i]) if shared else i
            away = sign * (s[i] - centre[g]) + more[i * own]
            x[j] = most[g] if away > most[g] else away
        for j in range(BLOCK):
            k[j], p[j] = halved(x[j])
        for j in range(size):
            i = first + j
            g = np.intp(kind[i]) if shared else i
            power = POWERS[np.int32(k[j]) - LEAST]
            part = power * p[j]
            varying = rate[g] * (part + (power - peaked[g]))
            bend[i] = rate[g] * (power + part)
            value[i] = level[g] + linear[g] * (s[i] - centre[g]) - varying
            slope[i] = flat[g] - sign * varying
