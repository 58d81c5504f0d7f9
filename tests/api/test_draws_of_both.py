"""What is made of latents and learned hyperparameters is so in every draw, and is no wider for it:
latents go along with the hyperparameters of their draw."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.posterior import shifted_draws as carrying
from lgmdsl.posterior.shifted_draws import DrawShift

MODEL = """lgm 1
index obs
index group
data who[obs] : group
data y[obs] : real
hyper s : positive ~ half_normal(sd = 2)
hyper v : positive ~ half_normal(sd = 1)
latent u[group] ~ normal(sd = 1)
latent b ~ normal(sd = 3)
let eta[obs] = b + s * u[who]
observe y ~ normal(mean = eta, sd = v)
report share[group] = u / v
"""
DISTINCT = 200  # fewer than by default, for speed
GROUPS = 8
WHO = np.repeat(np.arange(GROUPS), 6)
RNG = np.random.default_rng(0)
Y = 1.0 + 2.0 * RNG.normal(size=GROUPS)[WHO] + 0.3 * RNG.normal(size=len(WHO))
DATA = {"who": np.array(list("abcdefgh"))[WHO], "y": Y}


@cache
def fitted(design: str = "grid") -> Fit:
    return lgm.fit(lgm.loads(MODEL), DATA, hyper="integrate", options={"integration": design})


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted()


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "DISTINCT", DISTINCT)


def checked(drawn: Any) -> np.ndarray:
    """eta, which is b + s u in each draw."""
    eta, s, u, b = (np.asarray(drawn[n]) for n in ("eta", "s", "u", "b"))
    eta, s, u, b = eta.reshape(-1, len(WHO)), s.reshape(-1, 1), u.reshape(-1, GROUPS), b.ravel()
    np.testing.assert_allclose(eta, b[:, None] + (s * u)[:, WHO], atol=1e-12)
    return eta


@pytest.mark.parametrize("design", ["grid", "ccd"])
def test_lets_are_made_of_the_draw_s_own_hypers_and_are_no_wider(design: str) -> None:
    """With latents left at the points, eta's sd would be 1.4 to 2.8 times its own (grid)."""
    fit = fitted(design)
    drawn = fit.sample(3000, seed=1, names=["eta", "s", "u", "b", "v"])
    eta, sd = checked(drawn), fit.sd("eta").values
    np.testing.assert_allclose(eta.std(axis=0), sd, rtol=0.06 if design == "grid" else 0.16)
    assert (np.abs(eta.mean(axis=0) - fit.mean("eta").values) < 0.1 * sd).all()
    np.testing.assert_allclose(drawn["u"].std(axis=0), fit.sd("u"), rtol=0.05)
    np.testing.assert_allclose(drawn["s"].std(), fit.sd("s"), rtol=0.15)
    assert 0.5 * DISTINCT < len(np.unique(drawn["s"])) <= DISTINCT + len(fit.points)


def test_latents_by_themselves_are_left_where_they_are(fit: Fit) -> None:
    alone, other = fit.sample(50, seed=3, names=["u"]), fit.sample(50, seed=3, names=["u", "s"])
    np.testing.assert_array_equal(alone["u"], other["u"])


def test_arviz_and_files_hold_draws_that_agree(fit: Fit, tmp_path: Path) -> None:
    tree = fit.to_arviz(100, seed=2)
    eta, v = checked(tree["posterior"].to_dataset()), np.asarray(tree["posterior/v"]).reshape(-1, 1)
    log = np.asarray(tree["log_likelihood/y"]).reshape(100, -1)
    np.testing.assert_allclose(log, stats.norm(eta, v).logpdf(Y))
    drawn = fit.sample(100, seed=2)
    np.testing.assert_array_equal(drawn["eta"], eta)
    fit.save(tmp_path / "m.fit.nc")
    again = lgm.load_fit(tmp_path / "m.fit.nc").sample(100, seed=2)
    np.testing.assert_allclose(again["eta"], eta, rtol=1e-6, atol=1e-6)


def test_replicates_and_predictions_too(fit: Fit) -> None:
    new = fit.predict({"who": np.array(["a", "c"])})
    rows = [0, 12]
    known = new.response("y")["sd"].values
    y = new.sample_response("y", 2000, seed=4).values
    np.testing.assert_allclose(y.std(axis=0), known, rtol=0.06)
    replicated = fit.sample_predictive(2000, seed=4)["y"].values[:, rows]
    np.testing.assert_allclose(replicated.std(axis=0), known, rtol=0.06)
    sd = fit.sd("eta").values[rows]
    np.testing.assert_allclose(new.sample(2000, seed=4)["eta"].std(axis=0), sd, rtol=0.08)


def test_reports_under_factors_take_each_draw_s_own() -> None:
    model = lgm.loads(MODEL.replace("s * u[who]", "u[who]"))
    fit = lgm.fit(model, DATA, hyper="vb", fixed={"s": 1.0})
    drawn = fit.sample(300, seed=1, names=["share", "u", "v"])
    np.testing.assert_allclose(drawn["share"], drawn["u"] / drawn["v"])
    v = fit.sample(20_000, seed=5, names=["v"])["v"].values
    mean = fit.mean("u").values * (1.0 / v).mean()
    np.testing.assert_allclose(fit.mean("share"), mean, rtol=0.02, atol=0.05)
    second = (fit.sd("u").values ** 2 + fit.mean("u").values ** 2) * (v**-2.0).mean()
    np.testing.assert_allclose(fit.sd("share"), np.sqrt(second - mean**2), rtol=0.06)
    middle = fit.quantile("share", [0.5]).values[0]
    np.testing.assert_allclose(
        middle, fit.mean("u").values * np.median(1.0 / v), rtol=0.03, atol=0.1
    )


def test_what_sums_to_zero_still_does() -> None:
    text = MODEL.replace("latent u[group] ~ normal(sd = 1)", "latent u[group] ~ rw1(sd = 1)")
    data = {**DATA, "group": np.unique(DATA["who"])}
    fit = lgm.fit(lgm.loads(text), data, hyper="integrate")
    drawn = fit.sample(100, seed=1, names=["u", "eta", "s", "b"])
    checked(drawn)
    np.testing.assert_allclose(drawn["u"].sum("group"), 0.0, atol=1e-8)


def test_gaussians_whose_moments_are_quadratic_are_carried_exactly() -> None:
    places = np.array([[x, y] for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)])

    def mean(x: np.ndarray) -> np.ndarray:
        return np.stack([2.0 - x[:, 0] + 0.5 * x[:, 1] ** 2, x[:, 0] * x[:, 1]], axis=1)

    def log_sd(x: np.ndarray) -> np.ndarray:
        return 0.3 * x[:, 0] - 0.1 * x[:, 1]

    scale = np.array([1.0, 5.0])
    moments = [
        (m, (scale * np.exp(a)) ** 2) for m, a in zip(mean(places), log_sd(places), strict=True)
    ]
    carried = DrawShift.of(places, moments, [slice(0, 2)])
    rng = np.random.default_rng(0)
    at, z = rng.uniform(-1.5, 1.5, size=(20, 2)), rng.normal(size=(20, 2))
    k = 5
    stretch = np.exp(log_sd(at) - log_sd(places[[k]]))[:, None]
    known = mean(at) + stretch * (z - mean(places[[k]]))
    np.testing.assert_allclose(carried(k, z, at), known, atol=1e-10)
