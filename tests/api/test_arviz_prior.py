"""Prior draws for ArviZ, and ArviZ's own functions on what is handed over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

TEXT = """lgm 1
index obs
index who
data y[obs] : real
data x[obs] : real
data by[obs] : who
hyper s : positive ~ half_normal(sd = 2)
hyper noise : positive ~ half_normal(sd = 1)
latent a ~ normal(mean = 1, sd = 2)
latent u[who] ~ normal(sd = s)
let eta[obs] = a + 3 * x + u[by]
report twice[obs] = 2 * eta
observe y ~ normal(mean = eta, sd = noise)
"""


def data(size: int = 12) -> dict[str, Any]:
    rng = np.random.default_rng(9)
    x, by = rng.normal(size=size), np.arange(size) % 3
    return {"x": x, "by": by, "y": 1.0 + 3.0 * x + np.array([-1, 0, 1])[by] + rng.normal(size=size)}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return lgm.fit(lgm.loads(TEXT), data())


@pytest.mark.thorough
def test_prior_draws_have_the_moments_of_the_prior(fit: Fit) -> None:
    tree = fit.to_arviz(50, prior=1000)
    prior, drawn = tree["prior"].dataset, tree["prior_predictive"].dataset
    assert set(prior) == set(tree["posterior"].dataset)
    assert prior["u"].dims == ("chain", "draw", "who") and drawn["y"].shape == (1, 1000, 12)
    se = 1000**-0.5
    assert float(prior["a"].mean()) == pytest.approx(1.0, abs=5 * 2 * se)
    assert float(prior["a"].std()) == pytest.approx(2.0, rel=0.15)
    assert float(prior["s"].mean()) == pytest.approx(2.0 * np.sqrt(2 / np.pi), rel=0.15)
    # u ~ N(0, s^2): sd sqrt(E s^2) = 2, and |u| goes with its own draw of s
    assert float(prior["u"].std()) == pytest.approx(2.0, rel=0.15)
    scaled = prior["u"] / prior["s"]
    assert float(scaled.std()) == pytest.approx(1.0, rel=0.1)
    np.testing.assert_allclose(prior["twice"], 2.0 * prior["eta"])
    np.testing.assert_allclose(
        prior["eta"].values[0, :, 0],
        (prior["a"] + 3.0 * data()["x"][0] + prior["u"].isel(who=0)).values[0],
    )
    gap = (drawn["y"].values - prior["eta"].values) / prior["noise"].values[..., None]
    assert gap.std() == pytest.approx(1.0, rel=0.02)
    again = fit.to_arviz(20, prior=20)["prior"].dataset
    assert again.equals(fit.to_arviz(20, prior=20)["prior"].dataset)
    assert "prior" not in fit.to_arviz(50).children


def test_pinned_hyperparameters_stay_pinned() -> None:
    fit = lgm.fit(lgm.loads(TEXT), data(), fixed={"s": 0.5, "noise": 0.1}, hyper="fixed")
    prior = fit.to_arviz(10, prior=3000)["prior"].dataset
    assert float(prior["u"].std()) == pytest.approx(0.5, rel=0.1)
    assert (prior["s"] == 0.5).all()


def test_priors_that_cannot_be_drawn_from() -> None:
    flat = TEXT.replace("latent a ~ normal(mean = 1, sd = 2)", "latent a ~ flat")
    fit = lgm.fit(lgm.loads(flat), data())
    assert "posterior" in fit.to_arviz(10).children
    with pytest.raises(lgm.ModelError, match="E402"):
        fit.to_arviz(10, prior=10)


def test_intrinsic_priors_are_drawn_without_their_line() -> None:
    text = TEXT.replace("latent a ~", "latent f[obs] ~ rw2(sd = 0.1)\nlatent a ~")
    fit = lgm.fit(lgm.loads(text.replace("3 * x", "3 * x + f")), data(), hyper="map")
    with pytest.warns(lgm.SimulationWarning, match="W402"):
        f = fit.to_arviz(10, prior=20)["prior"].dataset["f"].values
    assert np.abs(f @ (np.arange(f.shape[-1]) - 0.5 * (f.shape[-1] - 1))).max() < 1e-6


def test_counts_are_whole_and_classes_too() -> None:
    counts = TEXT.replace("data y[obs] : real", "data y[obs] : count").replace(
        "normal(mean = eta, sd = noise)", "poisson(log_rate = eta - 3 * x)"
    )
    counts = counts.replace("hyper noise : positive ~ half_normal(sd = 1)\n", "")
    fit = lgm.fit(lgm.loads(counts), data() | {"y": np.arange(12) % 4}, fixed={"s": 0.5})
    drawn = fit.to_arviz(10, prior=200)["prior_predictive"].dataset["y"]
    assert drawn.dtype == np.int64 and (drawn >= 0).all()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # those of ArviZ
def test_functions_of_arviz_take_it() -> None:
    az = pytest.importorskip("arviz_stats")
    table = data(40)
    fit = lgm.fit(lgm.loads(TEXT), table, hyper="map")
    wide = lgm.fit(lgm.loads(TEXT.replace("3 * x", "0 * x")), table, hyper="map")
    trees = {"line": fit.to_arviz(2000, prior=10), "level": wide.to_arviz(2000, prior=10)}
    found = az.compare(trees)
    mine = lgm.compare_models({"line": fit, "level": wide})
    assert list(found.index) == [r.name for r in mine] == ["line", "level"]
    for name in trees:
        assert float(found.loc[name, "elpd"]) == pytest.approx(mine[name].elpd, abs=1.0)
