"""All predictor rows of a problem at once, and single rows of what answers for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse


def stacked(linear: LinearGaussian) -> Predictor:
    """The predictors of all site blocks, one above the other, as one."""
    if len(linear.predictors) == 1:
        return linear.predictors[0]
    names = [b.name for b in linear.blocks if any(b.name in p.columns for p in linear.predictors)]
    return Predictor(
        {n: _column(linear, n) for n in names},
        np.concatenate([p.offset for p in linear.predictors] or [np.zeros(0)]),
    )


def _column(linear: LinearGaussian, name: str) -> Operator:
    size = next(b.size for b in linear.blocks if b.name == name)
    parts = [p.columns.get(name) for p in linear.predictors]
    if all(p is None or p.is_sparse for p in parts):
        sparse = [
            sp.csr_array((q.rows, size)) if p is None else p.sparse()
            for p, q in zip(parts, linear.predictors, strict=True)
        ]
        return Sparse(sp.csr_array(sp.vstack(sparse, format="csr")))
    dense = [
        np.zeros((q.rows, size)) if p is None else p.dense()
        for p, q in zip(parts, linear.predictors, strict=True)
    ]
    return Dense(np.vstack(dense))


def row_covariance(q: Conditioned, linear: LinearGaussian) -> Array:
    """(P, P) covariance of all predictor rows under q."""
    return q.project(stacked(linear), full=True)[1]


def newton_move(linear: LinearGaussian, q: Conditioned, gaps: Rows) -> float:
    """sqrt(g'Cov(z)g) with g = B' gaps, for shifts that are `gaps` off: how far Newton with q's own
    curvature would move any mean at most, in posterior sds. Costs one solve."""
    slope = pulled(linear, gaps)
    return float(np.sqrt(abs(q.squared_length(slope))))


def pulled(linear: LinearGaussian, rows: Rows) -> Array:
    """B'x for x given by site blocks, (n,)."""
    out = np.zeros(linear.size)
    for predictor, x in zip(linear.predictors, rows, strict=True):
        for name, operator in predictor.columns.items():
            start = linear.starts[name]
            out[start : start + operator.shape[1]] += operator.rmatvec(x.reshape(-1))
    return out


def lifted(linear: LinearGaussian, z: Array) -> Array:
    """B z for z over all latents, flat (P,)."""
    parts, where = [np.zeros(0)], linear.slices
    for predictor in linear.predictors:
        part = np.zeros(predictor.rows)
        for name, operator in predictor.columns.items():
            part += operator.matvec(z[where[name]])
        parts.append(part)
    return np.concatenate(parts)


def unstacked(flat: Array, like: Rows) -> Rows:
    """A (P,) array cut into the pieces of scalar site blocks."""
    return tuple(np.split(flat, np.cumsum([len(x) for x in like])[:-1]))


@runtime_checkable
class Divisible(Protocol):
    """An answer that can be asked about some of its rows alone: every site, and lifts that say so
    with a method `take`."""

    def take(self, rows: IntArray) -> Any: ...


def some_rows(
    answer: Expected, where: IntArray, size: int
) -> Callable[[Array, Array], ExpectedAnswer]:
    """(mean, variance) -> the answer of rows `where` of `size`, with its second derivatives.

    What is not `Divisible` is evaluated over all its rows, which costs more.
    """
    if len(where) == size:
        return lambda mean, variance: answer.expected(mean, variance, second=True)
    if isinstance(answer, Divisible):
        few: Expected = answer.take(where)
        return lambda mean, variance: few.expected(mean, variance, second=True)

    def among_all(mean: Array, variance: Array) -> ExpectedAnswer:
        every_mean = np.zeros((size, *mean.shape[1:]))
        each = np.ones(()) if mean.ndim == 1 else np.eye(mean.shape[1])
        every_variance = np.array(np.broadcast_to(each, (size, *each.shape)))
        every_mean[where], every_variance[where] = mean, variance
        a = answer.expected(every_mean, every_variance, second=True)
        more = (a.d_mean_variance, a.d_variance2, a.d_mean2)
        return ExpectedAnswer(
            a.value[where],
            a.d_mean[where],
            a.d_variance[where],
            *(None if x is None else x[where] for x in more),
        )

    return among_all
