"""What the tests of the variational solvers share: small models, and a dense ELBO of (m, V)."""

from __future__ import annotations

from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array
from lgmdsl.compile import compile_model
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.dataset import read
from lgmdsl.inference.plan import plan
from lgmdsl.sites import catalogue as sites

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
    canonical = compile_model(lgm.loads(text).checked, read(data(text)), sites.find_site)
    return plan(canonical, method).at(canonical.hypers.theta(None))


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
