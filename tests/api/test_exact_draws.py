"""Posteriors made of exact draws, under `auto` where the Gaussian one is too far off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import lgmdsl as lgm
from lgmdsl.api.calibrate.placed import LIKELIHOOD, Truth, placed
from lgmdsl.api.fit import correction
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.simulate.simulate import Simulated
from lgmdsl.arrays import Array
from lgmdsl.assess import estimator
from lgmdsl.cli.main import main
from lgmdsl.errors import MethodError
from lgmdsl.posterior import drawn, drawn_response

ZEROS = """lgm 1
index obs
data n[obs] : count
data y[obs] : count
latent a ~ normal(sd = 10)
let eta[obs] = a
report p = invlogit(a)
report odd[obs] = exp(eta) * eta
observe y ~ binomial(n = n, logit = eta)
"""
DATA = {"n": [20, 27], "y": [0, 0]}
LEVELS = [0.05, 0.5, 0.95]
BASIS = "exact by quadrature (10,000 draws)"


def zeros(**change: Any) -> Fit:
    return lgm.fit(lgm.loads(ZEROS), DATA, **change)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return zeros()


def grid() -> tuple[Array, Array]:
    x = np.linspace(-80.0, 8.0, 400001)
    level = -47.0 * np.logaddexp(0.0, x) - 0.5 * (x / 10.0) ** 2
    p = np.exp(level - level.max())
    return x, p / p.sum()


def warned(fit: Fit) -> list[str]:
    return [w.code for w in fit.warnings]


def test_zero_of_47(fit: Fit) -> None:
    x, p = grid()
    mean = p @ x
    sd = np.sqrt(p @ (x - mean) ** 2)
    assert abs(mean + 10.87) < 0.01 and abs(sd - 5.38) < 0.01
    for name, value in (("a", fit), ("eta", fit)):
        assert np.allclose(value.mean(name), mean, atol=0.06 * sd)
        assert np.allclose(value.sd(name), sd, rtol=0.05)
        exact = np.interp(LEVELS, np.cumsum(p), x)
        away = fit.quantile(name, LEVELS).values.reshape(3, -1) - exact[:, None]
        assert np.abs(away).max() < 0.1 * sd
    assert float(fit.mean("p")) == pytest.approx(p @ special.expit(x), rel=0.1)
    assert fit.method == "natural-gradient" and fit.accuracy.basis == BASIS
    assert "W609" not in warned(fit) and fit.accuracy.within and not fit.accuracy.worst
    assert "marginals     10,000 exact draws" in fit.summary() and "too small" in fit.summary()
    density = fit.density("a")
    assert density.attrs["from"] == "draws"
    area = np.trapezoid(density["density"].values, density["x"].values)
    assert area == pytest.approx(1.0, abs=0.01)


def test_joint_draws_are_those_of_the_marginals(fit: Fit) -> None:
    s = fit.sample(10_000)
    np.testing.assert_allclose(s["a"].mean(), fit.mean("a"), rtol=1e-12)
    np.testing.assert_allclose(np.quantile(s["a"], 0.05), fit.quantile("a", [0.05])[0], rtol=1e-12)
    np.testing.assert_allclose(s["p"], special.expit(s["a"]), rtol=1e-12)
    np.testing.assert_array_equal(s["eta"][:, 0], s["a"])
    assert fit.sample(9001)["a"].shape == (9001,) and fit.sample(0)["a"].shape == (0,)
    replicated = fit.sample_predictive(10_000)["y"].values.sum(axis=1)
    x, p = grid()
    assert replicated.mean() == pytest.approx(47.0 * p @ special.expit(x), abs=0.03)


def test_predictions_at_new_rows(fit: Fit) -> None:
    x, p = grid()
    p1 = special.expit(x)
    there = fit.predict({"n": [10, 47]})
    response = there.response("y")
    for k, n in enumerate((10, 47)):
        mean = p @ (n * p1)
        sd = np.sqrt(p @ (n * p1 * (1.0 - p1) + (n * p1) ** 2) - mean**2)
        assert float(response["mean"][k]) == pytest.approx(mean, rel=0.1)
        assert float(response["sd"][k]) == pytest.approx(sd, rel=0.15)
        for value in range(3):
            exact = p @ stats.binom.pmf(value, n, p1)
            assert float(response["probability"][k, value]) == pytest.approx(exact, abs=0.006)
    np.testing.assert_allclose(there.mean("eta"), float(fit.mean("a")), rtol=1e-12)
    completed = lgm.fit(
        lgm.loads(ZEROS.replace("y[obs] : count", "y[obs] : count?")),
        {"n": [47, 10], "y": [0.0, np.nan]},
    ).impute()
    assert float(completed["y"][1]) == pytest.approx(p @ (10.0 * p1), rel=0.15)


def test_files_keep_the_draws(fit: Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    assert again.accuracy == fit.accuracy
    assert again.summary() == fit.summary().split("\n\nwarning")[0]  # which files do not keep
    for name in ("a", "eta", "p", "odd"):
        assert again.mean(name).equals(fit.mean(name)) and again.sd(name).equals(fit.sd(name))
        assert again.quantile(name, LEVELS).equals(fit.quantile(name, LEVELS))
    assert again.sample(50).equals(fit.sample(50)) and again.density("a").equals(fit.density("a"))
    new = {"n": [3]}
    assert again.predict(new).response("y").equals(fit.predict(new).response("y"))
    assert zeros().sample(50).equals(fit.sample(50))  # the same seed, the same digits
    assert not zeros(seed=1).sample(50).equals(fit.sample(50))


def test_what_keeps_the_gaussian() -> None:
    """Bit for bit: the method by its name, and the options."""
    plain = zeros(method="natural-gradient")
    named = [{"marginals": "gaussian"}, {"correction": "off"}, {"effort": "low"}]
    for other in (zeros(options=o) for o in named):
        assert other.drawn is None and "W609" in warned(other)
        assert other.accuracy == plain.accuracy and other.log_evidence == plain.log_evidence
        for name in ("a", "eta", "p", "odd"):
            assert other.mean(name).equals(plain.mean(name))
            assert other.quantile(name, LEVELS).equals(plain.quantile(name, LEVELS))
    assert plain.drawn is None and "W609" in warned(plain)
    on = zeros(method="natural-gradient", options={"correction": "on"})
    assert on.drawn is not None and on.log_evidence == plain.log_evidence
    assert float(on.sd("a")) > 1.5 * float(plain.sd("a"))


def test_no_draws_where_nothing_is_wrong() -> None:
    """The estimate is within what is tolerated; half of it under effort=high is not."""
    text = "lgm 1\nindex obs\ndata y[obs] : count\nlatent a ~ normal(sd = 3)\nlet eta[obs] = a\n"
    text += "observe y ~ poisson(log_rate = eta)\n"
    model, data = lgm.loads(text), {"y": [6, 5]}
    easy = lgm.fit(model, data)
    assert easy.drawn is None and "marginals" not in easy.provenance
    high = lgm.fit(model, data, options={"effort": "high"})
    assert high.drawn is not None and not easy.warnings
    x = np.linspace(-8.0, 4.0, 40001)
    p = np.exp(11.0 * x - 2.0 * np.exp(x) - x**2 / 18.0)
    p /= p.sum()
    assert float(high.quantile("a", [0.05])[0]) == pytest.approx(
        np.interp(0.05, np.cumsum(p), x), abs=0.06
    )


def test_options_that_do_not_exist_are_refused() -> None:
    for name, value in (("correction", "maybe"), ("marginals", "exact"), ("effort", "huge")):
        with pytest.raises(MethodError) as caught:
            zeros(options={name: value})
        assert caught.value.codes == ("E104",) and name in str(caught.value)


@pytest.mark.thorough
def test_chains_that_do_not_agree_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimator, "R_HAT", 0.9)
    fit = zeros()
    assert "exact" not in fit.accuracy.basis and "W609" in warned(fit)
    assert "chains do not agree" in fit.provenance["marginals"]


def test_more_effort_is_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(correction, "OPERATIONS", 3e5)
    fit = zeros()
    warning = next(w for w in fit.warnings if w.code == "W609")
    assert "exact" not in fit.accuracy.basis and 'options={"effort": "high"}' in warning.help
    assert zeros(options={"effort": "high"}).drawn is not None
    (tmp_path / "m.lgm").write_text(ZEROS)
    np.savez(tmp_path / "d.npz", n=DATA["n"], y=DATA["y"])
    command = ["fit", str(tmp_path / "m.lgm"), str(tmp_path / "d.npz"), "--json"]
    assert main([*command, "--option", "effort=high"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert " exact draws (quadrature" in said["marginals"]
    assert said["accuracy"]["basis"].startswith("exact by quadrature")


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> list[Array]:
        fit = zeros()
        response = fit.predict({"n": [3]}).response("y")
        quantiles = fit.marginals.quantile("eta", np.array(LEVELS))[1]
        return [fit.sd("eta").values, *(response[p].values for p in response), quantiles]

    whole = answers()
    monkeypatch.setattr(drawn, "VALUES_PER_PASS", 1500)
    monkeypatch.setattr(drawn, "REPORT_VALUES", 5000)
    monkeypatch.setattr(drawn_response, "PREDICTORS_PER_PASS", 700)
    for one, other in zip(answers(), whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.thorough
def test_lupus(shared: Path) -> None:
    exact = json.loads((shared / "reference" / "lupus_probit_exact.json").read_text())
    exact = exact["normal_var_25"]
    kept = np.load(shared / "data" / "lupus.npz")
    text = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = 5)
let eta[obs] = X @ w
observe y ~ bernoulli(probit = eta)
"""
    fit = lgm.fit(lgm.loads(text), {"X": kept["X"], "y": kept["y"]})
    assert fit.drawn is not None
    sd = np.array(exact["sd"])
    np.testing.assert_array_less(np.abs(fit.mean("w") - exact["mean"]), 0.08 * sd)
    np.testing.assert_allclose(fit.sd("w"), sd, rtol=0.07)
    away = fit.quantile("w", LEVELS).values - np.array(exact["q5_50_95"]).T
    assert np.abs(away / sd).max() < 0.15


