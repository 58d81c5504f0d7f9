"""Adjoints against matrices: the few entries of a dense or csr adjoint on the
pattern of a sparse Q."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix


def entries(matrix: Matrix, rows: IntArray, columns: IntArray) -> Array:
    """(m,) the entries at (rows, columns)."""
    values = matrix[rows, columns]
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray()).reshape(-1)


def inner(adjoint: Matrix, q: SparseMatrix) -> float:
    """sum_ij adjoint_ij Q_ij, the derivative along Q."""
    if isinstance(adjoint, np.ndarray):
        rows = np.repeat(np.arange(q.shape[0]), np.diff(q.indptr))
        return float(adjoint[rows, q.indices] @ q.data)
    if adjoint.nnz == q.nnz and np.array_equal(adjoint.indices, q.indices):
        return float(adjoint.data @ q.data)  # the same pattern, as engines give it
    return float(adjoint.multiply(q).sum())


def band(adjoint: Matrix, offset: int) -> Array:
    """(n - offset,) entries (i + offset, i) of the symmetric part."""
    below = np.asarray(adjoint.diagonal(-offset))
    return np.asarray(0.5 * (below + adjoint.diagonal(offset)))
