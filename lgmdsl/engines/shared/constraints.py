"""Exact linear constraints Cz = e, by kriging; the prior is normalised on the subspace.

C is first made orthonormal (SVD; redundant rows drop out) and turned so that
    C2 (the first rows) sees only proper directions,   C1 N (the last rows) has full row rank,
N being the basis of the prior's improper directions (density 1). Then
    log_normaliser += log N(e; Cm, CVC') - log N(e2; C2 mu, C2 K C2') + 1/2 log det(C1 N N'C1'),
the limit of a proper prior of variance s^2 in the directions N, s -> inf, on the subspace Cz = e.
Where N is not made proper by data alone, adding tau C1'C1 to the precision and tau C1'e1 to the
shift changes nothing on the subspace but + tau e1'e1 / 2 (a pseudo-observation of the constraint).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.engine import Failed, Failure
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.shared.design import dense_rows
from lgmdsl.numerics.cholesky import Cholesky, cholesky

_RANK = 1e-10
# Of a free variance or mean, what a constraint that takes all of it leaves by rounding.
_NOTHING = 1e-14
_HELD = 1e-12  # of a unit vector, what the rows of constraints leave of it by rounding
LOG_2PI = float(np.log(2 * np.pi))


def left(free: Array, lost: Array) -> Array:
    """Variances or means less what constraints take of them: 0, and not their rounding, where that
    is all. An entry that is held fixed has no sd that an error could be relative to."""
    rest = free - lost
    return np.where(np.abs(rest) <= _NOTHING * np.abs(free), 0.0, rest)


def log_normal(residual: Array, factor: Cholesky) -> float:
    """log N(e; mean, D) from e - mean and the factor of D."""
    half = factor.forward(residual)
    return -0.5 * len(residual) * LOG_2PI - factor.half_log_det - 0.5 * float(half @ half)


@dataclass(frozen=True, eq=False)
class PreparedConstraints:
    """Turned constraints: rows [C2; C1], (k, n), values (k,); `proper` counts the rows of C2.

    `prior` factors C2 K C2'; `multiplier` = (C2 K C2')^-1 (e2 - C2 mu); `constant` holds the terms
    of the normaliser that do not depend on (W, b).
    """

    rows: Array
    values: Array
    proper: int
    prior: Cholesky
    multiplier: Array
    constant: float

    @property
    def pins(self) -> Array:
        """C1, the rows that tie improper directions."""
        return self.rows[self.proper :]

    @property
    def pinned(self) -> Array:
        """e1."""
        return self.values[self.proper :]


def prepare(
    linear: LinearGaussian,
    null_space: Callable[[Array], Array],
    covariance: Callable[[Array], Array],
    mean: Array,
    structural: Array,
    variance: Array,
) -> PreparedConstraints | Failed | None:
    """Turn the constraints once; Failed where they contradict themselves or the prior.

    `null_space(C)` is CN, `covariance(X)` is KX for columns X of proper directions, `variance` (n,)
    its diagonal. `structural`: rows that the prior's structures carry, (k, n), their values zero.
    """
    stacked, wanted = structural, np.zeros(len(structural))
    if linear.constraints is not None and len(linear.constraints.values):
        asked = dense_rows(linear.constraints.columns, linear.slices, linear.size)
        stacked = np.vstack([structural, asked])
        wanted = np.concatenate([wanted, np.asarray(linear.constraints.values, dtype=np.float64)])
    if not len(wanted):
        return None
    turned = [_turned(stacked[k], wanted[k], null_space) for k in _apart(stacked)]
    parts = [t for t in turned if t is not None]
    if len(parts) < len(turned):
        return Failed(kind=Failure.CONTRADICTION)
    rows = np.vstack([*(p.proper for p in parts), *(p.tied for p in parts)])
    values = np.concatenate([*(p.wanted for p in parts), *(p.tied_wanted for p in parts)])
    constant = sum(p.constant for p in parts)
    proper = sum(len(p.proper) for p in parts)
    c2, e2 = rows[:proper], values[:proper] - rows[:proper] @ mean
    spread = c2 @ covariance(c2.T) if proper else np.zeros((0, 0))
    moving = _moving(spread, float(np.einsum("ij,j->i", c2 * c2, variance).max(initial=0.0)))
    # Directions that the prior holds fixed are redundant, or contradict it.
    if moving.shape[1] < proper:
        fixed = e2 - moving @ (moving.T @ e2)
        if np.abs(fixed).max() > 1e-8 * (np.abs(values).max() + np.abs(mean).max(initial=0) + 1e-8):
            return Failed(kind=Failure.AGAINST_PRIOR)
        rows = np.vstack([moving.T @ c2, rows[proper:]])
        values = np.concatenate([moving.T @ values[:proper], values[proper:]])
        e2, spread, proper = moving.T @ e2, moving.T @ spread @ moving, moving.shape[1]
    prior = cholesky(np.ascontiguousarray(spread))
    if prior is None:
        return Failed(kind=Failure.SINGULAR_CONSTRAINTS)
    return PreparedConstraints(
        rows, values, proper, prior, prior.solve(e2), constant - log_normal(e2, prior)
    )


class _Turned(NamedTuple):
    """Rows C2 that see proper directions alone and rows C1 that tie others, and their values."""

    proper: Array
    tied: Array
    wanted: Array
    tied_wanted: Array
    constant: float


def _turned(stacked: Array, wanted: Array, null_space: Callable[[Array], Array]) -> _Turned | None:
    """None where the rows contradict one another."""
    u, s, vt = np.linalg.svd(stacked, full_matrices=False)
    rank = int(np.sum(s > _RANK * max(s.max(initial=0.0), 1e-300)))
    turned = u.T @ wanted
    scale = np.abs(wanted).max(initial=0.0) + 1e-300
    if np.abs(wanted - u[:, :rank] @ turned[:rank]).max(initial=0.0) > _RANK * scale:
        return None
    rows, values = vt[:rank], turned[:rank] / s[:rank]
    seen = null_space(rows)
    u, s, _ = np.linalg.svd(seen, full_matrices=True)
    tied = int(np.sum(s > _RANK))
    c2, c1 = u[:, tied:].T, u[:, :tied].T
    return _Turned(c2 @ rows, c1 @ rows, c2 @ values, c1 @ values, float(np.log(s[:tied]).sum()))


def _apart(rows: Array) -> list[IntArray]:
    """Groups of rows that have no latent in common: mixtures of a stiff block's with others would
    lose its digits."""
    touched = sp.csr_array(rows != 0.0).astype(np.int64)
    count, label = connected_components(sp.csr_array(touched @ touched.T), directed=False)
    return [np.flatnonzero(label == k) for k in range(count)]


def _moving(spread: Array, size: float) -> Array:
    """Orthonormal basis of the combinations with prior variance; `size` is what it would be if all
    latents were independent."""
    if not len(spread):
        return np.zeros((0, 0))
    values, vectors = np.linalg.eigh(spread)
    return np.asarray(vectors[:, values > 1e-13 * max(values[-1], size, 1e-300)])


@dataclass(frozen=True, eq=False)
class Kriging:
    """Conditioning one Gaussian on Cz = e: V C', the factor of D = CVC', lambda = D^-1 (e - Cm)."""

    constraints: PreparedConstraints
    spread: Array
    factor: Cholesky
    multiplier: Array
    log_density: float

    @cached_property
    def fixed(self) -> BoolArray:
        """(n,) latents that the constraints hold at a value: their unit vectors lie in the span of
        the (orthonormal) rows."""
        rows = self.constraints.rows
        return np.asarray(1.0 - np.einsum("ij,ij->j", rows, rows) < _HELD)

    @property
    def shift(self) -> Array:
        """(n,) what the mean gains: V C'lambda."""
        return np.asarray(self.spread @ self.multiplier)

    def reduction(self, projected: Array) -> Array:
        """L_D^-1 C V X for X'VC' given as (p, k): its Gram matrix is what the covariance loses."""
        return self.factor.forward(np.asfortranarray(projected.T))

    def correct(self, z: Array) -> Array:
        """Draws (size, n) moved onto the constraint: z - V C'D^-1 (Cz - e)."""
        miss = self.constraints.rows @ z.T - self.constraints.values[:, None]
        return np.asarray(z - (self.spread @ self.factor.solve(miss)).T)


def krige(constraints: PreparedConstraints, mean: Array, spread: Array) -> Kriging | None:
    """None where CVC' is not positive definite."""
    square = constraints.rows @ spread
    factor = cholesky(np.ascontiguousarray(0.5 * (square + square.T)))
    if factor is None:
        return None
    miss = constraints.values - constraints.rows @ mean
    return Kriging(constraints, spread, factor, factor.solve(miss), log_normal(miss, factor))
