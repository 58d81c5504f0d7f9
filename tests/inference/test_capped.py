"""Densities beyond what exponentials hold have no evidence."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.assess.grouped.border import _matters

POISSON = """lgm 1
index obs
data y[obs] : count
data m : real
hyper d : real = 0
observe y ~ poisson(log_rate = m + d)
"""
NORMAL = """lgm 1
index obs
data y[obs] : real
hyper d : real = 0
observe y ~ normal(mean = d, sd = 1)
"""


@pytest.mark.parametrize("method", ["natural-gradient", "laplace", "ep"])
def test_a_rate_that_overflows_has_no_evidence(method: str) -> None:
    fit = lgm.fit(lgm.loads(POISSON), {"y": [1, 1], "m": 600.0}, method=method)
    assert fit.status.name == "numerical_error" and np.isnan(fit.log_evidence)
    assert "W601" in {w.code for w in fit.warnings} and "log densities of poisson" in fit.summary()


@pytest.mark.parametrize("method", ["natural-gradient", "laplace", "ep"])
def test_a_huge_density_that_is_a_number_keeps_its_evidence(method: str) -> None:
    fit = lgm.fit(lgm.loads(POISSON), {"y": [1, 1], "m": 330.0}, method=method)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(-2.0 * np.exp(330.0), rel=1e-8)
    normal = lgm.fit(lgm.loads(NORMAL), {"y": [1e80]}, method=method)
    assert normal.converged and normal.log_evidence == pytest.approx(-0.5e160, rel=1e-8)


def test_a_single_huge_weight_matters() -> None:
    """The largest weight of a draw less 14 nats is the weight itself at 1e148."""
    assert _matters(np.array([-1e148])).tolist() == [True]
    assert _matters(np.array([-1e148, -2e148, -30.0])).tolist() == [False, False, True]
