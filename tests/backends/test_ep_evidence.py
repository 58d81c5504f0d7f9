"""EP's log evidence against brute quadrature and exact answers, and its gradient."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.reverse import pull
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import plan
from lgmdsl_backends.ep.matching import Matched, own
from tests.backends.test_known_fits import CASES
from tests.compiled import canonical_form

FAMILIES = {
    "bernoulli(logit = s)": "binary",
    "bernoulli(probit = s)": "binary",
    "bernoulli(cloglog = s)": "binary",
    "binomial(n = 7, logit = s)": "few",
    "poisson(log_rate = s, exposure = 2)": "count",
    "negbinomial(log_mean = s, size = 1.5)": "count",
    "gamma(log_mean = s, shape = 2)": "positive",
    "student_t(mean = s, scale = 0.6, df = 4)": "real",
    "laplace(mean = s, scale = 0.6)": "real",
    "normal(mean = s, sd = 0.6)": "real",
    "normal(mean = 0.2, log_var = s)": "real",
}
seeds, families = st.integers(0, 2**20), st.sampled_from(sorted(FAMILIES))


def drawn(rng: np.random.Generator, kind: str, n: int) -> Array:
    draws = {
        "binary": rng.integers(0, 2, n), "few": rng.integers(0, 8, n),
        "count": rng.poisson(2.0, n), "positive": rng.gamma(2.0, size=n),
        "real": rng.normal(size=n),
    }  # fmt: skip
    return np.asarray(draws[kind], dtype=float)


def random_model(
    rng: np.random.Generator, family: str, latents: int, sites: int, sd: float
) -> tuple[str, dict[str, Array]]:
    type_ = {"few": "count"}.get(FAMILIES[family], FAMILIES[family])
    text = (
        f"lgm 1\nindex obs\nindex feat\ndata X[obs, feat] : real\ndata y[obs] : {type_}\n"
        f"latent b[feat] ~ normal(mean = 0.2, sd = {sd})\nlet s[obs] = X @ b + 0.1\n"
        f"observe y ~ {family}\n"
    )
    X = rng.normal(size=(sites, latents))
    return text, {"X": X, "y": drawn(rng, FAMILIES[family], sites)}


def brute(fit: lgm.Fit, sd: float) -> tuple[float, Array, Array]:
    """log evidence, means and sds of b, on a grid of up to three dimensions around the fit."""
    mean, spread = fit.mean("b").values, fit.sd("b").values
    points = {1: 40001, 2: 201, 3: 61}[len(mean)]
    reach = np.full(1, 12.0 * sd) if len(mean) == 1 else 9.0 * spread  # tails may be heavy
    ends = zip(mean - reach, mean + reach, strict=True)
    axes = [np.linspace(low, high, points) for low, high in ends]
    z = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    site = fit.canonical.blocks[0].bind(fit.theta)
    predictor = fit.canonical.linear(fit.theta).predictors[0]  # a response may stand in its offset
    level = -0.5 * (((z - 0.2) / sd) ** 2).sum(axis=1)
    level -= len(mean) * np.log(sd * np.sqrt(2 * np.pi))
    for i, (x, c) in enumerate(zip(predictor.columns["b"].dense(), predictor.offset, strict=True)):
        one = site.take(np.full(len(z), i))
        with np.errstate(over="ignore"):
            level = level + one.log_density(z @ x + c)
    cell = float(np.prod([a[1] - a[0] for a in axes]))
    top = special.logsumexp(level)
    weight = np.exp(level - top)
    moment = weight @ z
    return float(top + np.log(cell)), moment, np.sqrt(weight @ (z - moment) ** 2)


@given(seeds, families, st.sampled_from([0.3, 1.5, 8.0]))
def test_one_site_is_exact(seed: int, family: str, sd: float) -> None:
    """With one site its cavity is the prior, and its tilted density the posterior."""
    rng = np.random.default_rng(seed)
    text, data = random_model(rng, family, 1, 1, sd)
    data["X"] = np.ones((1, 1))
    fit = lgm.fit(lgm.loads(text), data, "ep", tol=1e-10)
    assert fit.converged and fit.steps <= 2
    evidence, mean, spread = brute(fit, sd)
    # A kink between the nodes of a grid leaves it that rough.
    near = 2e-5 if family.startswith("laplace") else 1e-7
    assert fit.log_evidence == pytest.approx(evidence, abs=near)
    np.testing.assert_allclose(fit.mean("b"), mean, atol=near * float(spread[0]))
    np.testing.assert_allclose(fit.sd("b"), spread, rtol=near)


@given(seeds, st.sampled_from([1.0, 0.7, 0.05]), st.integers(1, 4), st.integers(1, 9))
def test_gaussian_sites_are_exact_at_once(
    seed: int, power: float, latents: int, sites: int
) -> None:
    rng = np.random.default_rng(seed)
    text, data = random_model(rng, "normal(mean = s, sd = 0.6)", latents, sites, 1.5)
    fit = lgm.fit(lgm.loads(text), data, "ep", options={"power": power})
    X, gap = data["X"], data["y"] - 0.1 - data["X"] @ np.full(latents, 0.2)
    covariance = 2.25 * X @ X.T + 0.36 * np.eye(sites)
    _, logdet = np.linalg.slogdet(2 * np.pi * covariance)
    exact = -0.5 * logdet - 0.5 * gap @ np.linalg.solve(covariance, gap)
    assert fit.steps == 0 and str(fit.guarantee) == "exact"
    assert fit.log_evidence == pytest.approx(exact, rel=1e-9)


@pytest.mark.thorough
@given(seeds, st.sampled_from([f for f in sorted(FAMILIES) if "0.6" not in f]), st.integers(1, 3))
@settings(max_examples=20)
def test_the_evidence_is_near_where_cavities_are_narrow(
    seed: int, family: str, latents: int
) -> None:
    """Below 1e-2 where every cavity sd is below 1, the width on which these sites bend (those of
    scale 0.6 bend on less); and the moments are near."""
    rng = np.random.default_rng(seed)
    text, data = random_model(rng, family, latents, 4 * latents, 0.5)
    data["X"] = data["X"] / np.linalg.norm(data["X"], axis=1, keepdims=True)
    fit = lgm.fit(lgm.loads(text), data, "ep")
    assert fit.converged
    problem = plan(fit.canonical, "ep").at(fit.theta)
    at = own(problem, fit.posterior.conditioned, 1.0)
    assert isinstance(at, Matched) and at.cavity_variance.max() < 1.0
    evidence, mean, spread = brute(fit, 0.5)
    assert fit.log_evidence == pytest.approx(evidence, abs=1e-2)
    np.testing.assert_allclose((fit.mean("b") - mean) / spread, 0.0, atol=0.05)
    np.testing.assert_allclose(fit.sd("b") / spread, 1.0, atol=0.05)


def test_lupus_against_the_exact_posterior(shared: Path) -> None:
    """Prior sd 5, skewed: EP has the means to 0.02 sd, where Laplace's are half an sd off; its sds
    are a fifth too small, and its evidence is off by 0.11 (Laplace's by 0.07)."""
    text, data, _ = CASES["lupus_probit_sd5"]
    exact = json.loads((shared / "reference" / "lupus_probit_exact.json").read_text())
    truth = exact["normal_var_25"]
    found = {}
    for method in ("ep", "laplace"):
        fit = lgm.fit(lgm.loads(text), data(shared / "data"), method)
        shift = np.abs(fit.mean("w").values - truth["mean"]) / truth["sd"]
        found[method] = float(shift.max()), fit.log_evidence - truth["log_marginal_likelihood"]
        if method == "ep":
            np.testing.assert_allclose(fit.sd("w").values / truth["sd"], 0.81, atol=0.04)
    assert found["ep"][0] < 0.02 and found["laplace"][0] > 0.5
    assert found["ep"][1] == pytest.approx(-0.112, abs=2e-3)
    assert found["laplace"][1] == pytest.approx(-0.066, abs=2e-3)


# ---- gradient ----------------------------------------------------------------------------------

HEAD = """lgm 1
index obs
index subject
data x[obs] : real
data who[obs] : subject
data y[obs] : {type}
hyper t : positive ~ half_normal(sd = 1)
hyper m : real ~ normal(sd = 1)
hyper c : real ~ normal(sd = 1)
{hyper}latent u[subject] ~ normal(mean = m, sd = t)
let s[obs] = c^2 + t * x + x * u[who]
observe y ~ {family}
"""
ELL = """lgm 1
index obs
data x[obs] : real
data y[obs] : binary
hyper t : positive ~ half_normal(sd = 1)
hyper m : positive ~ half_normal(sd = 1)
latent f[obs] ~ gp(at = x, kernel = se(sd = t, length = m))
observe y ~ bernoulli(logit = f)
"""
SCALE = "hyper scale : positive ~ half_normal(sd = 1)\n"
DF = "hyper df : positive ~ half_normal(sd = 1)\n"
GRADIENTS = {
    "logit": HEAD.format(type="binary", hyper="", family="bernoulli(logit = s)"),
    "gp": ELL,
    "student_t": HEAD.format(
        type="real", hyper=SCALE + DF, family="student_t(mean = s, scale = scale, df = df)"
    ),
    "laplace": HEAD.format(type="real", hyper=SCALE, family="laplace(mean = s, scale = scale)"),
    "normal": HEAD.format(type="real", hyper=SCALE, family="normal(mean = s, sd = scale)"),
    "negbinomial": HEAD.format(
        type="count", hyper=SCALE, family="negbinomial(log_mean = s, size = scale)"
    ),
    "exp_power": HEAD.format(type="real", hyper=SCALE + DF, family="normal(mean = s, sd = 0.5)")
    + "potential s ~ exp_power(scale = scale, power = df)\n",
}
AT = {"t": 1.3, "m": 0.8, "c": 0.4, "scale": 0.7, "df": 1.4}


def posterior_at(
    canonical: CanonicalModel, pinned: Mapping[str, Array], power: float
) -> GaussianPosterior:
    planned = plan(canonical, "ep", options={"power": power})
    problem = planned.at(canonical.hypers.theta(pinned))
    result = run(planned.backend, problem, Tolerances(1e-13, 1e-9))
    assert result.posterior is not None and result.trace[-1].residual < 1e-7
    return result.posterior


@pytest.mark.few(7)
@pytest.mark.parametrize("name", sorted(GRADIENTS))
@pytest.mark.parametrize("power", [1.0, 0.6])
def test_the_gradient_of_the_evidence(name: str, power: float) -> None:
    """At the fixed point: engine adjoints and E_tilted[dl/dparameter], against differences."""
    rng = np.random.default_rng(2)
    kind = next(k for k in ("binary", "count", "real") if f"y[obs] : {k}" in GRADIENTS[name])
    data = {"x": rng.normal(size=9), "who": np.arange(9) % 3, "y": drawn(rng, kind, 9)}
    if name == "gp":
        data.pop("who")
    canonical = canonical_form(GRADIENTS[name], data)
    free = {b.name: np.asarray(AT[b.name]) for b in canonical.hypers.blocks}
    found = posterior_at(canonical, free, power)
    assert found.slopes is not None
    theta = canonical.hypers.theta(free)
    raw = pull(canonical, found.conditioned.adjoints(), found.slopes(), theta)
    gradient = canonical.hypers.pull(raw, theta, {})
    assert set(gradient) == set(free)
    for hyper, at in free.items():
        h = 1e-4
        values = [
            posterior_at(canonical, {**free, hyper: at + k * h}, power).log_evidence
            for k in (-2, -1, 1, 2)
        ]
        wanted = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
        assert float(gradient[hyper]) == pytest.approx(wanted, rel=1e-6, abs=1e-7), hyper
