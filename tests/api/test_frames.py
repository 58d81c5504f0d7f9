"""A fit as frames: tidy, augment and glance."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

TEXT = """lgm 1
index obs
index g
index k
data y[obs] : count?
data x[obs] : real
data who[obs] : g
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
latent b ~ normal(sd = 2)
latent u[g] ~ normal(sd = s)
latent w[g, k] ~ normal(sd = 0.2)
data kind[obs] : k
let eta[obs] = b * x + u[who] + w[who, kind]
report rate[obs] = exp(eta)
report total = exp(b)
observe y ~ poisson(log_rate = eta)
"""


def some_data() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    who = np.array([f"m{k}" for k in rng.integers(1, 5, 40)])
    y = rng.poisson(1.5, 40).astype(float)
    y[3] = np.nan
    kind = rng.integers(0, 2, 40)
    return {"x": rng.standard_normal(40), "who": who, "y": y, "kind": kind}


@pytest.fixture(scope="module")
def fit() -> Fit:
    return lgm.fit(lgm.loads(TEXT), some_data(), options={"correction": "off"})


def test_a_row_for_each_number(fit: Fit) -> None:
    frame = fit.tidy(quantiles=(0.025, 0.5))
    assert list(frame.columns) == [*("term", "name", "kind", "g", "k"), "mean", "sd", "q2.5", "q50"]
    assert list(frame["name"].unique()) == ["s", "b", "u", "w", "total"]
    assert list(frame["kind"].unique()) == ["hyper", "latent", "report"]
    assert len(frame) == 1 + 1 + 4 + 8 + 1
    row = frame[frame["term"] == "w[m3, 1]"].iloc[0]
    assert row["g"] == "m3" and row["k"] == 1
    assert row["sd"] == fit.sd("w").sel(g="m3", k=1)
    assert row["q2.5"] == fit.quantile("w", [0.025]).sel(g="m3", k=1)[0]
    s = frame[frame["term"] == "s"].iloc[0]
    assert pd.isna(s["g"]) and s["mean"] == fit.mean("s") and s["q2.5"] < s["q50"] < s["mean"]


def test_names_that_are_wanted(fit: Fit) -> None:
    frame = fit.tidy("rate")
    assert len(frame) == 40 and list(frame["obs"]) == list(range(40)) and "g" not in frame
    assert len(fit.tidy(["u", "b"])) == 5 and len(fit.tidy([])) == 0
    with pytest.raises(lgm.ModelError, match="E103"):
        fit.tidy(["v"])


def test_a_covariance_has_a_column_for_each_axis() -> None:
    text = """lgm 1
index obs
index g
index f = {"a", "b"}
data y[obs] : real
data x[obs] : real
data who[obs] : g
hyper V[f, f] : covariance ~ lkj_cov(eta = 2, u = 3, alpha = 0.05)
latent u[g, f] ~ iid * dense(cov = V)
let eta[obs] = u[who, "a"] + x * u[who, "b"]
observe y ~ normal(mean = eta, sd = 1)
"""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    data = {"x": x, "who": rng.integers(0, 8, 40), "y": rng.standard_normal(40)}
    frame = lgm.fit(lgm.loads(text), data, hyper="map").tidy()
    assert {"f", "f_2"} <= {*frame.columns}
    assert list(frame[frame["name"] == "V"]["term"]) == ["V[a, a]", "V[a, b]", "V[b, a]", "V[b, b]"]


def test_rows_of_the_data(fit: Fit) -> None:
    frame = fit.augment()
    assert len(frame) == 40
    assert list(frame.columns[:5]) == ["obs", "y", "x", "who", "kind"]
    given = some_data()
    assert list(frame["who"]) == list(given["who"])
    np.testing.assert_allclose(frame["eta_sd"], fit.sd("eta"))
    np.testing.assert_allclose(frame["rate_mean"], fit.mean("rate"))
    np.testing.assert_allclose(frame["y_mean"], fit.mean("rate"), rtol=1e-3)
    assert (frame["y_sd"] ** 2 > frame["y_mean"]).all()
    np.testing.assert_allclose(frame["y_residual"], given["y"] - frame["y_mean"])
    np.testing.assert_allclose(frame["y_loo"], fit.loo().pointwise("y"))
    assert np.isnan(frame["y_loo"][3]) and np.isnan(frame["y_residual"][3])
    assert "y_loo" not in fit.augment(loo=False)
    with pytest.raises(lgm.ModelError, match="observes no `z`"):
        fit.augment(response="z")


def test_columns_of_the_data_are_kept_where_they_are_given(fit: Fit, tmp_path: Path) -> None:
    given = pd.DataFrame(some_data()).assign(site="north")
    frame = fit.augment(given)
    assert list(frame["site"]) == ["north"] * 40 and list(frame["who"]) == list(given["who"])
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    with pytest.raises(lgm.DataError, match="augment needs `y`"):
        again.augment()
    pd.testing.assert_frame_equal(again.augment(given), frame, rtol=1e-6)
    with pytest.raises(lgm.DataError, match="E303"):
        again.augment(given.assign(y=1.0))


def test_classes_have_the_probability_of_the_one_observed() -> None:
    text = """lgm 1
