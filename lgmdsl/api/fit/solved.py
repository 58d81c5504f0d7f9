"""The two ways to a posterior: at given hyperparameters, or with hyperparameters learned."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from lgmdsl.api.fit.hyper_ways import LearningOptions
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.errors import Diagnostic, MethodError, NumericalError
from lgmdsl.inference.driver import Run, Tolerances, TraceEntry
from lgmdsl.inference.estimated import honest
from lgmdsl.inference.evidence_digits import legible
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.proper import check_bounded, check_determined, check_mode, hidden
from lgmdsl.inference.starts import Started, run_from_starts
from lgmdsl.inference.warm_start import warm_start
from lgmdsl.learning.learn import Learned, learn
from lgmdsl.learning.mean_field.mean_field import MeanField, mean_field
from lgmdsl.learning.search.maximise import LearningStep
from lgmdsl.numerics.blas_threads import one_thread


@dataclass(frozen=True, eq=False)
class Solved:
    """`posterior` at `theta`, the run that found it, how theta was learned, if it was, and the name
    of the engine at theta."""

    theta: Theta
    posterior: GaussianPosterior
    run: Run
    starts: tuple[Started, ...]
    learned: Learned | MeanField | None
    engine: str = ""


def solve(
    planned: Plan,
    way: str,
    fixed: Mapping[str, object] | None,
    tolerances: Tolerances,
    max_steps: int | None,
    warm: GaussianPosterior | None,
    on_step: Callable[[TraceEntry], None] | None,
    asked: LearningOptions,
    seed: int = 0,
    begin: Theta | None = None,
) -> Solved:
    """`way`: fixed, map, em, integrate or vb; `begin`: values of hypers to start from. BLAS takes
    one thread where conditioning is cheap.

    Raises what `fit` raises for improper posteriors (E402), a start of another model (E501) and
    fits without any usable state (E601)."""
    with one_thread() as known:
        return _solve(
            planned, way, fixed, tolerances, max_steps, warm, on_step, asked, seed, begin, known
        )


def _solve(
    planned: Plan,
    way: str,
    fixed: Mapping[str, object] | None,
    tolerances: Tolerances,
    max_steps: int | None,
    warm: GaussianPosterior | None,
    on_step: Callable[[TraceEntry], None] | None,
    asked: LearningOptions,
    seed: int,
    begin: Theta | None,
    known: Callable[[float], None],
) -> Solved:
    space = planned.canonical.hypers
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
            planned.backend, problem, tolerances, max_steps, warm, on_step
        )
        return _checked(
            planned, problem, Solved(theta, _found(planned, problem, result), result, starts, None)
        )
    began = time.perf_counter()

    def told(step: LearningStep) -> None:
        if on_step is not None:
            seconds = time.perf_counter() - began
            on_step(TraceEntry(step.step, step.objective, step.gain, seconds, "hyperparameters"))

    if way == "vb":
        factored = mean_field(
            planned, dict(fixed or {}), tolerances, max_steps, warm, told, seed, begin, asked.steps
        )
        result = replace(factored.run, status=factored.status, seconds=time.perf_counter() - began)
        out = Solved(factored.theta, _found(planned, problem, result), result, (), factored)
        return _checked(planned, planned.at(factored.theta, seed=seed), out)
    found = learn(
        planned, dict(fixed or {}), tolerances, max_steps, warm,
        asked.design if way == "integrate" else None, told, seed,
        asked.acceleration if way == "em" else None, asked.batch if way == "em" else None,
        begin, asked.steps,
    )  # fmt: skip
    mode = found.mode
    result = replace(mode.run, status=found.status, seconds=time.perf_counter() - began)
    out = Solved(mode.theta, _found(planned, problem, result), result, (), found)
    return _checked(planned, mode.problem, out)


def _found(planned: Plan, problem: Problem, result: Run) -> GaussianPosterior:
    if result.posterior is None:
        reason = hidden(planned.canonical, problem, result.reason or "")
        raise NumericalError(reason or _no_state(planned.method, result))
    return result.posterior


def _checked(planned: Plan, problem: Problem, found: Solved) -> Solved:
    result = legible(found.run)
    assert result.posterior is not None
    posterior = honest(result.posterior)
    check_bounded(planned.canonical, problem, posterior.conditioned)
    return replace(found, run=result, posterior=posterior, engine=problem.engine.name)


def _same_sites(earlier: GaussianPosterior, layout: Rows) -> bool:
    """Whether an earlier posterior has the same site blocks."""
    return [b.shape for b in earlier.shift] == [m.shape for m in layout]


def _other_model() -> Diagnostic:
    return Diagnostic(
        "E501",
        "the fit to start from has other sites than this model and data",
        help="start from a fit of the same observations, or leave it out",
    )


def _no_state(method: str, result: Run) -> Diagnostic:
    return Diagnostic(
        "E601",
        f"method `{method}` found no usable state",
        details=(f"status {result.status}: {result.reason or result.status.value}",),
        help="check the scale of the data and the priors: `lgm explain` prints both",
    )
