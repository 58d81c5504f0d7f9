"""Predictions as tables: quantiles of the response, one row for each row of the new data."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.api.predict import predict as module
from lgmdsl.api.predict.pieces import pieces
from lgmdsl.api.solve import recondition
from lgmdsl.dataset import read

HEAD = "lgm 1\nindex obs\ndata x[obs] : real\n"
REST = "latent a ~ normal(sd = 2)\nlatent b ~ normal(sd = 2)\nlet eta[obs] = a + b * x\n"
FAMILIES = {
    "normal": ("real", "hyper s : positive ~ pc_sd(u = 2, alpha = 0.05)\n", "mean = eta, sd = s"),
    "student_t": ("real", "", "mean = eta, scale = 0.7, df = 3"),
    "laplace": ("real", "", "mean = eta, scale = 0.7"),
    "lognormal": ("positive", "", "mean = eta, sd = 0.5"),
    "gamma": (
        "positive",
        "hyper k : positive ~ gamma(shape = 2, rate = 1)\n",
        "log_mean = eta, shape = k",
    ),
    "exponential": ("positive", "", "log_rate = eta"),
    "weibull": ("positive", "", "log_scale = eta, shape = 1.5"),
    "beta": ("unit", "", "logit_mean = eta, concentration = 6"),
    "poisson": ("count", "", "log_rate = eta"),
    "negbinomial": (
        "count",
        "hyper k : positive ~ gamma(shape = 2, rate = 1)\n",
        "log_mean = eta, size = k",
    ),
    "binomial": ("count", "", "logit = eta, n = 7"),
}
LEVELS = (0.02, 0.05, 0.5, 0.95, 0.98)


def some_data(kind: str, n: int = 25) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal(n)
    y = {
        "real": 0.5 * x + rng.standard_normal(n),
        "positive": np.exp(0.5 * x) * rng.gamma(2.0, 0.5, n),
        "unit": rng.uniform(0.05, 0.95, n),
        "count": rng.poisson(np.exp(0.5 * x)).clip(0, 6),
    }[kind]
    return {"x": x, "y": y}


@pytest.mark.few(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_quantiles_are_those_of_drawn_responses(family: str) -> None:
    kind, hyper, arguments = FAMILIES[family]
    text = f"{HEAD}data y[obs] : {kind}\n{hyper}{REST}observe y ~ {family}({arguments})\n"
    fit = lgm.fit(lgm.loads(text), some_data(kind), options={"correction": "off"})
    new = fit.predict({"x": [-2.0, 0.0, 3.0]})
    quantile = new.response_quantile("y", LEVELS).values
    size = 100_000
    drawn = new.sample_response("y", size, seed=5).values
    for level, row in zip(LEVELS, quantile, strict=True):
        # Draws of hyperparameters are at nodes of their posterior where moments are at points.
        error = 5.0 * np.sqrt(level * (1.0 - level) / size) + (0.004 if hyper else 0.0)
        assert ((drawn <= row).mean(axis=0) > level - error).all(), level
        assert ((drawn < row).mean(axis=0) < level + error).all(), level


@pytest.mark.parametrize("sd", [0.01, 0.3, 1.5])
@pytest.mark.parametrize("offset", [0.0, 6.0, 12.0])
def test_quantiles_of_counts_are_those_of_the_integral(sd: float, offset: float) -> None:
    """Against the sum over 20,001 nodes, also where the predictor is known far worse than y."""
    text = f"""{HEAD}data y[obs] : count?
