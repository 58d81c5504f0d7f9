"""The driver: every way a run can end, with scripted back ends."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Run, Tolerances, run


@dataclass(frozen=True)
class Step:
    objective: float
    residual: float = 1.0
    failed: Status | None = None
    at: int = 0
    chance: float = 0.0
    lost: float = 0.0

    @property
    def conditioned(self) -> Any:
        """Of the posterior, which is the state itself."""
        errors = SimpleNamespace(log_normaliser=self.chance)
        out = SimpleNamespace(errors=errors, lost=self.lost, doubt="")
        out.reported = out
        return out


@dataclass(frozen=True)
class Scripted(Backend[Step]):
    """Walks through a list of states; the posterior is the state it ended in."""

    script: tuple[Step, ...] = ()
    interrupt_at: int = 10**9
    error: type[BaseException] = KeyboardInterrupt
    spec: ClassVar[BackendSpec] = BackendSpec("scripted", Pointwise, max_steps=6)
    seen: list[int] = field(default_factory=list)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> Step:
        if self.interrupt_at == 0:
            raise self.error
        return self.script[0]

    def step(self, problem: Problem, state: Step) -> Step:
        at = state.at + 1
        self.seen.append(at)
        if at == self.interrupt_at:
            raise self.error
        given = self.script[min(at, len(self.script) - 1)]
        return replace(given, at=at)

    def residual(self, problem: Problem, state: Step) -> float:
        return state.residual

    def posterior(self, problem: Problem, state: Step) -> GaussianPosterior:
        return cast(GaussianPosterior, state)


class Monotone(Scripted):
    spec: ClassVar[BackendSpec] = BackendSpec("monotone", Pointwise, monotone=True, max_steps=6)


NO_PROBLEM = cast(
    Problem, SimpleNamespace(engine=SimpleNamespace(exact=True, name="plain"), remade=None)
)
ESTIMATED = cast(
    Problem, SimpleNamespace(engine=SimpleNamespace(exact=False, name="rough"), remade=None)
)


def ran(*script: Step, kind: type[Scripted] = Scripted, **options: Any) -> tuple[Run, Any]:
    result = run(kind(script=script, **options), NO_PROBLEM, Tolerances())
    return result, result.posterior


def test_both_tolerances_must_be_met() -> None:
    result, end = ran(Step(-9.0), Step(-3.0, 1e-5), Step(-2.0, 1e-5), Step(-2.0, 5e-5))
    assert result.status is Status.converged
    assert (result.steps, end.objective) == (3, -2.0)
    assert [e.step for e in result.trace] == [0, 1, 2, 3]


def test_a_step_that_does_not_move_is_no_convergence() -> None:
    result, _ = ran(Step(-2.0, 0.5), Step(-2.0, 0.5))
    assert result.status is Status.iteration_limit
    assert result.steps == 6


def test_a_tiny_residual_settles_the_objective_too() -> None:
    result, _ = ran(Step(-9.0), Step(-3.0, 1e-8))
    assert (result.status, result.steps) == (Status.converged, 1)


def test_a_start_at_the_optimum_takes_no_step() -> None:
    result, _ = ran(Step(-2.0, 1e-9))
    assert (result.status, result.steps) == (Status.converged, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_objectives_end_with_the_last_good_state(bad: float) -> None:
    result, end = ran(Step(-9.0), Step(-4.0), Step(bad))
    assert result.status is Status.numerical_error
    assert end.objective == -4.0


def test_a_non_finite_start_has_no_posterior() -> None:
    result, end = ran(Step(math.nan))
    assert (result.status, end) == (Status.numerical_error, None)


@pytest.mark.parametrize("failed", [Status.stalled, Status.diverged, Status.numerical_error])
def test_a_failure_keeps_the_last_good_state(failed: Status) -> None:
    result, end = ran(Step(-9.0), Step(-4.0, 0.1), Step(-1.0, 1e-9, failed))
    assert result.status is failed
    assert end.objective == -4.0


def test_a_failure_at_the_optimum_is_rounding() -> None:
    result, end = ran(Step(-9.0), Step(-4.0, 1e-5), Step(-4.0, 1.0, Status.stalled))
    assert (result.status, end.objective) == (Status.converged, -4.0)


def test_what_rounding_hides_is_no_failure() -> None:
    """A whole step would gain half the residual's square: less than rounding takes of it."""

    def ended(residual: float, lost: float) -> Status:
        script = (Step(-9.0), Step(-4.0, residual, lost=lost), Step(-4.0, 1.0, Status.stalled))
        return ran(*script)[0].status

    assert ended(2e-3, 1e-5) is Status.converged
    assert ended(2e-3, 1e-6) is Status.stalled
    assert ended(2e-2, 1.0) is Status.stalled  # means would be off


