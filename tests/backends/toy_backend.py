"""A third party's back end: Laplace by damped fixed-point iteration, without a line search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.status import Guarantee, Status


@dataclass(frozen=True)
class Point:
    s: Rows
    q: Any  # Conditioned, or None in a failed state
    objective: float = -math.inf
    failed: Status | None = None


@dataclass(frozen=True)
class FixedPoint(Backend[Point]):
    """s <- (1 - damping) s + damping E_q[s], q the Gaussian of the curvature at s."""

    damping: float = 1.0
    spec: ClassVar[BackendSpec] = BackendSpec(name="fixed-point", needs=Pointwise)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> Point:
        s = problem.engine.prior_mean if warm is None else warm.conditioned.mean
        return self._at(problem, s)

    def step(self, problem: Problem, state: Point) -> Point:
        return self._at(problem, rows.interpolate(state.s, state.q.mean, self.damping))

    def residual(self, problem: Problem, state: Point) -> float:
        q = state.q
        pairs = zip(q.mean, state.s, q.variance, strict=True)
        return max(float(np.max(abs(m - s) / v**0.5)) for m, s, v in pairs)

    def posterior(self, problem: Problem, state: Point) -> GaussianPosterior:
        q = state.q
        return GaussianPosterior(q.weight, q.shift, q, state.objective, Guarantee.APPROXIMATE)

    def _at(self, problem: Problem, s: Rows) -> Point:
        a = problem.pointwise(s)
        b = tuple(k.slope - k.curvature * x for k, x in zip(a, s, strict=False))
        q = problem.engine.condition(tuple(-k.curvature for k in a), b)
        if isinstance(q, Failed):
            return Point(s, None, failed=Status.numerical_error)
        c = [k.value - 0.5 * k.curvature * x * x - d * x for k, d, x in zip(a, b, s, strict=False)]
        return Point(s, q, q.log_normaliser + rows.total(tuple(c)))
