"""Marginals after `map` stay in their range: variances above 0, shares within 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm

SLOPES = """lgm 1
index obs
index group = 5
index term = {"level", "slope"}
data x[obs] : real
data who[obs] : group
data y[obs] : real
hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 3, alpha = 0.05)
latent a ~ normal(sd = 5)
latent d[group, term] ~ iid * dense(cov = S)
observe y ~ normal(mean = a + d[who, "level"] + x * d[who, "slope"], sd = 0.5)
"""
SHARES = """lgm 1
index obs
index word = 3
index topic = 2
data y[obs, word] : count
hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.5)
latent z[obs, topic] ~ normal(sd = 1)
observe y ~ admixture(softmax = z, emission = beta)
"""


def test_a_variance_near_zero() -> None:
    rng = np.random.default_rng(3)
    who, x = np.repeat(np.arange(5), 5), np.tile(np.linspace(-1.0, 1.0, 5), 5)
    y = rng.normal(size=5)[who] + 0.5 * rng.normal(size=25)
    fit = lgm.fit(lgm.loads(SLOPES), {"x": x, "who": who, "y": y}, "laplace", hyper="map")
    levels = [0.001, 0.05, 0.5, 0.95, 0.999]
    found = fit.quantile("S", levels)
    variances = np.array([np.diag(s) for s in np.asarray(found)])
    mode, sd = np.diag(fit.mean("S")), np.diag(fit.sd("S"))
    assert (sd > mode).any(), "of what a normal would reach below 0"
    assert (variances > 0.0).all() and (np.diff(variances, axis=0) > 0.0).all()
    np.testing.assert_allclose(variances[2], mode, rtol=1e-9)
    density = fit.density("S")
    for k in range(2):
        points, height = (density[n].values[k, k] for n in ("x", "density"))
        assert (points > 0.0).all()
        mass = np.sum(0.5 * (height[1:] + height[:-1]) * np.diff(points))
        assert mass == pytest.approx(1.0, abs=0.02)


def test_shares_near_an_end() -> None:
    rng = np.random.default_rng(1)
    y = rng.multinomial(6, [0.95, 0.03, 0.02], 6)
    fit = lgm.fit(lgm.loads(SHARES), {"y": y}, "laplace", hyper="map")
    found = np.asarray(fit.quantile("beta", [0.001, 0.05, 0.95, 0.999]))
    known = np.isfinite(found).all(axis=0)
    assert known.any() and ((found > 0.0) & (found < 1.0))[:, known].all()