def test_a_falling_objective_is_watched_where_monotone_is_declared() -> None:
    script = (Step(-9.0), Step(-4.0), Step(-5.0), Step(-3.0))
    assert ran(*script, kind=Monotone)[0].status is Status.stalled
    assert ran(*script, kind=Monotone)[1].objective == -4.0
    assert ran(*script)[0].status is Status.iteration_limit


def test_a_fall_within_the_tolerance_is_none_where_the_engine_estimates() -> None:
    def watched(fall: float, residual: float = 1.0) -> Monotone:
        before = Step(-4.0, residual, chance=0.02)
        return Monotone(script=(Step(-9.0), before, Step(-4.0 - fall), Step(-3.0)))

    assert run(watched(0.01), NO_PROBLEM, Tolerances()).status is Status.stalled
    assert run(watched(0.01), ESTIMATED, Tolerances()).status is Status.iteration_limit
    assert run(watched(0.03), ESTIMATED, Tolerances()).status is Status.stalled
    # A whole step would gain 0.1^2 / 2, less than the standard error: nothing is left to see.
    assert run(watched(0.03, 0.1), ESTIMATED, Tolerances()).status is Status.converged
    assert run(watched(0.03, 0.1), NO_PROBLEM, Tolerances()).status is Status.stalled


def test_a_step_that_fails_below_what_chance_hides_has_converged() -> None:
    def failing(residual: float) -> Scripted:
        end = Step(-4.0, failed=Status.stalled)
        return Scripted(script=(Step(-4.0, residual, chance=0.02), end))

    assert run(failing(0.19), ESTIMATED, Tolerances()).status is Status.converged
    assert run(failing(0.21), ESTIMATED, Tolerances()).status is Status.stalled
    assert run(failing(0.19), NO_PROBLEM, Tolerances()).status is Status.stalled


def test_an_interrupt_keeps_the_last_complete_step() -> None:
    result, end = ran(Step(-9.0), Step(-4.0), Step(-1.0), interrupt_at=2)
    assert (result.status, end.objective) == (Status.interrupted, -4.0)


def test_a_linear_system_without_a_solution_ends_with_the_last_good_state() -> None:
    states = Step(-9.0), Step(-4.0), Step(-1.0)
    result, end = ran(*states, interrupt_at=2, error=np.linalg.LinAlgError)
    assert (result.status, end.objective) == (Status.numerical_error, -4.0)
    result, end = ran(*states, interrupt_at=0, error=np.linalg.LinAlgError)
    assert (result.status, end) == (Status.numerical_error, None)


def test_progress_sees_every_step() -> None:
    seen: list[int] = []
    backend = Scripted(script=(Step(-9.0), Step(-4.0)))
    run(backend, NO_PROBLEM, Tolerances(), 3, on_step=lambda e: seen.append(e.step))
    assert seen == [0, 1, 2, 3]


def test_the_step_limit_may_be_given() -> None:
    assert run(Scripted(script=(Step(-9.0),)), NO_PROBLEM, Tolerances(), 2).steps == 2
    assert Tolerances.scaled(1e-9).mean == pytest.approx(1e-6)
    assert Tolerances.scaled(None) == Tolerances(1e-7, 1e-4)


def test_every_status_is_advice() -> None:
    assert all(len(s.value) > 20 and str(s) == s.name for s in Status)
