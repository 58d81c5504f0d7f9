"""A third party's back end: Laplace by damped fixed-point iteration, without a line search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.status import Guarantee, Status


@dataclass(frozen=True)
class Point:
    s: Rows
    q: Conditioned | None
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
        assert state.q is not None
        return self._at(problem, rows.interpolate(state.s, state.q.mean, self.damping))

    def residual(self, problem: Problem, state: Point) -> float:
        assert (q := state.q) is not None
        pairs = zip(q.mean, state.s, q.variance, strict=True)
        return max(float(np.max(abs(m - s) / v**0.5)) for m, s, v in pairs)

    def posterior(self, problem: Problem, state: Point) -> GaussianPosterior:
        assert (q := state.q) is not None
        return GaussianPosterior(q.weight, q.shift, q, state.objective, Guarantee.APPROXIMATE)

    def _at(self, problem: Problem, s: Rows) -> Point:
        a = problem.pointwise(s)
        b = tuple(k.slope - k.curvature * x for k, x in zip(a, s))
        q = problem.engine.condition(tuple(-k.curvature for k in a), b)
        if isinstance(q, Failed):
            return Point(s, None, failed=Status.numerical_error)
        c = [k.value - 0.5 * k.curvature * x * x - d * x for k, d, x in zip(a, b, s)]
        return Point(s, q, q.log_normaliser + rows.total(tuple(c)))
