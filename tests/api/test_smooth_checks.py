"""fit.smooths(check=..., concurvity=...): dense algebra, missing rows, maps, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.assess.basis_check import basis_check
from lgmdsl.assess.concurvity import concurvities
from lgmdsl.structures.splines import smooth
from tests.api.test_splines import DATA, PLACES, TEXT, T

CHECKED = ["k", "k_index", "k_p_value"]
RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT), DATA, hyper="map")


def index_of(residuals: np.ndarray, at: np.ndarray) -> float:
    steps = np.diff(residuals[np.argsort(at, kind="stable")])
    return float(0.5 * (steps**2).mean() / (residuals**2).mean())


def test_the_index_is_of_residuals_along_the_curve(fit: lgm.Fit) -> None:
    table = fit.smooths(check=True)
    left = DATA["y"] - float(fit.mean("a")) - fit.mean("f").values
    assert [*table.columns] == ["name", "labels", "edf", "sd", *CHECKED]
    np.testing.assert_allclose(table["k_index"], index_of(left.to_numpy(), T), rtol=1e-9)
    assert table["k"][0] == 7
    again = fit.smooths(check=True, seed=1)
    np.testing.assert_allclose(again["k_index"], table["k_index"], rtol=1e-12)
    np.testing.assert_allclose(again["k_p_value"], table["k_p_value"], atol=0.07)


def test_too_few_coefficients_are_found_and_enough_are_not() -> None:
    t = np.linspace(0.0, 1.0, 200)
    data = {"t": t, "y": np.sin(25.0 * t) + 0.3 * RNG.normal(size=200)}
    found = {}
    for size in (5, 25):
        text = TEXT.replace("size = 8", f"size = {size}")
        found[size] = lgm.fit(lgm.loads(text), data, hyper="map").smooths(check=True).iloc[0]
    assert found[5]["k_index"] < 0.5 and found[5]["k_p_value"] == 0.0
    assert found[25]["k_index"] > 0.85 and found[25]["k_p_value"] > 0.05


def test_permutations_have_the_p_value_of_no_pattern() -> None:
    """Uniform where there is nothing to find."""
    at = RNG.uniform(size=(40, 1))
    values = [basis_check(at, RNG.normal(size=40), k).k_p_value for k in range(80)]
    assert abs(np.mean(values) - 0.5) < 0.12 and np.std(values) > 0.2


def test_rows_without_a_response_are_left_out() -> None:
    data = DATA.copy()
    data.loc[[3, 17, 40], "y"] = np.nan
    text = TEXT.replace("data y[obs] : real", "data y[obs] : real?")
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    left = (data["y"] - float(fit.mean("a")) - fit.mean("f").values).to_numpy()
    seen = np.isfinite(left)
    wanted = index_of(left[seen], T[seen])
    np.testing.assert_allclose(fit.smooths(check=True)["k_index"], wanted, rtol=1e-9)


def test_members_are_found_through_their_map() -> None:
    t = np.linspace(1.0, 0.0, 12)  # in falling order of the labels
    where = np.arange(48) % 12
    y = np.cos(9.0 * t)[where] + 0.1 * np.random.default_rng(1).normal(size=48)
    fit = lgm.fit(lgm.loads(PLACES), {"t": t, "where": where, "y": y}, hyper="map")
    left = y - fit.mean("eta").values
    found = fit.smooths(check=True)["k_index"]
    np.testing.assert_allclose(found, index_of(left, t[where]), rtol=1e-9)
    two = PLACES.replace("data where", "data other[obs] : place\ndata where")
    two = two.replace("f[where]", "f[where] + 0 * f[other]")
    data = {"t": t, "where": where, "other": where[::-1], "y": y}
    unknown = lgm.fit(lgm.loads(two), data, hyper="map").smooths(check=True)
    assert unknown[["k_index", "k_p_value"]].isna().all(axis=None) and unknown["k"][0] == 5


def test_walks_are_checked_by_their_labels() -> None:
    text = """lgm 1
