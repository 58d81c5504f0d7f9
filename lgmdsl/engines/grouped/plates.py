"""Latents that split into many small groups which no row and no prior joins: persons, say.

Of a model's pattern alone: for each latent its group and its place there, for each row its group
and its place among the group's rows.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian

FEWEST = 16  # groups
WIDEST = 64  # latents in a group
PADDED = 2.0  # places, in groups of equal size, for each latent and each row
KEPT = 3


@dataclass(frozen=True, eq=False)
class Plates:
    """N groups of up to L latents and M rows. `group`, `place`: of each latent, (n,); `row_group`
    (P,) -1 for a row without latents; `rows` (N, M) positions of rows, P where there are fewer;
    `entry` where each stored entry of B stands in (P, L), flat."""

    groups: int
    width: int
    group: IntArray
    place: IntArray
    row_group: IntArray
    rows: IntArray
    entry: IntArray

    @property
    def at(self) -> IntArray:
        """(n,) where each latent stands in (N, L), flat."""
        return self.group * self.width + self.place

    def spread(self, x: Array) -> Array:
        """(n, ...) to (N, L, ...), zero where a group is smaller."""
        out = np.zeros((self.groups * self.width, *x.shape[1:]))
        out[self.at] = x
        return out.reshape(self.groups, self.width, *x.shape[1:])

    def gathered(self, x: Array) -> Array:
        """(N, L, ...) to (n, ...)."""
        return np.asarray(x.reshape(-1, *x.shape[2:])[self.at])

    def by_group(self, x: Array) -> Array:
        """(P, ...) to (N, M, ...), zero where a group has fewer rows."""
        if self.full:
            return x.reshape(self.groups, -1, *x.shape[1:])
        padded = np.concatenate([x, np.zeros((1, *x.shape[1:]))])
        return np.asarray(padded[self.rows])

    def by_row(self, x: Array) -> Array:
        """(N, M, ...) to (P, ...), zero for rows without latents."""
        if self.full:
            return x.reshape(-1, *x.shape[2:])
        out = np.zeros((len(self.row_group) + 1, *x.shape[2:]))
        out[self.rows] = x
        return out[:-1]

    @property
    def full(self) -> bool:
        """Whether the rows are those of the groups in order, all of them alike."""
        count = self.rows.size
        return 0 < count == len(self.row_group) and bool(
            self.rows.flat[0] == 0 and (np.diff(self.rows.reshape(-1)) == 1).all()
        )


def plates(b: SparseMatrix, q: SparseMatrix, events: IntArray) -> Plates | None:
    """Groups of a model by the stored entries of B, (P, n) csr, and Q, (n, n); `events`: (P,) the
    site of each row. None where the groups are few, large or of very different sizes."""
    count, size = b.shape
    sites = int(events.max(initial=-1)) + 1
    line = np.repeat(np.arange(count), np.diff(b.indptr))
    lines = np.repeat(np.arange(size), np.diff(q.indptr))
    ends = np.r_[events[line], lines + sites], np.r_[b.indices + sites, q.indices + sites]
    joined = sp.coo_array((np.ones(len(ends[0]), dtype=np.int8), ends), (sites + size,) * 2)
    labels = connected_components(joined.tocsr(), directed=False)[1]
    groups, group = np.unique(labels[sites:], return_inverse=True)
    members = np.bincount(group)
    width = int(members.max(initial=0))
    if len(groups) < FEWEST or width > WIDEST or len(groups) * width > PADDED * size:
        return None
    known = np.full(sites + size, -1)
    known[groups] = np.arange(len(groups))
    row_group = known[labels[events]] if count else np.zeros(0, dtype=np.int64)
    inside = np.flatnonzero(row_group >= 0)
    held_rows = np.bincount(row_group[inside], minlength=len(groups))
    most = int(held_rows.max(initial=0))
    if len(groups) * most > PADDED * max(count, 1) + 1:
        return None
    rows = np.full((len(groups), most), count)
    rows[row_group[inside], _ranks(row_group[inside], held_rows)] = inside
    place = _ranks(group, members)
    return Plates(
        len(groups), width, group, place, row_group, rows, line * width + place[b.indices]
    )


def _ranks(group: IntArray, members: IntArray) -> IntArray:
    """The position of each member in its group, in order; `members`: members of each group."""
    order = np.argsort(group, kind="stable")
    out = np.empty(len(group), dtype=np.int64)
    out[order] = np.arange(len(group)) - np.repeat(np.cumsum(members) - members, members)
    return out


def events_of(linear: LinearGaussian) -> IntArray:
    """(P,) the site of each predictor row."""
    out, first = [], 0
    for p in linear.predictors:
        step = max(p.event, 1)
        out.append(first + np.arange(p.rows) // step)
        first += p.rows // step
    return np.concatenate(out) if out else np.zeros(0, dtype=np.int64)


_kept: OrderedDict[int, tuple[list[AnyArray], Plates | None]] = OrderedDict()
_lock = threading.Lock()


def plates_of(b: SparseMatrix, q: SparseMatrix, events: IntArray) -> Plates | None:
    """`plates`, kept for the next theta, at which the pattern is the same."""
    pattern: list[AnyArray] = [b.indptr, b.indices, q.indptr, q.indices, events]
    with _lock:
        for key, (known, result) in _kept.items():
            if all(np.array_equal(x, y) for x, y in zip(pattern, known, strict=True)):
                _kept.move_to_end(key)
                return result
    result = plates(b, q, events)
    with _lock:
        _kept[id(pattern)] = (pattern, result)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return result
