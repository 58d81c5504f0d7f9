"""Models with a predictor for the dispersion, or for zeros: against optima and quadrature."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import optimize, stats

import lgmdsl as lgm
from lgmdsl.arrays import Array

HEAD = """lgm 1
index obs
data x[obs] : real
data y[obs] : {type}
latent a ~ normal(sd = 3)
latent b ~ normal(sd = 3)
latent c ~ normal(sd = 2)
latent d ~ normal(sd = 2)
let eta[obs] = a + b * x
let zeta[obs] = c + d * x
observe y ~ {family}
"""
RNG = np.random.default_rng(11)
X = RNG.normal(size=60)
NORMAL = 1.0 + X + np.exp(-0.5 + 0.4 * X) * RNG.normal(size=60)
COUNTS = np.where(RNG.random(60) < 0.3, 0, RNG.poisson(np.exp(1.0 + 0.5 * X)))
LOG_SD = HEAD.format(type="real", family="normal(mean = eta, log_sd = zeta)")
ZERO = HEAD.format(type="count", family="poisson(log_rate = eta, zero_inflation_logit = zeta)")
HURDLE = HEAD.format(type="count", family="poisson(log_rate = eta, hurdle_logit = zeta)")


def prior(z: Array) -> float:
    return float(stats.norm.logpdf(z, scale=[3.0, 3.0, 2.0, 2.0]).sum())


def normal_density(z: Array) -> float:
    spread = np.exp(z[2] + z[3] * X)
    return prior(z) + float(stats.norm.logpdf(NORMAL, z[0] + z[1] * X, spread).sum())


def zero_density(z: Array) -> float:
    p, rate = 1.0 / (1.0 + np.exp(-z[2] - z[3] * X)), np.exp(z[0] + z[1] * X)
    mass = (1.0 - p) * stats.poisson.pmf(COUNTS, rate)
    return prior(z) + float(np.log(np.where(COUNTS == 0, p + mass, mass)).sum())


def hurdle_density(z: Array) -> float:
    p, rate = 1.0 / (1.0 + np.exp(-z[2] - z[3] * X)), np.exp(z[0] + z[1] * X)
    above = stats.poisson.pmf(COUNTS, rate) / -np.expm1(-rate)
    return prior(z) + float(np.log(np.where(COUNTS == 0, p, (1.0 - p) * above)).sum())


CASES = {
    "normal": (LOG_SD, NORMAL, normal_density),
    "zero inflation": (ZERO, COUNTS, zero_density),
    "hurdle": (HURDLE, COUNTS, hurdle_density),
}


@pytest.mark.parametrize("name", CASES)
def test_mode_and_evidence(name: str) -> None:
    text, y, density = CASES[name]
    fit = lgm.fit(
        lgm.loads(text), {"x": X, "y": y}, method="laplace", options={"marginals": "gaussian"}
    )
    assert fit.converged
    start = np.zeros(4)

    def cost(z: Array) -> float:
        return -density(z)

    best = optimize.minimize(cost, start, method="BFGS", tol=1e-7)
    np.testing.assert_allclose([float(fit.mean(n)) for n in "abcd"], best.x, atol=2e-5)
    curve = np.empty((4, 4))
    for i in range(4):
        step = 1e-4 * np.eye(4)[i]
        slopes = [optimize.approx_fprime(best.x + k * step, density, 1e-5) for k in (-1.0, 1.0)]
        curve[i] = (slopes[0] - slopes[1]) / 2e-4
    log_det = np.linalg.slogdet(0.5 * (curve + curve.T))[1]
    evidence = density(best.x) + 2.0 * np.log(2.0 * np.pi) - 0.5 * log_det
    assert fit.log_evidence == pytest.approx(evidence, abs=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_bound_is_below_the_evidence(name: str) -> None:
    """By importance sampling from a wider Gaussian."""
    text, y, density = CASES[name]
    fit = lgm.fit(lgm.loads(text), {"x": X, "y": y}, method="natural-gradient")
    assert fit.converged
    mean = np.array([float(fit.mean(n)) for n in "abcd"])
    draws = fit.sample(4000, seed=1)
    spread = 1.5 * np.cov(np.array([np.asarray(draws[n]) for n in "abcd"]))
    law = stats.multivariate_t(mean, spread, df=5, seed=2)
    z = law.rvs(4000)
    weights = np.array([density(row) for row in z]) - law.logpdf(z)
    truth = float(np.log(np.mean(np.exp(weights - weights.max()))) + weights.max())
    assert fit.log_evidence < truth + 0.02
    assert fit.log_evidence > truth - 0.3


def test_predictor_without_latents_is_the_plain_family() -> None:
    text = LOG_SD.replace("log_sd = zeta", "log_sd = h * x").replace(
        "latent c", "hyper h : real ~ normal(sd = 1)\nlatent c"
    )
    plain = text.replace("log_sd = h * x", "sd = exp(h * x)")
    data = {"x": X, "y": NORMAL}
    fits = [lgm.fit(lgm.loads(t), data, method="ep", fixed={"h": 0.3}) for t in (text, plain)]
    assert fits[0].log_evidence == fits[1].log_evidence


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["laplace", "natural-gradient"])
def test_gradient_in_a_hyper_of_each_predictor(method: str) -> None:
    """The maximum over hypers that scale latents of both predictors is one of the evidence."""
    text = LOG_SD.replace(
        "latent a ~ normal(sd = 3)",
        "hyper s : positive ~ lognormal(mean = 0, sd = 1)\n"
        "hyper t : positive ~ lognormal(mean = 0, sd = 1)\nlatent a ~ normal(sd = s)",
    ).replace("latent d ~ normal(sd = 2)", "latent d ~ normal(sd = t)")
    data = {"x": X, "y": NORMAL}
    fit = lgm.fit(lgm.loads(text), data, method=method, hyper="map")
    s, t = float(fit.mean("s")), float(fit.mean("t"))

    def evidence(s: float, t: float) -> float:
        at = {"s": s, "t": t}
        level = lgm.fit(lgm.loads(text), data, method=method, fixed=at, hyper="fixed").log_evidence
        return level + float(stats.lognorm.logpdf([s, t], 1.0).sum())

    best = evidence(s, t)
    for step in (0.9, 1.1):
        assert evidence(step * s, t) < best + 1e-6
        assert evidence(s, step * t) < best + 1e-6


def test_other_indices_and_missing_responses() -> None:
    """A predictor of fewer indices than the rows', and rows without a response."""
    y = np.array(NORMAL)
    y[::7] = np.nan
    text = HEAD.format(type="real?", family="normal(mean = eta, log_sd = c)")
    fit = lgm.fit(lgm.loads(text), {"x": X, "y": y}, method="laplace")
    kept = ~np.isnan(y)
    plain = HEAD.format(type="real", family="normal(mean = eta, log_sd = c)")
    again = lgm.fit(lgm.loads(plain), {"x": X[kept], "y": y[kept]}, method="laplace")
    assert fit.log_evidence == pytest.approx(again.log_evidence, abs=1e-9)


