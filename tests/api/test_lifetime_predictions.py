"""Predicted lifetimes: quantiles, draws and moments against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.predict.predict import Prediction
from lgmdsl.arrays import Array

# Latents that are known: predictions are those of one distribution for each row.
KNOWN = (
    "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : {type}\n"
    "latent a ~ normal(sd = 1e-6)\nlet eta[obs] = x + a\nobserve y ~ {family}\n"
)


def predicted(family: str, x: Array, type: str = "positive", **more: Any) -> Prediction:
    fit = lgm.fit(
        lgm.loads(KNOWN.format(type=type, family=family)),
        {"x": np.zeros(3), "y": np.array([1.0, 0.5, 2.0])},
        method="laplace",
    )
    return fit.predict({"x": x, **more})


def test_low_quantiles_of_the_inverse_gaussian() -> None:
    """Mean / shape up to 5: the bracket of low quantiles reaches 0, where the law is 0."""
    x, levels = np.array([0.0, 1.0, 1.44, 1.8, 2.5]), [0.01, 0.3, 0.99]
    prediction = predicted("inverse_gaussian(log_mean = eta, shape = 2.5)", x)
    law = stats.invgauss(np.exp(x) / 2.5, scale=2.5)
    wanted = law.ppf(np.array(levels)[:, None])
    assert prediction.response_quantile("y", levels).values == pytest.approx(wanted, rel=1e-5)
