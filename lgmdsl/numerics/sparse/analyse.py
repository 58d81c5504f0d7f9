"""The kernel for a pattern, chosen by its structure, and a cache of the latest analyses.

Engines are rebuilt at every hyperparameter on the same pattern; its ordering and supernodes are
found once. Analyses are kept by a digest of the pattern, a few, the least recently used forgotten.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

import numpy as np

from lgmdsl.memory import budget
from lgmdsl.numerics.sparse.banded import banded_symbolic
from lgmdsl.numerics.sparse.base import Pattern, Symbolic, too_large
from lgmdsl.numerics.sparse.dense import DenseSymbolic

DENSE_UP_TO = 400
"""Sizes that LAPACK factors whole, so that small models never import numba: at 400 a factor with
its inverse takes 3.6 ms (compiled: 0.1), and loading numba and the cached kernels 0.35 s."""
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
    if pattern.size <= DENSE_UP_TO:
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
