"""Krylov methods: preconditioned conjugate gradients for many right-hand sides at once, with Ritz
values of A, and Lanczos.

Every column is a recursion of its own, but products with A are taken of all of them together. The
coefficients of a column are those of Lanczos on M^-1/2 A M^-1/2 started at M^-1/2 rhs (Golub and
Van Loan, section 11.3), whose tridiagonal matrix gives quadrature for functions of A.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from lgmdsl.arrays import Array, BoolArray

# Steps that the estimate of the error looks back: a few, and a share of all that were taken.
BACK, BACK_SHARE = 4, 8
NARROWER = 0.8  # columns that have converged leave the block once so few are left


@dataclass(frozen=True, eq=False)
class KrylovSolution:
    """x with A x = rhs - residual, both (n, k). `indefinite`: columns that met p'Ap <= 0.

    `steps` (k,): iterations of each column; `slopes`, `ratios`: their coefficients alpha and beta.
    """

    x: Array
    residual: Array
    converged: BoolArray
    indefinite: BoolArray
    steps: Array
    slopes: list[list[float]]
    ratios: list[list[float]]


def conjugate_gradients(
    product: Callable[[Array], Array],
    rhs: Array,
    precondition: Callable[[Array], Array],
    tolerance: Array,
    limit: int,
    start: Array | None = None,
    accuracy: float = 0.0,
    share: float = 0.0,
) -> KrylovSolution:
    """Solve A x = rhs, (n, k), A and M positive definite; `precondition` applies M^-1.

    A column stops where |r|_M <= tolerance |rhs|_M, |r|_M^2 = r'M^-1 r, `tolerance` being (k,);
    where |r|_M is `share` of what it was at `start`; or where |x - A^-1 rhs|_A is estimated to have
    been below `accuracy` a few steps ago. The estimate is the sum of alpha r'M^-1 r over the steps
    since, a lower bound (Strakos and Tichy 2002, (3.15)).
    """
    n, k = rhs.shape
    x = np.zeros((n, k)) if start is None else start.copy()
    r = rhs.copy() if start is None else rhs - product(start)
    out = KrylovSolution(
        x,
        r,
        np.zeros(k, dtype=bool),
        np.zeros(k, dtype=bool),
        np.zeros(k),
        [[] for _ in range(k)],
        [[] for _ in range(k)],
    )
    active = np.arange(k)
    xa, ra = x, r
    z = precondition(ra)
    rz = _dots(ra, z)
    size = rz if start is None else _dots(rhs, precondition(rhs))
    goal = np.sqrt(np.maximum(size, 0.0)) * tolerance
    goal = np.maximum(goal, share * np.sqrt(np.maximum(rz, 0.0)))
    gains: list[Array] = []
    p = z.copy()
    for step in range(limit):
        done = np.sqrt(np.maximum(rz, 0.0)) <= goal[active]
        back = BACK + step // BACK_SHARE
        if accuracy and step > back:
            done |= np.sum(gains[-back:], axis=0)[active] <= accuracy**2
        out.converged[active] = done
        live = ~(done | out.indefinite[active])
        if live.sum() <= NARROWER * len(active) or not live.any():
            if xa is not x:
                x[:, active], r[:, active] = xa, ra
            if not live.any():
                return out
            active = active[live]
            xa, ra, p = (np.ascontiguousarray(m[:, live]) for m in (xa, ra, p))
            rz, live = rz[live], live[live]
        ap = product(p)
        curvature = _dots(p, ap)
        bad = live & ~(curvature > 0.0)
        out.indefinite[active] |= bad
        live &= ~bad
        alpha = np.where(live, rz / np.where(curvature > 0.0, curvature, 1.0), 0.0)
        if accuracy:
            gain = np.zeros(k)
            gain[active] = alpha * rz
            gains.append(gain)
        xa += alpha * p
        ap *= alpha
        ra -= ap
        z = precondition(ra)
        before, rz = rz, np.where(live, _dots(ra, z), rz)
        beta = np.where(live, rz / np.where(before > 0.0, before, 1.0), 0.0)
        p *= beta
        p += z
        out.steps[active] += live
        for column, ok, a, b in zip(active, live, alpha, beta, strict=True):
            if ok:
                out.slopes[column].append(float(a))
                out.ratios[column].append(float(b))
    out.converged[active] = np.sqrt(np.maximum(rz, 0.0)) <= goal[active]
    if xa is not x:
        x[:, active], r[:, active] = xa, ra
    return out


def _dots(a: Array, b: Array) -> Array:
    """a_j'b_j of each column."""
    return np.asarray(np.einsum("ij,ij->j", a, b))


def ritz(slopes: list[float], ratios: list[float]) -> tuple[Array, Array]:
    """Nodes and weights (summing to 1) of Gauss quadrature for the spectral measure of
    M^-1/2 A M^-1/2 at the normalised start, from one column's coefficients."""
    a, b = np.asarray(slopes), np.asarray(ratios)
    diagonal = 1.0 / a
    diagonal[1:] += b[:-1] / a[:-1]
    off = np.sqrt(b[:-1]) / a[:-1]
    nodes, vectors = eigh_tridiagonal(diagonal, off)
    return np.asarray(nodes, dtype=np.float64), np.asarray(vectors[0] ** 2, dtype=np.float64)


def smallest(solved: KrylovSolution) -> float:
    """The smallest Ritz value of the longest column: from above, the smallest eigenvalue of
    M^-1/2 A M^-1/2; 1 where no column took a step."""
    longest = max(range(len(solved.slopes)), key=lambda j: len(solved.slopes[j]), default=0)
    if not solved.slopes or not solved.slopes[longest]:
        return 1.0
    return float(ritz(solved.slopes[longest], solved.ratios[longest])[0].min())


# ---- lanczos -----------------------------------------------------------------------------------
# Lanczos with full reorthogonalisation: A restricted to a Krylov space.


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
