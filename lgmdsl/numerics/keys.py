"""Large sets of integer keys by sorting: numpy's `unique` hashes them, and its `searchsorted` for
keys in no order misses the cache at each (7 million: 14 s and 10 s; sorted 0.1 s and 1 s)."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import IntArray


def distinct(keys: IntArray) -> IntArray:
    """The different keys, rising."""
    line = np.sort(keys)
    if not len(line):
        return line
    return np.asarray(line[np.r_[True, line[1:] != line[:-1]]])


def located(line: IntArray, keys: IntArray) -> IntArray:
    """Where each key stands among `line`, rising; the shape of `keys`. A key that is not there gets
    the place of the next larger one."""
    flat = keys.reshape(-1)
    order = np.argsort(flat)
    place = np.empty(len(flat), dtype=np.int64)
    place[order] = np.searchsorted(line, flat[order])
    return place.reshape(keys.shape)
