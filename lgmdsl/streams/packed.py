"""Arrays held in the fewest bytes that give back the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray

# From the smallest on; float32 before float64.
WHOLE = (np.uint8, np.int8, np.uint16, np.int16, np.int32)


@dataclass(frozen=True, eq=False)
class Packed:
    """`count` entries of one shape: all of them, or one that stands for all."""

    values: AnyArray
    count: int
    constant: bool

    def at(self, rows: slice) -> Array:
        """Some entries, as float64."""
        if self.constant:
            size = len(range(*rows.indices(self.count)))
            return np.repeat(np.asarray(self.values, dtype=np.float64), size, axis=0)
        return self.values[rows].astype(np.float64)

    def take(self, some: IntArray) -> Packed:
        """Some entries, by position."""
        values = self.values if self.constant else self.values[some]
        return Packed(values, len(some), self.constant)

    @property
    def total(self) -> float:
        """The sum of the entries."""
        return float(self.values[0]) * self.count if self.constant else float(self.values.sum())

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)


def packed(values: AnyArray) -> Packed:
    """The entries, along the first axis, of an array of numbers."""
    values = np.ascontiguousarray(values)
    count = len(values)
    if count and _same(values[:1], values[-1:]) and _same(np.repeat(values[:1], count, 0), values):
        return Packed(values[:1].astype(np.float64), count, True)
    return Packed(_small(values), count, False)


def scattered(parts: Sequence[Packed], to: Sequence[AnyArray]) -> Packed:
    """The entries of all parts in one array, those of part i at `to[i]`; parts of one kind."""
    count = sum(p.count for p in parts)
    first = parts[0]
    if all(p.constant and _same(p.values, first.values) for p in parts):
        return Packed(first.values, count, True)
    each = [_small(p.values) if p.constant else p.values for p in parts]
    out = np.empty((count, *first.values.shape[1:]), np.result_type(*(x.dtype for x in each)))
    for values, where in zip(each, to, strict=True):
        out[where] = values
    return Packed(out, count, False)


def _small(values: AnyArray) -> AnyArray:
    if not values.size or not np.isfinite(values).all():
        return values
    low, high = float(values.min()), float(values.max())
    if low == np.floor(low):
        for kind in WHOLE:
            limits = np.iinfo(kind)
            if limits.min <= low and high <= limits.max:
                small = values.astype(kind)
                return small if _same(small.astype(values.dtype), values) else _single(values)
    return _single(values)


def _single(values: AnyArray) -> AnyArray:
    with np.errstate(over="ignore"):
        small = values.astype(np.float32)
    return small if _same(small.astype(values.dtype), values) else values


def _same(a: AnyArray, b: AnyArray) -> bool:
    """Bit for bit: -0.0 is not 0.0."""
    return a.tobytes() == b.tobytes() if a.dtype.kind == "f" else np.array_equal(a, b)
