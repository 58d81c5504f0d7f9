"""The two ways to a posterior: at given hyperparameters, or with hyperparameters learned."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from lgmdsl.api.solve.learning_warnings import at_bound, learning_warnings, mean_field_warnings
from lgmdsl.api.solve.recondition import point_of
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.engines.choose import LANCZOS
from lgmdsl.errors import Diagnostic, MethodError, NumericalError, listed
from lgmdsl.inference.driver import Run, TraceEntry
from lgmdsl.inference.evidence_digits import (
    with_standard_errors,
    without_capped_evidence,
    without_lost_evidence,
)
from lgmdsl.inference.other_starts import Started, run_from_starts
from lgmdsl.inference.plan import Plan, able_to_run
from lgmdsl.inference.proper import check_bounded, check_determined, check_mode, hidden
from lgmdsl.inference.scout import warm_start
from lgmdsl.inference.settings import FitSettings
from lgmdsl.inference.stages import Ran
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.checkpoint import Checkpoint
from lgmdsl.learning.integration.visited import Fitted
from lgmdsl.learning.learn import learn
from lgmdsl.learning.objective.elsewhere import WorkersOfFits
from lgmdsl.learning.search.learning_record import Learning, LearningOptions
from lgmdsl.learning.search.maximise import LearningStep
from lgmdsl.learning.weakly_determined import piled_up
from lgmdsl.numerics.blas_threads import one_thread
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.remedies import pin, setting

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord


@dataclass(frozen=True, eq=False)
class Solved:
    """`posterior` at `theta`, the run that found it, how theta was learned, if it was, with
    warnings, the name of the engine at theta, and the flops of one conditioning there."""

    theta: Theta
    posterior: GaussianPosterior
    run: Run
    starts: tuple[Started, ...] = ()
    learned: LearnedHypers | None = None
    warnings: tuple[Diagnostic, ...] = ()
    engine: str = ""
    flops: float = 0.0

    @property
    def stages(self) -> tuple[Ran, ...]:
        """What the search for the hyperparameters went through."""
        return () if self.learned is None else self.learned.stages


def solve(
    planned: Plan,
    way: str,
    settings: FitSettings,
    options: LearningOptions,
    warm: GaussianPosterior | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
    begin: Theta | None = None,
    resume: Checkpoint | None = None,
    elsewhere: WorkersOfFits | None = None,
) -> Solved:
    """`way`: fixed, map, em, integrate or vb; `begin`: values of hypers to start from;
    `resume`: an integration that goes on; `elsewhere`: workers for fits at several
    hyperparameters. BLAS takes one thread where conditioning is cheap.

    Raises what `fit` raises for improper posteriors (E402), a start of another model (E501) and
    fits without any usable state (E601)."""
    with one_thread() as known:
        return _solve(
            planned, way, settings, options, warm, on_step, begin, resume, known, elsewhere
        )


def _solve(
    planned: Plan,
    way: str,
    settings: FitSettings,
    options: LearningOptions,
    warm: GaussianPosterior | None,
    on_step: Callable[[TraceEntry], None] | None,
    begin: Theta | None,
    resume: Checkpoint | None,
    known: Callable[[float], None],
    elsewhere: WorkersOfFits | None,
) -> Solved:
    space, fixed, seed = planned.canonical.hypers, settings.fixed, settings.seed
    theta = space.theta(fixed) if way == "fixed" else space.start(fixed, begin)
    problem = planned.at(theta, seed=seed)
    known(problem.flops)
    check_determined(planned.canonical, problem)
    check_mode(planned, problem, theta)
    if warm is not None and not _same_sites(warm, problem.engine.prior_mean):
        raise MethodError(_other_model())
    if warm is None:
        warm = warm_start(planned, problem, theta)
    if way == "fixed":
        result, starts = run_from_starts(
            planned.backend, problem, settings.tolerances, settings.max_steps, warm, on_step
        )
        solved = Solved(theta, _usable_posterior(planned, problem, result), result, starts)
        return _checked(planned, problem, solved)
    if planned.terms.variances == LANCZOS:
        raise MethodError(_one_fit(way))
    began = time.perf_counter()

    def report(step: LearningStep) -> None:
        if on_step is not None:
            seconds = time.perf_counter() - began
            on_step(TraceEntry(step.step, step.objective, step.gain, seconds, "hyperparameters"))

    def at_point(done: int, size: int) -> None:
        if on_step is not None and size > 1:
            seconds = time.perf_counter() - began
            on_step(TraceEntry(done, math.nan, math.nan, seconds, "points", size))

    learned: LearnedHypers
    if way == "vb":
        from lgmdsl.learning.mean_field.mean_field import mean_field

        factors = mean_field(planned, settings, problem, warm, report, begin, options.steps)
        coordinates = Coordinates(planned.canonical.hypers, settings.fixed)
        piled = piled_up(coordinates, factors.marginals().quantile)
        learned, warnings = factors, (*mean_field_warnings(factors), *map(at_bound, piled))
        problem = factors.problem
    else:
        wanted = options.of(way)
        mode = learn(planned, settings, wanted, warm, report, begin, at_point, resume, elsewhere)
        learned, warnings, problem = mode, learning_warnings(mode), mode.mode.problem
    result = replace(learned.run, status=learned.status, seconds=time.perf_counter() - began)
    posterior = _usable_posterior(planned, problem, result)
    solved = Solved(learned.theta, posterior, result, (), learned, warnings)
    return _checked(planned, problem, solved)


def _usable_posterior(planned: Plan, problem: Problem, result: Run) -> GaussianPosterior:
    if result.posterior is None:
        lost = hidden(planned.canonical, problem, result.failure)
        raise NumericalError(lost or _no_state(planned, result))
    return result.posterior


def _checked(planned: Plan, problem: Problem, solved: Solved) -> Solved:
    result = without_capped_evidence(problem, without_lost_evidence(solved.run))
    assert result.posterior is not None
    posterior = with_standard_errors(result.posterior)
    check_bounded(planned.canonical, problem, posterior.conditioned)
    return replace(
        solved, run=result, posterior=posterior, engine=result.engine, flops=problem.flops
    )


def _same_sites(earlier: GaussianPosterior, layout: Rows) -> bool:
    """Whether an earlier posterior has the same site blocks."""
    return [b.shape for b in earlier.shift] == [m.shape for m in layout]


def _other_model() -> Diagnostic:
    return Diagnostic(
        "E501",
        "the fit to start from has other sites than this model and data",
        help="start from a fit of the same observations, read in the same way (option `rows`), or "
        "leave it out",
    )


def _one_fit(way: str) -> Diagnostic:
    """E104: widths that are not the best ones have no slope of the evidence to go by."""
    return Diagnostic(
        "E104",
        f"option `variances` cannot be `lanczos` with {setting('hyper', way)}",
        help=f"it is for hyperparameters that have values, {pin('s', '0.5')}; "
        "with variances=samples they are learned",
    )


def _no_state(planned: Plan, result: Run) -> Diagnostic:
    others = [m for m in able_to_run(planned.canonical.blocks) if m != planned.method]
    methods = f", or take another method: {listed(others)}" if others else ""
    return Diagnostic(
        "E601",
        f"method `{planned.method}` found no usable state",
        details=(f"status {result.status}: {result.reason or result.status.value}",),
        help=f"check the scale of the data and the priors: `lgm explain` prints both{methods}",
    )


# ---- learned fit -------------------------------------------------------------------------------


class LearnedHypers(Protocol):
    """Hyperparameters as they were learned: a mode with its curvature, an integral, or factors."""

    @property
    def theta(self) -> Theta:
        """The hyperparameters that the fit shows, and is conditional on where one q(z) is all."""

    @property
    def run(self) -> Run:
        """The fit at theta."""

    @property
    def status(self) -> Status:
        """The status of the whole search."""

    @property
    def of_fit_alone(self) -> bool:
        """Whether the status is that of the fit at theta, and not of a search for theta."""

    @property
    def points(self) -> tuple[tuple[Fitted, float], ...]:
        """The fits that the posterior is a mixture of, with their weights; none for one q(z)."""

    def evidence(self, log_evidence: float, guarantee: Guarantee) -> tuple[float, Guarantee]:
        """Log evidence of the whole, with its guarantee, from the fit's at theta."""

    def marginals(self) -> HyperMarginals:
        """The posterior of the hyperparameters."""

    def record(self) -> Learning:
        """How they were found."""

    @property
    def stages(self) -> tuple[Ran, ...]:
        """What ran to find them, in its order; none of ways that are one search."""

    @property
    def checkpoint(self) -> Checkpoint | None:
        """What an integration that was interrupted goes on from; None of other ways."""


def with_hypers(fit: FitRecord, learned: LearnedHypers, way: str) -> FitRecord:
    """The fit at theta as one of all hyperparameters; `way`: map, em, integrate or vb."""
    log_evidence, guarantee = learned.evidence(fit.log_evidence, fit.guarantee)
    return replace(
        fit,
        hyper=way,
        log_evidence=log_evidence,
        guarantee=guarantee,
        hyper_marginals=learned.marginals(),
        mixed=tuple(_point(fit, fitted, share) for fitted, share in learned.points),
        learning=learned.record(),
    )


def _point(fit: FitRecord, fitted: Fitted, share: float) -> HyperPoint:
    return point_of(fit, fitted.theta, share, fitted.log_evidence, fitted.weight, fitted.shift)
