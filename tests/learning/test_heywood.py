"""Factor analysis where the likelihood rises as a noise sd goes to 0 (Heywood cases)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.arrays import Array

TEXT = """lgm 1
index person
index item
index factor = {factors}
data y[person, item] : real
hyper c[item] : real ~ normal(sd = 3)
hyper L[item, factor] : real ~ normal(sd = 1)
hyper s[item] : positive ~ pc_sd(u = 2, alpha = 0.05)
latent z[person, factor] ~ normal(sd = 1)
let eta[person, item] = c + L @ z
observe y ~ normal(mean = eta, sd = s)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("factors", [2, 8])
def test_the_evidence_stays_that_of_the_hyperparameters(factors: int) -> None:
    """At sds of 1e-8 rounding is thousands of nats, and none of it is climbed on."""
    rng = np.random.default_rng(7)
    y = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(60, 5))
    fit = lgm.fit(lgm.loads(TEXT.format(factors=factors)), {"y": y}, hyper="em")
    assert fit.converged
    c, loadings, s = (fit.mean(name).values for name in ("c", "L", "s"))
    # The search ends at 1.05e-3 to 1.3e-3: there the evidence is flat (4e-6 nats were measured from
    # there to 0), and the prior is worth 1.5 s more, which is 2e-3 nats for each item.
    small = s < 1.5e-3
    assert small.sum() == {2: 2, 8: 5}[factors]

    def evidence(s: Array) -> float:
        law = stats.multivariate_normal(c, loadings @ loadings.T + np.diag(s**2))
        return float(law.logpdf(y).sum())

    left = evidence(np.where(small, 1e-4 * s, s)) - evidence(s)
    assert abs(left) < 1e-4
    exact = evidence(s)
    assert abs(fit.log_evidence - exact) < 1e-7 * abs(exact)


@pytest.mark.parametrize("method", ["natural-gradient", "laplace"])
@pytest.mark.parametrize("sd", [1e-3, 1e-5, 1e-6])
def test_evidences_of_precise_items(method: str, sd: float) -> None:
    """Weights of 1e12 beside 1: a square root is factored, and nothing is subtracted."""
    rng = np.random.default_rng(3)
    y, loadings, s = rng.normal(size=(60, 5)), rng.normal(size=(5, 2)), np.array([0.5] * 4 + [sd])
    held = {"c": np.zeros(5), "L": loadings, "s": s}
    fit = lgm.fit(lgm.loads(TEXT.format(factors=2)), {"y": y}, method, "fixed", held)
    covariance = loadings @ loadings.T + np.diag(s**2)
    exact = stats.multivariate_normal(np.zeros(5), covariance).logpdf(y).sum()
    assert abs(fit.log_evidence - exact) < 1e-8 * abs(exact)
