"""Variances of any rows under the iterative engine's posterior, and their standard errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.engines.iterative.driven import LANCZOS
from lgmdsl.engines.iterative.variance import RowGroups, known_moments, plain, regressed
from lgmdsl.operators.base import Gram, Operator
from lgmdsl.operators.compose import parts_of

if TYPE_CHECKING:
    from lgmdsl.engines.iterative.conditioned import IterativeConditioned

PRECISE = 0.05  # RMS of relative standard errors beyond which there are twice as many samples


def estimate(
    q: IterativeConditioned, groups: RowGroups, local: Callable[[], Gram | None]
) -> tuple[Array, Array]:
    """(rows,) each, 0 where constraints hold a row fixed. `local`: A at the groups' pairs, where it
    is known."""
    out, error = _estimate(q, groups, local)
    ties = q.engine.ties
    if ties is not None:
        fixed = groups.fixed(ties)
        out[fixed], error[fixed] = 0.0, 0.0
    return out, error


def _estimate(
    q: IterativeConditioned, groups: RowGroups, local: Callable[[], Gram | None]
) -> tuple[Array, Array]:
    operator = groups.operator
    if q.engine.variances == LANCZOS:
        out = np.asarray((operator.matvec(q.root) ** 2).sum(axis=1))
        return out, np.zeros(groups.rows)
    known = local() if len(groups.keys) else None
    if known is None:
        out, error = plain(operator.matvec(q.samples.u))
        out[groups.empty], error[groups.empty] = 0.0, 0.0
        return out, error
    out, error = groups.averaged(known(q.w), q.samples, q.directions)
    out -= lost(q, operator)
    if len(groups.long):
        out[groups.long], error[groups.long] = _long(q, groups)
    return out, error


def lost(q: IterativeConditioned, operator: Operator) -> Array:
    """What rows' variances under A'^-1 have to lose, (rows,)."""
    if q.held is None:
        return np.zeros(operator.shape[0])
    less, more = operator.matvec(q.held.minus), operator.matvec(q.held.plus)
    return np.asarray((less**2).sum(axis=1) - (more**2).sum(axis=1))


def precise(q: IterativeConditioned, variance: Array, error: Array) -> bool:
    """Whether the rows that neighbours make precise are; the others never can be."""
    groups = q.engine.groups
    if q.engine.variances == LANCZOS or len(groups.long) == groups.rows:
        return True
    share = np.delete(error / np.maximum(variance, 1e-300), groups.long)
    return float(np.sqrt(np.mean(share**2))) <= PRECISE


def _long(q: IterativeConditioned, groups: RowGroups) -> tuple[Array, Array]:
    values = groups.operator.matvec(q.samples.u)[groups.long]
    known = None
    if q.held is None and all(
        p.in_memory and p.is_sparse for o in (groups.operator, q.engine.b) for p in parts_of(o)
    ):
        known = known_moments(
            groups.long_rows, q.engine.b.sparse(), q.w, q.engine.prior.precision, q.diagonal
        )
    if known is None:
        return plain(values)
    controls = groups.long_rows @ (q.samples.lifted / q.diagonal[:, None])
    return regressed(values, np.asarray(controls), *known)
