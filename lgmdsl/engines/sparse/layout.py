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
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.shared.kept import shape_of
from lgmdsl.engines.shared.prior_precision import PriorPlaces
from lgmdsl.engines.sparse.pair_table import PairTable
from lgmdsl.memory import TooLarge, budget
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Symbolic, canonical, filled, same_pattern
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Sparse

KEPT = 4
KEPT_ENTRIES = 20_000_000  # of all tables together, beyond which only the latest layout is kept


@dataclass(frozen=True, eq=False)
class Origin:
    """What a layout follows from. It holds the operators, so that no other object can take their
    identity."""

    operators: tuple[Operator, ...]
    shape: tuple[object, ...]
    precision: SparseMatrix

    def fits(
        self, operators: tuple[Operator, ...], shape: tuple[object, ...], precision: SparseMatrix
    ) -> bool:
        """Whether a layout was made of these operators, shape and precision."""
        return self.alike(shape, precision) and all(
            a is b for a, b in zip(operators, self.operators, strict=True)
        )

    def alike(self, shape: tuple[object, ...], precision: SparseMatrix) -> bool:
        """Whether it was made of operators of these shapes, and of a Q stored at these places."""
        return shape == self.shape and same_pattern(precision, self.precision)


@dataclass(frozen=True, eq=False)
class Joined:
    """Where the entries of operators stand in B: B's entry k is the `order[k]`-th of all of theirs,
    one operator after the other. `parts`: the operators and their matrices."""

    parts: tuple[tuple[Operator, SparseMatrix], ...]
    order: IntArray

    @staticmethod
    def of(linear: LinearGaussian, b: SparseMatrix) -> Joined | None:
        """Where entries stand in a model's known B; None where entries of an operator were added
        up."""
        parts, numbered, first = list[tuple[Operator, SparseMatrix]](), list[Predictor](), 0
        for predictor in linear.predictors:
            columns = dict[str, Operator]()
            for name, operator in predictor.columns.items():
                if isinstance(operator, Sparse):
                    matrix = operator.array  # what SciPy makes of it has other index arrays
                else:
                    matrix = sp.csr_array(operator.matrix())
                parts.append((operator, matrix))
                numbers = np.arange(first, first + matrix.nnz, dtype=np.float64)
                columns[name] = Sparse(filled(matrix, numbers))
                first += matrix.nnz
            numbered.append(replace(predictor, columns=columns))
        if first != b.nnz:
            return None
        whole = StackedPredictors(replace(linear, predictors=tuple(numbered))).sparse()
        return Joined(tuple(parts), canonical(whole).data.astype(np.int64))

    def values(self, operators: Sequence[Operator]) -> Array | None:
        """(nnz,) B's entries, of other operators; None unless each is the same, or stored at the
        same places."""
        data = []
        for operator, (known, matrix) in zip(operators, self.parts, strict=True):
            other = operator.array if isinstance(operator, Sparse) else None
            if operator is known:
                other = matrix
            elif (
                other is None
                or other.indices is not matrix.indices
                or other.indptr is not matrix.indptr
            ):
                return None
            data.append(other.data)
        return np.asarray(np.concatenate(data)[self.order])


@dataclass(frozen=True, eq=False)
class Layout(Origin):
    """B, (P, n) csr with its transpose, whose entries are B's in the order `turn`; the table of
    pairs; where Q stands on A's pattern; where the operators' entries stand in B, once they have
    been others."""

    b: SparseMatrix
    bt: SparseMatrix
    turn: IntArray
    table: PairTable
    symbolic: Symbolic
    prior: PriorPlaces
    joined: Joined | None = None

    def refilled(self, b: SparseMatrix) -> Layout:
        """The layout with the numbers of another B of the same pattern."""
        bt, table = filled(self.bt, b.data[self.turn]), self.table.refilled(b)
        return replace(self, b=b, bt=bt, table=table)


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
    shape = shape_of(linear)
    with _lock:
        for key, layout in _kept.items():
            if layout.fits(operators, shape, precision):
                _kept.move_to_end(key)
                return layout
        like = [(key, k) for key, k in _kept.items() if k.alike(shape, precision)]
        for too_large in _refused:
            same = too_large.budget == budget()
            if same and too_large.fits(operators, shape, precision):
                raise too_large.error.with_traceback(None)
    for _, layout in like:
        data = None if layout.joined is None else layout.joined.values(operators)
        if data is not None:
            return layout.refilled(filled(layout.b, data))
    b = canonical(StackedPredictors(linear).sparse())
    for key, layout in like:
        if layout.table.small and same_pattern(layout.b, b):
            joined = Joined.of(linear, b)
            layout = replace(layout.refilled(b), operators=operators, joined=joined)
            with _lock:
                if key in _kept:
                    _kept[key] = layout
            return layout
    try:
        created = _make(linear, b, operators, shape, precision)
    except TooLarge as error:
        refusal = Refused(operators, shape, precision, budget(), error)
        with _lock:
            _refused[:] = [refusal]
        raise
    with _lock:
        _kept[id(created)] = created
        while len(_kept) > 1 and (len(_kept) > KEPT or _entries() > KEPT_ENTRIES):
            _kept.popitem(last=False)
    return created


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
    turned = sp.csr_array(filled(b, np.arange(b.nnz, dtype=np.float64)).T)
    turn = turned.data.astype(np.int64)
    return Layout(
        operators,
        shape,
        precision,
        b,
        filled(turned, b.data[turn]),
        turn,
        table,
        analyse(table.pattern),
        PriorPlaces.of(precision, table.pattern),
    )
