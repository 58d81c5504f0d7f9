"""Laplace's approximation: the Gaussian at the mode of the joint density.

Newton's method with an Armijo line search. Each step conditions the engine on

    w = -l''(s),  b = l'(s) + w s,      whose mean is the Newton point,

and walks towards it. Points are kept as pairs (s, alpha) with z = mu + K B' alpha, so the prior
energy of any point on the line is 1/2 (s - s0)'alpha: no prior covariance is ever inverted.

    evidence = log_normaliser(w, b) + sum l(s) + 1/2 w s^2 - b s        (at the mode s)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec, option
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.objectives import support
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, Pointwise, PointwiseAnswer
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import StackedPredictors, split
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also

# Armijo's constant, and how far a step is cut before the line search gives up: an exponential link
# far down has curvatures of 1e-40, whose Newton steps are as long. Cuts are tenths below SMALL.
SUFFICIENT = 1e-4
SMALL, SHORTEST = 1e-6, 1e-50


@dataclass(frozen=True)
class LaplaceState:
    """A point (s, alpha), the sites' answers there, and the engine conditioned on them.

    `definite` says whether the true curvature was used; away from the mode of a model that is not
    log-concave its absolute value stands in for it.
    """

    s: Rows
    alpha: Rows
    answers: tuple[PointwiseAnswer, ...]
    conditioned: Conditioned | None
    objective: float
    decrement: float
    definite: bool
    failed: Status | None = None
    reason: str | Failed = ""


@dataclass(frozen=True)
class Laplace(Backend[LaplaceState]):
    """Newton to the mode, then the Gaussian with the curvature there (Tierney and Kadane 1986).

    `correct_mean` moves the mean to where the variational bound is highest at Laplace's own
    variances; the evidence reported stays Laplace's.
    """

    correct_mean: bool = option(
        False,
        "whether the mean moves to where the variational bound is highest at Laplace's variances",
    )

    spec: ClassVar[BackendSpec] = BackendSpec(
        name="laplace",
        needs=Pointwise,
        additive=True,
        eliminates=True,
        forbids=Property.KINKED,
        guarantee=Guarantee.APPROXIMATE,
        ranks=True,
        max_steps=100,
        paper="Tierney and Kadane 1986; Rasmussen and Williams 2006, algorithm 3.1",
        summary="Gaussian at the mode; fast, and the least accurate for skewed posteriors",
        notes=Notes(
            formula="q = N(z*, (Q + B' W B)^-1) at the mode z* of p(z | y), W the negative "
            "curvatures of the log sites there; log p(y) by the Gaussian integral",
            support="sites with two derivatives: none with a kink",
            advice="the first method to try, and the quickest; with few events to an effect, means "
            "and sds are off: compare with ep or natural-gradient",
            example="lgm fit model.lgm data.npz --method laplace --option correct_mean=true",
            see_also=("natural-gradient", "ep", "map", "choosing-a-method"),
            also_called=(
                *also("R-INLA", "inla", note="with --hyper integrate"),
                *also("glmmTMB", "TMB"),
            ),
        ),
    )

    @property
    def further(self) -> tuple[type, ...]:
        return (Expected,) if self.correct_mean else ()

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> LaplaceState:
        if warm is not None and not problem.gaussian:  # whose curvature is known beforehand
            warmed = problem.engine.condition(warm.weight, warm.shift)
            if not isinstance(warmed, Failed):
                return _first(problem, warmed.mean, _alpha(warmed))
        s = problem.engine.prior_mean
        return _first(problem, s, tuple(np.zeros_like(x) for x in s))

    def step(self, problem: Problem, state: LaplaceState) -> LaplaceState:
        if state.conditioned is None:
            return state
        target, target_alpha = state.conditioned.mean, _alpha(state.conditioned)
        if problem.gaussian:  # the curvature is the same there, and so is all that follows from it
            answers = problem.pointwise(target)
            return _state_of(state.conditioned, target, target_alpha, answers, state.definite)
        start, slope = _energy(problem, state.answers, state.s, state.alpha), state.decrement**2
        # Near the mode the gain drowns in the rounding of the energy itself.
        slack = 1e-13 * (1.0 + abs(start))
        t = 1.0
        while t >= SHORTEST:
            s = rows.interpolate(state.s, target, t)
            alpha = rows.interpolate(state.alpha, target_alpha, t)
            answers = problem.pointwise(s)
            least = start + SUFFICIENT * t * slope - slack
            reached = _energy(problem, answers, s, alpha)
            # alpha is a difference of b and W m, whose rounding the energy has.
            if reached >= least or reached + state.conditioned.lost >= least:
                following = _state_at(problem, s, alpha, answers)
                if following.conditioned is not None:
                    return following
            t *= 0.5 if t > SMALL else 0.1
        return replace(state, failed=Status.stalled, reason="the line search found no ascent")

    def residual(self, problem: Problem, state: LaplaceState) -> float:
        """The Newton decrement, which bounds the next move of every mean in posterior sds."""
        return state.decrement if state.definite else math.inf

    def posterior(self, problem: Problem, state: LaplaceState) -> GaussianPosterior:
        mode = state.conditioned
        assert mode is not None, "the driver keeps the last state that has a posterior"
        q = mode
        notes: tuple[str, ...] = ()
        if self.correct_mean:
            corrected = _corrected(problem, q)
            q, notes = corrected, ("mean corrected at Laplace's variances; evidence is Laplace's",)
        tilt = cache(partial(_tilt, problem, mode))
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q,
            log_evidence=state.objective,
            guarantee=Guarantee.EXACT if problem.gaussian else self.spec.guarantee,
            notes=notes,
            slopes=lambda: _parameter_slopes(problem, mode, tilt()),
            adjoints=lambda: mode.adjoints(tilt()),
        )


def _tilt(problem: Problem, q: Conditioned) -> Rows:
    """d(-1/2 log|A|)/ds at the mode: half the third derivative, contracted with V.

    With it the evidence has the gradient of log_normaliser + tilt'E[s] at fixed (W, b).
    The mode moves as E_q[s] does at fixed (W, b): what W and b gain as it moves cancels.
    """
    if problem.gaussian:
        return tuple(np.zeros_like(m) for m in q.mean)
    return tuple(
        0.5 * cast(Pointwise, a).pointwise(m, v).third
        for a, m, v in zip(problem.answers, q.mean, q.variance, strict=True)
    )


def _parameter_slopes(
    problem: Problem, q: Conditioned, tilt: Rows
) -> tuple[Mapping[str, Array], ...]:
    """dl + 1/2 tr V d(curvature) + (Cov(s) tilt)'d(slope) for each continuous parameter."""
    linear = problem.engine.linear
    stacked = StackedPredictors(linear)
    u = q.solve(stacked.pulled(tilt))
    response, slopes = split(stacked.lifted(u), linear.predictors), []
    for site, m, v, du in zip(problem.sites, q.mean, q.variance, response, strict=True):
        if site.spec.shared:
            slopes.append(site.moved_slopes(m, v, du))
            continue
        curves = site.parameter_curves(m)
        slopes.append(
            {
                name: c.value + 0.5 * rows.trace(c.curvature, v) + rows.inner(c.slope, du)
                for name, c in curves.items()
            }
        )
    return tuple(slopes)


