"""dF/dtheta of log_normaliser at fixed (W, b) and of the sites, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.reverse import pull
from lgmdsl.compile import compile_model
from lgmdsl.contract.engine import Conditioned
from lgmdsl.dataset import read
from lgmdsl.engines.choose import choose
from lgmdsl.sites.catalogue import find_site

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


def data(rng: np.random.Generator, gp: bool) -> dict[str, Array]:
    if gp:
        return {"x": rng.normal(size=(6, 2)), "y": rng.integers(0, 2, 6).astype(float)}
    y = rng.normal(size=9)
    y[4] = np.nan
    return {"x": rng.normal(size=9), "who": (np.arange(9) % 3).astype(float), "y": y}


def theta_of(gp: bool, rng: np.random.Generator) -> dict[str, Array]:
    if gp:
        return {"s": np.asarray(1.3), "ell": np.array([0.7, 1.9]), "w": np.asarray(0.6)}
    root = rng.normal(size=(2, 2))
    return {
        "s": np.asarray(0.8),
        "m": rng.normal(size=3),
        "S": root @ root.T + np.eye(2),
        "c": np.asarray(0.4),
        "noise": rng.random(9) + 0.5,
    }


@pytest.mark.parametrize("gp", [False, True])
def test_gradients_reach_every_hyperparameter_at_once(gp: bool) -> None:
    rng = np.random.default_rng(5)
    model = lgm.loads(GP if gp else GLMM).checked
    canonical = compile_model(model, read(data(rng, gp)), find_site)
    free = theta_of(gp, rng)
    rows = len(canonical.blocks[0].rows)
    weight, shift = (rng.random(rows) + 0.3,), (rng.normal(size=rows),)
    s = (rng.normal(size=rows),)

    def value(pinned: dict[str, Array]) -> float:
        theta = canonical.hypers.theta(pinned)
        engine, _ = choose(canonical.linear(theta))
        assert engine is not None
        conditioned = engine.condition(weight, shift)
        assert isinstance(conditioned, Conditioned)
        fit = sum(
            site.log_density(x).sum() for site, x in zip(canonical.sites(theta), s, strict=False)
        )
        return conditioned.log_normaliser + float(fit)

    theta = canonical.hypers.theta(free)
    engine, _ = choose(canonical.linear(theta))
    assert engine is not None
    conditioned = engine.condition(weight, shift)
    assert isinstance(conditioned, Conditioned)
    slopes = [site.parameter_slopes(x) for site, x in zip(canonical.sites(theta), s, strict=False)]
    raw = pull(canonical, conditioned.adjoints(), slopes, theta)
    gradient = canonical.hypers.pull(raw, theta, {})
    assert set(gradient) == set(free)
    for name, at in free.items():
        for i in np.ndindex(*at.shape):
            step = np.zeros_like(at)
            step[i] = 1e-6
            if name == "S":
                step = (step + step.T) / 2
            want = (value({**free, name: at + step}) - value({**free, name: at - step})) / 2e-6
            got = float(np.sum(np.asarray(gradient[name]) * step) / 1e-6)
            assert got == pytest.approx(want, rel=2e-6, abs=2e-7), (name, i)
