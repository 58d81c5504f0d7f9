"""Likelihoods that are flat far from their maximum: the maximum is found, not the plateau."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.contract.status import Status

MODEL = """lgm 1
index obs
index feat
data y[obs]       : positive
data event[obs]   : binary
data entry[obs]   : nonnegative
data X[obs, feat] : real
hyper b[feat] : real ~ flat
hyper k : positive ~ flat
latent none ~ normal(sd = 1)
let eta[obs] = X @ b + 0 * none
observe y ~ loglogistic(log_scale = eta, shape = k, event = event, entry = entry)
"""


def _lifetimes(seed: int, scale: float) -> dict[str, Array]:
    """Lifetimes of about 80 * scale, entered late and partly censored."""
    rng = np.random.default_rng(seed)
    n = 3000
    x = np.column_stack([np.ones(n), rng.integers(0, 2, n)])
    odds = rng.logistic(size=n)
    life = np.exp(4.3 - 0.1 * x[:, 1] + odds / 9.0)
    entry = rng.uniform(55.0, 85.0, n)
    end = entry + rng.exponential(12.0, n)
    inside = np.flatnonzero(life > entry)[:300]
    y = np.minimum(life, end)[inside] * scale
    event = (life < end)[inside].astype(float)
    return {"y": y, "event": event, "entry": entry[inside] * scale, "X": x[inside]}


def _log_likelihood(data: dict[str, Array], b: Array, log_k: float) -> float:
    """log f(y)^event S(y)^(1 - event) / S(entry), S(t) = 1 / (1 + (t / scale)^k)."""
    k, eta = np.exp(log_k), data["X"] @ b
    log_odds = k * (np.log(data["y"]) - eta)
    before = k * (np.log(data["entry"]) - eta)
    hazard = np.log(k) - np.log(data["y"]) + log_odds - np.logaddexp(0.0, log_odds)
    value = data["event"] * hazard - np.logaddexp(0.0, log_odds) + np.logaddexp(0.0, before)
    return float(value.sum())


@pytest.mark.few(1)
@pytest.mark.parametrize(("seed", "scale"), [(0, 1.0), (1, 1e-4), (2, 1e4)])
def test_a_level_below_all_entries_is_left_for_the_maximum(seed: int, scale: float) -> None:
    """Delayed entry: far below the entries the level has no effect on the likelihood."""
    data = _lifetimes(seed, scale)
    level = np.log(80.0 * scale)

    def loss(v: Array) -> float:
        return -_log_likelihood(data, v[:2] + np.array([level, 0.0]), float(v[2]))

    best = minimize(loss, np.array([0.0, 0.0, 2.0]), method="Nelder-Mead", tol=1e-9)
    fit = lgm.fit(lgm.loads(MODEL), data, method="laplace", hyper="map")
    assert fit.status is Status.converged
    assert not fit.warnings
    assert fit.log_evidence == pytest.approx(-best.fun, abs=1e-4)
    found = fit.mean("b").values - np.array([level, 0.0])
    assert found == pytest.approx(best.x[:2], abs=1e-3)