GROUPS = """lgm 1
index obs
index g
data y[obs] : count
data who[obs] : g
hyper s : positive ~ half_normal(sd = 1.5)
latent u[g] ~ normal(sd = s)
let eta[obs] = u[who] - 1
report scaled[g] = u / s
observe y ~ poisson(log_rate = eta)
"""


@pytest.mark.thorough
def test_an_integrated_scale() -> None:
    """Poisson counts of groups that are independent given s: by quadrature over both."""
    y = np.array([0, 0, 0, 0, 3, 0])
    data = {"y": y, "who": np.arange(6)}
    fit = lgm.fit(lgm.loads(GROUPS), data, options={"effort": "high"})
    assert fit.drawn is not None and fit.hyper == "integrate"
    assert len(np.unique(fit.drawn.point)) > 3
    s = np.linspace(0.004, 8.0, 1600)[:, None]
    u = np.linspace(-30.0, 8.0, 4001)
    prior = np.exp(-0.5 * (u / s) ** 2) / s
    like = [prior * np.exp(k * (u - 1.0) - np.exp(u - 1.0)) for k in (0, 3)]
    mass = np.array([p.sum(axis=1) for p in like])
    weight = np.exp(-0.5 * (s[:, 0] / 1.5) ** 2) * mass[0] ** 5 * mass[1]
    weight /= weight.sum()
    for k, entry in ((0, 0), (1, 4)):
        p = (weight / mass[k]) @ like[k]
        mean = p @ u
        sd = np.sqrt(p @ (u - mean) ** 2)
        assert float(fit.mean("u")[entry]) == pytest.approx(mean, abs=0.12 * sd)
        assert float(fit.sd("u")[entry]) == pytest.approx(sd, rel=0.1)
        quantiles = np.interp(LEVELS, np.cumsum(p), u)
        away = fit.quantile("u", LEVELS).values[:, entry] - quantiles
        assert np.abs(away).max() < 0.2 * sd
    assert np.isfinite(fit.mean("scaled")).all()  # of draws that have their own hyperparameters


