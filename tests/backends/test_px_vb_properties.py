"""px-vb on random models: its bound, its limit, its expansion, and what must not change either."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize as so
from hypothesis import assume, given
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Engine
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import AugmentedAnswer
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.engines.dense.precision import PrecisionEngine
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.evidence import brute_log_evidence
from lgmdsl.testing.random.model import RandomModel
from lgmdsl.testing.sites.question_checks import stretched
from lgmdsl_backends.px_vb import ParameterExpanded
from lgmdsl_backends.px_vb.bound import (
    Gaussian,
    Point,
    anchored,
    answers_at,
    at,
    conditioned_on,
    expanded,
    pulls,
    update,
)
from tests.agreement.methods import apart, few, predictors, solved

PROBIT = ("bernoulli.probit", "binomial.probit", "normal.mean", "normal")
CLOSE = Tolerances(1e-12, 1e-6)
cases = random_models(PROBIT, rows=(1, 12), latents=(1, 12), wild=False, flat=True, missing=True)


def driven(problem: Problem, expand: bool = True) -> Run:
    return run(ParameterExpanded(expand), problem, CLOSE, 4000)


@pytest.mark.thorough
@given(random_models(PROBIT, rows=(1, 12), latents=(1, 2), wild=False, missing=True))
@few(15)
def test_the_bound_is_below_the_evidence_and_the_variational_gaussians(case: RandomModel) -> None:
    fit = solved(case, "px-vb")
    best = solved(case, "natural-gradient")
    assert fit is not None and best is not None
    assert fit.log_evidence <= brute_log_evidence(case) + 1e-7
    assert fit.log_evidence <= best.log_evidence + 1e-7 * (1.0 + abs(best.log_evidence))


@given(cases)
@few(15)
def test_the_bound_rises_and_the_expansion_keeps_the_limit(case: RandomModel) -> None:
    problem = case.problem("px-vb")
    found = driven(problem), driven(problem, expand=False)
    for each in found:
        rises = np.diff([e.objective for e in each.trace])
        assert (rises > -1e-10 * max(1.0, abs(each.trace[-1].objective))).all()
        assert "expansion skipped" not in {e.stage for e in each.trace}
    assume(all(str(f.status) == "converged" for f in found))
    one, two = (f.posterior for f in found)
    assert one is not None and two is not None
    assert one.log_evidence == pytest.approx(two.log_evidence, abs=1e-9 * len(problem.sites[0]))
    for m1, m2, v in zip(
        one.conditioned.mean, two.conditioned.mean, two.conditioned.variance, strict=True
    ):
        assert (np.abs(m1 - m2) <= 2e-5 * np.sqrt(v) + 1e-12).all()


@pytest.mark.thorough
@given(cases, st.sampled_from([1e-3, 0.2, 7.0, 1e4]))
@few(10)
def test_the_unit_of_the_features_is_irrelevant(case: RandomModel, by: float) -> None:
    one, two = solved(case, "px-vb"), solved(case.rescaled(by), "px-vb")
    assert one is not None and two is not None
    assume(one.converged and two.converged)
    gain = -np.log(by) * sum(b.size for b in case.blocks if b.covariance is None)
    size = max(1.0, abs(one.log_evidence), abs(gain))
    assert two.log_evidence == pytest.approx(one.log_evidence + gain, abs=1e-7 * size)
    assert apart(predictors(one), predictors(two)) < 1e-4
    # Not the end alone: round by round, as far as both went.
    for a, b in zip(one.trace[:6], two.trace[:6], strict=False):
        assert a.stage == b.stage
        assert b.objective == pytest.approx(a.objective + gain, abs=1e-7 * size)


@given(cases)
@few(10)
def test_engines_agree(case: RandomModel) -> None:
    problem = case.problem("px-vb")
    linear = problem.engine.linear
    kinds: tuple[Callable[[LinearGaussian], Engine], ...] = tuple(
        e for e in (CovarianceEngine, PrecisionEngine, SparseEngine) if not e.refuses(linear)
    )
    assume(len(kinds) > 1)
    found = [
        run(ParameterExpanded(), replace(problem, engine=kind(linear)), CLOSE, 60) for kind in kinds
    ]
    first = found[0]
    for other in found[1:]:
        n = min(len(first.trace), len(other.trace), 20)
        np.testing.assert_allclose(
            [e.objective for e in first.trace[:n]],
            [e.objective for e in other.trace[:n]],
            rtol=1e-8,
            atol=1e-8,
        )


def bound_at(problem: Problem, answers: tuple[AugmentedAnswer, ...], rho: float) -> float:
    """By a factorisation at rho: the definition."""
    some = [stretched(a, rho) for a in answers]
    q = problem.engine.condition(tuple(a.precision for a in some), tuple(a.shift for a in some))
    assert isinstance(q, Conditioned)
    return q.log_normaliser + rows.total(tuple(a.correction for a in some))


def anywhere(problem: Problem, seed: int) -> Point:
    """A point that is no optimum."""
    rng = np.random.default_rng(seed)
    mean = tuple(m + rng.normal(size=m.shape) for m in problem.engine.prior_mean)
    answers = answers_at(problem, mean, tuple(np.ones_like(m) for m in mean))
    q = conditioned_on(
        problem, *(tuple(getattr(a, k) for a in answers) for k in ("precision", "shift"))
    )
    assert isinstance(q, Gaussian)
    return at(problem, q)


@given(cases, st.integers(0, 1000))
@few(20)
def test_the_expansion_is_the_best_point_of_its_line(case: RandomModel, seed: int) -> None:
    """For any Gaussian prior, any offset: against a search along bounds by factorisation."""
    problem = case.problem("px-vb")
    point = anywhere(problem, seed)
    pull, plain = pulls(point.answers), update(problem, point)
    assume(pull is not None)
    assert pull is not None and isinstance(plain, Gaussian)
    anchor = anchored(plain, pull, None)
    assert isinstance(anchor, Gaussian)
    found = expanded(point.answers, pull, plain, anchor)
    if found is None:  # binomial sites of no trials
        assert not any(a.stretch is not None and a.stretch.count.any() for a in point.answers)
        return
    line = so.minimize_scalar(
        lambda t: -bound_at(problem, point.answers, float(np.exp(t))),
        bounds=(-3.0, 3.0),
        options={"xatol": 1e-9},
        method="bounded",
    )
    rho = float(np.exp(line.x))
    whole: Array = np.concatenate(found.shift)
    moved = [a.shift + (rho - 1.0) * d for a, d in zip(point.answers, pull, strict=True)]
    np.testing.assert_allclose(whole, np.concatenate(moved), rtol=1e-4, atol=1e-4)
    gain = -line.fun - bound_at(problem, point.answers, 1.0)
    assert gain >= -1e-9
    q = problem.engine.condition(found.weight, found.shift)
    assert isinstance(q, Conditioned)
    assert found.log_normaliser == pytest.approx(
        q.log_normaliser, abs=1e-7 * (1 + abs(q.log_normaliser))
    )
    np.testing.assert_allclose(np.concatenate(found.mean), np.concatenate(q.mean), atol=1e-7)
    # And its auxiliaries at their best are no worse than that.
    assert at(problem, found).bound >= -line.fun - 1e-7 * (1 + abs(line.fun))


def test_the_iterative_engine_follows() -> None:
    """Its determinants are estimates, the same at every step where the weights stand."""
    rng = np.random.default_rng(0)
    from tests.backends.test_px_vb import FLAT, problem_of, small

    text = FLAT.replace("flat()", "normal(mean = 0.3, sd = 2)")
    problem = problem_of(text, {**small(1, 60), "X": rng.normal(size=(60, 3))})
    exact = run(ParameterExpanded(), problem, CLOSE, 4000).posterior
    engine = IterativeEngine(problem.engine.linear, seed=0)
    found = run(ParameterExpanded(), replace(problem, engine=engine), Tolerances(1e-7, 1e-3), 4000)
    assert str(found.status) == "converged" and found.posterior is not None and exact is not None
    away = found.posterior.conditioned.latent_mean - exact.conditioned.latent_mean
    assert (np.abs(away) < 2e-3 * np.sqrt(exact.conditioned.latent_variance)).all()
