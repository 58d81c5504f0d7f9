"""What a design chooses from: a model with its labelled cases, and the candidates' predictor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from lgmdsl.acquisition.scores import SiteMaker, labelled
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Engine
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Site
from lgmdsl.contract.stacked import stack
from lgmdsl.engines.choose import Terms, required
from lgmdsl.operators.base import Operator
from lgmdsl.operators.explicit import Dense, Sparse


@dataclass(frozen=True, eq=False)
class Pool:
    """`linear`, `sites`: the model on the labelled cases; `answers` makes a block's sites answer
    the back end. `response` is the position of the binary observation among the site blocks,
    `candidates` the predictor of the unlabelled cases over the same latents."""

    linear: LinearGaussian
    sites: tuple[Site, ...]
    answers: tuple[Callable[[Site], object], ...]
    response: int
    candidates: Predictor

    @property
    def make(self) -> SiteMaker:
        """Sites of the response from labels."""
        return labelled(type(self.sites[self.response]))

    def with_cases(self, rows: Sequence[int], labels: Sequence[float]) -> Problem:
        """The problem with these candidates as labelled cases, below the first ones.

        Raises MethodError E501 where no engine takes it.
        """
        k, predictors, sites = self.response, list(self.linear.predictors), list(self.sites)
        if rows:
            predictors[k] = grown(predictors[k], self.candidates, rows)
            y = np.r_[cast(Any, sites[k]).y, np.asarray(labels, dtype=np.float64)]
            sites[k] = self.make(y)
        linear = replace(self.linear, predictors=tuple(predictors))
        answers = tuple(answer(s) for answer, s in zip(self.answers, sites, strict=True))
        return Problem(tuple(sites), answers, self._engine(linear))

    def _engine(self, linear: LinearGaussian) -> Engine:
        return required(linear, Terms.of())[0]


# ---- rows --------------------------------------------------------------------------------------
# Single rows of a predictor, and predictors that grow by rows.


def row(predictor: Predictor, number: int, linear: LinearGaussian) -> Array:
    """b of one row, (n,) over all latents."""
    out = np.zeros(linear.size)
    for name, operator in predictor.columns.items():
        out[linear.slices[name]] = _row(operator, number)
    return out


def times(predictor: Predictor, z: Array, linear: LinearGaussian) -> Array:
    """B z, (P,), without the offset."""
    return predictor.times(z, linear.slices)


def sliceable(predictor: Predictor) -> bool:
    """Whether its operators have rows to take."""
    return all(isinstance(op, Dense) or op.is_sparse for op in predictor.columns.values())


def between(predictor: Predictor, rows: slice) -> Predictor:
    """Some rows of one that is sliceable, or all of any."""
    if rows == slice(0, predictor.rows):
        return predictor
    taken: dict[str, Operator] = {
        name: Dense(op.array[rows]) if isinstance(op, Dense) else Sparse(op.sparse()[rows])
        for name, op in predictor.columns.items()
    }
    return Predictor(taken, predictor.offset[rows])


def grown(predictor: Predictor, more: Predictor, rows: Sequence[int]) -> Predictor:
    """The predictor with some rows of another below its own."""
    added = np.asarray(rows, dtype=np.int64)
    taken = {
        name: Sparse(op.sparse()[added]) if op.is_sparse else Dense(_taken(op, added))
        for name, op in more.columns.items()
    }
    return replace(stack((predictor, Predictor(taken, more.offset[added]))), event=predictor.event)


def _row(operator: Operator, number: int) -> Array:
    if isinstance(operator, Dense):
        return np.asarray(operator.array[number])
    if operator.is_sparse:
        return np.asarray(operator.sparse()[[number]].toarray()[0])
    unit = np.zeros(operator.shape[0])
    unit[number] = 1.0
    return operator.rmatvec(unit)


def _taken(operator: Operator, rows: IntArray) -> Array:
    if isinstance(operator, Dense):
        return np.asarray(operator.array[rows])
    return np.array([_row(operator, int(k)) for k in rows]).reshape(len(rows), operator.shape[1])
