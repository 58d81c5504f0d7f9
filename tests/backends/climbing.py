"""What the tests of the variational solvers share: small models, and a dense ELBO of (m, V)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.contract.status import Guarantee, Status
from tests.compiled import problem_for

HEAD = "lgm 1\nindex obs\nindex feat\nindex g\ndata X[obs, feat] : real\ndata who[obs] : g\n"

FLAT = (
    f"{HEAD}data y[obs] : count\nlatent c ~ flat\nlatent b[feat] ~ normal(mean = 0.3, sd = 1.5)\n"
    "latent u[g] ~ normal(sd = 0.7)\nlet eta[obs] = c + X @ b + u[who]\n"
    "observe y ~ poisson(log_rate = eta)\n"
)
TIED = (
    "lgm 1\nindex obs\ndata y[obs] : binary\nlatent c ~ flat\n"
    "latent f[obs] ~ normal(sd = 0.8)\nconstrain sum(f, obs) = 0\n"
    "let eta[obs] = c + f\n"
    "observe y ~ bernoulli(logit = eta)\n"
)
TWO = (
    f"{HEAD}data y[obs] : binary\ndata x[obs] : real\nlatent b[feat] ~ normal(sd = 2)\n"
    "let eta[obs] = X @ b\nobserve y ~ bernoulli(probit = eta)\n"
    "observe x ~ normal(mean = eta, sd = 0.8)\n"
)
GP = (
    "lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : binary\n"
    "latent f[obs] ~ gp(at = X, kernel = se(sd = 3, length = 2))\nlet eta[obs] = f\n"
    "observe y ~ bernoulli(logit = eta)\n"
)
KINKED = (
    f"{HEAD}data y[obs] : real\nlatent b[feat] ~ normal(sd = 2)\nlet eta[obs] = X @ b\n"
    "observe y ~ laplace(mean = eta, scale = 0.7)\n"
)
HEAVY = KINKED.replace(
    "laplace(mean = eta, scale = 0.7)", "student_t(mean = eta, scale = 1, df = 4)"
)


def data(text: str, seed: int = 0, n: int = 14) -> dict[str, Any]:
    """Data for any of the models above; some rows are there twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    X[-2:] = X[:2]
    eta = X @ [1.0, -0.7]
    found: dict[str, Any] = {"X": X, "who": np.arange(n) % 3}
    if "y[obs] : count" in text:
        found["y"] = rng.poisson(np.exp(0.5 + 0.3 * eta))
    elif "y[obs] : unit" in text:
        found["y"] = np.clip(rng.beta(0.4 * np.exp(eta), 0.4 * np.exp(-eta)), 1e-4, 1.0 - 1e-4)
    elif "y[obs] : real" in text:
        found["y"] = eta + rng.standard_t(3, n)
    else:
        found["y"] = (eta + rng.logistic(size=n) > 0).astype(np.int64)
    found["x"] = eta + 0.8 * rng.normal(size=n)
    names = [line.split()[1].split("[")[0] for line in text.splitlines() if line[:4] == "data"]
    return {k: v for k, v in found.items() if k in names}


def solved(text: str, method: str, **change: Any) -> Fit:
    """The fit of one of the models."""
    return lgm.fit(lgm.loads(text), data(text), method, **change)


def problem(text: str, method: str) -> Problem:
    """The problem that the driver would hand to a back end."""
    return problem_for(method, text, data(text))


def same_optimum(fit: Fit, other: Fit) -> None:
    """Evidences, means and sds of latents are those of the natural gradient."""
    assert fit.converged
    assert fit.log_evidence == pytest.approx(other.log_evidence, rel=1e-6)
    one, two = fit.posterior.conditioned, other.posterior.conditioned
    sd = np.sqrt(two.latent_variance)
    assert (np.abs(one.latent_mean - two.latent_mean) <= 1e-3 * sd).all()
    np.testing.assert_allclose(np.sqrt(one.latent_variance), sd, rtol=1e-3)


def best(text: str) -> Fit:
    """The optimum by natural gradients."""
    return solved(text, "natural-gradient", tol=1e-10)


def slopes_agree(
    function: Callable[[Array], Any], x: Array, directions: Iterable[Array], h: float, **near: Any
) -> None:
    """Gradients against central differences along some directions."""
    at = function(x)
    assert at is not None
    for d in directions:
        ahead, behind = function(x + h * d), function(x - h * d)
        assert ahead is not None and behind is not None
        assert at.gradient @ d == pytest.approx((ahead.value - behind.value) / (2 * h), **near)


def says_that_it_stopped(method: str) -> None:
    """After one step: its bound is below that of a whole fit."""
    stopped, whole = solved(GP, method, max_steps=1), solved(GP, method)
    assert stopped.status is Status.iteration_limit
    assert stopped.log_evidence < whole.log_evidence
    assert whole.guarantee is Guarantee.LOWER


def fails_with_its_engine(backend: Any) -> None:
    """An engine that cannot condition makes a status."""
    given = problem(GP, backend.spec.name)

    class Broken(type(given.engine)):  # type: ignore[misc]
        def condition(self, weight: object, shift: object) -> Failed:
            return Failed("broken on purpose")

    broken = type(given)(given.sites, given.answers, Broken(given.engine.linear))
    state = backend.start(broken)
    assert state.failed is Status.numerical_error and state.reason == Failed("broken on purpose")


def dense_elbo(given: Problem, mean: Array, covariance: Array) -> float:
    """sum f(m, v) - KL(N(mean, covariance) || prior), all proper blocks, straight from its
    definition."""
    linear = given.engine.linear
    b = np.asarray(StackedPredictors(linear).matrix() @ np.eye(linear.size))
    offset = np.concatenate([p.offset for p in linear.predictors])
    m, v = b @ mean + offset, np.einsum("ij,jk,ik->i", b, covariance, b)
    value, at = 0.0, 0
    for p, site in zip(linear.predictors, given.expecting(), strict=True):
        here = slice(at, at + p.rows)
        value += float(site.expected(m[here], v[here]).value.sum())
        at += p.rows
    prior, mu = np.zeros_like(covariance), np.zeros(linear.size)
    for block in linear.blocks:
        where = linear.slices[block.name]
        prior[where, where], mu[where] = block.factors[0].covariance(), block.mean
    gap = mean - mu
    solved = np.linalg.solve(prior, np.column_stack([covariance, gap]))
    divergence = 0.5 * (
        np.trace(solved[:, :-1])
        - linear.size
        + gap @ solved[:, -1]
        + np.linalg.slogdet(prior)[1]
        - np.linalg.slogdet(covariance)[1]
    )
    return value - float(divergence)
