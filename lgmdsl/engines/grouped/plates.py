"""Latents that split into many small groups which no row and no prior joins: persons, say.

Of a model's pattern alone: the groups of latents and of rows, padded to as many places each. Rows
that surely join too many latents are seen from sizes and a few rows (`rows_join`): more rows and
priors only join more, so what is joined there stays so.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.engines.shared.factored import entries_of
from lgmdsl.engines.shared.kept import KEPT as SHAPES
from lgmdsl.engines.shared.kept import by_operators, shape_of
from lgmdsl.engines.shared.partition import Partition, partition
from lgmdsl.operators.base import Operator

FEWEST = 16  # groups
WIDEST = 64  # latents in a group
PADDED = 2.0  # places, in groups of equal size, for each latent and each row
KEPT = 3
SAMPLED = 4096  # sites looked at by `rows_join`


@dataclass(frozen=True, eq=False)
class Plates:
    """N groups of up to L latents and M rows; `entry`: where each stored entry of B stands in
    (P, L), flat."""

    latents: Partition
    rows: Partition
    entry: IntArray

    @property
    def groups(self) -> int:
        """N."""
        return self.latents.count

    @property
    def width(self) -> int:
        """L."""
        return self.latents.width


def plates(b: SparseMatrix, q: SparseMatrix, events: IntArray) -> Plates | None:
    """Groups of a model by the stored entries of B, (P, n) csr, and Q, (n, n); `events`: (P,) the
    site of each row. None where the groups are few, large or of very different sizes."""
    count, size = b.shape
    line, column = entries_of(b)
    sites = int(events.max(initial=-1)) + 1
    latents, of_sites = partition((events[line], column), sites, size, entries_of(q))
    groups, width = latents.count, latents.width
    if groups < FEWEST or width > WIDEST or groups * width > PADDED * size:
        return None
    rows = Partition(of_sites.group[events], groups)
    if groups * rows.width > PADDED * max(count, 1) + 1:
        return None
    return Plates(latents, rows, line * width + latents.place[column])


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


_open: deque[tuple[object, ...]] = deque(maxlen=SHAPES)  # sizes of models that gave no sign


def rows_join(linear: LinearGaussian) -> bool:
    """Whether a group would have too many latents or rows; False is no promise, and taken from
    the last model of the same sizes: loadings that are learned are other operators at each theta.
    """
    shape = shape_of(linear)
    if shape in _open:
        return False
    join = _join(linear)
    if not join:
        _open.append(shape)
    return join


@by_operators
def _join(linear: LinearGaussian) -> bool:
    operators = tuple(o for p in linear.predictors for o in p.columns.values())
    return _long_column(operators, linear.rows) or _large_group(linear)


def _long_column(operators: tuple[Operator, ...], rows: int) -> bool:
    """Whether a latent stands in too many rows: an intercept, say."""
    most = (PADDED * max(rows, 1) + 1.0) / FEWEST
    for operator in operators:
        if not operator.in_memory or not operator.shape[1]:
            continue
        if not operator.is_sparse:
            if np.count_nonzero(operator.dense()[:, 0]) > most:
                return True
            continue
        average = operator.entries / operator.shape[1]
        if average > most and operator.sparse().has_canonical_format:
            return True
    return False


def _large_group(linear: LinearGaussian) -> bool:
    """Whether a few rows alone join too many latents: two crossed factors, say."""
    if any(not o.in_memory for p in linear.predictors for o in p.columns.values()):
        return False
    rows, columns, first = [], [], 0
    for p in linear.predictors:
        some, site = _sample(p)
        for name, operator in p.columns.items():
            whole = operator.sparse() if operator.is_sparse else operator.dense()
            part = sp.coo_array(whole[some])
            rows.append(first + site[part.row])
            columns.append(linear.starts[name] + part.col.astype(np.int64))
        first += len(site)
    if not rows:
        return False
    entries = np.concatenate(rows), np.concatenate(columns)
    return partition(entries, first, linear.size)[0].width > WIDEST


def _sample(predictor: Predictor) -> tuple[IntArray, IntArray]:
    """Rows of some sites far apart, and the number of the site of each."""
    event = max(predictor.event, 1)
    sites = predictor.rows // event
    some = np.arange(0, sites, max(1, -(-sites // SAMPLED)))
    rows = some[:, None] * event + np.arange(event)
    return rows.reshape(-1), np.repeat(np.arange(len(some)), event)