def _corrected(problem: Problem, q: Conditioned) -> Conditioned:
    """q with its mean moved to the maximum of E_q[sum l] - 1/2 (z - mu)'Q(z - mu), V frozen."""
    sites = cast("tuple[Expected, ...]", problem.asking(Expected))
    best = maximise_mean(problem.engine, sites, q.variance, q.mean, _alpha(q))
    if isinstance(best, Failed):
        return q
    corrected = q.with_shift(rows.shift_of(best.alpha, q.weight, best.mean))
    return q if isinstance(corrected, Failed) else corrected


def _first(problem: Problem, s: Rows, alpha: Rows) -> LaplaceState:
    """The state at a point, or at one where every observation is possible."""
    if support.possible(problem, s):
        return _state_at(problem, s, alpha)
    point = support.within(problem, s)
    if point is not None:
        return _state_at(problem, *point)
    outside = _state_at(problem, s, alpha)
    return replace(outside, reason=support.OUTSIDE)


def _state_at(
    problem: Problem, s: Rows, alpha: Rows, answers: tuple[PointwiseAnswer, ...] | None = None
) -> LaplaceState:
    """Condition the engine on the curvature at s; `answers`: those there, where they are known."""
    if answers is None:
        answers = problem.pointwise(s)
    finite = all(
        np.isfinite(a.value).all() and np.isfinite(a.slope).all() and np.isfinite(a.curvature).all()
        for a in answers
    )
    if not finite:
        return LaplaceState(
            s,
            alpha,
            answers,
            None,
            -math.inf,
            math.inf,
            False,
            Status.numerical_error,
            "a site's density is not finite",
        )
    weight = tuple(-a.curvature for a in answers)
    conditioned = _condition(problem, answers, weight, s)
    definite = True
    if isinstance(conditioned, Failed):
        weight = tuple(rows.absolute(w) for w in weight)
        conditioned = _condition(problem, answers, weight, s)
        definite = False
    if isinstance(conditioned, Failed):
        return LaplaceState(
            s,
            alpha,
            answers,
            None,
            -math.inf,
            math.inf,
            False,
            Status.numerical_error,
            conditioned,
        )
    return _state_of(conditioned, s, alpha, answers, definite)


