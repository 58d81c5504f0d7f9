"""The double loop (Seeger and Nickisch 2011, algorithm 1): super-Gaussian bounds on the sites.

Outer: the part of phi that is concave in 1/gamma, log|A|, is bounded by its tangent, whose slopes
are the variances z = Var[s]. Inner: what is left is an estimation problem in the means with
penalties h*(s; z), solved by Newton; the widths follow in closed form. phi falls at every outer
step, and where all sites are log-concave it is convex (theorem 2): the optimum is the global one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.profile import maximise_mean
from lgmdsl.contract.questions import SuperGaussian
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.contract.super_gaussian import (
    Penalty,
    WidthPoint,
    at_moments,
    residual,
    start,
    super_gaussian,
)


@dataclass(frozen=True)
class DoubleLoopState:
    """q at the widths of the last inner loop, and the distance from those it asks for."""

    point: WidthPoint | None
    residual: float = math.inf
    failed: Status | None = None
    reason: str = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.bound


@dataclass(frozen=True)
class DoubleLoop(Backend[DoubleLoopState]):
    """Variances outside, means inside."""

    spec: ClassVar[BackendSpec] = BackendSpec(
        name="double-loop",
        needs=SuperGaussian,
        requires=Property.SUPER_GAUSSIAN,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        max_steps=500,
        paper="Seeger and Nickisch 2011, algorithm 1",
        summary="super-Gaussian bounds, variances outside and means inside; a lower bound",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> DoubleLoopState:
        return _state(problem, start(problem, warm))

    def step(self, problem: Problem, state: DoubleLoopState) -> DoubleLoopState:
        assert state.point is not None
        q = state.point.conditioned
        alpha = rows.slope_of(q.shift, q.weight, q.mean)
        reason = ""
        # Newton's curvatures may leave q improper far from the optimum; 1/gamma never does.
        for majorised in (False, True):
            penalties = [Penalty(s, majorised) for s in super_gaussian(problem)]
            best = maximise_mean(problem.engine, penalties, q.variance, q.mean, alpha)
            if not isinstance(best, Failed):
                return _state(problem, at_moments(problem, best.mean, q.variance))
            reason = best.reason
        return replace(state, failed=Status.numerical_error, reason=reason)

    def residual(self, problem: Problem, state: DoubleLoopState) -> float:
        """Newton's move of a mean in posterior sds, or the relative change of a weight."""
        return state.residual

    def posterior(self, problem: Problem, state: DoubleLoopState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem)


def _state(problem: Problem, point: WidthPoint | Failed) -> DoubleLoopState:
    if isinstance(point, Failed):
        return DoubleLoopState(None, math.inf, Status.numerical_error, point.reason)
    return DoubleLoopState(point, residual(problem, point.conditioned))
