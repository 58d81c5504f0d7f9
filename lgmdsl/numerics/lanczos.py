"""Lanczos with full reorthogonalisation: A restricted to a Krylov space."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from lgmdsl.arrays import Array


def lanczos(
    product: Callable[[Array], Array], start: Array, steps: int
) -> tuple[Array, Array, Array]:
    """Q (n, k) with orthonormal columns and the diagonals of T = Q'AQ, (k,) and (k - 1,).

    k <= `steps`; fewer where the Krylov space is exhausted.
    """
    n = len(start)
    basis = np.zeros((min(steps, n), n))
    diagonal, off = [], []
    v = start / np.linalg.norm(start)
    for k in range(len(basis)):
        basis[k] = v
        w = product(v)
        diagonal.append(float(v @ w))
        for _ in range(2):  # twice is enough (Parlett)
            w = w - basis[: k + 1].T @ (basis[: k + 1] @ w)
        length = float(np.linalg.norm(w))
        if length <= 1e-12 * abs(diagonal[0]) or k + 1 == len(basis):
            break
        off.append(length)
        v = w / length
    used = len(diagonal)
    return basis[:used].T, np.array(diagonal), np.array(off[: used - 1])


def root_of_inverse(basis: Array, diagonal: Array, off: Array) -> Array:
    """R (n, k) with RR' = Q T^-1 Q', which is at most A^-1 in the order of definite matrices."""
    values, vectors = eigh_tridiagonal(diagonal, off)
    return np.asarray(basis @ (vectors / np.sqrt(values)))
