"""dF/dtheta of log_normaliser at fixed (W, b) and of the sites, against central differences:
through Markov structures by the sparse engine, rows and kernels by the engine that is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract.engine import Conditioned
from lgmdsl.engines.choose import choose
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
data xy[obs, term] : real
data adj[region, region] : graph
data Q[region, region] : real
data C[region, region] : real
data G[region, region] : real
data Z[region, term, year] : real?
"""
TAIL = "\nobserve y ~ normal(mean = eta, sd = 0.6)\n"
S = "hyper s : positive ~ half_normal(sd = 1)\n"
MIX = "hyper mix : unit ~ uniform(lower = 0, upper = 1)\n"
RHO = "hyper rho : correlation ~ uniform(lower = -1, upper = 1)\n"
COV = "hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)\n"
SDS = "hyper w[year] : positive ~ half_normal(sd = 1)\n"
RESIDUAL = "observe Z ~ normal(mean = c, residual = e)\n"
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
    "spline": S + "latent b0 ~ normal(sd = 1)\n"
    "latent t[year] ~ spline(at = at, sd = s^2, size = 4)\n"
    "let eta[obs] = b0 + s * t[when]",
    "compound": S + RHO + "latent v[region, year] ~ iid * compound(sd = s, rho = rho)\n"
    "let eta[obs] = v[where, when]",
    "toeplitz": S + RHO + "latent t[year] ~ toeplitz(sd = s, pacf = rho)\nlet eta[obs] = t[when]",
    "residuals of a chain": SDS + RHO + "latent c[region] ~ normal(sd = 1)\n"
    "latent e[region, term, year] ~ iid * iid * ar1(sd = w, rho = rho)\n" + RESIDUAL,
    "residuals with a power": S + RHO + "latent c[region] ~ normal(sd = 1)\n"
    "latent e[region, term, year] ~ iid * iid * ar1(rho = rho)\n"
    "observe Z ~ normal(mean = c, residual = s * E^rho * e)\n",
    "residuals in continuous time": S + "hyper k : positive ~ half_normal(sd = 1)\n"
    "latent c[region] ~ normal(sd = s)\n"
    "latent e[region, term, year] ~ iid * iid * ou(sd = s, rate = k, at = at)\n" + RESIDUAL,
    "residuals of a product": COV + RHO + "latent c[region] ~ normal(sd = 1)\n"
    "latent e[region, term, year] ~ iid * dense(cov = S) * toeplitz(pacf = rho)\n" + RESIDUAL,
    "residuals with two scales": SDS + RHO + "latent c[region] ~ normal(sd = 1)\n"
    "latent e[region, term, year] ~ iid * iid * compound(sd = w, rho = rho^2)\n" + RESIDUAL,
    "residuals of a gp": S + "hyper k : positive ~ half_normal(sd = 1)\n"
    "latent c[region] ~ normal(sd = 1)\nlatent e[region, term, year] ~ iid * iid * "
    "gp(at = at, kernel = matern(sd = s, length = k, smoothness = 1.5) + white(sd = 0.5 * s))\n"
    + RESIDUAL,
    "tensor spline": "hyper t[term] : positive ~ half_normal(sd = 1)\n"
    "latent f[obs] ~ tensor_spline(at = xy, sd = t, size = 3)\nlet eta[obs] = f",
    "tensor spline of one sd": S + "latent f[obs] ~ tensor_spline(at = xy, sd = s^2, size = 3, "
    "interaction = true)\nlet eta[obs] = s * f",
    "seasonal": S + "latent t[year] ~ seasonal(sd = s, period = 3)\nlet eta[obs] = t[when]",
    "gmrf": S + "latent v[region] ~ gmrf(precision = Q, sd = s)\nlet eta[obs] = v[where]",
    "spde": S + "hyper r : positive ~ half_normal(sd = 1)\n"
    "latent v[region] ~ spde(mass = C, stiffness = G, sd = s, range = r)\nlet eta[obs] = v[where]",
}  # fmt: skip
AT: dict[str, Array] = {
    "s": np.asarray(0.8), "mix": np.asarray(0.7), "rho": np.asarray(0.45),
    "alpha": np.asarray(0.6), "p": np.array([0.5, -0.3]), "k": np.asarray(0.7),
    "w": np.array([0.5, 0.9, 1.4, 0.7, 1.1]), "r": np.asarray(1.9),
    "S": np.array([[1.2, 0.4], [0.4, 0.7]]), "t": np.array([0.6, 1.4]),
}  # fmt: skip


