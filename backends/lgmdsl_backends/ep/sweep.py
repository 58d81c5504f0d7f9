"""One sequential sweep of EP over the rows, by rank-one updates of their joint posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.joint import Divisible, row_covariance
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Tilted
from lgmdsl_backends.ep.blocks import FLATTEST, ROUNDING
from lgmdsl_backends.ep.matching import Matched

# A rank-one update that would leave less than this share of a row's precision is skipped.
LEAST = 1e-6


def sweep(problem: Problem, point: Matched) -> tuple[Array, Array]:
    """(tau, nu) after matching the moments of each row in turn.

    V <- V - d V_i V_i' / (1 + d V_ii),  m <- m + V_i (dn - d m_i) / (1 + d V_ii), for changes
    (d, dn) of row i. Rows whose cavity is improper by then, or whose update is not finite, stay.
    """
    covariance = row_covariance(point.conditioned, problem.engine.linear)
    mean, power = point.mean.copy(), point.power
    weight, shift = point.weight.copy(), point.shift.copy()
    for i, tilted in enumerate(_each_row(problem)):
        v = float(covariance[i, i])
        share = 1.0 - power * weight[i] * v
        if point.known[i] or not v > 0.0 or share < -ROUNDING:
            continue
        cavity = v / max(share, FLATTEST)
        moments = tilted(mean[i] - power * cavity * (shift[i] - weight[i] * mean[i]), cavity, power)
        if moments is None:
            continue
        matched_mean, matched_variance = moments
        target = (cavity - matched_variance) / (power * cavity * matched_variance)
        change = target - weight[i]
        scale = 1.0 + change * v
        if not scale > LEAST:
            continue
        gap = (matched_mean - mean[i]) / (power * matched_variance)
        # The change of nu less that of tau m is the change of the slope at m.
        shift[i] += gap + change * mean[i]
        weight[i] = target
        column = covariance[i].copy()
        mean += column * (gap / scale)
        covariance -= np.multiply.outer(column * (change / scale), column)
    return weight, shift


def _each_row(
    problem: Problem,
) -> Iterator[Callable[[float, float, float], tuple[float, float] | None]]:
    """(cavity mean, variance, power) -> tilted mean and variance, row by row."""
    for answer, predictor in zip(problem.tilting(), problem.engine.linear.predictors, strict=True):
        for k in range(predictor.rows):
            yield _row(answer, k, predictor.rows)


def _row(
    answer: Tilted, k: int, size: int
) -> Callable[[float, float, float], tuple[float, float] | None]:
    alone = answer.take(np.array([k])) if isinstance(answer, Divisible) else None

    def tilted(mean: float, variance: float, power: float) -> tuple[float, float] | None:
        if alone is not None:
            answers = alone.tilted(np.array([mean]), np.array([variance]), power)
            m, v = answers.mean[0], answers.variance[0]
        else:  # over all its rows, which costs more
            answers = answer.tilted(np.full(size, mean), np.full(size, variance), power)
            m, v = answers.mean[k], answers.variance[k]
        return (float(m), float(v)) if np.isfinite(m) and 0.0 < v < np.inf else None

    return tilted
