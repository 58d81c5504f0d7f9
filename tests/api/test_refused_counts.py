"""What a fit says of observations and parameters that counts, Tweedie and shares cannot have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

SHARES = """lgm 1
index obs
index class = {"a", "b", "c"}
index rest = head(class)
data y[obs, class] : unit
latent a[rest] ~ normal(sd = 1)
let eta[obs, rest] = a
observe y ~ dirichlet(softmax = eta, concentration = 4)
"""
COUNTS = """lgm 1
index obs
index class = {"a", "b", "c"}
index rest = head(class)
data n[obs] : count
data y[obs, class] : count
latent a[rest] ~ normal(sd = 1)
let eta[obs, rest] = a
observe y ~ dirichlet_multinomial(n = n, softmax = eta, concentration = 4)
"""
LEARNED = """lgm 1
index obs
data y[obs] : count
hyper d : positive ~ exponential(rate = 1)
latent a ~ normal(sd = 2)
observe y ~ generalized_poisson(log_mean = a, dispersion = d)
"""
POWER = """lgm 1
index obs
data y[obs] : nonnegative
latent a ~ normal(sd = 2)
observe y ~ tweedie(log_mean = a, dispersion = 1, power = 2)
"""


@pytest.mark.parametrize(
    ("text", "data", "said", "help"),
    [
        (
            SHARES,
            {"y": [[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]]},
            "`y` is unit but holds other values",
            "shares are above 0: y = np.clip(y, 1e-6, None), then y / y.sum(axis=-1, "
            "keepdims=True)",
        ),
        (
            SHARES,
            {"y": [[0.2, 0.3, 0.5], [0.2, 0.2, 0.5]]},
            "`y` cannot occur under `dirichlet` in 1 row",
            "divide each row by its sum",
        ),
        (
            COUNTS,
            {"y": [[1, 1, 1], [1, 1, 1]], "n": [3, 4]},
            "first at obs 1: its counts add up to 3, not to n = 4",
            "",
        ),
        (
            LEARNED,
            {"y": [2, 2, 3, 2]},
            "`generalized_poisson` takes a dispersion of at least 1",
            "write dispersion = 1 + d with hyper d : positive",
        ),
        (
            POWER,
            {"y": [0.0, 1.5]},
            "`tweedie` takes a power between 1 and 2, not 2",
            "write power = 1 + p with hyper p : unit; at 2 take gamma",
        ),
    ],
)
def test_the_message_names_the_fault_and_the_remedy(
    text: str, data: dict[str, Any], said: str, help: str
) -> None:
    with pytest.raises(lgm.LgmError) as caught:
        lgm.fit(lgm.loads(text), {k: np.array(v) for k, v in data.items()}, method="laplace")
    assert "E303" in str(caught.value)
    assert said in str(caught.value)
    assert help in str(caught.value)


def test_the_remedy_of_a_dispersion_below_1_works() -> None:
    text = LEARNED.replace("dispersion = d", "dispersion = 1 + d")
    fit = lgm.fit(lgm.loads(text), {"y": np.array([2, 2, 3, 2, 9, 0])}, method="laplace")
    assert fit.converged
