"""Searches that begin or end at a nearly singular covariance say converged only at a maximum."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm

SLOPES = """lgm 1
index obs
index g
index k = 2
data y[obs] : real
data X[obs, k] : real
data who[obs] : g
hyper s : positive ~ half_normal(sd = 2)
hyper b[k] : real ~ normal(sd = 5)
hyper S[k, k] : covariance ~ lkj_cov(eta = 1, u = 2, alpha = 0.05)
latent u[g, k] ~ iid * dense(cov = S)
let eta[obs] = X @ b + sum(u[who, k] * X, k)
observe y ~ normal(mean = eta, sd = s)
"""
COUNTS = """lgm 1
index p
index i
data y[p, i] : count
hyper c[i] : real ~ normal(sd = 5)
hyper S[i, i] : covariance ~ lkj_cov(eta = 1, u = 3, alpha = 0.05)
latent z[p, i] ~ iid * dense(cov = S)
let eta[p, i] = c + z
observe y ~ poisson(log_rate = eta)
"""


def _slopes() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    who, x = np.repeat(np.arange(12), 5), rng.normal(size=60)
    y = 1 + 0.5 * x + rng.normal(size=12)[who] + 0.6 * rng.normal(size=60)
    return {"y": y, "X": np.c_[np.ones(60), x], "who": who}


@pytest.mark.parametrize(("hyper", "start"), [("map", {"b": 100}), ("em", {"S": 1e-8 * np.eye(2)})])
def test_a_far_start_leads_to_the_same_maximum(hyper: str, start: dict[str, Any]) -> None:
    """The first step may go to S = 0, 29 nats below the maximum."""
    model, data = lgm.loads(SLOPES), _slopes()
    best = lgm.fit(model, data, hyper="map")
    found = lgm.fit(model, data, hyper=hyper, start=start)
    assert found.converged and found.learning is not None
    assert found.log_evidence == pytest.approx(best.log_evidence, abs=1e-3)
    np.testing.assert_allclose(found.mean("S"), best.mean("S"), atol=1e-3)
    rises = [s.objective for s in found.learning.steps]
    assert all(b >= a - 1e-8 * abs(a) for a, b in pairwise(rises))


@pytest.mark.thorough
def test_one_narrow_direction_among_several() -> None:
    """The maximum is singular as well, in other directions than the start."""
    rng = np.random.default_rng(4)
    a = 1.5 * rng.normal(size=(5, 1))
    data = {"y": rng.poisson(np.exp(0.3 * rng.normal(size=(200, 1)) @ a.T))}
    model = lgm.loads(COUNTS)
    best = lgm.fit(model, data, hyper="em")
    found = lgm.fit(model, data, hyper="em", start={"S": 0.09 * a @ a.T + 1e-4 * np.eye(5)})
    assert best.converged and found.converged
    assert best.learning is not None and found.learning is not None
    ends = best.learning.steps[-1].objective, found.learning.steps[-1].objective
    assert ends[0] == pytest.approx(ends[1], abs=0.02)
