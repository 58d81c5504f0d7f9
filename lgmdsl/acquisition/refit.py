"""The re-fit at the end of a block: outer iterations of the double loop from kept marginals.

The first iteration computes no variances: those of the model's sites were kept up to date. The
variances of the posterior that it ends in are computed when the next block asks for them.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.objectives.profile import Profile, maximise_mean
from lgmdsl.contract.objectives.super_gaussian import (
    Penalty,
    WidthPoint,
    at_moments,
    super_gaussian,
)
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import SuperGaussian
from lgmdsl.errors import NumericalError


def refit(
    problem: Problem, mean: Rows, variance: Rows, weight: Rows, shift: Rows, outer: int
) -> WidthPoint:
    """`outer` outer iterations, at least one, from the marginals and weights given: the posterior
    and the lower bound on the log evidence there.

    Raises NumericalError E601 where the posterior does not factorise.
    """
    alpha = rows.slope_of(shift, weight, mean)
    point = _iterated(problem, mean, variance, alpha)
    for _ in range(outer - 1):
        q = point.conditioned
        alpha = rows.slope_of(q.shift, q.weight, q.mean)
        point = _iterated(problem, q.mean, q.variance, alpha)
    return point


def conditioned(problem: Problem, weight: Rows) -> Conditioned:
    """The posterior at these weights. Raises NumericalError E601 where it does not factorise."""
    shift = tuple(
        cast(SuperGaussian, s).beta + np.zeros_like(w)
        for s, w in zip(super_gaussian(problem), weight, strict=True)
    )
    q = problem.engine.condition(weight, shift)
    if isinstance(q, Failed):
        raise _failed(q.reason)
    return q


def _iterated(problem: Problem, mean: Rows, variance: Rows, alpha: Rows) -> WidthPoint:
    """The inner loop at these variances, and the widths at its end."""
    point = at_moments(problem, _inner(problem, mean, variance, alpha).mean, variance)
    if isinstance(point, Failed):
        raise _failed(point.reason)
    return point


def _inner(problem: Problem, mean: Rows, variance: Rows, alpha: Rows) -> Profile:
    reason = ""
    # Newton's curvatures may leave q improper far from the optimum; 1/gamma never does.
    for majorised in (False, True):
        penalties = [Penalty(s, majorised) for s in super_gaussian(problem)]
        best = maximise_mean(problem.engine, penalties, variance, mean, alpha)
        if not isinstance(best, Failed):
            return best
        reason = best.reason
    raise _failed(reason)


def _failed(reason: str) -> NumericalError:
    return NumericalError.of(
        "E601",
        "the re-fit after a block of inclusions failed",
        details=(reason,),
        help="use smaller blocks, or check the scale of the candidates",
    )
