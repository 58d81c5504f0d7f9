"""Array types that every layer shares. numpy is imported for typing only, so this costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp

    #: A numpy array of float64.
    Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
    SingleArray: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
    #: A numpy array of int64.
    IntArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
    #: A numpy array of booleans.
    BoolArray: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
    #: A numpy array of any kind.
    AnyArray: TypeAlias = np.ndarray[Any, np.dtype[Any]]
    #: A scipy sparse array of float64, by rows (csr).
    SparseMatrix: TypeAlias = sp.csr_array[np.float64]
    #: An `Array` or a `SparseMatrix`.
    Matrix: TypeAlias = Array | SparseMatrix
else:
    Array = SingleArray = IntArray = BoolArray = AnyArray = SparseMatrix = Matrix = Any