index obs
index day = 1..12
data y[obs] : real
data d[obs] : day
latent f[day] ~ rw2(sd = 0.4)
observe y ~ normal(mean = f[d], sd = 0.5)
"""
    d = RNG.integers(1, 13, 90)
    y = np.sin(d / 2.0) + RNG.normal(size=90)
    fit = lgm.fit(lgm.loads(text), {"y": y, "d": d})
    left = y - fit.mean("f").values[d - 1]
    np.testing.assert_allclose(fit.smooths(check=True)["k_index"], index_of(left, d), rtol=1e-9)


def test_counts_are_checked_by_their_variance() -> None:
    text = TEXT.replace("data y[obs] : real", "data y[obs] : count")
    text = text.replace("normal(mean = a + f, sd = 0.3)", "poisson(log_rate = a + f)")
    y = np.random.default_rng(2).poisson(np.exp(1.0 + np.sin(6.0 * T)))
    fit = lgm.fit(lgm.loads(text), {"t": T, "y": y}, method="laplace", hyper="map")
    rate = np.exp(float(fit.mean("a")) + fit.mean("f").values)
    wanted = index_of((y - rate) / np.sqrt(rate), T)
    np.testing.assert_allclose(fit.smooths(check=True)["k_index"], wanted, rtol=1e-9)


def test_weights_are_those_of_residuals() -> None:
    w = 1.0 + np.arange(70) % 5
    text = TEXT.replace("data y", "data w[obs] : positive\ndata y")
    text = text.replace("sd = 0.3)", "sd = 0.3, weight = w)")
    fit = lgm.fit(lgm.loads(text), DATA.assign(w=w), hyper="map")
    left = (DATA["y"] - float(fit.mean("a")) - fit.mean("f").values).to_numpy()
    wanted = index_of(np.sqrt(w) * left, T)
    np.testing.assert_allclose(fit.smooths(check=True)["k_index"], wanted, rtol=1e-9)


def test_the_response_of_most_rows_is_looked_at() -> None:
    text = TEXT.replace("data y[obs] : real", "data y[obs] : real\ndata v[obs] : real?")
    text += "observe v ~ normal(mean = f, sd = 0.3)\n"
    v = np.where(np.arange(70) < 20, DATA["y"] + RNG.normal(size=70), np.nan)
    fit = lgm.fit(lgm.loads(text), DATA.assign(v=v), hyper="map")
    left = (DATA["y"] - float(fit.mean("a")) - fit.mean("f").values).to_numpy()
    found = fit.smooths(check=True)["k_index"]
    np.testing.assert_allclose(found, index_of(left, T), rtol=1e-9)


def test_many_rows_may_be_at_one_place() -> None:
    """Each other row there is as near; none is its own neighbour."""
    places = np.repeat([[0.0, 0.0], [1.0, 1.0]], 30, axis=0)
    found = basis_check(places, np.repeat([1.0, -1.0], 30), 0)
    assert found.k_index == 0.0 and found.k_p_value == 0.0


def test_responses_without_residuals_are_not_checked() -> None:
    """Classes, and what has no variance."""
    classes = TEXT.replace(
        "data y[obs] : real", 'index c = {"a", "b", "c"}\ndata y[obs] : c'
    ).replace("normal(mean = a + f, sd = 0.3)", "ordinal(logit = f, cuts = k)")
    classes = classes.replace(
        "latent a ~ normal(sd = 5)", "index cut = head(c)\nhyper k[cut] : ordered ~ normal(sd = 3)"
    )
    scores = pd.cut(DATA["y"], 3, labels=["a", "b", "c"]).astype(str)
    cauchy = TEXT.replace(
        "normal(mean = a + f, sd = 0.3)", "student_t(mean = a + f, scale = 0.3, df = 1)"
    )
    for text, y in ((classes, scores), (cauchy, DATA["y"])):
        fit = lgm.fit(lgm.loads(text), {"t": T, "y": y}, hyper="map", method="laplace")
        table = fit.smooths(check=True)
        assert table[["k_index", "k_p_value"]].isna().all(axis=None) and table["k"][0] == 7


def test_censored_rows_are_left_out() -> None:
    died = np.arange(70) % 4 > 0
    text = TEXT.replace("data y[obs] : real", "data y[obs] : positive\ndata died[obs] : binary")
    text = text.replace(
        "normal(mean = a + f, sd = 0.3)", "exponential(log_rate = a + f, event = died)"
    )
    y = np.random.default_rng(6).exponential(np.exp(np.sin(5.0 * T)))
    fit = lgm.fit(lgm.loads(text), {"t": T, "y": y, "died": died * 1}, hyper="map")
    rate = np.exp(float(fit.mean("a")) + fit.mean("f").values)
    wanted = index_of((y * rate - 1.0)[died], T[died])
    np.testing.assert_allclose(fit.smooths(check=True)["k_index"], wanted, rtol=1e-5)


def test_the_units_of_the_response_do_not_matter(fit: lgm.Fit) -> None:
    wanted = fit.smooths(check=True, concurvity=True)
    for unit in (1e-20, 1e20):
        text = TEXT.replace("pc_sd(u = 1,", f"pc_sd(u = {unit:g},").replace(
            "0.3", f"{0.3 * unit:g}"
        )
        text = text.replace("normal(sd = 5)", f"normal(sd = {5.0 * unit:g})")
        data = DATA.assign(y=unit * DATA["y"])
        again = lgm.fit(lgm.loads(text), data, hyper="map").smooths(check=True, concurvity=True)
        for column in ("k_index", "concurvity_worst", "concurvity_average"):
            np.testing.assert_allclose(again[column], wanted[column], rtol=1e-4, atol=1e-12)


def test_a_stored_fit_is_checked_with_its_data(fit: lgm.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    with pytest.raises(lgm.DataError) as refused:
        again.smooths(check=True)
    assert refused.value.codes == ("E305",) and "fit.smooths(check=True" in str(refused.value)
    wanted = fit.smooths(test=True, check=True, concurvity=True)
    found = again.smooths(test=True, check=True, concurvity=True, data=DATA)
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-8)
    with pytest.raises(lgm.DataError, match="not those of the fit"):
        again.smooths(check=True, data=DATA.assign(y=DATA["y"] + 1.0))


# ---- concurvity ----------------------------------------------------------------------------------

BOTH = TEXT.replace(
    "latent f", "data u[obs] : real\nlatent g[obs] ~ spline(at = u, sd = s, size = 6)\nlatent f"
).replace("a + f", "a + f + g")


def test_concurvity_is_that_of_dense_algebra() -> None:
    u = T + 0.2 * RNG.normal(size=70)
    fit = lgm.fit(lgm.loads(BOTH), DATA.assign(u=u), hyper="map")
    own = np.hstack(smooth(T[:, None], "cubic", 8).columns(T[:, None]))
    rest = np.hstack(smooth(u[:, None], "thin-plate", 6).columns(u[:, None]))
    rest = np.linalg.qr(np.column_stack([np.ones(70), rest]))[0]
    shared = np.linalg.svd(rest.T @ np.linalg.qr(own)[0], compute_uv=False) ** 2
    f = fit.mean("f").values
    row = fit.smooths(concurvity=True).set_index("name").loc["f"]
    np.testing.assert_allclose(row["concurvity_worst"], shared[0], rtol=1e-9)
    np.testing.assert_allclose(row["concurvity_average"], shared.sum() / 7.0, rtol=1e-9)
    observed = ((rest.T @ f) ** 2).sum() / (f**2).sum()
    np.testing.assert_allclose(row["concurvity_observed"], observed, rtol=1e-8)


def test_a_covariate_that_is_another_one_can_stand_in_for_it() -> None:
    text = BOTH.replace("sd = s, size = 6", 'sd = s, basis = "cubic", size = 8, shrink = true')
    fit = lgm.fit(lgm.loads(text), DATA.assign(u=3.0 * T - 1.0), hyper="map")
    table = fit.smooths(concurvity=True)
    for measure in ("worst", "observed", "average"):
        np.testing.assert_allclose(table[f"concurvity_{measure}"], 1.0, rtol=1e-9)


def test_a_walk_that_sums_to_zero_is_not_an_intercept() -> None:
    text = """lgm 1
