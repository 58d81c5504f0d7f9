"""Which kernel factors a pattern: a band with a border, else supernodes. Found once, and kept."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from lgmdsl.numerics.sparse.banded import banded_symbolic
from lgmdsl.numerics.sparse.base import Pattern, Symbolic

KEPT = 16  # patterns: engines are rebuilt at every hyperparameter, mostly on the same ones
_known: OrderedDict[bytes, Symbolic] = OrderedDict()


def analyse(pattern: Pattern) -> Symbolic:
    """Ordering and symbolic factorisation, the same object for the same pattern."""
    key = hashlib.blake2b(pattern.indptr.tobytes() + pattern.indices.tobytes()).digest()
    found = _known.get(key)
    if found is None:
        found = banded_symbolic(pattern) or _supernodal(pattern)
        _known[key] = found
        if len(_known) > KEPT:
            _known.popitem(last=False)
    else:
        _known.move_to_end(key)
    return found


def _supernodal(pattern: Pattern) -> Symbolic:
    from lgmdsl.numerics.sparse.supernodal import SupernodalSymbolic  # imports numba

    return SupernodalSymbolic(pattern)
