"""The super-Gaussian bound of the evidence, which two back ends lower in their own ways (phi).

    t(s) >= exp(beta s - s^2 / (2 gamma) - h(gamma) / 2)            for every width gamma
    log Z >= log_normaliser(1/gamma, beta) - 1/2 sum h(gamma) = -phi(gamma) / 2

(Nickisch and Seeger 2009, section 2.1). At its optimum 1/gamma = -2g'(x), x = Var[s] + E[s]^2.
Vector sites that are functions of ||s|| have one width each, and x = E||s||^2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Bounded, BoundedAnswer, Expected, ExpectedAnswer, Widths
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee

CONVEX = "all sites are log-concave: the problem is convex and the optimum global"
SLIGHT = 1e-4  # of the variance's inverse: a weight below that says next to nothing
OPEN = "not certified to be the global optimum: {} is not log-concave"


@dataclass(frozen=True)
class WidthPoint:
    """q at some widths, and the bound there."""

    conditioned: Conditioned
    bound: float

    def posterior(self, problem: Problem) -> GaussianPosterior:
        """What a back end hands back of this point."""
        q = self.conditioned
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q,
            log_evidence=self.bound,
            guarantee=Guarantee.EXACT if problem.gaussian else Guarantee.LOWER,
            notes=(certificate(problem),),
            slopes=lambda: parameter_slopes(problem, q),
        )


@dataclass(frozen=True)
class Penalty(Expected):
    """-h*(s; z) in the place of an expectation, so that the inner loop is a search for a mean.

    Where h* is not convex, and with `majorised` everywhere, its curvature is 1/gamma (iteratively
    reweighted least squares): the parabola of that width lies above h* and touches it at s.
    """

    site: Bounded
    majorised: bool = False

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        a = self.site.bounded(mean, variance)
        curvature = a.weight if self.majorised else a.curvature
        return ExpectedAnswer(-a.penalty, -a.slope, -0.5 * curvature)


def super_gaussian(problem: Problem) -> tuple[Widths, ...]:
    """The answers as Widths (a back end that needs them declared it)."""
    return cast("tuple[Widths, ...]", problem.answers)


def bounded(problem: Problem) -> tuple[Bounded, ...]:
    """The answers as Bounded, which all that answer Widths are, and sums over rows."""
    return cast("tuple[Bounded, ...]", problem.answers)


def start(problem: Problem, warm: GaussianPosterior | None = None) -> WidthPoint | Failed:
    """The point of an earlier posterior's moments, or of the prior mean with variances of the
    sites' own scale."""
    if warm is not None:
        earlier = problem.engine.condition(warm.weight, warm.shift)
        if not isinstance(earlier, Failed):
            point = at_moments(problem, earlier.mean, earlier.variance)
            if isinstance(point, WidthPoint):
                return point
    prior = zip(bounded(problem), problem.engine.prior_mean, strict=True)
    return at_widths(problem, [site.at_scale(m) for site, m in prior])


def at_moments(problem: Problem, mean: Rows, variance: Rows) -> WidthPoint | Failed:
    """q and the bound at the widths that are best for these moments of the predictors."""
    sites = zip(bounded(problem), mean, variance, strict=True)
    return at_widths(problem, [site.bounded(m, v) for site, m, v in sites])


def at_widths(problem: Problem, answers: list[BoundedAnswer]) -> WidthPoint | Failed:
    """q and the bound at these widths; Failed where q does not exist or the bound is not finite."""
    weight = tuple(a.weight for a in answers)
    shift = tuple(a.shift for a in answers)
    q = problem.engine.condition(weight, shift)
    if isinstance(q, Failed):
        return q
    bound = q.log_normaliser - 0.5 * sum(float(np.sum(a.h)) for a in answers)
    return WidthPoint(q, bound) if math.isfinite(bound) else Failed("the bound is not finite")


def residual(problem: Problem, q: Conditioned) -> float:
    """How far q is from the widths it asks for: Newton's move of a mean, in posterior sds, and the
    relative change of a weight (against the variance where a site says next to nothing)."""
    gaps, worst = [], 0.0
    sites = zip(bounded(problem), q.mean, q.variance, q.weight, q.shift, strict=True)
    for site, m, v, w, b in sites:
        best = site.bounded(m, v)
        change = w - best.weight
        gaps.append(rows.times(change, m) + (best.shift - b))
        if site.by_spread:
            size = m.size / max(len(m), 1)
            change, wanted = rows.spread(change) / size, rows.spread(best.weight) / size
            part = rows.relative_size(change, wanted, rows.spread(v) / size, SLIGHT)
        else:
            part = rows.relative_size(change, best.weight, v, SLIGHT)
        largest = float(part.max(initial=0.0))
        worst = max(worst, math.inf if math.isnan(largest) else largest)
    return max(newton_move(problem.engine, q, tuple(gaps)), worst)


def certificate(problem: Problem) -> str:
    """What is known of the optimum: phi is convex where all sites are log-concave (theorem 2)."""
    bent = [s.spec.name for s in problem.sites if Property.LOG_CONCAVE not in s.spec.properties]
    return OPEN.format(", ".join(dict.fromkeys(bent))) if bent else CONVEX


def parameter_slopes(problem: Problem, q: Conditioned) -> tuple[Mapping[str, Array], ...]:
    """d bound / d parameter of each site at fixed q and widths."""
    sites = zip(bounded(problem), q.mean, q.variance, strict=True)
    return tuple(site.width_slopes(m, v) for site, m, v in sites)