latent a ~ normal(mean = {offset}, sd = {sd})
let eta[obs] = a + 0 * x
observe y ~ poisson(log_rate = eta)
"""
    fit = lgm.fit(lgm.loads(text), {"x": [0.0], "y": [np.nan]}, method="laplace")
    got = fit.predict({"x": [0.0]}).response_quantile("y", LEVELS).values[:, 0]
    z = np.linspace(-7.0, 7.0, 20_001)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    rate = np.exp(offset + sd * z)
    for level, value in zip(LEVELS, got, strict=True):
        # Nodes are 0.03 sd apart at least, more than where P(Y <= y | s) rises of the largest.
        slack = 1e-6 if offset + sd < 7.0 else 1e-3
        assert (weight * stats.poisson.cdf(value, rate)).sum() >= level - slack
        assert (weight * stats.poisson.cdf(value - 1, rate)).sum() <= level + slack
        assert value == np.round(value)


def test_quantiles_of_gaussian_responses_are_closed() -> None:
    text = f"{HEAD}data y[obs] : real\n{REST}observe y ~ normal(mean = eta, sd = 0.7)\n"
    fit = lgm.fit(lgm.loads(text), some_data("real"), method="laplace")
    new = fit.predict({"x": [-2.0, 3.0]})
    mean, sd = new.mean("eta").values, np.hypot(new.sd("eta").values, 0.7)
    wanted = np.array([stats.norm.ppf(level, mean, sd) for level in LEVELS])
    np.testing.assert_allclose(new.response_quantile("y", LEVELS).values, wanted, rtol=1e-9)


GROUPS = """lgm 1
index obs
index g
data y[obs] : count
data x[obs] : real
data who[obs] : g
latent b ~ normal(sd = 2)
latent u[g] ~ normal(sd = 0.5)
let eta[obs] = b * x + u[who]
report rate[obs] = exp(eta)
observe y ~ poisson(log_rate = eta)
"""


@pytest.fixture(scope="module")
def grouped() -> Fit:
    rng = np.random.default_rng(1)
    who = np.array([f"m{k}" for k in rng.integers(1, 6, 60)])
    data = {"x": rng.standard_normal(60), "who": who, "y": rng.poisson(1.5, 60)}
    return lgm.fit(lgm.loads(GROUPS), data, method="laplace", options={"correction": "off"})


@pytest.fixture
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgm.PredictionWarning)
        yield


def new_rows(n: int = 5) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    who = [f"m{k}" for k in rng.integers(1, 8, n)]
    return pd.DataFrame(
        {"x": rng.standard_normal(n), "who": who, "site": ["a"] * n, "id": range(7, 7 + n)}
    )


def test_one_row_each_with_the_columns_of_the_data(grouped: Fit, quiet: None) -> None:
    new = new_rows()
    prediction = grouped.predict(new)
    frame = prediction.frame(quantiles=(0.025, 0.5))
    assert list(frame.columns) == [
        *("obs", "x", "who", "site", "id", "who_status"),
        *("eta_mean", "eta_sd", "eta_q2.5", "eta_q50"),
        *("rate_mean", "rate_sd", "rate_q2.5", "rate_q50"),
        *("y_mean", "y_sd", "y_q2.5", "y_q50"),
    ]
    assert len(frame) == 5 and list(frame["id"]) == list(new["id"])
    known = [w in {"m1", "m2", "m3", "m4", "m5"} for w in new["who"]]
    assert list(frame["who_status"]) == ["fitted" if k else "new" for k in known]
    assert not all(known) and any(known)
    np.testing.assert_allclose(frame["eta_sd"], prediction.sd("eta"))
    np.testing.assert_allclose(frame["eta_q2.5"], prediction.quantile("eta", [0.025])[0])
    np.testing.assert_allclose(frame["y_mean"], prediction.response("y")["mean"])
    np.testing.assert_allclose(frame["y_q50"], prediction.response_quantile("y", [0.5])[0])


@pytest.mark.parametrize("none", [(), None, [], np.zeros(0)])
def test_quantiles_are_left_out_where_none_are_asked_for(
    grouped: Fit, quiet: None, monkeypatch: pytest.MonkeyPatch, none: Any
) -> None:
    """Of predictions, fits and effects; nothing is computed for them."""
    prediction = grouped.predict(new_rows())
    whole, tidied = prediction.frame(), grouped.tidy()
    effects = grouped.effects("x", n=200)
    survive = [c for c in whole.columns if not c.endswith(("_q5", "_q50", "_q95"))]

    def asked(*_: Any) -> None:
        raise AssertionError("no quantiles are asked for")

    monkeypatch.setattr(type(prediction.marginals), "quantile", asked)
    monkeypatch.setattr("lgmdsl.api.predict.predict.response_quantile", asked)
    short = prediction.frame(quantiles=none)
    assert list(short.columns) == survive and len(survive) < len(whole.columns)
    pd.testing.assert_frame_equal(short, whole[survive])
    pd.testing.assert_frame_equal(grouped.tidy(quantiles=none), tidied[[*tidied.columns][:-3]])
    few = grouped.effects("x", n=200, quantiles=none)
    pd.testing.assert_frame_equal(few, effects[[*effects.columns][:-3]])
    held = prediction.to_dataset(quantiles=none)
    assert "y_mean" in held and "y_quantile" not in held


def test_the_same_in_polars(grouped: Fit, quiet: None) -> None:
    prediction = grouped.predict(new_rows())
    frame: Any = prediction.frame(backend="polars")
    assert type(frame).__module__.startswith("polars")
    pd.testing.assert_frame_equal(
        pd.DataFrame(frame.to_dict(as_series=False)), prediction.frame(), check_dtype=False
    )


def test_another_frame_is_refused_before_the_work(
    grouped: Fit, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    prediction = grouped.predict(new_rows())
    with pytest.raises(lgm.MethodError, match="E104"):
        prediction.frame(backend="spark")  # type: ignore[arg-type]
    monkeypatch.setitem(__import__("sys").modules, "polars", None)
    with pytest.raises(lgm.MethodError, match=r"E501.*\n.*lgmdsl\[frames\]"):
        prediction.frame(backend="polars")
    with pytest.raises(lgm.ModelError, match="E108"):
        prediction.frame(quantiles=(5, 95))


def test_a_long_table_is_that_of_its_pieces(
    grouped: Fit, monkeypatch: pytest.MonkeyPatch, quiet: None
) -> None:
    new = new_rows(57)
    whole = grouped.predict(new).frame()
    monkeypatch.setattr(module, "ROWS", 20)
    monkeypatch.setattr(pieces, "__defaults__", (10,))
    prediction = grouped.predict(new)
    parts = list(prediction.pieces())
    assert [len(p.mean("eta")) for p in parts] == [10, 10, 10, 10, 10, 7]
    divided = prediction.frame()
    pd.testing.assert_frame_equal(divided, whole, rtol=1e-9)


def test_pieces_of_arrays_with_two_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """lgm 1
index obs
index f
data X[obs, f] : real
data y[obs] : binary
latent w[f] ~ normal(sd = 1)
observe y ~ bernoulli(logit = X @ w)
report p[obs] = invlogit(X @ w)
"""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    fit = lgm.fit(lgm.loads(text), {"X": X, "y": rng.integers(0, 2, 40)}, method="laplace")
    new = {"X": X[:33], "name": np.arange(3)}
    whole = fit.predict(new).frame()
    assert "name" not in whole and "y_q5" not in whole
    np.testing.assert_allclose(whole["y_mean"], whole["p_mean"], rtol=1e-6)
    monkeypatch.setattr(module, "ROWS", 20)
    monkeypatch.setattr(pieces, "__defaults__", (10,))
    divided = fit.predict(new).frame()
    pd.testing.assert_frame_equal(divided, whole, rtol=1e-9)


def test_classes_have_a_column_each() -> None:
    text = """lgm 1
