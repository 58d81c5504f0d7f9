"""Maximising over hyperparameters: the mode, its curvature, edges and flat directions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

import lgmdsl as lgm
from tests.learning.glmm import CROSSED, GLMM, counts, crossed, load


def test_the_mode_is_that_of_evidence_and_prior_on_the_natural_scale() -> None:
    model, data = load(GLMM), counts()
    fit = lgm.fit(model, data, method="laplace", hyper="map")
    rate = -np.log(0.01)

    def lost(log_s: float) -> float:
        s = float(np.exp(log_s))
        at = lgm.fit(model, data, method="laplace", hyper="fixed", fixed={"s": s})
        return float(-at.log_evidence - np.log(rate) + rate * s)

    best = optimize.minimize_scalar(lost, bracket=(-2.0, -0.5, 1.0), tol=1e-6)
    s, h = float(np.exp(best.x)), 1e-3
    assert fit.converged and fit.hyper == "map"
    assert float(fit.mean("s")) == pytest.approx(s, rel=1e-4)
    assert fit.log_evidence == pytest.approx(-best.fun - np.log(rate) + rate * s, abs=5e-4)
    curvature = (lost(best.x + h) - 2 * best.fun + lost(best.x - h)) / h**2
    assert float(fit.sd("s")) == pytest.approx(s / np.sqrt(curvature), rel=2e-3)
    levels = [0.05, 0.5, 0.95]
    wanted = s * np.exp(special.ndtri(levels) / np.sqrt(curvature))
    np.testing.assert_allclose(fit.quantile("s", levels), wanted, rtol=2e-3)
    np.testing.assert_allclose(fit.quantile("v", levels), wanted**2, rtol=4e-3)
    assert float(fit.sd("v")) == pytest.approx(2 * s * float(fit.sd("s")), rel=1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize("method", ["laplace", "ep", "lcl", "natural-gradient"])
def test_methods_with_the_same_objective_find_the_same_mode(method: str) -> None:
    data = counts(groups=12)
    fit = lgm.fit(load(GLMM), data, method=method, hyper="map")
    other = lgm.fit(load(GLMM), data, method="cholesky", hyper="map")
    same = method in ("lcl", "natural-gradient")
    assert float(fit.mean("s")) == pytest.approx(float(other.mean("s")), rel=2e-4 if same else 0.02)


def test_pinned_hyperparameters_stay_and_the_rest_is_learned() -> None:
    model, data = load(CROSSED), crossed()
    fit = lgm.fit(model, data, hyper="map", fixed={"v": 0.7})
    assert float(fit.mean("v")) == 0.7 and float(fit.sd("v")) == 0.0
    assert float(fit.sd("w")) > 0.0
    assert float(fit.mean("ratio")) == pytest.approx(0.7 / float(fit.mean("w")))
    again = lgm.fit(model, data, fixed={"v": 0.7, "w": float(fit.mean("w"))})
    assert again.hyper == "fixed"
    assert again.log_evidence == pytest.approx(fit.log_evidence, abs=1e-6)


def test_auto_integrates_few_and_maximises_many() -> None:
    assert lgm.fit(load(GLMM), counts(groups=8)).hyper == "integrate"
    many = """lgm 1
