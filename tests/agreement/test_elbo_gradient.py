"""The ELBO's slope, in q's means and covariance and in its canonical (W, b), by finite differences.

In moments: dELBO/dm_z = B'(f_m - alpha) and dELBO/dV_z = B' diag(f_v + W/2) B, at any canonical q.
In (W, b), with C = Cov_q[s]:  dELBO/db = C (f_m - alpha),
dELBO/dW = -m o dELBO/db - (C o C)(f_v + W/2), which vanishes at W = -2 f_v, b = f_m + W m.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.arrays import Array
from lgmdsl.contract.joint import row_covariance
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.stacked import flatten, split
from lgmdsl.testing.models import random_models
from lgmdsl.testing.random.model import RandomModel
from tests.agreement.comparisons import compared, must_run

from .methods import few

SMOOTH = ("normal.mean", "bernoulli.logit", "bernoulli.probit", "bernoulli.cloglog",
          "binomial.logit", "poisson.log_rate", "negbinomial.log_mean", "gamma.log_mean",
          "student_t.mean", "laplace.mean", "normal.log_var", "logistic", "exp_power")  # fmt: skip


def some_point(case: RandomModel, seed: int) -> tuple[Problem, ElboPoint]:
    """A q that is no optimum, one weight in eight negative but small enough for it to exist."""
    problem = case.problem()
    rng = np.random.default_rng(seed)
    rows = problem.engine.linear.rows
    nothing = split(np.zeros(rows), problem.engine.linear.predictors)
    prior = problem.engine.condition(nothing, nothing)
    weight = np.exp(rng.normal(size=rows))
    largest = float(flatten(prior.variance).max())
    weight[::8] *= -0.02 / (1.0 + rows * largest)
    shift = rng.normal(size=rows)
    predictors = problem.engine.linear.predictors
    point = elbo_at(problem, split(weight, predictors), split(shift, predictors))
    assert isinstance(point, ElboPoint)
    return problem, point


def gaps(point: ElboPoint) -> tuple[Array, Array]:
    """f_m - alpha and f_v + W/2, (P,)."""
    slope = flatten(tuple(a.d_mean for a in point.answers)) - flatten(point.alpha)
    curve = flatten(tuple(a.d_variance for a in point.answers)) + 0.5 * flatten(point.weight)
    return slope, curve


def central(f, step: float) -> float:  # type: ignore[no-untyped-def]
    """Fourth-order difference quotient at 0."""
    return float((8.0 * (f(step) - f(-step)) - (f(2.0 * step) - f(-2.0 * step))) / (12.0 * step))


cases = random_models(families=SMOOTH, rows=(1, 12), latents=(1, 20), wild=False, missing=True)


@given(cases, st.integers(0, 2**20))
@few(15)
def test_in_canonical_coordinates(case: RandomModel, seed: int) -> None:
    problem, point = some_point(case, seed)
    predictors = problem.engine.linear.predictors
    covariance = row_covariance(point.conditioned, problem.engine.linear)
    slope, curve = gaps(point)
    by_shift = covariance @ slope
    by_weight = -flatten(point.mean) * by_shift - covariance**2 @ curve
    rng = np.random.default_rng(seed + 1)
    weight, shift = flatten(point.weight), flatten(point.shift)
    tilt, bend = rng.normal(size=len(shift)), rng.normal(size=len(shift)) * np.abs(weight)

    def at(dw: Array, db: Array) -> float:
        moved = elbo_at(problem, split(weight + dw, predictors), split(shift + db, predictors))
        assert isinstance(moved, ElboPoint)
        return moved.elbo

    size = 1.0 + abs(point.elbo)
    found = central(lambda t: at(0.0 * bend, t * tilt), 1e-3)
    assert found == pytest.approx(float(by_shift @ tilt), rel=1e-5, abs=1e-7 * size)
    found = central(lambda t: at(t * bend, 0.0 * tilt), 1e-3)
    assert found == pytest.approx(float(by_weight @ bend), rel=1e-5, abs=1e-7 * size)


def moment_elbo(case: RandomModel, problem: Problem, mean: Array, covariance: Array) -> float:
    """sum f(m, v) - KL(N(mean, covariance) || prior), from the definition."""
    predictors = problem.engine.linear.predictors
    design = np.vstack([case.design[s.present] for s in case.sites])
    offset = np.concatenate([p.offset for p in predictors])
    m = split(design @ mean + offset, predictors)
    v = split(np.einsum("ij,jk,ik->i", design, covariance, design), predictors)
    value = sum(
        float(a.expected(x, y).value.sum())
        for a, x, y in zip(problem.expecting(), m, v, strict=True)
    )
    gap = mean - case.mean
    solve = np.linalg.solve(case.covariance, np.column_stack([covariance, gap]))
    logs = np.linalg.slogdet(case.covariance)[1] - np.linalg.slogdet(covariance)[1]
    return value - 0.5 * float(np.trace(solve[:, :-1]) - len(gap) + gap @ solve[:, -1] + logs)


@must_run
@given(cases, st.integers(0, 2**20))
@few(15)
def test_in_moments(case: RandomModel, seed: int) -> None:
    # The definition inverts the prior covariance, so it needs one that can be.
    blocks = tuple(
        b for b in case.blocks if b.covariance is not None and np.linalg.cond(b.covariance) < 1e6
    )
    if not blocks:
        return
    compared()
    case = RandomModel(blocks, case.sites, case.constant, case.shifts)
    problem, point = some_point(case, seed)
    q = point.conditioned
    mean, covariance = q.latent_mean, q.solve(np.eye(case.size))
    design = np.vstack([case.design[s.present] for s in case.sites])
    slope, curve = gaps(point)
    size = 1.0 + abs(point.elbo)
    found = moment_elbo(case, problem, mean, covariance)
    assert found == pytest.approx(point.elbo, abs=1e-8 * size)
    rng = np.random.default_rng(seed + 1)
    root = np.linalg.cholesky((covariance + covariance.T) / 2.0)
    tilt = root @ rng.normal(size=case.size)
    found = central(lambda t: moment_elbo(case, problem, mean + t * tilt, covariance), 1e-3)
    assert found == pytest.approx(float(slope @ design @ tilt), rel=1e-5, abs=1e-7 * size)
    bend = rng.normal(size=(case.size, case.size))
    bend = root @ (bend + bend.T) @ root.T / case.size
    found = central(lambda t: moment_elbo(case, problem, mean, covariance + t * bend), 1e-3)
    exact = float(curve @ np.einsum("ij,jk,ik->i", design, bend, design))
    assert found == pytest.approx(exact, rel=1e-5, abs=1e-7 * size)
