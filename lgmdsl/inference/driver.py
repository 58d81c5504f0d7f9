"""The one loop that runs every back end: steps, tolerances, trace, watches, status."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lgmdsl.contract.backend import Backend, State
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.status import Status
from lgmdsl.inference.rescaling import Unplaced, rescale

HIDDEN = 5e-3  # sds: the largest residual that rounding excuses
ROUNDING = 1e-9  # of the objective: what a step that gains nothing may seem to lose


@dataclass(frozen=True)
class Tolerances:
    """`evidence`: change of the objective relative to max(1, |objective|); `mean`: the back end's
    residual, in posterior sds of the means. Both must be met."""

    evidence: float = 1e-7
    mean: float = 1e-4

    @classmethod
    def scaled(cls, tol: float | None) -> Tolerances:
        """The defaults, or `tol` for the evidence with the mean's tolerance in proportion."""
        return cls() if tol is None else cls(evidence=tol, mean=min(1e-2, 1e3 * tol))


@dataclass(frozen=True)
class TraceEntry:
    """One step: its number, the objective after it, the residual there, seconds since the start,
    and the stage of the method that made it, if it has several. `of`: how many points the step is
    one of, where hyperparameters are integrated over (objective and residual are then NaN)."""

    step: int
    objective: float
    residual: float
    seconds: float
    stage: str = ""
    of: int = 0


@dataclass(frozen=True)
class Run:
    """What the driver hands on. `posterior` is None where not even the first state had one;
    `failure`: of the factorisation that ended the run, where one did; `engine`: the name of the
    one that conditioned, which need not be the problem's (`measured`)."""

    posterior: GaussianPosterior | None
    status: Status
    steps: int
    seconds: float
    trace: tuple[TraceEntry, ...]
    reason: str = ""
    failure: Failed | None = None
    engine: str = ""


def run(
    backend: Backend[Any],
    problem: Problem,
    tolerances: Tolerances,
    max_steps: int | None = None,
    warm: GaussianPosterior | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> Run:
    """Iterate `backend` on `problem` until it converges or something stops it.

    A non-finite objective, a falling objective of a back end that declares itself monotone, and a
    state that reports failure each end the run with a status; the last good state is kept. Problems
    of extreme levels or scales are solved in rescaled units (`rescaling`).
    """
    with np.errstate(all="ignore"):  # the driver watches for what is not finite
        try:
            rescaled = rescale(problem)
        except Unplaced as reason:
            return Run(None, Status.numerical_error, 0, 0.0, (), str(reason))
        if rescaled is None:
            plain = _run(backend, problem, tolerances, max_steps, warm, on_step)
            return replace(plain, engine=problem.engine.name)

        def outward(entry: TraceEntry) -> TraceEntry:
            return replace(entry, objective=entry.objective + rescaled.gain)

        watch = None if on_step is None else lambda entry: on_step(outward(entry))
        inner = _run(backend, rescaled.problem, tolerances, max_steps, rescaled.inward(warm), watch)
        return replace(
            inner,
            trace=tuple(outward(entry) for entry in inner.trace),
            posterior=None if inner.posterior is None else rescaled.outward(inner.posterior),
            engine=rescaled.problem.engine.name,
        )


def _run(
    backend: Backend[Any],
    problem: Problem,
    tolerances: Tolerances,
    max_steps: int | None,
    warm: GaussianPosterior | None,
    on_step: Callable[[TraceEntry], None] | None,
) -> Run:
    limit = backend.spec.max_steps if max_steps is None else max_steps
    began = time.perf_counter()
    try:
        state = backend.start(problem, warm)
    except np.linalg.LinAlgError as error:
        reason = f"a linear system has no solution: {error}"
        return Run(None, Status.numerical_error, 0, time.perf_counter() - began, (), reason)
    trace: list[TraceEntry] = []

    def record(step: int, current: State) -> TraceEntry:
        entry = TraceEntry(
            step,
            current.objective,
            backend.residual(problem, current),
            time.perf_counter() - began,
            getattr(current, "stage", ""),
        )
        trace.append(entry)
        if on_step is not None:
            on_step(entry)
        return entry

    status, reason, steps = Status.iteration_limit, "", 0
    failure: Failed | None = None
    if state.failed is not None or not math.isfinite(state.objective):
        status = state.failed or Status.numerical_error
        reason, failure = _cause(state)
        return Run(None, status, 0, time.perf_counter() - began, (), reason, failure)
    last = record(0, state)
    try:
        for steps in range(1, limit + 1):
            if _settled(last, None, tolerances):
                status, steps = Status.converged, steps - 1
                break
            following = backend.step(problem, state)
            if following.failed is not None:
                status, (reason, failure) = following.failed, _cause(following)
                if last.residual <= max(tolerances.mean, _unseen(backend, problem, state)):
                    status = Status.converged  # the optimum, to the last digit that can be seen
                break
            if not math.isfinite(following.objective):
                status, reason = Status.numerical_error, "the objective is not finite"
                break
            if backend.spec.monotone and _fell(last.objective, following.objective):
                # Estimated variances are not the slopes of the estimated normaliser to all digits.
                loss, slack = last.objective - following.objective, _chance(backend, problem, state)
                if loss > slack:
                    status, reason = Status.stalled, "the objective fell"
                    if last.residual <= _unseen(backend, problem, state):
                        status = Status.converged
                    break
            state = following
            entry = record(steps, state)
            if _settled(entry, last, tolerances):
                status = Status.converged
                break
            last = entry
    except KeyboardInterrupt:
        status = Status.interrupted
    except np.linalg.LinAlgError as error:  # of a back end's own algebra: the last state stands
        status, reason = Status.numerical_error, f"a linear system has no solution: {error}"
    posterior = backend.posterior(problem, state)
    conditioned = posterior.conditioned
    reported = conditioned.reported
    if reported is not conditioned:
        posterior = replace(posterior, conditioned=reported)
    if status is Status.converged and reported.doubt:
        status, reason = Status.stalled, reported.doubt
    seconds = time.perf_counter() - began
    return Run(posterior, status, steps, seconds, tuple(trace), reason, failure)


def _cause(state: State) -> tuple[str, Failed | None]:
    """Why a state failed: its `reason`, a sentence or the failure of a factorisation."""
    reason = getattr(state, "reason", "")
    return (reason.reason, reason) if isinstance(reason, Failed) else (reason, None)


def _settled(now: TraceEntry, before: TraceEntry | None, tolerances: Tolerances) -> bool:
    """Both tolerances met; a residual a thousand times below its own settles the evidence too."""
    if now.residual <= 1e-3 * tolerances.mean:
        return True
    if before is None or now.residual > tolerances.mean:
        return False
    change = abs(now.objective - before.objective)
    return change <= tolerances.evidence * max(1.0, abs(now.objective))


def _fell(before: float, after: float) -> bool:
    return after < before - ROUNDING * max(1.0, abs(before))


def _chance(backend: Backend[Any], problem: Problem, state: State) -> float:
    """The standard error of the objective, in nats; its rounding where the engine is exact."""
    conditioned = backend.posterior(problem, state).conditioned
    if problem.engine.exact:
        return conditioned.lost
    return 0.0 if conditioned.errors is None else conditioned.errors.log_normaliser


def _unseen(backend: Backend[Any], problem: Problem, state: State) -> float:
    """The residual from which a whole step gains less than chance hides: half its square; at most
    HIDDEN where it is rounding that hides it."""
    unseen = math.sqrt(2.0 * _chance(backend, problem, state))
    return min(unseen, HIDDEN) if problem.engine.exact else unseen
