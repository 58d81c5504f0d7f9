"""Predictions of fits whose hyperparameters have factors: the noise is averaged over its own."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.numerics.cholesky import cholesky

MODEL = """lgm 1
index obs
data y[obs] : real
hyper v : positive ~ half_normal(sd = 2)
latent m ~ normal(sd = 3)
let eta[obs] = m
observe y ~ normal(mean = eta, sd = v)
"""


def test_the_noise_of_new_data_is_that_of_its_factor() -> None:
    data = {"y": [0.3, 1.9, -1.0]}
    fit = lgm.fit(lgm.loads(MODEL), data, hyper="vb")
    v, sd, m = (float(x) for x in (fit.mean("v"), fit.sd("v"), fit.sd("m")))
    known = np.sqrt(v**2 + sd**2 + m**2)
    found = fit.predict(data)
    assert found.response("y")["sd"].values == pytest.approx(known, rel=0.02)
    drawn = found.sample_response("y", 20_000, 1).values
    assert drawn.std(axis=0) == pytest.approx(known, rel=0.04)


def test_the_inverse_of_nothing_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """LAPACK complains of it on the standard output."""
    factor = cholesky(np.zeros((0, 0)))
    assert factor is not None and factor.inverse().shape == (0, 0)
    assert capfd.readouterr() == ("", "")
