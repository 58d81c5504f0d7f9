"""Whether a search that ended below its maximum goes on, on parabolas with known gains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.learning.search.continued import to_the_top
from lgmdsl.learning.search.maximise import NO_STEP, LearningStep, Maximiser, Maximum


@dataclass
class Parabola:
    """-|x|^2 / 2, of which no fit succeeds farther than `reach` from where the search ended;
    `moves`: whether a search goes where it is sent; `share`: of the way that a Newton step goes;
    `status`: of a search, and its `reason`; `third`: of the third one."""

    x: float
    reach: float = np.inf
    moves: bool = True
    share: float = 1.0
    status: Status = Status.converged
    third: Status = Status.converged
    reason: str = ""
    starts: list[float] = field(default_factory=list)
    curved: int = 0

    def evaluation(self, x: Array) -> Any:
        return SimpleNamespace(x=x, value=-0.5 * float(x @ x), gradient=-x, posterior=None)

    @property
    def objective(self) -> Any:
        def at(x: Array, warm: object) -> Any:
            return self.evaluation(x) if abs(x[0] - self.x) <= self.reach else None

        return SimpleNamespace(at=at)

    def value(self, at: Any) -> float:
        return float(at.value)

    def gradient(self, at: Any) -> Array:
        return np.asarray(at.gradient)

    def newton(self, found: Maximum) -> Array:
        return np.asarray(-self.share * found.at.x)

    def run(self, first: Any, on_step: Callable[[LearningStep], None]) -> Maximum:
        self.starts.append(float(first.x[0]))
        steps = tuple(LearningStep(k, first.value, 0.0, k) for k in range(3))
        for step in steps:
            on_step(step)
        end = first if self.moves else self.evaluation(np.array([self.x]))
        status = self.third if len(self.starts) == 3 else self.status
        return Maximum(end, status, steps, lambda: np.ones(1), None, self.reason)

    def with_curvature(self, found: Maximum) -> Maximum:
        self.curved += 1
        return replace(found, hessian=-np.eye(1))

    def ended(self, status: Status = Status.converged) -> Maximum:
        steps = (LearningStep(0, 0.0, 1.0, 1), LearningStep(1, 0.0, 0.0, 2))
        at = self.evaluation(np.array([self.x]))
        return Maximum(at, status, steps, lambda: np.ones(1), -np.eye(1))


def continued(search: Parabola, status: Status = Status.converged) -> tuple[Maximum, list[int]]:
    reports: list[int] = []
    end = to_the_top(
        cast(Maximiser, search), search.ended(status), lambda s: reports.append(s.step)
    )
    return end, reports


def below(nats: float) -> float:
    """Where the parabola is so far below its top."""
    return float(np.sqrt(2.0 * nats))


def test_a_search_at_the_top_ends_there() -> None:
    search = Parabola(below(0.009))
    end, _ = continued(search)
    assert end.at.x[0] == search.x and not search.starts
    stopped = Parabola(below(40.0))
    end, _ = continued(stopped, Status.iteration_limit)
    assert end.status is Status.iteration_limit and not stopped.starts and not end.reason


@pytest.mark.parametrize("nats", [0.011, 40.0])
def test_a_search_below_the_top_goes_on_by_newton(nats: float) -> None:
    """Its steps are numbered on; the curvature is that of the new end."""
    search = Parabola(below(nats))
    end, reports = continued(search)
    assert search.starts == [0.0] and search.curved == 1
    assert end.status is Status.converged and end.at.x[0] == 0.0
    assert [s.step for s in end.steps] == [0, 1, 2, 3] and reports == [2, 3]


def test_a_step_without_a_fit_is_shortened() -> None:
    """Three rounds of a twentieth of the way each, after which 40 nats have become less."""
    search = Parabola(10.0, reach=0.5)
    end, _ = continued(search)
    assert search.starts[0] == pytest.approx(9.5)
    assert end.status is Status.stalled
    half = Parabola(10.0, reach=5.0)
    continued(half)
    assert half.starts[0] == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("nats", "status"), [(0.9, Status.converged), (1.1, Status.stalled), (7.0, Status.stalled)]
)
def test_what_is_promised_and_not_reached_is_said(nats: float, status: Status) -> None:
    search = Parabola(below(nats), moves=False)
    end, _ = continued(search)
    assert len(search.starts) == 1 and end.at.x[0] == search.x and end.status is status
    assert (f"promise {nats:.2g} nats" in end.reason) is (status is Status.stalled)


def test_it_goes_on_three_times_at_most_and_not_from_a_limit() -> None:
    slow = Parabola(10.0, share=0.1)
    end, _ = continued(slow)
    np.testing.assert_allclose(slow.starts, [9.0, 8.1, 7.29])
    assert end.status is Status.stalled and [s.step for s in end.steps] == list(range(8))
    limited = Parabola(below(40.0), share=0.1, status=Status.iteration_limit)
    end, _ = continued(limited)
    assert end.status is Status.iteration_limit and limited.curved == 0 and not end.reason
    last = Parabola(10.0, share=0.1, third=Status.iteration_limit)
    end, _ = continued(last)
    assert len(last.starts) == 3 and end.status is Status.iteration_limit and not end.reason


def test_a_search_without_a_step_is_at_the_top_if_the_curvature_says_so() -> None:
    """Newton's step is higher, but for the last digits, than any along the gradient from there; a
    gradient without a curvature says nothing of what is left."""
    search = Parabola(below(0.011), status=Status.stalled, reason=NO_STEP.reason)
    end, _ = continued(search)
    assert end.status is Status.converged and not end.reason and search.curved == 1
    lower = Parabola(10.0, share=0.1, status=Status.stalled, reason=NO_STEP.reason)
    end, _ = continued(lower)
    assert end.status is Status.stalled and "promise" in end.reason


@pytest.mark.parametrize("nats", [1e-6, 1.6e-4, 5e-3])
def test_estimates_are_polished_to_a_thousandth_of_their_sds(nats: float) -> None:
    """However many nats an objective of many digits hides: 1.6e-4 of 118,861 are 0.018 sds."""
    parabola = Parabola(below(nats))
    objective: Any = SimpleNamespace(
        at=parabola.objective.at, units=np.ones_like, tolerances=Tolerances()
    )
    end = Maximiser(objective, jacobian=False).polished(
        replace(parabola.ended(), hessian=-0.95 * np.eye(1))
    )
    assert parabola.x > 1e-3 and abs(end.at.x[0]) < 1e-3
