"""Single rows of a predictor, and predictors that grow by rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.stacked import stack
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse


def row(predictor: Predictor, number: int, linear: LinearGaussian) -> Array:
    """b of one row, (n,) over all latents."""
    out = np.zeros(linear.size)
    for name, operator in predictor.columns.items():
        out[linear.slices[name]] = _row(operator, number)
    return out


def times(predictor: Predictor, z: Array, linear: LinearGaussian) -> Array:
    """B z, (P,), without the offset."""
    return predictor.times(z, linear.slices)


def sliceable(predictor: Predictor) -> bool:
    """Whether its operators have rows to take."""
    return all(isinstance(op, Dense) or op.is_sparse for op in predictor.columns.values())


def between(predictor: Predictor, rows: slice) -> Predictor:
    """Some rows of one that is sliceable, or all of any."""
    if rows == slice(0, predictor.rows):
        return predictor
    taken: dict[str, Operator] = {
        name: Dense(op.array[rows]) if isinstance(op, Dense) else Sparse(op.sparse()[rows])
        for name, op in predictor.columns.items()
    }
    return Predictor(taken, predictor.offset[rows])


def grown(predictor: Predictor, more: Predictor, rows: Sequence[int]) -> Predictor:
    """The predictor with some rows of another below its own."""
    added = np.asarray(rows, dtype=np.int64)
    taken = {
        name: Sparse(op.sparse()[added]) if op.is_sparse else Dense(_taken(op, added))
        for name, op in more.columns.items()
    }
    return replace(stack((predictor, Predictor(taken, more.offset[added]))), event=predictor.event)


def _row(operator: Operator, number: int) -> Array:
    if isinstance(operator, Dense):
        return np.asarray(operator.array[number])
    if operator.is_sparse:
        return np.asarray(operator.sparse()[[number]].toarray()[0])
    unit = np.zeros(operator.shape[0])
    unit[number] = 1.0
    return operator.rmatvec(unit)


def _taken(operator: Operator, rows: IntArray) -> Array:
    if isinstance(operator, Dense):
        return np.asarray(operator.array[rows])
    return np.array([_row(operator, int(k)) for k in rows]).reshape(len(rows), operator.shape[1])
