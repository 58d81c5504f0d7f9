"""The double loop (Seeger and Nickisch 2011, algorithm 1): super-Gaussian bounds on the sites.

Every site is bounded below by a Gaussian, t(s) >= exp(beta s - s^2 / (2 gamma) - h(gamma) / 2), so

    log Z >= log_normaliser(1/gamma, beta) - 1/2 sum h(gamma) = -phi(gamma) / 2.

Outer: the concave part of phi, log|A|, is bounded by its tangent, whose slopes are the variances
z = Var[s]. Inner: what is left is an estimation problem in the means with penalties h*(s), solved by
Newton; the widths follow in closed form. phi falls at every outer step, and where all sites are
log-concave it is convex (theorem 2): the optimum is the global one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.profile import maximise_mean
from lgmdsl.contract.questions import Expected, ExpectedAnswer, SuperGaussian
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status

CONVEX = "all sites are log-concave: the problem is convex and the optimum global"
OPEN = "some site is not log-concave: the optimum is not certified to be the global one"


@dataclass(frozen=True)
class Penalty(Expected):
    """-h*(s; z) in the place of an expectation, so that the inner loop is a search for a mean.

    Where h* is not convex the curvature is 1/gamma (iteratively reweighted least squares).
    """

    site: SuperGaussian

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        a = self.site.widths(mean, variance)
        curvature = np.where(a.curvature > 0.0, a.curvature, 1.0 / a.width)
        return ExpectedAnswer(-a.penalty, -a.slope, -0.5 * curvature)


@dataclass(frozen=True)
class DoubleLoopState:
    """q at the widths of the last inner loop, and the bound there."""

    conditioned: Conditioned | None
    objective: float
    residual: float = math.inf
    failed: Status | None = None
    reason: str = ""


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
        max_steps=200,
        paper="Seeger and Nickisch 2011 (algorithm 1)",
        summary="super-Gaussian bounds, variances outside and means inside; a lower bound",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> DoubleLoopState:
        mean = problem.engine.prior_mean
        variance: Rows = tuple(np.ones_like(m) for m in mean)
        if warm is not None:
            earlier = problem.engine.condition(warm.weight, warm.shift)
            if not isinstance(earlier, Failed):
                mean, variance = earlier.mean, earlier.variance
        return self._at(problem, mean, variance)

    def step(self, problem: Problem, state: DoubleLoopState) -> DoubleLoopState:
        q = state.conditioned
        assert q is not None
        alpha = rows.slope_of(q.shift, q.weight, q.mean)
        penalties = [Penalty(s) for s in _sites(problem)]
        best = maximise_mean(problem.engine, penalties, q.variance, q.mean, alpha)
        if isinstance(best, Failed):
            return replace(state, failed=Status.numerical_error, reason=best.reason)
        return self._at(problem, best.mean, q.variance)

    def residual(self, problem: Problem, state: DoubleLoopState) -> float:
        return state.residual

    def posterior(self, problem: Problem, state: DoubleLoopState) -> GaussianPosterior:
        q = state.conditioned
        assert q is not None
        concave = all(Property.LOG_CONCAVE in s.spec.properties for s in problem.sites)
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q,
            log_evidence=state.objective,
            guarantee=Guarantee.EXACT if problem.gaussian else self.spec.guarantee,
            notes=(CONVEX if concave else OPEN,),
        )

    def _at(self, problem: Problem, mean: Rows, variance: Rows) -> DoubleLoopState:
        """q and the bound at the widths that (mean, variance) give."""
        sites = _sites(problem)
        found = [s.widths(m, v) for s, m, v in zip(sites, mean, variance, strict=True)]
        weight = tuple(1.0 / a.width for a in found)
        shift = tuple(s.beta + np.zeros_like(m) for s, m in zip(sites, mean, strict=True))
        q = problem.engine.condition(weight, shift)
        if isinstance(q, Failed):
            return DoubleLoopState(None, -math.inf, failed=Status.numerical_error, reason=q.reason)
        bound = q.log_normaliser - 0.5 * sum(float(np.sum(a.h)) for a in found)
        return DoubleLoopState(q, bound, _residual(problem, q))


def _sites(problem: Problem) -> tuple[SuperGaussian, ...]:
    return cast("tuple[SuperGaussian, ...]", problem.answers)


def _residual(problem: Problem, q: Conditioned) -> float:
    """How far q is from the widths it asks for: Newton's move of a mean, in posterior sds, and the
    relative change of a weight (measured against the variance where a site says next to nothing)."""
    gaps, worst = [], 0.0
    for site, m, v, w in zip(_sites(problem), q.mean, q.variance, q.weight, strict=True):
        wanted = 1.0 / site.widths(m, v).width
        gaps.append((w - wanted) * m)
        scale = np.maximum(wanted, 1e-4 / np.maximum(v, 1e-300))
        worst = max(worst, float((np.abs(w - wanted) / scale).max(initial=0.0)))
    return max(newton_move(problem.engine.linear, q, tuple(gaps)), worst)
