"""The kernel for a pattern, chosen by its structure, and a cache of the latest analyses.

Engines are rebuilt at every hyperparameter on the same pattern; its ordering and supernodes are
found once. Analyses are kept by a digest of the pattern, a few, the least recently used forgotten.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.memory import budget
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.numerics.sparse.banded import banded_symbolic
from lgmdsl.numerics.sparse.base import Factor, Pattern, Symbolic, too_large

DENSE_UP_TO = 400
"""Sizes that LAPACK factors whole, so that small models never import numba: at 400 a factor with
its inverse takes 3.6 ms (compiled: 0.1), and loading numba and the cached kernels 0.35 s."""
FULL = 0.5
"""Share of all pairs from which on there is no order of less fill to look for."""
KEPT = 16
KEPT_ENTRIES = 100_000_000  # of A and L together, beyond which only the latest analysis is kept

_analyses: OrderedDict[bytes, Symbolic] = OrderedDict()
_lock = threading.Lock()


def analyse(pattern: Pattern) -> Symbolic:
    """Everything that depends on the pattern alone, from the cache where it was met before.

    Raises TooLarge where the memory budget does not hold a factor and its inverse.
    """
    key = _digest(pattern)
    with _lock:
        known = _analyses.get(key)
    symbolic = known or _make(pattern)
    if 8.0 * symbolic.held > budget():
        raise too_large(pattern.size, symbolic.fill, 8.0 * symbolic.held)
    with _lock:
        symbolic = _analyses.setdefault(key, symbolic)
        _analyses.move_to_end(key)
        while len(_analyses) > 1 and (len(_analyses) > KEPT or _entries() > KEPT_ENTRIES):
            _analyses.popitem(last=False)
    return symbolic


def _make(pattern: Pattern) -> Symbolic:
    banded = banded_symbolic(pattern)
    if banded is not None:
        return banded
    n = pattern.size
    if n <= DENSE_UP_TO or pattern.nnz > FULL * n * (n + 1) / 2:
        return DenseSymbolic(pattern)
    from lgmdsl.numerics.sparse.supernodal import SupernodalSymbolic  # imports numba

    return SupernodalSymbolic(pattern)


def _entries() -> int:
    return sum(s.pattern.nnz + s.fill for s in _analyses.values())


def _digest(pattern: Pattern) -> bytes:
    hashed = hashlib.blake2b(digest_size=20)
    hashed.update(np.int64(pattern.size).tobytes())
    hashed.update(pattern.indptr.tobytes())
    hashed.update(pattern.indices.tobytes())
    return hashed.digest()


# ---- dense -------------------------------------------------------------------------------------
# A small or nearly full matrix factored whole by LAPACK: no ordering, no compiled kernels.


class DenseSymbolic(Symbolic):
    """The pattern alone: n^2 numbers, n^3/3 flops, whatever its zeros."""

    kernel: ClassVar[str] = "dense"

    def __init__(self, pattern: Pattern) -> None:
        n = pattern.size
        self.pattern = pattern
        self.fill = n * (n + 1) // 2
        self.flops = n**3 / 3
        self.held = 4.0 * n**2

    def factor(self, values: Array) -> Factor | None:
        n = self.pattern.size
        upper = np.zeros((n, n))  # C order: LAPACK reads the lower triangle
        upper[self.pattern.columns, self.pattern.indices] = values
        factor = cholesky(upper)
        return None if factor is None else DenseFactor(self.pattern, factor)


class DenseFactor(Factor):
    """L whole, in the given order; every entry of A^-1 can be had."""

    def __init__(self, pattern: Pattern, factor: Cholesky) -> None:
        self._pattern = pattern
        self._factor = factor
        self.half_log_det = factor.half_log_det

    @property
    def pivots(self) -> Array:
        return np.asarray(self._factor.lower.diagonal() ** 2)

    def solve(self, rhs: Array) -> Array:
        return self._factor.solve(rhs)

    def forward(self, rhs: Array) -> Array:
        return self._factor.forward(rhs)

    def backward(self, rhs: Array) -> Array:
        return self._factor.backward(rhs)

    @cached_property
    def _inverse(self) -> Array:
        return self._factor.inverse()

    def selected(self) -> Array:
        return np.asarray(self._inverse[self._pattern.indices, self._pattern.columns])

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        return np.asarray(self._inverse[rows, columns])