index obs
index k
data x[obs] : real
data y[obs] : k?
latent b[k] ~ normal(sd = 1)
let eta[obs, k] = b * x
observe y ~ categorical(softmax = eta)
"""
    rng = np.random.default_rng(0)
    y = np.array(["cat", "dog", "ox"])[rng.integers(0, 3, 30)]
    y[2] = ""
    data = {"x": rng.standard_normal(30), "y": y}
    fit = lgm.fit(lgm.loads(text), data)
    frame = fit.augment()
    table = fit.predict({"x": data["x"]}).response("y")["probability"]
    for k in (0, 1, 7):
        assert frame["y_probability"][k] == pytest.approx(float(table[k].sel(k=y[k])))
    assert np.isnan(frame["y_probability"][2]) and "y_residual" not in frame


def test_a_fit_in_one_row(fit: Fit, tmp_path: Path) -> None:
    row = fit.glance().iloc[0]
    assert row["observations"] == 39 and row["latents"] == 13
    assert row["log_evidence"] == fit.log_evidence and row["status"] == "converged"
    assert row["elpd_loo"] == fit.loo().elpd and row["dic"] == fit.dic().dic
    assert row["points"] == len(fit.points) and row["fits"] == fit.learning.fits > row["points"]
    assert row["accuracy_sd"] == fit.accuracy.sd
    assert "dic" not in fit.glance(criteria=False)
    fit.save(tmp_path / "f.nc")
    again = lgm.load_fit(tmp_path / "f.nc")
    assert np.isnan(again.glance()["dic"][0])
    assert again.glance(some_data())["dic"][0] == pytest.approx(row["dic"])


def test_frames_of_polars(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, frame in (
        ("tidy", fit.tidy(backend="polars")),
        ("augment", fit.augment(backend="polars")),
        ("glance", fit.glance(backend="polars")),
    ):
        assert type(frame).__module__.startswith("polars"), name
        assert len(frame) == len(getattr(fit, name)())
        assert "Object" not in {str(t) for t in frame.dtypes}
    monkeypatch.setitem(sys.modules, "polars", None)
    for method in (fit.tidy, fit.augment, fit.glance):
        with pytest.raises(lgm.MethodError, match=r"lgmdsl\[frames\]"):
            method(backend="polars")


NAMESAKES = """lgm 1
index obs
index {index}
data y[obs] : positive
data {map}[obs] : {index}
data x[obs] : real
latent u[{index}] ~ normal(sd = 1)
latent b ~ normal(sd = 1)
let eta[obs] = u[{map}] + b * x
observe y ~ weibull(log_scale = eta, shape = 2)
"""


def namesake(index: str, map: str = "who") -> tuple[Fit, dict[str, Any]]:
    rng = np.random.default_rng(2)
    data = {"y": 0.1 + rng.weibull(2.0, 30), map: np.array(list("abc") * 10), "x": np.arange(30.0)}
    model = lgm.loads(NAMESAKES.format(index=index, map=map))
    return lgm.fit(model, data, "laplace"), data


@pytest.mark.parametrize("index", ["term", "name", "kind", "mean", "sd", "q5"])
def test_an_index_of_the_name_of_a_column_has_a_column_of_its_own(index: str) -> None:
    fit = namesake(index)[0]
    frame = fit.tidy()
    usual = ["term", "name", "kind", f"{index}_2", "mean", "sd", "q5", "q50", "q95"]
    assert list(frame.columns) == usual
    assert frame["term"].tolist() == ["u[a]", "u[b]", "u[c]", "b"]
    assert frame[f"{index}_2"].tolist()[:3] == ["a", "b", "c"]
    np.testing.assert_array_equal(frame["mean"][:3], fit.mean("u").values)


def test_columns_of_the_data_stay_beside_those_that_a_table_adds() -> None:
    fit, data = namesake("g", map="estimate")
    new = pd.DataFrame({**data, "y_mean": np.arange(30), "time": "noon"})
    predicted = fit.predict(new).frame()
    assert predicted["y_mean_2"].tolist() == list(range(30))
    np.testing.assert_array_equal(predicted["y_mean"], fit.predict(new).response("y")["mean"])
    augmented = fit.augment(new, loo=False)
    assert augmented["y_mean_2"].tolist() == list(range(30))
    np.testing.assert_array_equal(augmented["y_mean"], predicted["y_mean"])
    curves = fit.survival([1.0, 2.0], new)
    assert curves["time"].tolist() == 30 * [1.0, 2.0] and set(curves["time_2"]) == {"noon"}
    effects = fit.effects("x", by="estimate", scale="link")
    assert effects["estimate_2"].tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(effects["estimate"], float(fit.mean("b")))


@pytest.mark.parametrize("index", ["draw", "chain"])
def test_arviz_has_its_own_axes(index: str) -> None:
    group = namesake(index)[0].to_arviz(size=7)["posterior"]
    assert dict(group["u"].sizes) == {"chain": 1, "draw": 7, f"{index}_2": 3}
