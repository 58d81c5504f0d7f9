"""Correlated random intercepts and slopes under vague priors: data in any unit, and the maximum
that starts on both sides of every sd lead to."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

GROUPS, REPEATED = 8, 6
TEXT = """lgm 1
index obs
index g
index k
data y[obs] : real
data a[obs] : g
data Z[obs, k] : real
hyper S[k, k] : covariance ~ lkj_cov(eta = 1, u = {u!r}, alpha = 0.05)
hyper t : positive ~ half_cauchy(scale = {scale!r})
latent b[k] ~ flat
latent u[g, k] ~ iid * dense(cov = S)
let eta[obs] = sum(Z[obs, k] * b[k], k) + sum(Z[obs, k] * u[a, k], k)
observe y ~ normal(mean = eta, sd = t)
"""


def responses(seed: int, sds: tuple[float, float], unit: float = 1.0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    cov = np.outer(sds, sds) * np.array([[1.0, 0.4], [0.4, 1.0]])
    u = rng.multivariate_normal([0.0, 0.0], cov, size=GROUPS)
    a = np.repeat(np.arange(GROUPS), REPEATED)
    z = np.c_[np.ones(len(a)), rng.normal(size=len(a))]
    y = (z * (u[a] + [2.0, 1.0])).sum(axis=1) + rng.normal(size=len(a))
    return {"y": unit * y, "a": a, "Z": z}


def fitted(data: dict[str, Any], hyper: str, unit: float = 1.0, **more: Any) -> lgm.Fit:
    model = lgm.loads(TEXT.format(u=100.0 * unit, scale=10.0 * unit))
    return lgm.fit(model, data, hyper=hyper, **more)


@cache
def near(hyper: str) -> lgm.Fit:
    """In the unit in which sds are 1.3."""
    return fitted(responses(5, (1.3, 1.3)), hyper)


def top(fit: lgm.Fit) -> float:
    assert fit.learning is not None
    return fit.learning.steps[-1].objective


@pytest.mark.few(1)
@pytest.mark.parametrize("hyper", ["map", "em", "integrate"])
@pytest.mark.parametrize("unit", [1e-4, 60.0, 1e6])
def test_the_unit_of_the_data_is_of_no_account(hyper: str, unit: float) -> None:
    """An entry below the diagonal of a covariance's factor is no logarithm: at 20 units of the
    data `map` and `em` said that it ran away, and `integrate` refused (E601)."""
    one, far = near(hyper), fitted(responses(5, (1.3, 1.3), unit), hyper, unit)
    assert one.converged and far.converged
    for name, power in (("S", 2), ("t", 1)):
        wanted = np.asarray(one.theta[name])
        found = np.asarray(far.theta[name]) / unit**power
        np.testing.assert_allclose(found, wanted, atol=5e-3 * np.abs(wanted).max())
    if hyper == "integrate":  # two flat coefficients count lengths
        shift = (2 - GROUPS * REPEATED) * np.log(unit)
        assert far.log_evidence == pytest.approx(one.log_evidence + shift, abs=0.05)


@pytest.mark.few(1)
@pytest.mark.parametrize(("seed", "sds"), [(2, (0.15, 0.2)), (1, (2.0, 0.02)), (6, (0.02, 0.5))])
def test_a_component_near_0(seed: int, sds: tuple[float, float]) -> None:
    """No start with sds high or low in any combination leads higher than the one that is taken."""
    data = responses(seed, sds)
    fit = fitted(data, "map")
    assert fit.converged
    noise = float(fit.theta["t"])
    for high in ((1.0, 1.0), (1.0, 1e-3), (1e-3, 1.0), (1e-3, 1e-3)):
        begin = {"S": np.diag((noise * np.array(high)) ** 2), "t": 0.5 * noise}
        assert top(fitted(data, "map", start=begin)) < top(fit) + 0.01
