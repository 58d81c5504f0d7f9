"""Generalised inverses and determinants of singular sparse precisions, through a grounded factor.

With N an orthonormal basis of the null space, E as many entries as it has columns such that N_E is
regular, R the rest, and G = Q_RR^-1 padded with zeros (Q G Q = Q):
    Q^+ = (I - NN') G (I - NN'),        |Q|_+ = |Q_RR| / det(N_E)^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray, SparseMatrix
from lgmdsl.numerics.sparse.analyse import analyse
from lgmdsl.numerics.sparse.base import Factor, Pattern

_NOTHING = 1e-12  # of a diagonal entry: what is left of it after rounding alone


class GeneralisedInverse(NamedTuple):
    """diag Q^+, (n,), and log|Q|_+."""

    variances: Array
    log_det: float


def log_determinant(q: SparseMatrix) -> float | None:
    """log|Q|; None unless Q is positive definite to working precision."""
    if q.shape[0] == 0:
        return 0.0
    factor = _factor(q)
    return None if factor is None else 2.0 * factor.half_log_det


class TooManyFlops(Exception):
    """A factorisation of so many `flops` was not begun."""

    def __init__(self, flops: float) -> None:
        super().__init__(f"{flops:.2g} flops")
        self.flops = flops


def generalised_variances(
    q: SparseMatrix, null: SparseMatrix, most: float = np.inf
) -> GeneralisedInverse | None:
    """diag Q^+ and log|Q|_+ of a semi-definite Q, (n, n), with null basis (n, k) in csr.

    None where Q off its null space is not positive definite to working precision. Raises
    TooManyFlops where the factor takes more than `most` flops (its inverse twice as many again).
    """
    ground, log_minor = _grounds(null)
    rest = np.ones(q.shape[0], dtype=bool)
    rest[ground] = False
    minor = sp.csr_array(q[rest][:, rest])
    factor = _factor(minor, most)
    if factor is None:
        return None
    diagonal = np.zeros(q.shape[0])
    diagonal[rest] = factor.selected()[Pattern.of(minor).on_diagonal]
    cross, middle = _projected(factor, null, rest)
    rows: Array = np.asarray(null.multiply(cross).sum(axis=1)).reshape(-1)
    both: Array = np.asarray(null.multiply(null @ middle).sum(axis=1)).reshape(-1)
    return GeneralisedInverse(diagonal - 2.0 * rows + both, 2.0 * factor.half_log_det - log_minor)


def log_pseudo_determinant(q: SparseMatrix, null: SparseMatrix) -> float | None:
    """log|Q|_+; None as in `generalised_variances`."""
    ground, log_minor = _grounds(null)
    rest = np.ones(q.shape[0], dtype=bool)
    rest[ground] = False
    whole = log_determinant(sp.csr_array(q[rest][:, rest]))
    return None if whole is None else whole - log_minor


def _disjoint(null: SparseMatrix) -> bool:
    return bool((np.diff(null.indptr) <= 1).all())


def _grounds(null: SparseMatrix) -> tuple[IntArray, float]:
    """E, and log det(N_E)^2: the largest entry of each column where the columns do not overlap."""
    if null.shape[1] == 0:
        return np.zeros(0, dtype=np.int64), 0.0
    if _disjoint(null):
        entries = sp.csc_array(null)
        entries.eliminate_zeros()
        starts = entries.indptr[:-1]
        size = np.abs(entries.data)
        best = np.maximum.reduceat(size, starts)
        largest = np.flatnonzero(size == np.repeat(best, np.diff(entries.indptr)))
        first = np.searchsorted(largest, starts)
        return entries.indices[largest[first]].astype(np.int64), 2.0 * float(np.log(best).sum())
    _, r, order = sla.qr(null.toarray().T, mode="economic", pivoting=True)
    k = null.shape[1]
    return order[:k].astype(np.int64), 2.0 * float(np.log(np.abs(r.diagonal())).sum())


def _projected(
    factor: Factor, null: SparseMatrix, rest: BoolArray
) -> tuple[SparseMatrix, SparseMatrix]:
    """G N on N's pattern where its columns lie in separate components, else whole; and N'GN."""
    if _disjoint(null):
        sums = np.zeros(null.shape[0])
        sums[rest] = factor.solve(np.asarray(null.sum(axis=1)).reshape(-1)[rest])
        projected = null.copy()
        projected.data = np.repeat(sums, np.diff(null.indptr))
        return projected, sp.csr_array(null.T @ projected)
    whole = np.zeros(null.shape)
    whole[rest] = factor.solve(null.toarray()[rest])
    return sp.csr_array(whole), sp.csr_array(null.T @ whole)


def _factor(q: SparseMatrix, most: float = np.inf) -> Factor | None:
    """None unless Q is positive definite to working precision: a pivot of rounding is none."""
    pattern = Pattern.of(q)
    symbolic = analyse(pattern)
    if symbolic.flops > most:
        raise TooManyFlops(symbolic.flops)
    factor = symbolic.factor(pattern.values(q))
    if factor is None or not (factor.pivots > _NOTHING * q.diagonal()).all():
        return None
    return factor
