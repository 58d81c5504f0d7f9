"""Array types that every layer shares. numpy is imported for typing only, so this costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

    Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
    SingleArray: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
    IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    BoolArray: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
    AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    SparseMatrix: TypeAlias = sp.csr_array[np.float64]
    Matrix: TypeAlias = Array | SparseMatrix
else:
    Array = SingleArray = IntArray = BoolArray = AnyArray = SparseMatrix = Matrix = Any