def _state_of(
    conditioned: Conditioned,
    s: Rows,
    alpha: Rows,
    answers: tuple[PointwiseAnswer, ...],
    definite: bool,
) -> LaplaceState:
    """The state at s with the engine conditioned on the `answers` there; `definite`: as of the
    state."""
    objective, squared = conditioned.centred, 0.0
    parts = (answers, conditioned.weight, conditioned.shift, s, conditioned.mean, alpha)
    for a, w, b, x, m, al in zip(*parts, strict=True):
        objective += rows.summed(_correction, a.value, w, b, x, m)
        squared += rows.summed(_squared, m, x, a.slope, al)
        objective += 0.0 if a.eliminated is None else float(np.sum(a.eliminated))
    return LaplaceState(
        s=s,
        alpha=alpha,
        answers=answers,
        conditioned=conditioned,
        objective=objective,
        # Below zero by rounding at the mode; by more where (s, alpha) has lost its meaning.
        decrement=math.sqrt(abs(squared)),
        definite=definite,
    )


def _condition(
    problem: Problem, answers: tuple[PointwiseAnswer, ...], weight: Rows, s: Rows
) -> Conditioned | Failed:
    slope = tuple(a.slope for a in answers)
    return problem.engine.condition(weight, rows.shift_of(slope, weight, s))


def _alpha(conditioned: Conditioned) -> Rows:
    """alpha = b - Wm at the conditioned mean."""
    return rows.slope_of(conditioned.shift, conditioned.weight, conditioned.mean)


def _correction(value: Array, w: Array, b: Array, x: Array, m: Array) -> Array:
    """What 1/2 w s^2 - b s at x is above its value at the mean m, which `centred` holds, and l."""
    return np.asarray(value + rows.inner(0.5 * rows.times(w, x + m) - b, x - m))


def _squared(m: Array, x: Array, slope: Array, alpha: Array) -> Array:
    """Terms whose sum is the squared Newton decrement."""
    return (m - x) * (slope - alpha)


def _energy(problem: Problem, answers: tuple[PointwiseAnswer, ...], s: Rows, alpha: Rows) -> float:
    """log t(s) - 1/2 (z - mu)'Q(z - mu) at z = mu + K B' alpha, `answers` being those at s; -inf
    where not finite."""
    prior = 0.0
    for x, x0, a in zip(s, problem.engine.prior_mean, alpha, strict=True):
        prior += rows.summed(_pull, x, x0, a)
    value = rows.total(tuple(a.value for a in answers)) - 0.5 * prior
    return value if math.isfinite(value) else -math.inf


def _pull(x: Array, x0: Array, alpha: Array) -> Array:
    return (x - x0) * alpha
