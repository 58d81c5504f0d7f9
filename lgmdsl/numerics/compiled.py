"""numba's compiler as all kernels here use it. Importing this module imports numba.

Kernels are compiled at the first call, release the interpreter's lock and keep their machine code
on disk where that is possible: in the package's folder, else in the user's cache. A cache is never
worth an error: on a read-only install without a home, or on a full disk, each process compiles
anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from pickle import UnpicklingError
from typing import Any, ParamSpec, TypeVar

from numba import njit
from numba.core.caching import FunctionCache

P = ParamSpec("P")
T = TypeVar("T")


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a kernel whose digits are the same at every call.

    Multiply-add is fused ("contract"), sums are never reordered.
    """
    return _kernel(function, {"contract"})


def reordering(function: Callable[P, T]) -> Callable[P, T]:
    """Compile a kernel whose sums may be reordered so that they vectorise; NaN and infinity keep
    their meaning."""
    return _kernel(function, {"contract", "reassoc"})


def _kernel(function: Callable[P, T], fastmath: set[str]) -> Callable[P, T]:
    kernel: Any = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    caches: Any = FunctionCache
    with contextlib.suppress(RuntimeError):  # numba found no place to cache
        cache = caches(function)
        cache.save_overload = partial(_saved, cache.save_overload)
        cache._cache_file._load_index = partial(_listed, cache._cache_file._load_index)
        kernel._cache = cache
    typed: Callable[P, T] = kernel
    return typed


def _listed(load: Callable[[], dict[object, str]]) -> dict[object, str]:
    """The kernels in a file of them; none where it was written by a version whose argument types
    are gone, for the file is read before its age is known."""
    try:
        return load()
    except (AttributeError, ImportError, TypeError, EOFError, UnpicklingError):
        return {}


def _saved(save: Callable[..., None], *kernel: object) -> None:
    """Save a kernel; where its file cannot be kept the next process compiles again, no more."""
    with contextlib.suppress(OSError):
        save(*kernel)
