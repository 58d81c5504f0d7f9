"""The digits of an LED display, the graphical models of Khan 2012 for them, and bits of held-out
entries."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array

CASES = 2000
BOUNDS = {"B": "bohning", "J": "jaakkola", "Q20": "piecewise-quadratic-20"}
MODEL = """lgm 1
index case
index item
{more}data y[case, item] : binary?
hyper mu[item] : real ~ normal(sd = 10)
hyper S[item, item] : covariance ~ {prior}
latent z[case, item] ~ iid * dense(cov = S)
let eta[case, item] = mu + z
observe y ~ bernoulli(logit = eta)
"""
# Worth 50 cases of covariance I beside 1,600: Böhning's covariance would be singular.
DENSE = lgm.loads(
    MODEL.format(more="data own[item, item] : real\n", prior="inv_wishart(df = 25, scale = own)")
)
OWN = 50.0 * np.eye(24)


def sparse(rate: float) -> lgm.Model:
    return lgm.loads(MODEL.format(more="", prior=f"graphical_lasso(rate = {rate})"))


def digits(shared: Path) -> Array:
    """(2000, 24), as many as in the thesis."""
    with np.load(shared / "data" / "led24_generated.npz") as file:
        return np.asarray(file["X"][:CASES], dtype=float)


def split(y: Array, number: int, train: float, test: float) -> tuple[Array, Array, Array]:
    """Shares of the cases for training and testing, and the entry of each test case held out."""
    rng = np.random.default_rng(number)
    order = rng.permutation(len(y))
    first, last = round(train * len(y)), round(test * len(y))
    tested = y[order[-last:]]
    out = np.arange(y.shape[1]) == rng.integers(0, y.shape[1], last)[:, None]
    return y[order[:first]], tested, out


def bits(
    asked: lgm.Model, fit: Fit, bound: str, more: dict[str, Array], test: Array, out: Array
) -> float:
    """Average cross entropy, base 2, of the held-out entries."""
    data = {"y": np.where(out, np.nan, test), **more}
    found = lgm.fit(asked, data, hyper="fixed", fixed=dict(fit.theta), bound=bound)
    chance = found.impute()["y"].values[out]
    return float(-np.mean(np.log2(np.where(test[out] > 0, chance, 1.0 - chance))))


def learned(asked: lgm.Model, data: dict[str, Array], bound: str) -> Fit:
    fit = lgm.fit(asked, data, hyper="em", bound=bound, tol=1e-6)
    assert fit.learning.steps[-1].gain < 0.5, (bound, fit.status)  # nats another step promises
    return fit
