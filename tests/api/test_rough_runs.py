"""Runs from other starts: rough ones lose no optimum, and go on only where they may win."""

from __future__ import annotations

import numpy as np
import pytest

from lgmdsl.api.fit.optima.other_optima import _highest
from lgmdsl.api.fit.optima.other_runs import GAIN, LEFT, run_above, run_from
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Run
from lgmdsl.inference.other_starts import landmark_starts
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.settings import FitSettings
from tests.compiled import canonical_form

TEXT = """lgm 1
index obs
index w
data X[obs, w] : real
data y[obs] : real
latent b[w] ~ flat
potential b ~ student_t(scale = 1, df = 0.01)
let s[obs] = X @ b
observe y ~ student_t(mean = s, scale = 0.2, df = 2)
"""
SETTINGS = FitSettings()


def problem(seed: int) -> tuple[Plan, Problem]:
    """Sparse robust regression with a group of outliers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(24, 6))
    y = X @ np.r_[2.0, -1.0, 0.0, 0.0, 0.0, 0.0] + 0.2 * rng.normal(size=24)
    y[:7] += 4.0 * X[:7, 2]
    canonical = canonical_form(TEXT, {"X": X, "y": y})
    planned = plan(canonical, "natural-gradient")
    return planned, planned.at({})


def ends(planned: Plan, at: Problem, rough: float | None) -> list[Run]:
    """From every landmark."""
    own = run_from(planned, at, SETTINGS, None, None)
    assert own.posterior is not None
    starts = [s for _, s in landmark_starts(at, own.posterior.conditioned)]
    return [own, *(run_from(planned, at, SETTINGS, s, None, rough) for s in starts)]


@pytest.mark.parametrize("seed", range(4))
def test_the_highest_of_rough_runs_is_that_of_exact_ones(seed: int) -> None:
    planned, at = problem(seed)
    exact = ends(planned, at, None)
    rough = ends(planned, at, exact[0].trace[-1].objective)
    for a, b in zip(exact[1:], rough[1:], strict=True):
        assert a.status is b.status is Status.converged
        assert b.steps <= a.steps
        gap = a.trace[-1].objective - b.trace[-1].objective
        assert -1e-9 <= gap < LEFT
    assert sum(r.steps for r in rough) < sum(r.steps for r in exact)
    lowest = min(exact, key=lambda r: r.trace[-1].objective)
    tops = [r.trace[-1].objective for r in exact]
    first = tops.index(lowest.trace[-1].objective)
    order = [first, *(k for k in range(len(exact)) if k != first)]
    found = _highest(planned, at, SETTINGS, [rough[k] for k in order], -np.inf)
    if max(tops) > tops[first] + GAIN:
        assert found is not None
        assert found.trace[-1].objective == pytest.approx(max(tops), abs=1e-4)
    else:
        assert found is None


def test_a_run_goes_on_where_its_end_may_win() -> None:
    planned, at = problem(0)
    own = run_from(planned, at, SETTINGS, None, None)
    top = own.trace[-1].objective
    low = run_above(planned, at, SETTINGS, None, None, top + 1.0)
    near = run_above(planned, at, SETTINGS, None, None, top + 0.5 * LEFT)
    asked = run_above(planned, at, SETTINGS, None, None, top + 1.0, lambda end: True)
    assert low.steps < own.steps and low.trace[-1].residual > 1e-4
    for run in (near, asked):
        assert run.status is Status.converged
        assert run.trace[-1].residual <= SETTINGS.tolerances.mean
        assert run.trace[-1].objective == pytest.approx(top, abs=1e-5)


def test_a_run_that_has_no_steps_left_does_not_count_as_an_end() -> None:
    planned, at = problem(0)
    own = run_from(planned, at, SETTINGS, None, None)
    few = run_above(planned, at, SETTINGS, None, own.steps - 2, -np.inf)
    assert few.status is Status.iteration_limit and few.steps <= own.steps - 2
    assert _highest(planned, at, SETTINGS, [few, few], np.inf) is None
