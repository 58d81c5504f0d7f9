"""Inner products in which L-BFGS searches: by average information, and where EM slows down by

    <u, v> = u'Mv,   M the curvature of the complete-data objective at the last E-step

in which the EM step is the gradient, and the Hessian of evidence + log prior is the share of the
information that is not missing, between 0 and 1 whatever the scales of the hypers: quasi-Newton
acceleration of EM (Jamshidian and Jennrich 1997, QN1; Lange 1995). Where a covariance shrinks or
grows on the way, M is rescaled with its coordinates' units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg as sla
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from lgmdsl.arrays import Array, BoolArray, IntArray

DENSE = 300  # coordinates: below, a dense factor
# Of its diagonal: what is added to M, which may be singular where loadings of all classes are free.
RIDGE = 1e-8


@dataclass(frozen=True, eq=False)
class Metric:
    """M by products with its inverse, which is all that L-BFGS asks of it. `reach`: the longest
    first step, in its norm."""

    solve: Callable[[Array], Array]
    reach: float = 1.0


# Information that is less counts as so much: a step of a unit by it would gain 0.005 nats. No step
# of a log or logit is longer than LONGEST: the same is added to the information about all that
# would be, NEAR enough to the least that does (after Levenberg 1944).
LEAST, LONGEST, NEAR = 1e-2, 1.0, 0.1
PATIENT, FARTHEST = 3, 8.0


@dataclass(frozen=True, eq=False)
class Informed(Metric):
    """By the information at one place. `sds`: (d,) of the coordinates, LONGEST at most of logs and
    logits, so that maxima on both sides of a valley are not taken for one; `ahead`: (d,) how far
    away the maximum along each coordinate is as far as the information tells, infinite without any;
    `gain`: what a step is promised to gain; `farthest`: the multiple of it that line searches may
    go; `cuts`: how many steps in a row, this the last, would have been too long along a
    coordinate."""

    sds: Array = field(default_factory=lambda: np.zeros(0))
    ahead: Array = field(default_factory=lambda: np.zeros(0))
    gain: float = 0.0
    farthest: float = math.inf
    cuts: int = 0

    @classmethod
    def of(
        cls,
        information: Array,
        slope: Array,
        held: BoolArray,
        bounded: BoolArray,
        before: Informed | None = None,
    ) -> Informed:
        """Metric for an `information`, (d, d), and a `slope`, (d,), in units of the coordinates, of
        which some are `held`; `bounded` ones take no steps longer than LONGEST. Far above its
        optimum average information says too little of an sd, and a step by it would be without
        end. After PATIENT steps in a row that would have been too long, the last of them by the
        metric `before`, they are twice as long each time, up to FARTHEST."""
        cuts = 0 if before is None else before.cuts
        longest = min(LONGEST * 2.0 ** max(cuts - PATIENT, 0), FARTHEST)
        free = np.where(held | held[:, None], np.eye(len(slope)), information)
        values, vectors = np.linalg.eigh(free)
        known = (vectors * np.maximum(np.abs(values), LEAST)) @ vectors.T
        damped, cut = np.zeros(len(slope)), False

        def far(more: Array) -> BoolArray:
            step = np.linalg.solve(known + np.diag(more), slope)
            return np.asarray(bounded & (np.abs(step) > longest))

        while (long := far(damped) & (damped == 0.0)).any():
            cut, which = True, long | (damped > 0.0)
            low, high = 0.0, float(np.linalg.norm(slope)) / longest
            while high - low > NEAR * high:
                more = 0.5 * (low + high) if low else 0.1 * high
                low, high = (more, high) if far(more * which).any() else (low, more)
            damped = high * which
        values, vectors = np.linalg.eigh(known + np.diag(damped))

        def solve(g: Array) -> Array:
            inside = np.where(held, 0.0, g)
            return np.where(held, 0.0, vectors @ ((vectors.T @ inside) / values))

        sds = np.sqrt(np.sum(vectors**2 / values, axis=1))
        sds = np.where(bounded, np.minimum(sds, LONGEST), sds)
        step = solve(slope)
        size = float(np.abs(step[bounded]).max(initial=0.0))
        farthest = max(longest / size, 1.0) if size > 0.0 else math.inf
        gain, cuts = 0.5 * float(slope @ step), cuts + 1 if cut else 0
        own = np.maximum(np.diag(information), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            ahead = np.where(own > 0.0, np.abs(slope) / own, math.inf)
        return cls(solve, math.inf, sds, ahead, gain, farthest, cuts)


def together(parts: Sequence[tuple[IntArray, Metric]]) -> Metric:
    """Metric of coordinates in one part each: the positions of all parts together are all."""
    if len(parts) == 1:
        return parts[0][1]

    def whole(g: Array) -> Array:
        out = np.empty(len(g))
        for where, part in parts:
            out[where] = part.solve(g[where])
        return out

    return Metric(whole)


def metric(matrix: sp.csr_array) -> Metric | None:
    """Metric of a symmetric matrix, (d, d); None where it is not positive definite."""
    diagonal = matrix.diagonal()
    if not (np.isfinite(matrix.data).all() and (diagonal > 0.0).all()):
        return None
    whole = sp.csr_array(matrix + sp.diags_array(RIDGE * diagonal))
    if whole.shape[0] <= DENSE:
        try:
            factor = sla.cho_factor(whole.toarray())
        except np.linalg.LinAlgError:
            return None
        return Metric(lambda g: np.asarray(sla.cho_solve(factor, g)))
    try:
        lu = spla.splu(whole.tocsc())
    except RuntimeError:
        return None
    return Metric(lambda g: np.asarray(lu.solve(g)))


def joined(parts: Sequence[tuple[IntArray, sp.csr_array | Array]]) -> sp.csr_array:
    """(d, d) with each matrix, or diagonal, at its positions, which together are all of d."""
    rows, columns, values = [], [], []
    for where, given in parts:
        if isinstance(given, np.ndarray) and given.ndim == 1:
            matrix = sp.diags_array(given).tocoo()
        else:
            matrix = sp.csr_array(given).tocoo()
        rows.append(where[matrix.row])
        columns.append(where[matrix.col])
        values.append(matrix.data)
    at = np.concatenate(rows), np.concatenate(columns)
    size = sum(len(where) for where, _ in parts)
    return sp.csr_array((np.concatenate(values), at), shape=(size, size))
