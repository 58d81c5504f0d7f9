"""Derivatives of the iterative engine's log_normaliser: those of the mean as exact as the mean, the
rest with the covariance of its samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Matrix
from lgmdsl.contract.engine import Adjoints, Rows
from lgmdsl.contract.stacked import cut, row_slices
from lgmdsl.engines.shared.conditioned import Lazy
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.prior_entries import constrained_entries
from lgmdsl.engines.shared.shift_derivatives import Outer, Turn

if TYPE_CHECKING:
    from lgmdsl.engines.iterative.conditioned import IterativeConditioned


def adjoints(q: IterativeConditioned, tilt: Rows | None = None) -> Adjoints:
    """See the module."""
    prior, predictors = q.engine.prior, q.linear.predictors
    ties = q.engine.ties
    turn = Turn.of(q, q.linear, lambda x: q.own_weight * x, tilt)
    product = turn.product(q.alpha, q.latent_mean)
    pull = prior.times((q.delta if ties is None else q.delta - ties.away) + turn.latent)
    operators = tuple(
        Lazy({name: _operator(q, k, rows.start, name, product) for name in p.columns})
        for k, (p, rows) in enumerate(zip(predictors, row_slices(predictors), strict=True))
    )
    proper = [b for b in prior.blocks if not (b.flat if ties else b.nullity)]
    makers = {b.name: _precision(q, b, turn) for b in proper}
    return Adjoints(
        offset=tuple(cut(q.alpha + turn.alpha, predictors)),
        operator=operators,
        mean={b.name: pull[b.where] for b in prior.blocks},
        precision=Lazy(makers),
    )


def _precision(q: IterativeConditioned, block: BlockPrior, turn: Turn) -> Callable[[], Matrix]:
    """(K - V - dd')/2 on Q's pattern."""

    def make() -> Matrix:
        precision = block.sparse_precision
        rows = np.repeat(np.arange(block.size), np.diff(precision.indptr))
        columns = precision.indices.astype(np.int64)
        u = q.samples.u[block.where]
        ties = q.engine.ties
        if ties is None:
            values = q.engine.prior.covariance(block, rows, columns)
        else:
            away = ties.away[block.where]
            values = constrained_entries(ties.prior, block.block, rows, columns)
            values += away[rows] * away[columns]
        values = values - turn.squared(q.delta, rows, columns, block.where.start)
        spread = np.einsum("ik,ik->i", u[rows], u[columns]) / q.samples.count
        on = rows == columns
        spread[on] = q.latent_variance[block.where][rows[on]]
        values -= spread
        return sp.csr_array(
            (0.5 * values, precision.indices, precision.indptr), shape=precision.shape
        )

    return make


def _operator(
    q: IterativeConditioned, k: int, at: int, name: str, product: Outer
) -> Callable[[], object]:
    """alpha mean' - W B V, B V from the samples."""

    def make() -> object:
        p, where = q.linear.predictors[k], q.linear.slices[name]
        rows, u = slice(at, at + p.rows), q.samples.u
        lift = q.w[rows, None] * q.operator(p).matvec(u) / q.samples.count
        if not p.columns[name].is_sparse:
            return product.dense(rows, where) - lift @ u[where].T
        pattern = sp.csr_array(p.columns[name].sparse())
        line = np.repeat(np.arange(p.rows), np.diff(pattern.indptr))
        values = product.entries(line + at, pattern.indices + where.start)
        values -= np.einsum("ik,ik->i", lift[line], u[where][pattern.indices])
        return sp.csr_array((values, pattern.indices, pattern.indptr), shape=pattern.shape)

    return make