index obs
index k
data x[obs] : real
data y[obs] : k
latent b[k] ~ normal(sd = 1)
let eta[obs, k] = b * x
observe y ~ categorical(softmax = eta)
"""
    rng = np.random.default_rng(0)
    data = {
        "x": rng.standard_normal(30),
        "y": np.array(["cat", "dog", "ox"])[rng.integers(0, 3, 30)],
    }
    fit = lgm.fit(lgm.loads(text), data)
    frame = fit.predict({"x": [0.0, 1.0]}).frame()
    assert len(frame) == 2
    shares = frame[["y_probability_cat", "y_probability_dog", "y_probability_ox"]]
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-4)
    assert "eta_mean_dog" in frame and "y_q5" not in frame


def test_columns_of_a_file_come_back(grouped: Fit, tmp_path: Path, quiet: None) -> None:
    path = tmp_path / "new.csv"
    path.write_text("who,x,note\nm1,0.5,first\nm2,1.25,\n")
    frame = grouped.predict(path).frame()
    assert list(frame["who"]) == ["m1", "m2"] and list(frame["x"]) == [0.5, 1.25]
    assert frame["note"][0] == "first" and pd.isna(frame["note"][1])


def test_a_source_whose_axes_are_unknown_stays_whole(grouped: Fit) -> None:
    dataset = read({"x": np.zeros(4), "who": np.array(["m1"] * 3)})
    assert pieces(module.predicted, grouped, dataset, "obs", 4) is None


@pytest.mark.thorough
def test_points_are_conditioned_once_for_all_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an integrated fit that comes from a file, whose Gaussians are not at hand."""
    rng = np.random.default_rng(1)
    who = np.array([f"m{k}" for k in rng.integers(1, 6, 60)])
    data = {"x": rng.standard_normal(60), "who": who, "y": rng.poisson(1.5, 60)}
    text = GROUPS.replace("sd = 0.5", "sd = s").replace(
        "latent b", "hyper s : positive ~ exponential(rate = 1)\nlatent b"
    )
    fit = lgm.fit(lgm.loads(text), data, method="laplace", options={"correction": "off"})
    assert len(fit.points) > 2
    stored = pickle.loads(pickle.dumps(fit))
    calls: list[int] = []
    plain = recondition.recondition

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return plain(*arguments)

    monkeypatch.setattr(recondition, "recondition", counted)
    new = read({"x": rng.standard_normal(40), "who": np.array(["m1"] * 40)})
    parts = pieces(module.predicted, stored, new, "obs", 40, rows=10)
    assert parts is not None
    frames = [part.frame(quantiles=()) for part in parts]
    assert len(frames) == 4 and len(calls) == len(stored.points)
    whole = stored.predict(new).frame(quantiles=())
    np.testing.assert_allclose(pd.concat(frames)["y_mean"], whole["y_mean"], rtol=1e-12)
