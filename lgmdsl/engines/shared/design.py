"""Explicit rows of operator sums: a few whole ones, or chunk by chunk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, Matrix, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.operators.base import Operator

Columns = Mapping[str, Operator]


def dense_rows(columns: Columns, where: Mapping[str, slice], size: int) -> Array:
    """(P, n) array of a few rows given as operators (constraints)."""
    rows = next(iter(columns.values())).shape[0]
    out = np.zeros((rows, size))
    for name, operator in columns.items():
        out[:, where[name]] = operator.dense()
    return out


def sparse_rows(predictor: Predictor, linear: LinearGaussian) -> SparseMatrix:
    """(P, n) csr of an affine functional over all latents, without duplicates."""
    pieces = [
        predictor.columns[b.name].sparse()
        if b.name in predictor.columns
        else sp.csr_array((predictor.rows, b.size))
        for b in linear.blocks
    ]
    x = sp.csr_array(sp.hstack(pieces, format="csr"))
    x.sum_duplicates()
    return x


def row_chunks(
    columns: Columns, where: Mapping[str, slice], rows: int, size: int, step: int
) -> list[tuple[slice, list[tuple[slice, Matrix]]]]:
    """Row slices of an operator sum, so that dense transposes stay bounded by step * n."""
    matrices = [(where[name], operator.matrix()) for name, operator in columns.items()]
    out = []
    for start in range(0, rows, step):
        chunk = slice(start, min(start + step, rows))
        out.append((chunk, [(w, cast("Matrix", m[chunk])) for w, m in matrices]))
    return out


def transpose_dense(pieces: Sequence[tuple[slice, Matrix]], rows: int, size: int) -> Array:
    """(n, rows) F-ordered array of the transposed row chunk."""
    out = np.zeros((rows, size))
    for where, m in pieces:
        out[:, where] = m if isinstance(m, np.ndarray) else m.toarray()
    return out.T
