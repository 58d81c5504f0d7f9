"""A sparse Gaussian conditioned on Cz = e, with an entry added to its precision per pinned latent.

A may be singular along directions that C ties (the level of an intrinsic field next to a flat
intercept), so A' = A + E diag(tau) E' is factored, E picking the pins. Then, V' being A'^-1,

1. kriging: D = CV'C', V_c = V' - V'C'D^-1 CV', and the mean moves by V'C'D^-1 (e - Cm');
2. the pins are taken out again: G = diag(1/tau) - E'V_cE, V = V_c + V_cE G^-1 E'V_c, and the mean
   moves by V_cE G^-1 E'm.

On the subspace, with Z an orthonormal basis of C's null space,
log|Z'AZ| = log|A'| + log|D| - log|CC'| + log|diag(tau) G|  (all derived; tests compare with dense
algebra). A' has to be positive definite itself, which site weights that are negative in the sum
along what C ties may prevent where Z'AZ alone would be: a rejected step, like any failed factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array, IntArray, SparseMatrix
from lgmdsl.engines.shared.constraints import left
from lgmdsl.numerics.cholesky import Cholesky, cholesky
from lgmdsl.numerics.sparse.base import Factor, Pattern, times

if TYPE_CHECKING:
    from numpy.random import Generator


@dataclass(frozen=True, eq=False)
class Held:
    """V = V' - minus minus' + plus plus', minus (n, k), plus (n, p); see the module.

    `half_log_det` is (log|Z'AZ| - log|A'| + log|CC'|) / 2, whose last term is the prior's as well.
    """

    rows: SparseMatrix
    pins: IntArray
    minus: Array
    plus: Array
    kriging: Cholesky
    loose: Cholesky
    half_log_det: float

    def place(self, mean: Array, target: Array) -> Array:
        """The mean on the subspace from A'^-1 h."""
        miss = self.kriging.forward(target - times(self.rows, mean))
        placed = mean + self.minus @ miss
        placed += self.plus @ self.loose.forward(placed[self.pins])
        return np.asarray(placed)

    def project(self, z: Array, white: Array) -> Array:
        """(n, k) draws of covariance V from ones of covariance V' and normals (p, k)."""
        projected = z - self.minus @ self.kriging.forward(times(self.rows, z))
        return np.asarray(projected + self.plus @ white)


def hold(solved: Array, rows: SparseMatrix, pins: IntArray, tau: Array) -> Held | None:
    """`solved`: V' [C', E], (n, k + p). None where A is not positive definite on the subspace."""
    k = rows.shape[0]
    spread = solved[:, :k]
    square = times(rows, spread)
    kriging = cholesky(np.ascontiguousarray(0.5 * (square + square.T)))
    if kriging is None:
        return None
    minus = np.ascontiguousarray(kriging.forward(np.asfortranarray(spread.T)).T)
    pinned = solved[:, k:] - minus @ minus[pins].T
    g = np.diag(1.0 / tau) - 0.5 * (pinned[pins] + pinned[pins].T)
    loose = cholesky(np.ascontiguousarray(g))
    if loose is None:
        return None
    plus = np.ascontiguousarray(loose.forward(np.asfortranarray(pinned.T)).T)
    half = kriging.half_log_det + loose.half_log_det + 0.5 * float(np.log(tau).sum())
    return Held(rows, pins, minus, plus, kriging, loose, half)


def columns_of(rows: SparseMatrix, pins: IntArray) -> Array:
    """[C', E], (n, k + p), C-ordered, as sparse kernels like it."""
    k = rows.shape[0]
    columns = np.zeros((rows.shape[1], k + len(pins)))
    columns[:, :k] = rows.T.toarray()
    columns[pins, k + np.arange(len(pins))] = 1.0
    return columns


@dataclass(frozen=True, eq=False)
class Restriction:
    """V through the factor of A', held or as it is; `half_log_det` is log|Z'AZ| / 2 + log|CC'| / 2,
    whose second term is the prior's as well."""

    factor: Factor
    subspace: Held | None
    half_log_det: float

    def place(self, mean: Array, target: Array) -> Array:
        """The mean on the subspace from A'^-1 h."""
        return mean if self.subspace is None else self.subspace.place(mean, target)

    def solve(self, rhs: Array) -> Array:
        """V rhs for (n, k)."""
        out = self.factor.solve(rhs)
        if self.subspace is None:
            return out
        out -= self.subspace.minus @ (self.subspace.minus.T @ rhs)
        out += self.subspace.plus @ (self.subspace.plus.T @ rhs)
        return out

    def lost(self, x: Array | SparseMatrix) -> Array:
        """What diag(XV'X') has to lose to become diag(XVX'), (r,), for rows X, (r, n)."""
        if self.subspace is None:
            return np.zeros(x.shape[0])
        less, more = np.asarray(x @ self.subspace.minus), np.asarray(x @ self.subspace.plus)
        lost = np.einsum("ij,ij->i", less, less) - np.einsum("ij,ij->i", more, more)
        return np.asarray(lost)

    def entries_lost(self, rows: IntArray, columns: IntArray, step: int = 1 << 21) -> Array:
        """What entries (row, column) of V' have to lose."""
        out = np.zeros(len(rows))
        if self.subspace is None:
            return out
        wide = max(1, step // max(self.subspace.minus.shape[1] + self.subspace.plus.shape[1], 1))
        for start in range(0, len(rows), wide):
            i, j = rows[start : start + wide], columns[start : start + wide]
            out[start : start + wide] = np.einsum(
                "ij,ij->i", self.subspace.minus[i], self.subspace.minus[j]
            )
            out[start : start + wide] -= np.einsum(
                "ij,ij->i", self.subspace.plus[i], self.subspace.plus[j]
            )
        return out

    def on_pattern(self, pattern: Pattern) -> Array:
        """(nnz,) V on the pattern that was factored."""
        free = self.factor.selected()
        lost, own = self.entries_lost(pattern.indices, pattern.columns), pattern.on_diagonal
        out = free - lost
        out[own] = left(free[own], lost[own])
        return out

    def draws(self, rng: Generator, size: int) -> Array:
        """(n, size) draws with mean zero and covariance V."""
        z = self.factor.backward(rng.standard_normal((len(self.factor.pivots), size)))
        if self.subspace is None:
            return z
        return self.subspace.project(z, rng.standard_normal((self.subspace.plus.shape[1], size)))


def restrict(
    factor: Factor, rows: SparseMatrix, pins: IntArray, tau: Array, columns: Array
) -> Restriction | None:
    """None where A is not positive definite on the subspace. `rows`: C of full row rank; `columns`:
    [C', E] (`columns_of`)."""
    if not rows.shape[0]:
        return Restriction(factor, None, factor.half_log_det)
    subspace = hold(factor.solve(columns), rows, pins, tau)
    if subspace is None:
        return None
    return Restriction(factor, subspace, factor.half_log_det + subspace.half_log_det)
