"""Arrays as keys of a cache: what depends on a graph or on positions alone is computed once.

Hyperparameter loops rebuild a structure at every step, from the same data each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, Matrix, SparseMatrix


class Content:
    """An array or csr matrix, equal to another where shape and entries are; not to be changed."""

    __slots__ = ("digest", "value")

    def __init__(self, value: Matrix) -> None:
        self.value = value
        parts = [value] if isinstance(value, np.ndarray) else [value.data]
        if not isinstance(value, np.ndarray):
            parts += [value.indices.astype(np.int64), value.indptr.astype(np.int64)]
        digest = hashlib.blake2b(f"{value.shape}".encode(), digest_size=16)
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
        self.digest = digest.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


# ---- banded ------------------------------------------------------------------------------------
# Sparse matrices by their diagonals.


def diagonal(values: Array) -> SparseMatrix:
    """diag(values), csr."""
    return sp.csr_array(sp.diags_array(values, format="csr"))


def banded(bands: Iterable[Array], offsets: Iterable[int], shape: tuple[int, int]) -> SparseMatrix:
    """csr with `bands` at `offsets` above the diagonal, indices sorted."""
    diagonals: Any = list(bands)  # the stubs know no sequence of arrays
    out = sp.csr_array(sp.diags_array(diagonals, offsets=list(offsets), shape=shape, format="csr"))
    out.sort_indices()
    return out


# ---- pairing -----------------------------------------------------------------------------------
# Adjoints against matrices: the few entries of a dense or csr adjoint on the
# pattern of a sparse Q.


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
