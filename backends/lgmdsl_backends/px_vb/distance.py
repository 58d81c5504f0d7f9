"""How far the limit is: variational Bayes may creep, so its own steps say little."""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.problem import Problem
from lgmdsl_backends.px_vb.bound import Gaussian, Point, answers_at

# The relative step of the differences that give the bound's curvature in a predictor's mean.
STEP = 1e-5
# Weights that say next to nothing are measured against the variance.
SLIGHT = 1e-4


def move(q: Gaussian, following: Gaussian) -> float:
    """From q to the following one: the largest move of any mean, in sds, with the relative change
    of a weight."""
    most, squared = 0.0, 0.0
    pairs = zip(
        q.weight,
        following.weight,
        following.shift,
        q.alpha,
        q.mean,
        following.mean,
        q.variance,
        strict=True,
    )
    for w, other, shift, alpha, m, then, v in pairs:
        squared += float((shift - other * m - alpha) @ (then - m))
        if other is not w and w.size:
            scale = np.maximum(np.abs(other), SLIGHT / np.maximum(v, 1e-300))
            most = max(most, float((np.abs(other - w) / scale).max()))
    return max(math.sqrt(abs(squared)), most)


def newton_move(problem: Problem, point: Point) -> float:
    """How far Newton with the bound's own curvature would move any mean at most, in sds of q; nan
    where that curvature is no positive matrix. Costs a factorisation.

    With U = -d(shift - precision m)/dm, x = (Q + B'UB)^-1 B'g, g = shift - precision m - alpha:
    the length is x'(Q + B'WB)x = g'Bx + (Bx)'(W - U)Bx.
    """
    q = point.q
    step = tuple(STEP * (1.0 + np.abs(m)) for m in q.mean)
    beyond = answers_at(
        problem, tuple(m + h for m, h in zip(q.mean, step, strict=True)), q.variance
    )
    slopes = [a.shift - a.precision * m for a, m in zip(point.answers, q.mean, strict=True)]
    differences = zip(slopes, beyond, q.mean, step, strict=True)
    bent = tuple(-(a.shift - a.precision * (m + h) - g) / h for g, a, m, h in differences)
    gap = tuple(g - a for g, a in zip(slopes, q.alpha, strict=True))
    still = problem.engine.condition(bent, tuple(np.zeros_like(m) for m in q.mean))
    if isinstance(still, Failed):
        return math.nan
    end = still.with_shift(gap)
    if isinstance(end, Failed):
        return math.nan
    squared = 0.0
    for g, u, w, a, b in zip(gap, bent, q.weight, still.mean, end.mean, strict=True):
        squared += rows.total((g * (b - a) + (w - u) * (b - a) ** 2,))
    return math.sqrt(abs(squared))