@pytest.mark.thorough
def test_new_groups() -> None:
    """New members have their prior, correlated with nothing but what all groups share."""
    text = """lgm 1
index obs
index g
data y[obs] : count
data who[obs] : g
latent b ~ normal(sd = 4)
latent u[g] ~ normal(sd = 0.5)
let eta[obs] = b + u[who]
observe y ~ poisson(log_rate = eta)
"""
    fit = lgm.fit(lgm.loads(text), {"y": [0, 0], "who": ["p", "q"]})
    assert fit.drawn is not None
    with pytest.warns(lgm.PredictionWarning):
        there = fit.predict({"who": ["new", "p"]})
    b, v = np.meshgrid(np.linspace(-25.0, 5.0, 3001), np.linspace(-2.5, 2.5, 201), indexing="ij")
    each = np.exp(-np.exp(b + v) - 2.0 * v**2)
    p = np.exp(-0.5 * (b[:, 0] / 4.0) ** 2) * each.sum(axis=1) ** 2
    p /= p.sum()
    b = b[:, 0]
    mean = p @ b
    sd = np.sqrt(p @ (b - mean) ** 2 + 0.25)
    assert float(there.mean("eta")[0]) == pytest.approx(mean, abs=0.1 * sd)
    assert float(there.sd("eta")[0]) == pytest.approx(sd, rel=0.06)
    response = there.response("y")
    zero = np.exp(-np.exp(b[:, None] + v[0])) @ stats.norm.pdf(v[0], scale=0.5) * 0.025
    assert float(response["probability"][0, 0]) == pytest.approx(p @ zero, abs=0.02)
    np.testing.assert_allclose(there.mean("eta")[1], fit.mean("eta")[0], rtol=1e-6)


WALK = """lgm 1
index t
data y[t] : count
latent f[t] ~ rw1(sd = 1.5)
observe y ~ poisson(log_rate = f)
"""


