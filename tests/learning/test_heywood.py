"""Factor analysis where the likelihood rises as a noise sd goes to 0 (Heywood cases)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm

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


@pytest.mark.parametrize("factors", [2, 8])
def test_the_evidence_stays_that_of_the_hyperparameters(factors: int) -> None:
    """At sds of 1e-8 rounding is thousands of nats, and none of it is climbed on."""
    rng = np.random.default_rng(7)
    y = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(60, 5))
    fit = lgm.fit(lgm.loads(TEXT.format(factors=factors)), {"y": y}, hyper="em")
    assert fit.converged
    c, loadings, s = (fit.mean(name).values for name in ("c", "L", "s"))
    assert s.min() < 1e-3
    exact = stats.multivariate_normal(c, loadings @ loadings.T + np.diag(s**2)).logpdf(y).sum()
    assert abs(fit.log_evidence - exact) < 2e-3
