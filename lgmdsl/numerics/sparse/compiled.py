"""numba's compiler as the kernels here use it. Importing this module imports numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile at the first call, keep the machine code on disk, release the interpreter's lock.

    Multiply-add is fused ("contract"), sums are never reordered: the same digits at every call.
    Where no folder for numba's cache can be written, each process compiles anew.
    """
    options: dict[str, Any] = {
        "nogil": True, "error_model": "numpy", "fastmath": {"contract"},
    }  # fmt: skip
    try:
        kernel: Callable[P, T] = njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no place to cache
        kernel = njit(**options)(function)
    return kernel