def test_members_beyond_the_end_of_a_walk() -> None:
    fit = lgm.fit(lgm.loads(WALK), {"y": [1, 0, 0, 0]}, options={"effort": "high"})
    assert fit.drawn is not None
    there = fit.predict({"t": [4, 5]})
    last, sd = float(fit.mean("f")[3]), float(fit.sd("f")[3])
    gaussian = lgm.fit(lgm.loads(WALK), {"y": [1, 0, 0, 0]}, method="natural-gradient")
    step = float(gaussian.predict({"t": [4]}).sd("f")[0] ** 2 - gaussian.sd("f")[3] ** 2) ** 0.5
    for k in (1, 2):
        assert float(there.mean("f")[k - 1]) == pytest.approx(last, abs=0.12)
        assert float(there.sd("f")[k - 1]) == pytest.approx(np.hypot(sd, step * k**0.5), rel=0.04)


def test_conditional_of_new_members() -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(5, 4))
    c = a @ a.T  # of rank 4: the fifth is known given the others
    slope, root = drawn._conditional(c, np.arange(3), np.array([3, 4]))
    exact = c[3:, :3] @ np.linalg.inv(c[:3, :3])
    np.testing.assert_allclose(slope, exact, rtol=1e-8)
    np.testing.assert_allclose(root @ root.T, c[3:, 3:] - exact @ c[:3, 3:], atol=1e-8)
    slope, root = drawn._conditional(c, np.arange(4), np.array([4]))
    np.testing.assert_allclose(root, 0.0, atol=1e-6)


def test_new_places_of_a_process() -> None:
    """Moments of f_new = A f + e, A and Var e from the kernel, by those of the fit's own draws."""
    text = """lgm 1
index obs
data x[obs] : real
data y[obs] : binary
latent f[obs] ~ gp(at = x, kernel = se(sd = 4, length = 1))
observe y ~ bernoulli(logit = f)
"""
    x, new = np.array([0.0, 0.6, 1.7]), np.array([0.3, 2.6])
    fit = lgm.fit(lgm.loads(text), {"x": x, "y": [1, 1, 1]})
    assert fit.drawn is not None

    def kernel(a: Array, b: Array) -> Array:
        return np.asarray(16.0 * np.exp(-0.5 * (a[:, None] - b) ** 2))

    slope = kernel(new, x) @ np.linalg.inv(kernel(x, x))
    noise = kernel(new, new) - slope @ kernel(x, new)
    covariance = np.cov(fit.sample(4000)["f"].values.T)
    there = fit.predict({"x": new})
    sd = np.sqrt(np.diag(slope @ covariance @ slope.T + noise))
    np.testing.assert_allclose(there.mean("f"), slope @ fit.mean("f").values, atol=0.2)
    np.testing.assert_allclose(there.sd("f"), sd, rtol=0.04)


def test_too_many_members_are_gaussian_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawn, "MAX_LATENTS_JOINED", 3)
    text = WALK.replace("rw1(sd = 1.5)", "normal(sd = 4)")
    fit = lgm.fit(lgm.loads(text), {"y": [2, 0, 0]})
    assert fit.drawn is not None
    with pytest.warns(lgm.PredictionWarning, match="W609"):
        there = fit.predict({"t": [7]})
    assert not there.marginals.of_draws and np.isfinite(there.mean("f")).all()


@pytest.mark.thorough
def test_classes() -> None:
    text = """lgm 1
index obs
index k
data y[obs] : k
data x[obs] : real
latent c[k] ~ normal(sd = 6)
let eta[obs, k] = c + 0 * x
observe y ~ categorical(softmax = eta)
"""
    labels = ["r", "s", "t"]
    data = {"k": labels, "y": ["r", "r", "r", "r", "s"], "x": np.zeros(5)}
    fit = lgm.fit(lgm.loads(text), data, options={"effort": "high"})
    assert fit.drawn is not None
    found = fit.predict({"x": [0.0]}).response("y")["probability"].values
    draws = fit.sample(10_000)["c"].values
    exact = special.softmax(draws, axis=1).mean(axis=0)
    np.testing.assert_allclose(found, np.broadcast_to(exact, found.shape), rtol=1e-6)


def test_calibration_places_the_truth_among_the_draws(fit: Fit) -> None:
    """Of a truth of -20 the Gaussian's probability is 0.002."""
    x, p = grid()
    truth = Truth.of(fit, Simulated({}, {"a": np.array(-20.0)}), {})
    values = dict(placed(fit, truth, np.random.default_rng(0)))
    exact = float(p[x < -20.0].sum())
    assert values["a"] == pytest.approx(exact, abs=0.015) and exact > 0.05
    assert values["eta[.]"] == pytest.approx(exact, abs=0.015) and 0.0 < values[LIKELIHOOD] < 1.0
