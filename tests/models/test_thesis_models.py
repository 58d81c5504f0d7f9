"""Khan 2012, table 1.1: each of its models in the language, fitted to small simulated
data, near the truth that made them."""

from __future__ import annotations

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array

LOGISTIC = """lgm 1
index obs
index feature
data x[obs, feature] : real
data y[obs] : binary
latent z[feature] ~ normal(sd = 3)
let eta[obs] = x @ z
observe y ~ bernoulli(logit = eta)
"""
CHOICE = """lgm 1
index person
index decision
index product = {"a", "b", "c"}
index feature
data X[person, decision, product, feature] : real
data y[person, decision] : product
hyper mu[feature] : real ~ normal(sd = 3)
hyper S[feature, feature] : covariance ~ flat
latent z[person, feature] ~ iid * dense(cov = S)
let taste[person, feature] = mu + z
let utility[person, decision, product] = sum(X * taste, feature)
observe y ~ categorical(softmax = utility)
"""
PROCESS = """lgm 1
index obs
index input
data x[obs, input] : real
data y[obs] : binary
hyper s : positive ~ half_normal(sd = 3)
hyper l : positive ~ lognormal(mean = 0, sd = 1)
latent z[obs] ~ gp(at = x, kernel = se(sd = s, length = l))
observe y ~ bernoulli(logit = z)
"""
COMPONENTS = """lgm 1
index obs
index dim
index factor = 2
data y[obs, dim] : real?
hyper w0[dim] : real ~ normal(sd = 5)
hyper W[dim, factor] : real ~ normal(sd = 3)
hyper sd : positive ~ pc_sd(u = 1, alpha = 0.05)
latent z[obs, factor] ~ normal(sd = 1)
let eta[obs, dim] = w0 + W @ z
observe y ~ normal(mean = eta, sd = sd)
"""
GRAPHICAL = """lgm 1
index obs
index dim
data y[obs, dim] : binary?
hyper mu[dim] : real ~ normal(sd = 3)
hyper S[dim, dim] : covariance ~ flat
latent z[obs, dim] ~ iid * dense(cov = S)
let eta[obs, dim] = mu + z
observe y ~ bernoulli(logit = eta)
"""
TOPICS = """lgm 1
index doc
index word
index topic = 2
data n[doc, word] : count
hyper mu[topic] : real ~ normal(sd = 2)
data scale[topic, topic] : real
hyper S[topic, topic] : covariance ~ inv_wishart(df = 4, scale = scale)
hyper beta[topic, word] : simplex ~ dirichlet(alpha = 1.1)
latent z[doc, topic] ~ iid * dense(cov = S)
let eta[doc, topic] = mu + z
observe n ~ admixture(softmax = eta, emission = beta)
"""


def _rng() -> np.random.Generator:
    return np.random.default_rng(2012)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-x)))


def test_bayesian_logistic_regression() -> None:
    rng = _rng()
    x, truth = rng.normal(size=(200, 4)), np.array([1.5, -1.0, 0.0, 2.0])
    y = rng.random(200) < _sigmoid(x @ truth)
    fit = lgm.fit(lgm.loads(LOGISTIC), {"x": x, "y": y.astype(int)})
    assert fit.converged
    off = (fit.mean("z").values - truth) / fit.sd("z").values
    assert np.abs(off).max() < 3.0 and fit.sd("z").values.max() < 0.5


@pytest.mark.thorough
def test_discrete_choice() -> None:
    rng = _rng()
    mu, spread = np.array([1.5, -1.0]), np.array([[2.0, 1.0], [1.0, 2.0]])
    x = rng.normal(size=(40, 12, 3, 2))
    taste = rng.multivariate_normal(mu, spread, 40)
    utility = np.einsum("ndkl,nl->ndk", x, taste)
    y = (utility + rng.gumbel(size=utility.shape)).argmax(axis=-1)
    labelled = np.array(["a", "b", "c"])[y]
    fit = lgm.fit(lgm.loads(CHOICE), {"X": x, "y": labelled}, hyper="em", bound="log")
    assert fit.converged
    np.testing.assert_allclose(fit.mean("mu"), mu, atol=0.6)
    agreement = [np.corrcoef(fit.mean("taste").values[:, k], taste[:, k])[0, 1] for k in (0, 1)]
    assert min(agreement) > 0.6


@pytest.mark.thorough
def test_gaussian_process_classification() -> None:
    rng = _rng()
    x = rng.uniform(-3, 3, size=(100, 1))
    truth = 4.0 * np.sin(1.5 * x[:, 0])
    y = (rng.random(100) < _sigmoid(truth)).astype(int)
    fit = lgm.fit(lgm.loads(PROCESS), {"x": x, "y": y}, hyper="map")
    assert fit.converged
    assert np.mean((fit.mean("z").values > 0) == (truth > 0)) > 0.88
    assert 0.3 < float(fit.mean("l")) < 3.0


def test_probabilistic_principal_components() -> None:
    rng = _rng()
    loads = rng.normal(size=(6, 2))
    y = rng.normal(size=(150, 2)) @ loads.T + 1.0 + 0.3 * rng.normal(size=(150, 6))
    y[rng.random(y.shape) < 0.1] = np.nan
    fit = lgm.fit(lgm.loads(COMPONENTS), {"y": y})
    assert fit.converged and fit.hyper == "em"
    found = fit.mean("W").values
    np.testing.assert_allclose(found @ found.T, loads @ loads.T, atol=0.8)
    assert float(fit.mean("sd")) == pytest.approx(0.3, abs=0.03)


@pytest.mark.thorough
def test_latent_gaussian_graphical_model() -> None:
    rng = _rng()
    cov = np.array([[4.0, 3.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 2.0]])
    z = rng.multivariate_normal(np.array([0.5, 0.0, -0.5]), cov, 600)
    y = (rng.random(z.shape) < _sigmoid(z)).astype(float)
    y[rng.random(y.shape) < 0.05] = np.nan
    fit = lgm.fit(lgm.loads(GRAPHICAL), {"y": y}, hyper="em", bound="piecewise-quadratic-5")
    assert fit.converged
    s = fit.mean("S").values
    correlation = s / np.sqrt(np.outer(s.diagonal(), s.diagonal()))
    assert correlation[0, 1] > 0.5 and np.abs(correlation[2, :2]).max() < 0.5
    np.testing.assert_allclose(fit.mean("mu"), [0.5, 0.0, -0.5], atol=0.6)


@pytest.mark.thorough
def test_correlated_topic_model() -> None:
    rng = _rng()
    topics = np.array([[0.45, 0.45, 0.04, 0.03, 0.03], [0.02, 0.03, 0.05, 0.45, 0.45]])
    z = 2.0 * rng.normal(size=(24, 2))
    share = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    n = np.array([rng.multinomial(100, p) for p in share @ topics])
    fit = lgm.fit(lgm.loads(TOPICS), {"n": n, "scale": np.eye(2)}, hyper="em")
    assert fit.converged
    beta = fit.mean("beta").values
    beta = beta if beta[0, 0] > beta[1, 0] else beta[::-1]
    np.testing.assert_allclose(beta, topics, atol=0.08)
