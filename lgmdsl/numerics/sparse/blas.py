"""BLAS and LAPACK inside compiled kernels: SciPy's own routines, called by address.

A routine is a named external symbol whose address is registered when this module is imported;
cached machine code refers to the name, so it survives from one process to the next. Matrices are
column-major and passed as addresses (`array.ctypes.data + 8 * offset`); their arrays must be
arguments of the kernel, which keeps them alive. Scalars pass by reference through a `Desk`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import llvmlite.binding as llvm
import numpy as np
from numba import types
from numba.extending import get_cython_function_address

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.numerics.compiled import compiled

Desk: TypeAlias = tuple[AnyArray, AnyArray, Array]
"""Where integers (int32), letters and reals lie for routines that take them by reference."""
At: TypeAlias = tuple[int, int]  # the address of a matrix and its leading dimension
Size: TypeAlias = tuple[int, int, int]

_L, _N, _T, _R = 0, 1, 2, 3
_ONE, _MINUS, _ZERO = 0, 1, 2


def desk() -> Desk:
    """A fresh one for each kernel call, so that calls may run in several threads."""
    letters = np.frombuffer(b"LNTR", dtype=np.uint8).copy()
    return np.zeros(8, dtype=np.int32), letters, np.array([1.0, -1.0, 0.0])


def _routine(module: str, name: str, arguments: int) -> Any:
    symbol = f"lgmdsl_{name}"
    llvm.add_symbol(symbol, get_cython_function_address(f"scipy.linalg.cython_{module}", name))
    return types.ExternalFunction(symbol, types.void(*[types.intp] * arguments))


_dpotrf = _routine("lapack", "dpotrf", 5)
_dpotri = _routine("lapack", "dpotri", 5)
_dtrsm = _routine("blas", "dtrsm", 11)
_dsyrk = _routine("blas", "dsyrk", 10)
_dgemm = _routine("blas", "dgemm", 13)
_dsymm = _routine("blas", "dsymm", 12)


@compiled
def potrf(on: Desk, n: int, a: int, ld: int) -> int:
    """Lower Cholesky factor in place; 0 where it succeeds."""
    k, c, _ = on
    k[0], k[1], k[2] = n, ld, 0
    i = k.ctypes.data
    _dpotrf(c.ctypes.data + _L, i, a, i + 4, i + 8)
    return int(k[2])


@compiled
def potri(on: Desk, n: int, a: int, ld: int) -> None:
    """The inverse's lower triangle, in place of the factor's."""
    k, c, _ = on
    k[0], k[1], k[2] = n, ld, 0
    i = k.ctypes.data
    _dpotri(c.ctypes.data + _L, i, a, i + 4, i + 8)


@compiled
def trsm(on: Desk, transposed: bool, m: int, n: int, a: int, lda: int, b: int, ldb: int) -> None:
    """B (m, n) becomes B L^-1, or B L^-T where transposed, for lower triangular L (n, n)."""
    k, c, x = on
    k[0], k[1], k[2], k[3] = m, n, lda, ldb
    i, t = k.ctypes.data, c.ctypes.data
    way = t + (_T if transposed else _N)
    one = x.ctypes.data + 8 * _ONE
    _dtrsm(t + _R, t + _L, way, t + _N, i, i + 4, one, a, i + 8, b, i + 12)


@compiled
def syrk(on: Desk, n: int, w: int, a: int, lda: int, keep: bool, c: int, ldc: int) -> None:
    """The lower triangle of C (n, n) becomes C - AA' for A (n, w); -AA' where C is not kept."""
    k, t, x = on
    k[0], k[1], k[2], k[3] = n, w, lda, ldc
    i, z = k.ctypes.data, t.ctypes.data
    one = x.ctypes.data
    beta = one + 8 * (_ONE if keep else _ZERO)
    _dsyrk(z + _L, z + _N, i, i + 4, one + 8 * _MINUS, a, i + 8, beta, c, i + 12)


@compiled
def gemm(
    on: Desk, transposed: tuple[bool, bool], size: Size, first: At, second: At, keep: bool, to: At
) -> None:
    """C (m, n), at `to`, becomes C - op(A) op(B) where it is kept, else -op(A) op(B); `size`: m, n
    and w, which is summed over."""
    k, t, x = on
    ta, tb = transposed
    a, b, c = first[0], second[0], to[0]
    k[0], k[1], k[2], k[3], k[4], k[5] = size[0], size[1], size[2], first[1], second[1], to[1]
    i, z = k.ctypes.data, t.ctypes.data
    one = x.ctypes.data
    way, other = z + (_T if ta else _N), z + (_T if tb else _N)
    beta = one + 8 * (_ONE if keep else _ZERO)
    _dgemm(way, other, i, i + 4, i + 8, one + 8 * _MINUS, a, i + 12, b, i + 16, beta, c, i + 20)


@compiled
def symm(on: Desk, m: int, n: int, a: int, lda: int, b: int, ldb: int, c: int, ldc: int) -> None:
    """C (m, n) = -AB for symmetric A given by its lower triangle."""
    k, t, x = on
    k[0], k[1], k[2], k[3], k[4] = m, n, lda, ldb, ldc
    i, z = k.ctypes.data, t.ctypes.data
    one = x.ctypes.data
    _dsymm(
        z + _L, z + _L, i, i + 4, one + 8 * _MINUS, a, i + 8, b, i + 12, one + 8 * _ZERO, c, i + 16
    )
