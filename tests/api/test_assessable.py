"""fit.dic, waic, loo, pit, sample_predictive, to_arviz: labels, files, pages, refusals, data."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit

TEXT = """lgm 1
index day
index site
index team
data x[day] : real
data of[site] : team
data y[site, day] : {kind}?
hyper s : positive = 0.6
latent a ~ normal(sd = 2)
latent b ~ normal(sd = 1)
latent u[site] ~ normal(sd = s)
let eta[site, day] = a + b * x + u
observe y ~ {family}
report rate[site] = exp(a + u)
"""
POISSON = TEXT.format(kind="count", family="poisson(log_rate = eta)")
NORMAL = TEXT.format(kind="real", family="normal(mean = eta, sd = 0.7)")


def data(seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=5)
    eta = 0.8 + 0.4 * x + 0.6 * rng.normal(size=(4, 1))
    y = rng.poisson(np.exp(eta)).astype(float)
    y[1, 2] = y[3, 0] = np.nan
    return {
        "x": x, "y": y, "site": np.array(list("pqrs")), "day": np.arange(10, 15),
        "of": np.array(["red", "blue", "red", "blue"]),
    }  # fmt: skip


def fitted(text: str = POISSON, **settings: Any) -> Fit:
    return lgm.fit(lgm.loads(text), data(), **settings)


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fitted(method="ep")


def test_pointwise_results_carry_the_data_s_labels(fit: Fit) -> None:
    waic, loo, pit = fit.waic(), fit.loo(), fit.pit()
    for found in (
        fit.dic().pointwise(),
        waic.pointwise("y"),
        waic.effective(),
        loo.pointwise("y"),
        loo.pointwise_error(),
        pit.pointwise(),
        pit.lower("y"),
        pit.upper(),
    ):
        assert found.dims == ("site", "day") and found.name == "y"
        assert list(found["site"].values) == list("pqrs")
        np.testing.assert_array_equal(np.isnan(found), np.isnan(data()["y"]))
    assert loo.flags().dtype.kind == "U" and loo.flags().sel(site="q", day=12) == ""
    assert loo.elpd == pytest.approx(float(loo.pointwise().sum()))
    assert waic.waic == pytest.approx(-2 * waic.elpd) and loo.looic == pytest.approx(-2 * loo.elpd)
    low, high, middle = pit.lower(), pit.upper(), pit.pointwise()
    assert float((high - low).min()) > 0.0
    xr.testing.assert_allclose(middle, 0.5 * (low + high))
    assert float(pit.histogram(8).mean()) == pytest.approx(1.0)
    with pytest.raises(lgm.ModelError, match="did you mean `y`"):
        waic.pointwise("yy")


def test_criteria_agree_where_they_estimate_the_same(fit: Fit) -> None:
    dic, waic, loo = fit.dic(), fit.waic(), fit.loo()
    assert waic.elpd == pytest.approx(loo.elpd, abs=0.5)
    assert dic.dic == pytest.approx(loo.looic, abs=2.0)
    assert 1.0 < waic.p_waic < 6.0 and 1.0 < dic.p_d < 6.0


def test_groups_are_named_in_several_ways(fit: Fit) -> None:
    d = data()
    by_index = fit.loo(groups="site")
    assert by_index.pointwise().dims == ("site",)
    given = np.repeat(d["site"][:, None], 5, axis=1)
    seen = np.isfinite(d["y"])
    for same in (given, given[seen], {"y": given}):
        np.testing.assert_array_equal(fit.loo(groups=same).pointwise(), by_index.pointwise())
    team = fit.loo(groups="of")
    np.testing.assert_array_equal(team.pointwise(), fit.loo(groups="team").pointwise())
    red = fit.loo(groups=np.where(given == "p", "red", np.where(given == "r", "red", "blue")))
    for name in ("red", "blue"):
        assert float(team.pointwise().sel(team=name)) == float(red.pointwise().sel(group=name))
    assert by_index.error > 0.0 and fit.loo(groups="day").pointwise()["day"].values[0] == 10
    xr.testing.assert_identical(fit.loo(groups="site").pointwise(), by_index.pointwise())
    one_by_one = fit.loo(groups=np.arange(20).reshape(4, 5)).pointwise().values
    np.testing.assert_allclose(one_by_one, fit.loo().pointwise().values[seen], atol=2e-3)
    for wrong, error, words in (
        ("sight", lgm.ModelError, "did you mean `site`"),
        (np.zeros(3), lgm.DataError, "wanted shape"),
        ({"z": given}, lgm.ModelError, "no datum `z`"),
    ):
        with pytest.raises(error, match=words):
            fit.loo(groups=wrong)


def test_pages_fit_in_eighty_columns(fit: Fit) -> None:
    assert "DIC of 18 responses" in str(fit.dic()) and "WAIC" in str(fit.waic())
    pages = [fit.dic(), fit.waic(), fit.loo(), fit.loo(groups="site", exact="all"), fit.pit()]
    for page in map(str, pages):
        assert max(map(len, page.splitlines())) <= 80


def test_a_fit_from_a_file_needs_its_data(tmp_path: Path, fit: Fit) -> None:
    fit.save(tmp_path / "m.nc")
    again = lgm.load_fit(tmp_path / "m.nc")
    for call in ("dic", "waic", "loo", "pit"):
        with pytest.raises(lgm.DataError, match="which result files do not hold") as caught:
            getattr(again, call)()
        assert caught.value.codes == ("E305",) and f"fit.{call}(data=...)" in str(caught.value)
        np.testing.assert_allclose(
            getattr(again, call)(data=data()).pointwise(),
            getattr(fit, call)().pointwise(),
            rtol=1e-8,
        )
    with pytest.raises(lgm.DataError, match="not those of the fit"):
        again.waic(data=data(1))
    exact = again.loo(exact="all", data=data()).pointwise()
    np.testing.assert_allclose(exact, fit.loo(exact="all").pointwise(), atol=1e-6)


def test_models_that_observe_nothing_are_refused() -> None:
    text = "lgm 1\nindex i = 3\nlatent b[i] ~ normal(sd = 1)\npotential b ~ laplace(scale = 1)\n"
    fit = lgm.fit(lgm.loads(text), {}, method="ep")
    with pytest.raises(lgm.MethodError, match="potentials alone"):
        fit.waic()


def test_modes_alone_are_refused() -> None:
    with pytest.raises(lgm.MethodError, match="finds its mode alone"):
        fitted(method="map").loo()
    assert np.isfinite(fitted(NORMAL, method="map").loo().elpd)  # there it is the posterior


def test_settings_are_checked(fit: Fit) -> None:
    for wrong in ({"exact": "some"}, {"n": 3}, {"seed": -1}):
        with pytest.raises(lgm.MethodError):
            fit.loo(**wrong)
    for size, seed in ((-1, 0), (3, 1.5)):
        with pytest.raises(lgm.ModelError, match="whole"):
            fit.sample_predictive(size, seed)  # type: ignore[arg-type]


# ---- replicated responses --------------------------------------------------------------------


@pytest.mark.parametrize("text", [POISSON, NORMAL])
def test_replicated_responses_have_the_predictive_moments(text: str) -> None:
    fit, d = fitted(text, method="ep"), data()
    drawn = fit.sample_predictive(20_000, seed=3)["y"]
    assert drawn.dims == ("sample", "site", "day")
    np.testing.assert_array_equal(drawn.isnull().all("sample"), np.isnan(d["y"]))
    new = {k: v for k, v in d.items() if k != "y"}
    predicted = fit.predict(new).response("y")
    error = predicted["sd"] / np.sqrt(20_000)
    assert float(np.abs((drawn.mean("sample") - predicted["mean"]) / error).max()) < 5.0
    assert float(np.abs(drawn.std("sample") / predicted["sd"] - 1.0).max()) < 0.1
    xr.testing.assert_identical(drawn, fit.sample_predictive(20_000, seed=3)["y"])
    assert not drawn.equals(fit.sample_predictive(20_000, seed=4)["y"])
    at_new = fit.predict(new).sample_response("y", 20_000, seed=1)
    assert at_new.dims == ("sample", "site", "day") and not at_new.isnull().any()
    assert at_new.dtype.kind == ("i" if text is POISSON else "f")
    assert float(np.abs((at_new.mean("sample") - predicted["mean"]) / error).max()) < 5.0
    with pytest.raises(lgm.ModelError, match="observes no `z`"):
        fit.predict(new).sample_response("z", 3)


def test_impossible_draws_are_refused() -> None:
    text = "lgm 1\nindex i\ndata y[i] : count\nlatent b ~ normal(sd = 100)\n"
    text += "observe y ~ poisson(log_rate = b)\n"
    fit = lgm.fit(lgm.loads(text), {"y": np.array([0])}, method="laplace")
    with pytest.raises(lgm.NumericalError, match="cannot be drawn"):
        fit.predict({}).sample_response("y", 2000)


# ---- ArviZ -----------------------------------------------------------------------------------


def test_a_tree_for_arviz_holds_joint_draws(fit: Fit) -> None:
    tree = fit.to_arviz(size=200, seed=1)
    assert set(tree.children) == {
        "posterior",
        "posterior_predictive",
        "log_likelihood",
        "observed_data",
        "constant_data",
    }
    posterior = tree["posterior"].to_dataset()
    assert set(posterior.data_vars) == {"a", "b", "u", "eta", "rate", "s"}
    assert posterior["u"].dims == ("chain", "draw", "site")
    assert posterior["u"].shape == (1, 200, 4) and float(posterior["s"].std()) < 1e-12
    np.testing.assert_allclose(posterior["rate"], np.exp(posterior["a"] + posterior["u"]))
    seen = ~np.isnan(data()["y"])
    eta, y = posterior["eta"].values[0][:, seen], data()["y"][seen]
    found = tree["log_likelihood"].to_dataset()["y"].values[0][:, seen]
    from scipy import stats

    np.testing.assert_allclose(found, stats.poisson(np.exp(eta)).logpmf(y), rtol=1e-9)
    assert tree["observed_data"]["y"].dims == ("site", "day")
    assert list(tree["constant_data"].to_dataset()["of"].values) == ["red", "blue", "red", "blue"]
    assert tree["posterior_predictive"]["y"].shape == (1, 200, 4, 5)
    xr.testing.assert_identical(
        tree["posterior"].to_dataset().drop_attrs(),
        fit.to_arviz(size=200, seed=1)["posterior"].to_dataset().drop_attrs(),
    )
    assert fitted(method="ep").to_arviz().posterior.sizes["draw"] == 1000


@pytest.mark.skipif(find_spec("xarray_einstats") is None, reason="needs arviz-stats[xarray]")
def test_arviz_computes_the_same_loo() -> None:
    from arviz_stats.loo import loo

    untyped: Any = loo

    text = "lgm 1\nindex i\ndata y[i] : real\nlatent a ~ normal(sd = 2)\n"
    text += "observe y ~ normal(mean = a, sd = 0.8)\n"
    y = np.random.default_rng(0).normal(size=30)
    fit = lgm.fit(lgm.loads(text), {"y": y})
    found = untyped(fit.to_arviz(size=4000, seed=0), pointwise=True)
    ours = fit.loo()
    assert found.elpd == pytest.approx(ours.elpd, abs=0.05)
    assert found.se == pytest.approx(ours.se, rel=0.02)
    assert found.p == pytest.approx(ours.p_loo, abs=0.05)


TWO = """lgm 1
index subject
index visit
data first[subject, visit] : real?
data second[subject] : real?
latent a ~ normal(sd = 2)
latent u[subject] ~ normal(sd = 0.8)
observe first ~ normal(mean = a + u, sd = 0.5)
observe second ~ normal(mean = 2 * u, sd = 0.3)
"""


def test_several_data_are_left_out_together() -> None:
    """Evidence of all responses less that of the others, which is exact where all is Gaussian."""
    rng = np.random.default_rng(0)
    given = {"first": rng.normal(size=(3, 2)), "second": rng.normal(size=3)}
    given["first"][0, 1] = np.nan
    model = lgm.loads(TWO)
    fit = lgm.fit(model, given)
    with pytest.raises(lgm.ModelError, match="which one"):
        fit.loo().pointwise()
    found, again = fit.loo(groups="subject"), fit.loo(groups="subject", exact="all")
    for k in range(3):
        rest = {name: values.copy() for name, values in given.items()}
        rest["first"][k], rest["second"][k] = np.nan, np.nan
        wanted = fit.log_evidence - lgm.fit(model, rest).log_evidence
        assert float(found.pointwise()[k]) == pytest.approx(wanted, abs=1e-8)
        assert float(again.pointwise()[k]) == pytest.approx(wanted, abs=1e-8)
    rest = {**given, "second": np.array([np.nan, *given["second"][1:]])}
    wanted = fit.log_evidence - lgm.fit(model, rest).log_evidence
    assert float(fit.loo().pointwise("second")[0]) == pytest.approx(wanted, abs=1e-8)
    assert set(fit.sample_predictive(3)) == {"first", "second"}
    visits = fit.loo(groups="visit")  # `second` has none, and stays
    rest = {**given, "first": given["first"] * np.array([np.nan, 1.0])}
    wanted = fit.log_evidence - lgm.fit(model, rest).log_evidence
    assert float(visits.pointwise()[0]) == pytest.approx(wanted, abs=1e-8)
