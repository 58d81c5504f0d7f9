"""The re-fit at the end of a block: outer iterations of the double loop from kept marginals.

The first one needs no variances of its own: those of the model's sites were kept valid. The
variances of the posterior that it ends in are computed when the next block asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.acquisition.pool import bounds, heights, shifts
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.profile import maximise_mean
from lgmdsl.contract.super_gaussian import Penalty
from lgmdsl.errors import Diagnostic, NumericalError


@dataclass(frozen=True, eq=False)
class Refitted:
    """The posterior, and the lower bound on the log evidence there."""

    conditioned: Conditioned
    log_evidence: float


def refit(
    problem: Problem, mean: Rows, variance: Rows, weight: Rows, shift: Rows, outer: int
) -> Refitted:
    """`outer` outer iterations from the marginals and weights given.

    Raises NumericalError E601 where the posterior does not factorise.
    """
    alpha = rows.slope_of(shift, weight, mean)
    penalties = [Penalty(s) for s in bounds(problem)]
    for left in reversed(range(outer)):
        best = maximise_mean(problem.engine, penalties, variance, mean, alpha)
        if isinstance(best, Failed):
            raise _failed(best)
        pairs = zip(bounds(problem), best.mean, variance, strict=True)
        weight = tuple(1.0 / s.widths(m, v).width for s, m, v in pairs)
        q = conditioned(problem, weight)
        height = heights(problem, weight, best.mean, variance)
        mean, alpha = q.mean, rows.slope_of(q.shift, q.weight, q.mean)
        if left:
            variance = q.variance
    return Refitted(q, q.log_normaliser - 0.5 * height)


def conditioned(problem: Problem, weight: Rows) -> Conditioned:
    """The posterior at these weights. Raises NumericalError E601 where it does not factorise."""
    q = problem.engine.condition(weight, shifts(problem, weight))
    if isinstance(q, Failed):
        raise _failed(q)
    return q


def _failed(why: Failed) -> NumericalError:
    return NumericalError(
        Diagnostic(
            "E601", "the re-fit after a block of inclusions failed", details=(why.reason,),
            help="use smaller blocks, or check the scale of the candidates",
        )
    )  # fmt: skip