index obs
index item
data y[obs] : count
data i[obs] : item
hyper c[item] : real ~ normal(sd = 2)
latent u[obs] ~ normal(sd = 0.3)
let eta[obs] = c[i] + u
observe y ~ poisson(log_rate = eta)
"""
    i = np.arange(70) % 7
    y = np.random.default_rng(0).poisson(np.exp(0.2 * i))
    fit = lgm.fit(load(many), {"y": y, "i": i})
    assert fit.hyper == "map" and fit.converged
    np.testing.assert_allclose(fit.mean("c"), 0.2 * np.arange(7), atol=4 * float(fit.sd("c").max()))
    with pytest.raises(lgm.MethodError, match="too many to integrate"):
        lgm.fit(load(many.replace("70", "70")), {"y": y, "i": np.arange(70) % 9}, hyper="integrate")


def test_no_spread_between_groups_is_an_ordinary_maximum() -> None:
    data = counts(groups=10)
    data["y"] = np.resize([1, 2, 3, 2, 1, 3], len(data["y"]))
    text = GLMM.replace("pc_sd(u = 1, alpha = 0.01)", "flat")
    fit = lgm.fit(load(text), data, hyper="map")
    assert fit.converged and not fit.warnings
    assert float(fit.mean("s")) < 0.01 and np.isnan(float(fit.sd("s")))


def test_a_product_of_scales_is_flat() -> None:
    text = GLMM.replace(
        "hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)",
        "hyper p : positive ~ flat\nhyper q : positive ~ flat",
    )
    text = text.replace("sd = s", "sd = p * q").replace("report v = s^2\n", "")
    fit = lgm.fit(load(text), counts(), hyper="map")
    assert [w.code for w in fit.warnings] == ["W604"]
    assert "`p` and `q`" in str(fit.warnings[0])
    fixed = lgm.fit(load(text), counts(), hyper="map", fixed={"q": 1.0})
    assert float(fit.mean("p") * fit.mean("q")) == pytest.approx(float(fixed.mean("p")), rel=1e-3)


def test_an_improper_posterior_of_a_scale_is_told() -> None:
    data = counts(groups=1, each=6)
    text = GLMM.replace("pc_sd(u = 1, alpha = 0.01)", "flat")
    fit = lgm.fit(load(text), data, hyper="integrate")
    assert {"W604", "W606"} & {w.code for w in fit.warnings}


def test_a_method_without_evidence_cannot_learn() -> None:
    with pytest.raises(lgm.MethodError, match="has no evidence to learn"):
        lgm.fit(load(GLMM), counts(groups=5), method="map", hyper="map")


def test_other_ways_are_refused_by_name() -> None:
    with pytest.raises(lgm.MethodError, match="unknown treatment"):
        lgm.fit(load(GLMM), counts(groups=5), hyper="maximise")


@pytest.mark.parametrize(
    ("design", "told"),
    [("lattice", "cannot be `lattice`"), ("gridd", "did you mean `grid`")],
)
def test_unknown_designs_are_refused(design: str, told: str) -> None:
    with pytest.raises(lgm.MethodError, match=told):
        lgm.fit(load(GLMM), counts(groups=5), options={"integration": design})


def test_start_from_gives_the_same_mode() -> None:
    model, data = load(CROSSED), crossed()
    first = lgm.fit(model, data, hyper="map")
    again = lgm.fit(model, data, hyper="map", start_from=first)
    assert float(again.mean("v")) == pytest.approx(float(first.mean("v")), rel=1e-3)


def test_a_saddle_at_the_middle_of_the_priors_of_loadings_is_left() -> None:
    model = lgm.loads("""lgm 1
index obs
data x[obs] : real
data y[obs] : real
hyper a : real ~ normal(mean = 0, sd = 1)
latent z ~ normal(sd = 1)
observe y ~ normal(mean = a * x * z, sd = 0.5)
""")
    x = np.random.default_rng(2).normal(size=30)
    data = {"x": x, "y": 2 * x}
    fit = lgm.fit(model, data, hyper="map")

    def lost(a: float) -> float:
        return 0.5 * a * a - lgm.fit(model, data, fixed={"a": a}).log_evidence

    best = optimize.minimize_scalar(lost, bounds=(0.2, 4.0), method="bounded")
    assert fit.converged
    assert abs(float(fit.mean("a"))) == pytest.approx(float(best.x), rel=1e-3)


def test_the_vague_inverse_gamma_prior_of_a_variance_has_a_start() -> None:
    vague = GLMM.replace("pc_sd(u = 1, alpha = 0.01)", "inv_gamma(shape = 0.001, scale = 0.001)")
    assert vague != GLMM
    fit = lgm.fit(load(vague), counts(), method="laplace", hyper="map")
    assert fit.converged and 1e-4 < float(fit.mean("s")) < 10.0
