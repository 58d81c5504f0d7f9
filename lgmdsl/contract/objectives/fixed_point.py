"""What back ends share that look for the ELBO's fixed point: W = -2 f_v with the best mean."""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.engine import Failed, Leftover, Rows
from lgmdsl.contract.objectives.elbo import ElboPoint, Standing, distance, elbo_of
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.problem import Problem


def profiled(
    problem: Problem,
    weight: Rows,
    mean: Rows,
    alpha: Rows,
    tolerance: float = 1e-7,
    leftover: Leftover | None = None,
) -> ElboPoint | Failed:
    """q with weights w and the best mean for its variances, sought from (mean, alpha), with what an
    iterative solution lacks there."""
    spread = problem.engine.condition(weight, tuple(np.zeros_like(m) for m in mean))
    if isinstance(spread, Failed):
        return spread
    best = maximise_mean(
        problem.engine,
        problem.expecting(),
        spread.variance,
        mean,
        alpha,
        tolerance,
        leftover=leftover,
    )
    if isinstance(best, Failed):
        return best
    return elbo_of(problem, spread.with_shift(rows.shift_of(best.alpha, weight, best.mean)))


def undamped_move(problem: Problem, point: Standing) -> float:
    """How far the undamped step to (W, b) = target moves predictors that are not certain: the
    largest move of a mean in posterior sds or of a log sd. Zero exactly at a fixed point; inf where
    it fails."""
    following = problem.engine.condition(*point.target)
    if isinstance(following, Failed):
        return math.inf
    gaps = []
    parts = zip(following.variance, point.variance, rows.uncertain(point.variance), strict=True)
    for new, old, moving in parts:
        ratio = np.maximum(rows.diagonal(new)[moving], 1e-300) / rows.diagonal(old)[moving]
        gaps.append(0.5 * np.abs(np.log(ratio)).max(initial=0.0))
    return max(distance(point, following), *map(float, gaps), 0.0)
