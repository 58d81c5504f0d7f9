"""scikit-learn's own checks of an estimator, some fifty of each.

With settings that keep a check to one or two fast fits: 45 fits of each estimator in all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lgmdsl.sklearn import (
    AdditiveModel,
    BayesianGLM,
    GaussianProcess,
    LgmClassifier,
    LgmRegressor,
    MixedModel,
)

MATRIX = """lgm 1
index obs
index feature
data X[obs, feature] : real
data y[obs] : real
latent level ~ normal(sd = 10)
latent w[feature] ~ normal(sd = 10)
let eta[obs] = level + X @ w
observe y ~ normal(mean = eta, sd = 0.5)
"""
EVENT = MATRIX.replace("data y[obs] : real", "data y[obs] : binary").replace(
    "normal(mean = eta, sd = 0.5)", "bernoulli(logit = eta)"
)


def expected(estimator: Any) -> dict[str, str]:
    """Checks that an estimator does not pass, and why."""
    if not isinstance(estimator, AdditiveModel):
        return {}
    reason = (
        "30 smooths fit its 15 rows exactly: the noise runs to its floor, where two fits agree to "
        "2e-5 and not to 1e-7 (test_a_row_of_weight_w_counts_as_w_rows has data with noise)"
    )
    return {"check_sample_weight_equivalence_on_dense_data": reason}


def passes(estimator: Any, check: Callable[[Any], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the checks provoke warnings, and look for them
        check(estimator)


@parametrize_with_checks([LgmRegressor(MATRIX), LgmClassifier(EVENT, method="laplace")])
def test_conventions(estimator: Any, check: Callable[[Any], None]) -> None:
    passes(estimator, check)


@pytest.mark.thorough
@parametrize_with_checks(
    [
        LgmRegressor(hyper="map"),
        LgmClassifier(method="laplace"),
        BayesianGLM(hyper="map"),
        MixedModel(hyper="map"),
        AdditiveModel(knots=5, scales="one"),
        GaussianProcess(),
    ],
    expected_failed_checks=expected,
)
def test_conventions_of_the_others(estimator: Any, check: Callable[[Any], None]) -> None:
    passes(estimator, check)