def test_predictions_against_draws() -> None:
    fit = lgm.fit(lgm.loads(ZERO), {"x": X, "y": COUNTS}, method="natural-gradient")
    prediction = fit.predict({"x": [-1.0, 0.0, 1.5]})
    drawn = np.asarray(prediction.sample_response("y", 20000, seed=3))
    response = prediction.response("y")
    np.testing.assert_allclose(response["mean"], drawn.mean(axis=0), rtol=0.03)
    np.testing.assert_allclose(response["sd"], drawn.std(axis=0), rtol=0.04)
    zeros = response["probability"].sel(value=0)
    np.testing.assert_allclose(zeros, (drawn == 0).mean(axis=0), atol=0.015)
    median = prediction.response_quantile("y", [0.5])
    np.testing.assert_allclose(median[0], np.median(drawn, axis=0), atol=1.0)


def test_assessments_and_pickling() -> None:
    fit = lgm.fit(lgm.loads(LOG_SD), {"x": X, "y": NORMAL}, method="laplace")
    loo, exact = fit.loo(), fit.loo(exact=True)
    np.testing.assert_allclose(loo.pointwise("y"), exact.pointwise("y"), atol=0.1)
    ends = fit.pit().pointwise("y")
    assert float(ends.min()) > 0.0 and float(ends.max()) < 1.0
    assert stats.kstest(np.asarray(ends), "uniform").pvalue > 1e-3
    effects = fit.effects("x", scale="link")
    assert list(effects["predictor"]) == ["mean", "log_sd"]
    assert effects["estimate"].to_numpy()[1] == pytest.approx(float(fit.mean("d")), abs=1e-6)
    assert float(pickle.loads(pickle.dumps(fit)).mean("c")) == float(fit.mean("c"))


def test_weibull_shape_has_no_variational_bound() -> None:
    text = HEAD.format(type="positive", family="weibull(log_scale = eta, log_shape = zeta)")
    y = RNG.weibull(1.5, 60)
    with pytest.raises(lgm.MethodError, match="no average over a Gaussian"):
        lgm.fit(lgm.loads(text), {"x": X, "y": y}, method="natural-gradient")
    assert lgm.fit(lgm.loads(text), {"x": X, "y": y}, method="laplace").converged
