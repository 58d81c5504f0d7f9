"""Entries of a prior covariance on the pattern of its precision, from the factors of a product.

(K_1 (x) K_2)[(i, k), (j, l)] = K_1[i, j] K_2[k, l], and so for Q^+ where factors are intrinsic: a
product of 625 by 160 needs two small covariances, never a factor of its own.
"""

from __future__ import annotations

import threading
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.contract.structure import Structure
from lgmdsl.engines.sparse_prior import SparsePrior
from lgmdsl.numerics.sparse.base import Pattern


class Entries(NamedTuple):
    """Values of K (Q^+ where intrinsic) on Q's pattern."""

    pattern: Pattern
    values: Array


_kept: WeakKeyDictionary[object, Entries] = WeakKeyDictionary()
_lock = threading.Lock()


def covariance_entries(block: PriorBlock, rows: IntArray, columns: IntArray) -> Array:
    """Entries (row, column) of the block's K, without its free directions; KeyError for one that
    Q does not store. Raises NumericalError E601 where Q is not positive definite off its null
    space."""
    if len(block.factors) == 1:
        return _entries(block.factors[0], rows, columns)
    sizes = [f.size for f in block.factors]
    out = np.ones(len(rows))
    places = zip(np.unravel_index(rows, sizes), np.unravel_index(columns, sizes), strict=True)
    for factor, (i, j) in zip(block.factors, places, strict=True):
        out *= _entries(factor, i, j)
    return out


def _entries(factor: Structure, rows: IntArray, columns: IntArray) -> Array:
    known = factor.covariance_at(rows, columns)
    if known is not None:
        return known
    share = factor.proportional
    if share is None:
        found = _computed(factor)
        return np.asarray(found.values[found.pattern.find(rows, columns)])
    key, scale = share
    with _lock:
        kept = _kept.get(key)
    if kept is None:
        pattern, values = _computed(factor)
        kept = Entries(pattern, values / scale)
        with _lock:
            _kept[key] = kept
    return np.asarray(scale * kept.values[kept.pattern.find(rows, columns)])


def _computed(factor: Structure) -> Entries:
    """By the selected inverse of the factor alone."""
    block = PriorBlock("", (factor,), np.zeros(factor.size))
    prior = SparsePrior(LinearGaussian((block,), ()))
    pattern = prior.moments.pattern
    return Entries(pattern, prior.covariance(pattern.indices, pattern.columns))