index obs
index day = 1..12
data y[obs] : real
data d[obs] : day
data x[obs] : real
latent a ~ normal(sd = 5)
latent b ~ normal(sd = 5)
latent f[day] ~ rw2(sd = 0.4)
observe y ~ normal(mean = a + b * x + f[d], sd = 0.5)
"""
    d, x = np.arange(96) % 12, RNG.normal(size=96)
    y = np.sin(d / 2.0) + RNG.normal(size=96)
    data = {"y": y, "d": d + 1, "x": x}
    own = np.eye(12)[d] - 1.0 / 12.0
    rest = np.linalg.qr(np.column_stack([np.ones(96), x]))[0]
    own = np.linalg.svd(own, full_matrices=False)[0][:, :11]
    wanted = np.linalg.svd(rest.T @ own, compute_uv=False) ** 2
    tied = lgm.fit(lgm.loads(text), data)
    given = text.replace("rw2(sd = 0.4)", "normal(sd = 0.4)")
    given = given.replace("observe", "constrain sum(f, day) = 0\nobserve")
    assert 0.001 < wanted[0] < 0.5
    table = tied.smooths(concurvity=True)
    np.testing.assert_allclose(table["concurvity_worst"], wanted[0], rtol=1e-8)
    np.testing.assert_allclose(table["concurvity_average"], wanted.sum() / 11.0, rtol=1e-8)
    bound = lgm.fit(lgm.loads(given), data)
    found = concurvities(bound.canonical.linear(bound.theta), np.ones(14), [np.arange(2, 14)])
    np.testing.assert_allclose(found[0].worst, wanted[0], rtol=1e-8)


def test_rows_that_were_read_by_batches_are_read_again() -> None:
    text = TEXT.replace("index obs\n", "index obs\nindex place\ndata where[obs] : place\n")
    text = text.replace("t[obs]", "t[place]").replace("f[obs]", "f[place]")
    text = text.replace("data y[obs] : real", "data y[obs] : count\ndata x[obs] : binary")
    text = text.replace("latent a", "latent b ~ normal(sd = 5)\nlatent a")
    text = text.replace(
        "normal(mean = a + f, sd = 0.3)", "poisson(log_rate = a + b * x + f[where])"
    )
    rng = np.random.default_rng(1)
    where = (12 * rng.random(500) ** 2).astype(int)
    data = {"where": where, "t": np.arange(12) / 11.0, "x": (rng.random(500) < where / 12) * 1}
    data["y"] = rng.poisson(np.exp(np.sin(where / 2.0)))
    tables = []
    for rows in ("kept", "streamed"):
        fit = lgm.fit(lgm.loads(text), data, "laplace", hyper="map", options={"rows": rows})
        tables.append(fit.smooths(check=True, concurvity=True))
    assert tables[0]["concurvity_worst"][0] > 0.1
    pd.testing.assert_frame_equal(tables[0], tables[1], rtol=1e-5)


def test_a_model_without_smooths_has_the_columns_and_no_rows() -> None:
    text = TEXT.replace('spline(at = t, sd = s, basis = "cubic", size = 8)', "normal(sd = s)")
    table = lgm.fit(lgm.loads(text), DATA, hyper="map").smooths(check=True, concurvity=True)
    assert len(table) == 0 and {*CHECKED, "concurvity_worst"} <= {*table.columns}
