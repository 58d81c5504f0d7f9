"""Coordinate ascent: known fits, the scalar equation, rows of several blocks, statuses."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.bounds.quadrature import ExpectedByQuadrature
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.joint import row_covariance, some_rows
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.inference.plan import plan
from lgmdsl.numerics.optimisation.newton import solve_variance
from lgmdsl.sites.catalogue import site
from lgmdsl_backends.coordinate_ascent import CoordinateAscent

TWO_BLOCKS = """lgm 1
index obs
index more
index feat
data X[obs, feat] : real
data U[more, feat] : real
data y[obs] : binary
data n[more] : count
latent b[feat] ~ normal(sd = 1.5)
latent c ~ normal(sd = 2)
let s[obs] = X @ b + c
let r[more] = 0.5 * (U @ b)
observe y ~ bernoulli(logit = s)
observe n ~ poisson(log_rate = r)
"""
ROBUST = """lgm 1
index obs
data x[obs] : real
data y[obs] : real
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
let s[obs] = a + b * x
observe y ~ {site}
"""


def two_blocks() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {
        "X": rng.normal(size=(14, 2)), "U": rng.normal(size=(6, 2)),
        "y": rng.integers(0, 2, 14), "n": rng.poisson(1.5, 6),
    }  # fmt: skip


def outliers() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=24)
    y = 1.0 + 2.0 * x + 0.2 * rng.normal(size=24)
    y[:6] += rng.normal(size=6) * 8.0
    return {"x": x, "y": y}


@pytest.mark.parametrize("method", ["coordinate-ascent", "lcl"])
def test_two_site_blocks(method: str) -> None:
    model, data = lgm.loads(TWO_BLOCKS), two_blocks()
    own = lgm.fit(model, data, method=method, tol=1e-10)
    other = lgm.fit(model, data, method="natural-gradient", tol=1e-10)
    assert own.converged
    assert own.log_evidence == pytest.approx(other.log_evidence, rel=1e-9)
    np.testing.assert_allclose(own.mean("b"), other.mean("b"), atol=1e-5)
    np.testing.assert_allclose(own.sd("b"), other.sd("b"), atol=1e-5)


LAPLACE = "laplace(mean = s, scale = 0.3)"
STUDENT = "student_t(mean = s, scale = 0.3, df = 4)"


@pytest.mark.parametrize(
    ("method", "word"),
    [
        ("coordinate-ascent", LAPLACE),
        ("coordinate-ascent", STUDENT),
        ("lcl", LAPLACE),
        pytest.param("lcl", STUDENT, marks=pytest.mark.slow),
    ],
)
def test_kinks_and_outliers(method: str, word: str) -> None:
    model, data = lgm.loads(ROBUST.format(site=word)), outliers()
    own = lgm.fit(model, data, method=method)
    other = lgm.fit(model, data, method="natural-gradient")
    assert (np.diff([e.objective for e in own.trace]) >= -1e-9 * abs(own.log_evidence)).all()
    assert own.converged
    assert own.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)


def test_flat_priors_and_rows_of_zeros() -> None:
    """S is infinite there, and a row that meets no latent has no variance."""
    text = TWO_BLOCKS.replace("normal(sd = 1.5)", "flat")
    data = two_blocks()
    data["U"][0] = 0.0
    own = lgm.fit(lgm.loads(text), data, method="coordinate-ascent")
    other = lgm.fit(lgm.loads(text), data, method="natural-gradient")
    assert own.converged
    assert own.log_evidence == pytest.approx(other.log_evidence, rel=1e-7)


def test_the_rows_covariance_is_that_of_the_prior() -> None:
    data = two_blocks()
    fit = lgm.fit(lgm.loads(TWO_BLOCKS), data, method="laplace")
    problem = plan(fit.canonical, "coordinate-ascent").at(fit.theta)
    nothing = tuple(np.zeros_like(s) for s in problem.engine.prior_mean)
    prior = problem.engine.condition(nothing, nothing)
    assert not isinstance(prior, Failed)
    both = np.vstack([data["X"], 0.5 * data["U"]])
    constant = np.r_[np.ones(14), np.zeros(6)]
    wanted = 2.25 * both @ both.T + 4.0 * np.outer(constant, constant)
    found = row_covariance(prior, problem.engine.linear)
    np.testing.assert_allclose(found, wanted, atol=1e-10)
    assert StackedPredictors(problem.engine.linear).predictor().rows == 20


class _Whole(Expected):
    """An answer without `take`."""

    def __init__(self, inner: Expected) -> None:
        self.inner = inner

    def expected(
        self, mean: np.ndarray, variance: np.ndarray, second: bool = False
    ) -> ExpectedAnswer:
        return self.inner.expected(mean, variance, second)


def test_single_rows_of_any_answer() -> None:
    y = np.array([0.0, 1.0, 1.0, 0.0])
    logit = ExpectedByQuadrature().lift(site("bernoulli.logit")(y))  # type: ignore[call-arg]
    where, m, v = np.array([2, 3]), np.array([0.3, -1.0]), np.array([2.0, 0.5])
    one = some_rows(logit, where, 4)(m, v)
    two = some_rows(_Whole(logit), where, 4)(m, v)
    for name in ("value", "d_mean", "d_variance", "d_mean_variance", "d_variance2"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-12)


@pytest.mark.parametrize("start", [1e-6, 1.0, 1e9])
def test_the_scalar_equation_where_plain_iteration_cycles(start: float) -> None:
    """Prior variance e^8, y = 1, m = 46.6 (the best): v <- 1/(c + T(v)) cycles, 181 and 2395."""
    one = site("bernoulli.logit")(np.ones(1))  # type: ignore[call-arg]
    logit = ExpectedByQuadrature().lift(one)

    def weight(v: float) -> tuple[float, float]:
        a = logit.expected(np.full(1, 46.6), np.array([v]), second=True)
        assert a.d_variance2 is not None
        return -2.0 * a.d_variance.item(), -2.0 * a.d_variance2.item()

    cavity = float(np.exp(-8.0))
    v = solve_variance(weight, cavity, start, 1e-12)
    assert 1.0 / v == pytest.approx(cavity + weight(v)[0], rel=1e-10)
    plain = [1.0]
    for _ in range(200):
        plain.append(1.0 / (cavity + weight(plain[-1])[0]))
    assert sorted(plain[-2:]) == pytest.approx([181.3, 2395.4], rel=1e-3)


def test_no_positive_precision_grows_the_variance() -> None:
    """T = -1 below v = 2: the root of 1/v = 1.5 - 1 + ... lies where the precision is positive."""
    v = solve_variance(lambda v: (-1.0 / (1.0 + v), 1.0 / (1.0 + v) ** 2), 0.6, 1e-3, 1e-12)
    assert 1.0 / v == pytest.approx(0.6 - 1.0 / (1.0 + v), rel=1e-10)


def test_a_wide_prior_on_a_log_variance_is_started_where_the_bound_is_finite() -> None:
    """At the prior's variances E[exp(-s)] is exp(450); the bound there is all rounding."""
    rng = np.random.default_rng(2)
    text = (
        "lgm 1\nindex obs\nindex k\ndata x[obs, k] : real\ndata y[obs] : real\n"
        "latent f[obs] ~ gp(at = x, kernel = se(sd = 30, length = 0.3))\n"
        "let eta[obs] = f + 3\nobserve y ~ normal(log_var = eta)\n"
    )
    data = {"x": rng.normal(size=(9, 2)), "y": rng.normal(size=9)}
    best = lgm.fit(lgm.loads(text), data, "natural-gradient")
    fit = lgm.fit(lgm.loads(text), data, "coordinate-ascent")
    assert best.converged and fit.converged
    assert fit.log_evidence == pytest.approx(best.log_evidence, rel=1e-6)


def test_a_vector_sites_rows_go_together() -> None:
    """W = T(V) at the end, and the covariance is that of the new weight."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    covariance, rows = root @ root.T, slice(2, 5)
    before = covariance.copy()
    old = np.diag([0.1, 0.2, 0.3])

    def own(v: Array) -> Array:
        return np.asarray(np.linalg.inv(np.eye(3) + 0.5 * v) + 0.1)

    new = CoordinateAscent()._block(own, old, covariance, rows, 0.0)
    moved = np.zeros((6, 6))
    moved[rows, rows] = new - old
    known = np.asarray(np.linalg.inv(np.linalg.inv(before) + moved), dtype=np.float64)
    np.testing.assert_allclose(covariance, known, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(own(known[rows, rows]), new, rtol=1e-6)
