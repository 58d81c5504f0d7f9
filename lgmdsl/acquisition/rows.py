"""Single rows of a predictor, and predictors that grow by rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import LinearGaussian, Predictor
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
    out = np.zeros(predictor.rows)
    for name, operator in predictor.columns.items():
        out += operator.matvec(z[linear.slices[name]])
    return out


def grown(predictor: Predictor, more: Predictor, rows: Sequence[int]) -> Predictor:
    """The predictor with some rows of another below its own."""
    names = dict.fromkeys((*predictor.columns, *more.columns))
    at = np.asarray(rows, dtype=np.int64)
    columns = {
        name: _stacked(predictor.columns.get(name), predictor.rows, more.columns.get(name), at)
        for name in names
    }
    return Predictor(columns, np.r_[predictor.offset, more.offset[at]], predictor.event)


def _row(operator: Operator, number: int) -> Array:
    if isinstance(operator, Dense):
        return np.asarray(operator.array[number])
    if operator.is_sparse:
        return np.asarray(operator.sparse()[[number]].toarray()[0])
    unit = np.zeros(operator.shape[0])
    unit[number] = 1.0
    return operator.rmatvec(unit)


def _stacked(above: Operator | None, rows: int, below: Operator | None, at: IntArray) -> Operator:
    shape = above.shape if above is not None else below.shape if below is not None else (0, 0)
    if all(o is None or o.is_sparse for o in (above, below)):
        top = sp.csr_array((rows, shape[1])) if above is None else above.sparse()
        end = sp.csr_array((len(at), shape[1])) if below is None else below.sparse()[at]
        return Sparse(sp.csr_array(sp.vstack([top, end], format="csr")))
    head = np.zeros((rows, shape[1])) if above is None else above.dense()
    tail = np.zeros((len(at), shape[1])) if below is None else _taken(below, at)
    return Dense(np.vstack([head, tail]))


def _taken(operator: Operator, at: IntArray) -> Array:
    if isinstance(operator, Dense):
        return np.asarray(operator.array[at])
    return np.array([_row(operator, int(k)) for k in at]).reshape(len(at), operator.shape[1])
