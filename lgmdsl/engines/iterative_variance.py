"""Variances of rows b'z from perturbation samples u ~ N(0, A^-1) (Papandreou and Yuille 2011).

Short rows, support S: Rao-Blackwellised over it,
    Var(b'u) = b'A_SS^-1 b + Var(b'A_SS^-1 r),    r = (A u)_S - A_SS u_S,
whose first term is exact. Long rows: the mean of (b'u)^2, with the control variate (b'u~)^2,
u~ = D^-1 r and D = diag(A), of known mean b'D^-1 A D^-1 b, where that can be had.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.operators.base import Operator

SHORT = 8  # latents in a row that is averaged over its support
CHUNK = 1 << 21  # entries of one temporary
AFFORDED = 5e9  # flops for the known means of the control variates


@dataclass(frozen=True, eq=False)
class Samples:
    """u (n, K) with u ~ N(0, A^-1) but for what is left of the solves, and A u."""

    u: Array
    lifted: Array
    rhs: Array

    @property
    def count(self) -> int:
        return int(self.u.shape[1])


@dataclass(frozen=True, eq=False)
class Group:
    """Rows with the same number of latents: which rows, their latents and entries, (m, s), and
    where each pair of latents of a row stands among the pairs, (m, s, s)."""

    rows: IntArray
    support: IntArray
    entries: Array
    pairs: IntArray


class RowGroups:
    """The rows of one functional sorted into short and long ones; made once for a functional."""

    def __init__(self, operator: Operator) -> None:
        self.operator, self.size = operator, operator.shape[1]
        self.rows = operator.shape[0]
        counts = operator.entries_by_row()
        short = np.flatnonzero(counts <= SHORT) if operator.is_sparse else np.zeros(0, np.int64)
        self.groups: list[Group] = []
        keys: list[IntArray] = []
        held = _rows_of(operator, short)
        widths = np.diff(held.indptr)
        self.empty = short[widths == 0]
        for width in np.unique(widths[widths > 0]):
            here = np.flatnonzero(widths == width)
            place = held.indptr[here].astype(np.int64)[:, None] + np.arange(width)
            support = held.indices[place].astype(np.int64)
            low = np.minimum(support[:, :, None], support[:, None, :])
            high = np.maximum(support[:, :, None], support[:, None, :])
            self.groups.append(
                Group(short[here], support, held.data[place], low * self.size + high)
            )
            keys.append(np.unique(self.groups[-1].pairs))
        self.keys = np.unique(np.concatenate(keys)) if keys else np.zeros(0, dtype=np.int64)
        self.groups = [
            Group(g.rows, g.support, g.entries, np.searchsorted(self.keys, g.pairs))
            for g in self.groups
        ]
        self.long = np.setdiff1d(np.arange(self.rows), short)

    @property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """The latents of every pair that some short row sees."""
        low, high = np.divmod(self.keys, self.size)
        return low, high

    def averaged(self, local: Array, samples: Samples) -> tuple[Array, Array]:
        """Variances of the short rows and their standard errors, (rows,); NaN in long rows.

        `local`: A at `pairs`.
        """
        out, error = np.full(self.rows, np.nan), np.full(self.rows, np.nan)
        out[self.empty], error[self.empty] = 0.0, 0.0
        for g in self.groups:
            step = max(1, CHUNK // (g.support.shape[1] * samples.count))
            for at in range(0, len(g.rows), step):
                here = slice(at, at + step)
                a = local[g.pairs[here]]
                b, support = g.entries[here], g.support[here]
                gain = np.linalg.solve(a, b[:, :, None])[:, :, 0]
                inside = np.einsum("msk,ms->mk", samples.lifted[support], gain)
                # b'A_SS^-1 A_SS u_S = b'u_S
                inside -= np.einsum("msk,ms->mk", samples.u[support], b)
                rest, error[g.rows[here]] = plain(inside)
                out[g.rows[here]] = np.einsum("ms,ms->m", b, gain) + rest
        return out, error

    @cached_property
    def long_rows(self) -> SparseMatrix:
        """The long rows, csr."""
        return _rows_of(self.operator, self.long)


def _rows_of(operator: Operator, rows: IntArray) -> SparseMatrix:
    if not len(rows):
        return sp.csr_array((0, operator.shape[1]))
    held = sp.csr_array(operator.sparse()[rows])
    held.sum_duplicates()
    held.eliminate_zeros()
    return held


def plain(values: Array) -> tuple[Array, Array]:
    """Mean of squares over samples, (rows, K), and its standard error: the samples are normal with
    mean zero, so that is sqrt(2 / K) of it."""
    mean = np.asarray((values**2).mean(axis=1))
    return mean, mean * np.sqrt(2.0 / values.shape[1])


def controlled(values: Array, controls: Array, known: Array) -> tuple[Array, Array]:
    """The same with the control variate: `controls` (rows, K) have mean squares `known`, (rows,).

    One coefficient for all rows, by least squares on squares in units of their means.
    """
    x, y = values**2, controls**2
    scale = np.maximum(x.mean(axis=1, keepdims=True), 1e-300)
    x0, y0 = (
        (x - x.mean(axis=1, keepdims=True)) / scale,
        (y - y.mean(axis=1, keepdims=True)) / scale,
    )
    by = float(np.sum(x0 * y0) / max(float(np.sum(y0 * y0)), 1e-300))
    out = x.mean(axis=1) - by * (y.mean(axis=1) - known)
    error = (x - by * y).std(axis=1, ddof=1) / np.sqrt(x.shape[1])
    return out, error


def known_means(x: SparseMatrix, b: SparseMatrix, weight: Array, prior: SparseMatrix,
                diagonal: Array) -> Array | None:  # fmt: skip
    """x_i'D^-1 A D^-1 x_i for rows x_i, A = Q + B'WB; None where it would cost too much."""
    scaled = sp.csr_array(x @ sp.diags_array(1.0 / diagonal, format="csr"))
    per_column = np.bincount(b.indices, minlength=b.shape[1])
    flops = 2.0 * float(per_column[scaled.indices].sum())
    if flops > AFFORDED:
        return None
    out = np.asarray(scaled.multiply(scaled @ prior).sum(axis=1), dtype=np.float64).reshape(-1)
    step = max(1, int(CHUNK * max(x.shape[0], 1) / max(flops, 1.0)))
    across = sp.csr_array(b.T)
    for at in range(0, x.shape[0], step):
        cross = sp.csr_array(scaled[at : at + step] @ across)
        cross.data **= 2
        out[at : at + step] += np.asarray(cross @ weight)
    return out
