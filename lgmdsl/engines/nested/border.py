"""The border's precision S on its pattern: where the sums of groups go, dense or by slots."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.engines.nested.nest import Nest
from lgmdsl.engines.shared.prior_precision import PriorPlaces
from lgmdsl.numerics.sparse.analyse import FULL, analyse
from lgmdsl.numerics.sparse.base import Pattern, Symbolic, same_pattern

SMALL = 256  # latents on the border: always dense
DENSER = 0.2  # share of pairs that groups join, from which on it is dense
LARGEST = 4096  # latents on a dense border
MOST_SLOTS = 200_000_000


class BorderMatrix(NamedTuple):
    """A matrix of the border, (p, p), by its lower triangle: `values` are C-ordered where it is
    `dense`, else the entries of its pattern, where pair (a, b), b <= a, of a group's columns stands
    at `slots[slot_start[g] + a (a + 1) / 2 + b]`."""

    dense: bool
    size: int
    values: Array
    slots: IntArray
    slot_start: IntArray


@dataclass(frozen=True, eq=False)
class Border:
    """`symbolic`: of S. `slots`: where each pair of columns of each group stands on the pattern,
    from `slot_start[g]` on; none where S is dense."""

    symbolic: Symbolic
    dense: bool
    slots: IntArray
    slot_start: IntArray
    prior: PriorPlaces

    @property
    def pattern(self) -> Pattern:
        """Lower triangle of S's pattern, by columns."""
        return self.symbolic.pattern

    def zeros(self) -> BorderMatrix:
        """A matrix that groups add to."""
        return self._shared(np.zeros(self.pattern.size**2 if self.dense else self.pattern.nnz))

    def on_pattern(self, shared: BorderMatrix) -> Array:
        """(nnz,) a matrix on the pattern, a new array."""
        if not self.dense:
            return shared.values.copy()
        return np.asarray(shared.values[self._lower])

    def diagonal(self, shared: BorderMatrix) -> Array:
        """(p,) the diagonal of a matrix, a new array."""
        at = slice(None, None, shared.size + 1) if self.dense else self.pattern.on_diagonal
        return np.array(shared.values[at])

    @cached_property
    def _lower(self) -> IntArray:
        """Where the entries of the pattern stand in a dense matrix, C-ordered."""
        return np.asarray(self.pattern.indices * self.pattern.size + self.pattern.columns)

    def shared(self, values: Array) -> BorderMatrix:
        """A symmetric matrix on the pattern, (nnz,), as compiled passes read it; where it is dense
        with its upper triangle too."""
        if not self.dense:
            return self._shared(values)
        out = self.zeros()
        out.values[self._lower] = out.values[self.pattern.keys] = values
        return out

    def _shared(self, values: Array) -> BorderMatrix:
        return BorderMatrix(self.dense, self.pattern.size, values, self.slots, self.slot_start)


_latest: WeakKeyDictionary[Nest, tuple[SparseMatrix, Border]] = WeakKeyDictionary()


def cliques(nest: Nest) -> float:
    """Pairs of columns in groups, all groups together."""
    k = nest.touched.astype(np.float64)
    return float(k @ (k + 1.0)) / 2.0


def is_dense(nest: Nest) -> bool:
    """Whether S is better held dense."""
    p = float(len(nest.border))
    return p <= SMALL or (p <= LARGEST and cliques(nest) > DENSER * p * p / 2.0)


def is_full(nest: Nest) -> bool:
    """Whether so many pairs of the border's latents meet in a group that S has no zeros to use."""
    p = float(len(nest.border))
    if cliques(nest) <= FULL * p * p / 2.0:
        return False
    touched = _touched(nest)
    return bool((touched.T @ touched).nnz > FULL * p * p)


def border_of(nest: Nest, precision: SparseMatrix) -> Border:
    """The border for the prior precision of its latents, csr."""
    latest = _latest.get(nest)
    if latest is not None and same_pattern(latest[0], precision):
        return latest[1]
    made = _make(nest, precision)
    _latest[nest] = precision, made
    return made


def _make(nest: Nest, precision: SparseMatrix) -> Border:
    p = len(nest.border)
    none = np.zeros(0, dtype=np.int64)
    dense = is_dense(nest)
    if dense:
        indices = np.triu_indices(p)[1]
        counts = np.arange(p, 0, -1)
        pattern = Pattern(np.concatenate([[0], np.cumsum(counts)]), indices.astype(np.int64))
        slots, slot_start = none, np.zeros(nest.groups + 1, dtype=np.int64)
    else:
        touched = _touched(nest)
        # Ones, as sums of sparse arrays drop zeros that are stored.
        stored = np.ones(precision.nnz), precision.indices, precision.indptr
        of_prior = sp.csr_array(stored, shape=precision.shape)
        joined = sp.csr_array(touched.T @ touched) + of_prior + sp.eye_array(p, format="csr")
        pattern = Pattern.of(sp.csr_array(joined))
        slots, slot_start = _slots(nest, pattern)
    return Border(analyse(pattern), dense, slots, slot_start, PriorPlaces.of(precision, pattern))


def _touched(nest: Nest) -> SparseMatrix:
    """(G, p): the columns of each group, as ones."""
    lines, d, p = nest.lines, nest.dense, len(nest.border)
    thin = sp.csr_array(
        (np.ones(len(lines.columns)), lines.columns, lines.column_start),
        shape=(nest.groups, p - d),
    )
    full = sp.csr_array(np.ones((nest.groups, d)))
    return sp.csr_array(sp.hstack([full, thin], format="csr"))


def _slots(nest: Nest, pattern: Pattern) -> tuple[IntArray, IntArray]:
    """Where the pairs (a, b), b <= a, of a group's columns stand."""
    k, d = nest.touched, nest.dense
    starts = np.concatenate([[0], np.cumsum(k * (k + 1) // 2)]).astype(np.int64)
    out = np.empty(starts[-1], dtype=np.int64)
    for size in np.unique(k):
        some = np.flatnonzero(k == size)
        high, low = np.tril_indices(size)
        first = nest.lines.column_start[some, None] + np.arange(size - d)
        columns = np.hstack(
            [np.tile(np.arange(d), (len(some), 1)), d + nest.lines.columns[first].astype(np.int64)]
        )
        found = pattern.find(columns[:, high].reshape(-1), columns[:, low].reshape(-1))
        out[(starts[some, None] + np.arange(len(high))).reshape(-1)] = found
    return out, starts
