"""Sparse matrices by their diagonals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import scipy.sparse as sp

from lgmdsl.arrays import Array, SparseMatrix


def diagonal(values: Array) -> SparseMatrix:
    """diag(values), csr."""
    return sp.csr_array(sp.diags_array(values, format="csr"))


def banded(bands: Iterable[Array], offsets: Iterable[int], shape: tuple[int, int]) -> SparseMatrix:
    """csr with `bands` at `offsets` above the diagonal, indices sorted."""
    diagonals: Any = list(bands)  # the stubs know no sequence of arrays
    out = sp.csr_array(sp.diags_array(diagonals, offsets=list(offsets), shape=shape, format="csr"))
    out.sort_indices()
    return out
