"""dF/dtheta of log_normaliser through Markov structures, by the sparse engine's adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract.engine import Conditioned
from lgmdsl.engines.sparse.engine import SparseEngine
from tests.compiled import canonical_form

REGIONS, YEARS = 7, 5
HEAD = """lgm 1
index region = 7
index year = 5
index obs
index term = {"a", "b"}
index lag = 2
data y[obs] : real?
data x[obs] : real
data E[region] : positive
data where[obs] : region
data when[obs] : year
data at[year] : real
data adj[region, region] : graph
data Q[region, region] : real
data C[region, region] : real
data G[region, region] : real
"""
TAIL = "\nobserve y ~ normal(mean = eta, sd = 0.6)\n"
S = "hyper s : positive ~ half_normal(sd = 1)\n"
MIX = "hyper mix : unit ~ uniform(lower = 0, upper = 1)\n"
RHO = "hyper rho : correlation ~ uniform(lower = -1, upper = 1)\n"
COV = "hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)\n"
MODELS: dict[str, str] = {
    "bym2": S + MIX + "latent v[region] ~ bym2(graph = adj, sd = s, mix = mix)\n"
    "let eta[obs] = v[where]",
    "bym2 twice": S + MIX + "latent v[region] ~ bym2(graph = adj, sd = 2 * s, mix = mix^2)\n"
    "let eta[obs] = v[where] + s * x * v[where]",
    "bym2 in time": S + MIX + RHO
    + "latent v[region, year] ~ bym2(graph = adj, sd = s, mix = mix) * ar1(rho = rho)\n"
    "let eta[obs] = v[where, when]",
    "scale on the second factor": S + MIX + RHO
    + "latent v[region, year] ~ bym2(graph = adj, mix = mix) * ar1(sd = s, rho = rho)\n"
    "let eta[obs] = v[where, when]",
    "besag in time": S + RHO
    + "latent v[region, year] ~ besag(graph = adj, sd = s) * ar1(rho = rho)\n"
    "let eta[obs] = v[where, when]",
    "intrinsic twice": S + "latent v[region, year] ~ besag(graph = adj) * rw1(sd = s)\n"
    "let eta[obs] = v[where, when]",
    "correlated maps": COV + "latent v[region, term] ~ besag(graph = adj) * dense(cov = S)\n"
    'let eta[obs] = v[where, "a"] + x * v[where, "b"]',
    "correlated lines": COV + "latent v[term, year] ~ dense(cov = S) * rw2()\n"
    'let eta[obs] = v["a", when] + x * v["b", when]',
    "car": S + "hyper alpha : unit ~ uniform(lower = 0, upper = 1)\n"
    "latent v[region] ~ car(graph = adj, sd = s, alpha = alpha)\nlet eta[obs] = v[where]",
    "ar": S + "hyper p[lag] : correlation ~ uniform(lower = -1, upper = 1)\n"
    "latent t[year] ~ ar(sd = s, pacf = p)\nlet eta[obs] = t[when]",
    "ou": S + "hyper k : positive ~ half_normal(sd = 1)\n"
    "latent t[year] ~ ou(sd = s, rate = k, at = at)\nlet eta[obs] = t[when]",
    "rw2": S + "latent b0 ~ normal(sd = 1)\nlatent t[year] ~ rw2(sd = s, at = at)\n"
    "let eta[obs] = b0 + t[when]",
    "gmrf": S + "latent v[region] ~ gmrf(precision = Q, sd = s)\nlet eta[obs] = v[where]",
    "spde": S + "hyper r : positive ~ half_normal(sd = 1)\n"
    "latent v[region] ~ spde(mass = C, stiffness = G, sd = s, range = r)\nlet eta[obs] = v[where]",
}  # fmt: skip
AT: dict[str, Array] = {
    "s": np.asarray(0.8), "mix": np.asarray(0.7), "rho": np.asarray(0.45),
    "alpha": np.asarray(0.6), "p": np.array([0.5, -0.3]), "k": np.asarray(0.7),
    "r": np.asarray(1.9), "S": np.array([[1.2, 0.4], [0.4, 0.7]]),
}  # fmt: skip


def data() -> dict[str, Any]:
    """A ring of five, a pair, no island; a fourth of the responses missing."""
    rng = np.random.default_rng(8)
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [5, 6]])
    y = rng.normal(size=20)
    y[::4] = np.nan
    line = 2.0 * np.eye(7) - np.eye(7, k=1) - np.eye(7, k=-1)
    free = line - np.diag([1.0, 0, 0, 0, 0, 0, 1.0])
    return {
        "y": y, "x": rng.normal(size=20), "where": rng.integers(0, REGIONS, 20),
        "when": rng.integers(0, YEARS, 20), "at": np.array([0.0, 0.3, 1.1, 1.9, 4.0]),
        "adj": edges, "E": rng.random(REGIONS) + 0.5,
        "Q": sp.csr_array(line), "G": sp.csr_array(free),
        "C": sp.csr_array(np.diag(rng.random(7) + 0.5)),
    }  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_gradients_through_the_sparse_engine(name: str) -> None:
    used = HEAD + MODELS[name] + TAIL
    canonical = canonical_form(used, data())
    rng = np.random.default_rng(2)
    rows = len(canonical.blocks[0].rows)
    weight, shift = (rng.random(rows) + 0.3,), (rng.normal(size=rows),)
    free = {h: at for h, at in AT.items() if f"hyper {h} " in used or f"hyper {h}[" in used}

    def conditioned(pinned: dict[str, Array]) -> Conditioned:
        linear = canonical.linear(canonical.hypers.theta(pinned))
        q = SparseEngine(linear).condition(weight, shift)
        assert isinstance(q, Conditioned)
        return q

    def value(name: str, to: Array) -> float:
        return conditioned({**free, name: to}).log_normaliser

    theta = canonical.hypers.theta(free)
    raw = pull(canonical, conditioned(free).adjoints(), [{} for _ in canonical.blocks], theta)
    gradient = canonical.hypers.pull(raw, theta, {})
    assert set(gradient) == set(free)
    for hyper, at in free.items():
        for i in np.ndindex(*at.shape):
            turn = np.zeros_like(at)
            turn[i] = 1.0
            turn = (turn + turn.T) / 2 if at.ndim == 2 else turn
            h = 2e-4
            near = value(hyper, at + h * turn) - value(hyper, at - h * turn)
            far = value(hyper, at + 2 * h * turn) - value(hyper, at - 2 * h * turn)
            got = float(np.sum(np.asarray(gradient[hyper]) * turn))
            assert got == pytest.approx((8 * near - far) / (12 * h), rel=1e-7, abs=1e-8), (hyper, i)
