"""What fits by an engine that estimates claim of Gaussian posteriors, against exact ones."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

CROSSED = """lgm 1
index obs
index g
index h
data y[obs] : real
data i[obs] : g
data j[obs] : h
latent a ~ normal(sd = 5)
latent u[g] ~ normal(sd = 0.5)
latent v[h] ~ normal(sd = 0.3)
let eta[obs] = a + u[i] + v[j]
observe y ~ normal(mean = eta, sd = 1)
"""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_estimates_claim_what_they_are_off(seed: int) -> None:
    rng = np.random.default_rng(seed)
    i, j = rng.integers(300, size=3000), rng.integers(200, size=3000)
    y = 0.5 * rng.normal(size=300)[i] + 0.3 * rng.normal(size=200)[j] + rng.normal(size=3000)
    data = {"y": y, "i": i, "j": j}
    exact = lgm.fit(lgm.loads(CROSSED), data)
    fit = lgm.fit(lgm.loads(CROSSED), data, options={"engine": "iterative"})
    assert exact.accuracy.basis == "exact"
    claim = fit.accuracy
    assert claim.basis == "standard errors of the engine's estimates"
    off = max(float(abs(fit.sd(n) / exact.sd(n) - 1.0).max()) for n in ("a", "u", "v"))
    assert 0.5 * off <= claim.sd <= 2.0 * off
    assert abs(fit.log_evidence - exact.log_evidence) <= 4.0 * claim.evidence
