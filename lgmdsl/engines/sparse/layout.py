"""What the sparse engine keeps from one theta to the next: all that follows from B and Q's pattern.

Learning asks for the same model at hundreds of thetas. Where the operators are the same objects
(the canonical form keeps those that no hyper stands in) and Q is stored at the same places, B, the
table of its pairs and the analysis of A's pattern are those of the time before. Where hypers stand
in the operators, B is another one: its numbers go to the places that are known, while its entries
stand where they stood.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.sparse.pair_table import PairTable
from lgmdsl.memory import TooLarge, budget
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Symbolic
from lgmdsl.operators.base import Operator

KEPT = 4
KEPT_ENTRIES = 20_000_000  # of all tables together, beyond which only the latest layout is kept


@dataclass(frozen=True, eq=False)
class Origin:
    """What a layout follows from. It holds the operators, so that no other object can take their
    identity."""

    operators: tuple[Operator, ...]
    shape: tuple[object, ...]
    indptr: AnyArray
    indices: AnyArray

    def fits(
        self, operators: tuple[Operator, ...], shape: tuple[object, ...], precision: SparseMatrix
    ) -> bool:
        """Whether it was made of these."""
        return self.alike(shape, precision) and all(
            a is b for a, b in zip(operators, self.operators, strict=True)
        )

    def alike(self, shape: tuple[object, ...], precision: SparseMatrix) -> bool:
        """Whether it was made of operators of these shapes, and of a Q stored at these places."""
        return (
            shape == self.shape
            and np.array_equal(precision.indptr, self.indptr)
            and np.array_equal(precision.indices, self.indices)
        )


@dataclass(frozen=True, eq=False)
class Layout(Origin):
    """B, (P, n) csr with its transpose; the table of pairs; where Q's lower triangle stands on A's
    pattern (`lower`: which of Q's entries, `places`: where)."""

    b: SparseMatrix
    bt: SparseMatrix
    table: PairTable
    symbolic: Symbolic
    lower: IntArray
    places: IntArray

    def values(self, precision: SparseMatrix) -> Array:
        """(nnz,) Q on A's pattern."""
        lower = precision.data[self.lower]
        values = np.bincount(self.places, weights=lower, minlength=self.table.pattern.nnz)
        return np.asarray(values, dtype=np.float64)

    def refilled(self, operators: tuple[Operator, ...], b: SparseMatrix) -> Layout:
        """With the numbers of another B of the same pattern."""
        bt, table = sp.csr_array(b.T), self.table.refilled(b)
        return replace(self, operators=operators, b=b, bt=bt, table=table)


@dataclass(frozen=True, eq=False)
class Refused(Origin):
    """A factor that was too large, within a budget in bytes."""

    budget: float
    error: TooLarge


_kept: OrderedDict[int, Layout] = OrderedDict()
_refused: list[Refused] = []  # the latest
_lock = threading.Lock()


def layout_of(linear: LinearGaussian, precision: SparseMatrix) -> Layout:
    """The layout of a model whose prior precision is `precision`, csr without duplicates."""
    operators = tuple(o for p in linear.predictors for o in p.columns.values())
    shape = (
        tuple((b.name, b.size) for b in linear.blocks),
        tuple((tuple(p.columns), p.rows, p.event) for p in linear.predictors),
    )
    with _lock:
        for key, layout in _kept.items():
            if layout.fits(operators, shape, precision):
                _kept.move_to_end(key)
                return layout
        like = [k for k in _kept.values() if k.alike(shape, precision)]
        for too_large in _refused:
            same = too_large.budget == budget()
            if same and too_large.fits(operators, shape, precision):
                raise too_large.error.with_traceback(None)
    b = _canonical(StackedPredictors(linear).sparse())
    for layout in like:
        if layout.table.small and same_pattern(layout.b, b):
            return layout.refilled(operators, b)
    try:
        created = _make(linear, b, operators, shape, precision)
    except TooLarge as error:
        refusal = Refused(operators, shape, precision.indptr, precision.indices, budget(), error)
        with _lock:
            _refused[:] = [refusal]
        raise
    with _lock:
        _kept[id(created)] = created
        while len(_kept) > 1 and (len(_kept) > KEPT or _entries() > KEPT_ENTRIES):
            _kept.popitem(last=False)
    return created


def _canonical(b: SparseMatrix) -> SparseMatrix:
    """With each entry stored once, those of a row in order."""
    if b.has_canonical_format:
        return b
    b = b.copy()
    b.sum_duplicates()
    return b


def same_pattern(a: SparseMatrix, b: SparseMatrix) -> bool:
    """Whether two csr matrices have their entries at the same places."""
    return np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices)


def _entries() -> int:
    return sum(k.table.table.nnz + k.b.nnz for k in _kept.values())


def _make(
    linear: LinearGaussian,
    b: SparseMatrix,
    operators: tuple[Operator, ...],
    shape: tuple[object, ...],
    precision: SparseMatrix,
) -> Layout:
    table = PairTable(b, linear.predictors, precision)
    rows = np.repeat(np.arange(linear.size), np.diff(precision.indptr))
    lower = np.flatnonzero(rows >= precision.indices)
    places = table.pattern.find(rows[lower], precision.indices[lower].astype(np.int64))
    return Layout(
        operators,
        shape,
        precision.indptr,
        precision.indices,
        b,
        sp.csr_array(b.T),
        table,
        analyse(table.pattern),
        lower,
        places,
    )
