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


def fitted(family: str, type: str = "positive") -> lgm.Fit:
    data = {"x": np.zeros(3), "y": np.array([1.0, 0.5, 2.0])}
    return lgm.fit(lgm.loads(KNOWN.format(type=type, family=family)), data, method="laplace")


def predicted(family: str, x: Array, type: str = "positive", **more: Any) -> Prediction:
    return fitted(family, type).predict({"x": x, **more})


def test_low_quantiles_of_the_inverse_gaussian() -> None:
    """Mean / shape up to 5: the bracket of low quantiles reaches 0, where the law is 0."""
    x, levels = np.array([0.0, 1.0, 1.44, 1.8, 2.5]), [0.01, 0.3, 0.99]
    prediction = predicted("inverse_gaussian(log_mean = eta, shape = 2.5)", x)
    law = stats.invgauss(np.exp(x) / 2.5, scale=2.5)
    wanted = law.ppf(np.array(levels)[:, None])
    assert prediction.response_quantile("y", levels).values == pytest.approx(wanted, rel=1e-5)


HURDLES = {"hurdle = 0.3": 0.7, "hurdle_logit = 0.5 + 0 * a": 1.0 / (1.0 + np.exp(0.5))}


@pytest.mark.parametrize("hurdle", HURDLES)
@pytest.mark.parametrize(
    ("family", "law"),
    [
        ("gamma(log_mean = eta, shape = 2", stats.gamma(2.0, scale=0.5)),
        ("exponential(log_rate = eta", stats.expon()),
        ("weibull(log_scale = eta, shape = 1.5", stats.weibull_min(1.5)),
        ("gamma(log_mean = eta, log_shape = 0.7 + 0 * a", stats.gamma(np.e**0.7, scale=np.e**-0.7)),
    ],
)
def test_survival_past_a_hurdle(family: str, law: Any, hurdle: str) -> None:
    """P(Y > t) = (1 - p) P(Y > t | Y > 0) from time 0 on, and the hazard of those that are left."""
    fit = fitted(f"{family}, {hurdle})", "nonnegative")
    times = [0.0, 1e-9, 0.5, 2.0]
    table = fit.survival(times, {"x": [0.0]})
    assert table["survival_mean"].to_numpy() == pytest.approx(
        HURDLES[hurdle] * law.sf(times), abs=1e-5
    )
    hazard = law.pdf(times) / law.sf(times)
    assert table["hazard_mean"].to_numpy() == pytest.approx(hazard, rel=1e-4, abs=1e-12)
