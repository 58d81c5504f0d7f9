"""Coordinate descent on the widths: each one to its minimum, and the double loop's optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import lgmdsl as lgm
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.super_gaussian import WidthPoint, at_moments
from lgmdsl.inference.plan import plan
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel
from lgmdsl_backends.coordinate_descent import CoordinateDescent
from tests.agreement.methods import few
from tests.backends.test_double_loop import HEAD, SUPER
from tests.compiled import canonical_form

MIXED = (
    f"{HEAD}data y[obs] : real\ndata c[obs] : binary\nlatent b[feat] ~ normal(sd = 2)\n"
    "latent a ~ flat\nlet eta[obs] = a + X @ b\n"
    "observe y ~ {family}\nobserve c ~ bernoulli(logit = eta)\npotential b ~ laplace(scale = 1)\n"
)
FAMILIES = (
    "laplace(mean = eta, scale = 0.5)",
    "student_t(mean = eta, scale = 0.5, df = 3)",
    "normal(mean = eta, sd = 0.7)",
)


def made(n: int, features: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    y = X[:, 0] + rng.standard_t(3, n)
    return {"X": X, "y": y, "c": (rng.random(n) < 0.5).astype(int)}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shape", [(9, 2), (3, 9)])  # latents fewer than rows, and more
def test_a_sweep_takes_each_width_to_its_minimum(family: str, shape: tuple[int, int]) -> None:
    """By a factorisation for every trial of every width, the others being as they are by then."""
    canonical = canonical_form(MIXED.format(family=family), made(*shape))
    backend = CoordinateDescent(accuracy=1e-12, group=4)
    problem = plan(canonical, "coordinate-descent").at(canonical.hypers.theta(None))
    state = backend.start(problem)
    assert state.point is not None
    swept = backend._sweep(problem, state.point.conditioned, state.single)
    sizes = [len(m) for m in problem.engine.prior_mean]
    ends = np.cumsum(sizes)[:-1]

    def bound(squares: np.ndarray) -> float:
        parts = tuple(np.split(squares, ends))
        point = at_moments(problem, tuple(np.zeros_like(p) for p in parts), parts)
        assert isinstance(point, WidthPoint) and not isinstance(point, Failed)
        return point.bound

    weights = np.concatenate(state.point.conditioned.weight)
    here = np.array([squared_of(state.single[k], w) for k, w in enumerate(weights)])
    assert bound(here) == pytest.approx(state.objective, abs=1e-9)
    for k in range(len(here)):
        here[k] = swept[k]
        least = bound(here)
        for factor in (0.5, 0.97, 1.03, 2.0):
            other = here.copy()
            other[k] *= factor
            assert bound(other) <= least + 1e-11


def squared_of(site: object, weight: float) -> float:
    """x with -2g'(x) = weight, by bisection on log x."""
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        wider = -2.0 * site.g(np.array([np.exp(middle)]))[1][0] > weight  # type: ignore[attr-defined]
        low, high = (middle, high) if wider else (low, middle)
    return float(np.exp(0.5 * (low + high)))


@pytest.mark.thorough
@given(random_models(families=SUPER, rows=(1, 12), latents=(1, 8), flat=True))
@few(6)
def test_no_sweep_lowers_the_bound(case: RandomModel) -> None:
    fit = case.fit("coordinate-descent", tol=1e-9)
    assert fit.converged
    steps = np.diff([e.objective for e in fit.trace])
    assert (steps >= -1e-10 * max(1.0, abs(fit.log_evidence))).all()


def test_the_group_of_rows_does_not_matter() -> None:
    model, data = lgm.loads(MIXED.format(family=FAMILIES[0])), made(40, 3)
    fits = [
        lgm.fit(model, data, "coordinate-descent", options={"group": g}, max_steps=3)
        for g in (1, 7, 64)
    ]
    for fit in fits[1:]:
        assert fit.log_evidence == pytest.approx(fits[0].log_evidence, abs=1e-10)
        np.testing.assert_allclose(fit.mean("b"), fits[0].mean("b"), atol=1e-10)
    with pytest.raises(lgm.MethodError, match="group"):
        lgm.fit(model, data, "coordinate-descent", options={"group": 0})