def data() -> dict[str, Any]:
    """A ring of five, a pair, no island; a fourth of the responses missing."""
    rng = np.random.default_rng(8)
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [5, 6]])
    y = rng.normal(size=20)
    y[::4] = np.nan
    line = 2.0 * np.eye(7) - np.eye(7, k=1) - np.eye(7, k=-1)
    free = line - np.diag([1.0, 0, 0, 0, 0, 0, 1.0])
    z = rng.normal(size=(REGIONS, 2, YEARS))
    z[rng.random(z.shape) < 0.2] = np.nan
    return {
        "Z": z, "y": y, "x": rng.normal(size=20), "where": rng.integers(0, REGIONS, 20),
        "when": rng.integers(0, YEARS, 20), "at": np.array([0.0, 0.3, 1.1, 1.9, 4.0]),
        "adj": edges, "E": rng.random(REGIONS) + 0.5,
        "Q": sp.csr_array(line), "G": sp.csr_array(free),
        "C": sp.csr_array(np.diag(rng.random(7) + 0.5)), "xy": rng.normal(size=(20, 2)),
    }  # fmt: skip


GLMM = """lgm 1
index obs
index subject
index term = {"a", "b"}
data x[obs] : real
data who[obs] : subject
data y[obs] : real?
hyper s : positive ~ half_normal(sd = 1)
hyper t : positive = 2 * s
hyper m[subject] : real ~ normal(sd = 1)
hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)
hyper c : real ~ normal(sd = 1)
hyper noise[obs] : positive ~ half_normal(sd = 1)
latent u[subject] ~ normal(mean = m, sd = t)
latent d[subject, term] ~ iid * dense(cov = S)
let eta[obs] = c^2 + s * u[who] + d[who, "a"] + x * d[who, "b"]
observe y ~ normal(mean = eta, sd = noise)
"""
GP = """lgm 1
index obs
index dim
data x[obs, dim] : real
data y[obs] : binary
hyper s : positive ~ half_normal(sd = 1)
hyper ell[dim] : positive ~ half_normal(sd = 1)
hyper w : positive ~ half_normal(sd = 1)
hyper slope : positive = s / 3
latent f[obs] ~ gp(at = x, kernel = se(sd = s, length = ell) + linear(sd = slope) * white(sd = w))
let eta[obs] = f
observe y ~ bernoulli(logit = eta)
"""
DENSE = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : real?
hyper s : positive ~ half_normal(sd = 1)
latent w[feat] ~ normal(sd = 1)
let eta[obs] = s * (X @ w)
observe y ~ normal(mean = eta, sd = 1)
"""


def other_models(name: str) -> tuple[str, dict[str, Any], dict[str, Array]]:
    """A text, its data, and where its hypers are."""
    rng = np.random.default_rng(5)
    if name == "gp":
        at = {"s": np.asarray(1.3), "ell": np.array([0.7, 1.9]), "w": np.asarray(0.6)}
        return GP, {"x": rng.normal(size=(6, 2)), "y": rng.integers(0, 2, 6).astype(float)}, at
    y, root = rng.normal(size=9), rng.normal(size=(2, 2))
    y[4] = np.nan
    if name == "dense rows":
        return DENSE, {"X": rng.normal(size=(9, 3)), "y": y}, {"s": np.asarray(0.8)}
    at = {"s": np.asarray(0.8), "c": np.asarray(0.4), "S": root @ root.T + np.eye(2)}
    at |= {"m": rng.normal(size=3), "noise": rng.random(9) + 0.5}
    return GLMM, {"x": rng.normal(size=9), "who": np.arange(9) % 3, "y": y}, at


@pytest.mark.parametrize("name", [*MODELS, "rows", "dense rows", "gp"])
def test_gradients_reach_every_hyperparameter(name: str) -> None:
    if name in MODELS:
        tail = "" if "observe" in MODELS[name] else TAIL
        text, given = HEAD + MODELS[name] + tail, data()
        free = {h: at for h, at in AT.items() if f"hyper {h} " in text or f"hyper {h}[" in text}
    else:
        text, given, free = other_models(name)
    canonical = canonical_form(text, given)
    rng = np.random.default_rng(2)
    rows = len(canonical.blocks[0].rows)
    weight, shift, s = (rng.random(rows) + 0.3,), (rng.normal(size=rows),), rng.normal(size=rows)

    def conditioned(theta: Any) -> Conditioned:
        linear = canonical.linear(theta)
        engine = SparseEngine(linear) if name in MODELS else choose(linear)[0]
        assert engine is not None
        q = engine.condition(weight, shift)
        assert isinstance(q, Conditioned)
        return q

    def value(hyper: str, to: Array) -> float:
        theta = canonical.hypers.theta({**free, hyper: to})
        (site,) = canonical.sites(theta)
        return conditioned(theta).log_normaliser + float(site.log_density(s).sum())

    theta = canonical.hypers.theta(free)
    slopes = [site.parameter_slopes(s) for site in canonical.sites(theta)]
    raw = pull(canonical, conditioned(theta).adjoints(), slopes, theta)
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
