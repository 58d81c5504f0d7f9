"""Concurvity: how much of a smooth the rest of the predictor could stand in for.

With X_s the columns of a smooth's coefficients b in the predictors of the data and P the projection
on those of all other latents: the largest of |P X_s a|^2 / |X_s a|^2 over all a that constraints
allow (`worst`), that ratio at the posterior mean of b (`observed`), and its mean over the space of
the smooth, the average of the squared canonical correlations (`average`). 0: nothing; 1: all of it.
The first two are those of `concurvity` of R's mgcv; its `estimate` is such an average with the
weights of its coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.memory import check

NONE = 1e-10  # of the largest singular value of columns of length 1: what is smaller is 0


class Concurvity(NamedTuple):
    """The three measures, from 0 to 1."""

    worst: float
    observed: float
    average: float


def concurvities(
    linear: LinearGaussian, mean: Array, smooths: Sequence[IntArray]
) -> list[Concurvity]:
    """Of each of the smooths, by the places of their coefficients among all latents; `mean` (n,) of
    these. Raises MethodError E505 where the matrices do not fit into memory."""
    size, rows = linear.size, linear.rows
    check(
        "the concurvity of smooths",
        f"{size:,} latents and {rows:,} rows",
        8.0 * size * (3.0 * rows + 3.0 * size),
        help="leave `concurvity` out",
    )
    design = StackedPredictors(linear).lifted(np.eye(size))
    if rows > size:
        design = np.asarray(sla.qr(design, mode="r")[0][:size], dtype=np.float64)
    for block in linear.blocks:
        fixed = _constraints(linear, block)
        if len(fixed):
            where = linear.slices[block.name]
            across = sla.orth(fixed.T)
            design[:, where] -= (design[:, where] @ across) @ across.T
    return [_of(design, mean, where) for where in smooths]


def _constraints(linear: LinearGaussian, block: PriorBlock) -> Array:
    """(m, n) the rows that fix members of one block alone: what its prior ties, and what
    `constrain` does."""
    tied = BlockPrior(block, 0).tied.rows.toarray()
    given = {} if linear.constraints is None else linear.constraints.columns
    if block.name not in given:
        return np.asarray(tied)
    shared = [op.dense().any(axis=1) for name, op in given.items() if name != block.name]
    own = given[block.name].dense()
    return np.vstack([tied, own[~np.any([*shared, np.zeros(len(own))], axis=0)]])


def _of(design: Array, mean: Array, where: IntArray) -> Concurvity:
    own, rest = _span(design[:, where]), _span(np.delete(design, where, axis=1))
    shared = np.linalg.svd(rest.T @ own, compute_uv=False) ** 2
    curve = design[:, where] @ mean[where]
    length = float(np.linalg.norm(curve))
    part = float(np.linalg.norm(rest.T @ (curve / length))) ** 2 if length else 0.0
    rank = own.shape[1]
    average = float(shared.sum()) / rank if rank else 0.0
    return Concurvity(*(min(x, 1.0) for x in (float(shared.max(initial=0.0)), part, average)))


def _span(columns: Array) -> Array:
    """An orthonormal basis of what columns span."""
    lengths = np.linalg.norm(columns, axis=0)
    unit = columns[:, lengths > 0.0] / lengths[lengths > 0.0]
    left, values, _ = np.linalg.svd(unit, full_matrices=False)
    return np.asarray(left[:, values > NONE * values.max(initial=0.0)])
