"""The installed package: a method like any other, with the same optimum as the default."""

import numpy as np
import pytest
from lgm_damped_vb import DampedVB

import lgmdsl as lgm
from lgmdsl.testing.backend_checks import check_backend

MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs]       : binary
latent w[feat] ~ normal(sd = 2)
let eta[obs] = X @ w
observe y ~ bernoulli(logit = eta)
"""


def test_it_keeps_its_promises() -> None:
    assert check_backend(DampedVB) >= 4


def test_its_optimum_is_that_of_the_default() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    y = (rng.random(60) < 1.0 / (1.0 + np.exp(-X @ [1.0, -1.0, 0.5, 0.0]))).astype(int)
    model, data = lgm.loads(MODEL), {"X": X, "y": y}
    fit = lgm.fit(model, data, method="damped-vb", max_steps=200)
    plain = lgm.fit(model, data, method="natural-gradient")
    assert fit.converged and "lower bound" in fit.summary()
    assert fit.log_evidence == pytest.approx(plain.log_evidence, abs=1e-5)
    np.testing.assert_allclose(fit.sd("w"), plain.sd("w"), rtol=1e-3)
