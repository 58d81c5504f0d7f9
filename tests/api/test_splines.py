"""Models with splines: predictions, files, effects, simulation, messages."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.structures.splines import smooth, tensor_smooth

RNG = np.random.default_rng(8)
T = np.round(RNG.uniform(0.0, 1.0, 70), 2)
DATA = pd.DataFrame({"t": T, "y": np.sin(6.0 * T) + 2.0 * T + 0.3 * RNG.normal(size=70)})
TEXT = """lgm 1
index obs
data t[obs] : real
data y[obs] : real
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
latent a ~ normal(sd = 5)
latent f[obs] ~ spline(at = t, sd = s, basis = "cubic", size = 8)
observe y ~ normal(mean = a + f, sd = 0.3)
"""
PLACES = """lgm 1
index obs
index place
data t[place] : real
data where[obs] : place
data y[obs] : real
hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)
latent a ~ normal(sd = 5)
latent f[place] ~ spline(at = t, sd = s, size = 6)
let eta[obs] = a + f[where]
observe y ~ normal(mean = eta, sd = 0.3)
"""


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT), DATA, hyper="map")


def test_the_curve_is_reported_and_sums_to_zero(fit: lgm.Fit) -> None:
    f = fit.mean("f")
    assert f.dims == ("obs",) and f.shape == (70,)
    assert abs(float(f.sum())) < 1e-9
    assert np.unique(np.column_stack([T, f.values]).round(9), axis=0).shape[0] == len(np.unique(T))
    assert "f.curve" not in str(fit.summary())


def test_a_prediction_at_fitted_positions_is_the_fit(fit: lgm.Fit) -> None:
    found = fit.predict({"t": T[::-1]})
    np.testing.assert_allclose(found.mean("f"), fit.mean("f").values[::-1], atol=1e-10)
    np.testing.assert_allclose(found.sd("f"), fit.sd("f").values[::-1], atol=1e-10)


def test_a_prediction_does_not_depend_on_what_else_is_asked(fit: lgm.Fit) -> None:
    """The knots and the centre stay the fit's."""
    many = fit.predict({"t": np.linspace(-1.0, 3.0, 41)})
    one = fit.predict({"t": [2.5]})
    np.testing.assert_allclose(one.mean("f"), many.mean("f").values[35], atol=1e-10)
    assert float(one.sd("f")[0]) > float(fit.sd("f").max())


def test_pieces_of_many_rows_are_one_prediction(
    fit: lgm.Fit, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = np.linspace(-0.5, 1.5, 25)
    whole = fit.predict({"t": t}).frame()
    monkeypatch.setattr("lgmdsl.api.predict.predict.ROWS", 10)
    pd.testing.assert_frame_equal(fit.predict({"t": t}).frame(), whole)


def test_a_stored_fit_predicts_the_same(fit: lgm.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    new = {"t": [-0.3, 0.4, 1.7]}
    np.testing.assert_allclose(again.predict(new).mean("f"), fit.predict(new).mean("f"), rtol=1e-12)
    prediction = pickle.loads(pickle.dumps(fit.predict(new).canonical))
    np.testing.assert_array_equal(prediction.grounded.basis.values["t"], T)


def test_effects_move_along_the_fitted_curve(fit: lgm.Fit) -> None:
    contrast = fit.effects("t", contrast=[0.2, 0.7])
    at = fit.predict({"t": [0.2, 0.7]}).mean("f").values
    np.testing.assert_allclose(contrast["estimate"], at[1] - at[0], rtol=1e-6)


def test_new_members_of_a_kept_index() -> None:
    t = np.linspace(0.0, 1.0, 12)
    where = np.arange(48) % 12
    y = np.cos(4.0 * t)[where] + 0.1 * np.random.default_rng(1).normal(size=48)
    fit = lgm.fit(lgm.loads(PLACES), {"t": t, "where": where, "y": y}, hyper="map")
    np.testing.assert_allclose(fit.mean("f").sum(), 0.0, atol=1e-9)
    found = fit.predict({"where": [3, 12], "t": [*t, t[3]]})
    np.testing.assert_allclose(*found.mean("eta").values)
    np.testing.assert_allclose(*found.sd("eta").values)


def test_positions_of_fitted_members_are_not_to_change() -> None:
    t = np.linspace(0.0, 1.0, 12)
    data = {"t": t, "where": np.arange(24) % 12, "y": np.arange(24) % 5}
    fit = lgm.fit(lgm.loads(PLACES), data, hyper="map")
    with pytest.raises(lgm.DataError, match="differs from the data of the fit"):
        fit.predict({"where": [3], "t": t + 1.0})


@pytest.mark.parametrize("basis", ["thin-plate", "cubic", "cyclic", "p-spline"])
def test_no_curve_is_an_ordinary_result(basis: str) -> None:
    """An sd at 0: what the penalty leaves free, a line or nothing."""
    i = np.arange(40)
    t = i / 39.0
    noise = 0.3 * (-1.0) ** i
    y = noise if basis == "cyclic" else 1.0 - 2.0 * t + noise
    text = TEXT.replace("pc_sd(u = 1, alpha = 0.01)", "flat").replace('"cubic"', f'"{basis}"')
    fit = lgm.fit(lgm.loads(text.replace("normal(sd = 5)", "flat")), {"t": t, "y": y}, hyper="map")
    assert fit.converged and not fit.warnings
    degree = 0 if basis == "cyclic" else 1
    line = np.polyval(np.polyfit(t, y, degree), t)
    np.testing.assert_allclose(float(fit.mean("a")) + fit.mean("f").values, line, atol=1e-3)


def test_integrated_sds_are_wider_than_those_at_the_mode(fit: lgm.Fit) -> None:
    whole = lgm.fit(lgm.loads(TEXT), DATA, hyper="integrate")
    assert whole.converged
    np.testing.assert_allclose(whole.mean("f"), fit.mean("f"), atol=0.05)


def test_a_simulation_draws_the_curve_about_a_line_at_zero() -> None:
    with pytest.warns(lgm.SimulationWarning, match="without the directions"):
        drawn = lgm.simulate(lgm.loads(TEXT), DATA[["t"]], seed=3)
    f = drawn["truth.f"]
    assert f.shape == (70,)
    np.testing.assert_allclose(np.polyfit(T, f, 1), 0.0, atol=1e-9)


@pytest.mark.parametrize(
    ("spline", "code", "says"),
    [
        ("spline(at = t, sd = s, size = 2)", "E104", "takes at least 3"),
        ("spline(at = t, sd = s, size = 100)", "E104", "one for each distinct position"),
        ("spline(at = log(t - t), sd = s)", "E303", "positions `log(t - t)` are not finite"),
        ("spline(at = 0 * t, sd = s)", "E104", "distinct positions"),
        ("spline(at = s * t, sd = s)", "E108", "must be known"),
        ("spline(at = t, sd = s, size = s)", "E108", "must be known"),
        ('spline(at = t, sd = s, basis = "tp")', "E104", '"thin-plate" or "cubic"'),
        ("spline(sd = s)", "E104", "wants `at`"),
        ("s(at = t)", "E103", "`s` of mgcv is `spline(at = x, sd = s)` here"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(spline: str, code: str, says: str) -> None:
    old = 'spline(at = t, sd = s, basis = "cubic", size = 8)'
    with pytest.raises(lgm.LgmError) as refused:
        lgm.fit(lgm.loads(TEXT.replace(old, spline)), DATA)
    assert code in refused.value.codes and says in str(refused.value)
    assert "help" in str(refused.value)


def test_two_lines_along_one_covariate_are_improper() -> None:
    text = TEXT.replace("normal(sd = 5)", "flat").replace(
        "latent f", "latent g[obs] ~ spline(at = t, sd = 1)\nlatent f"
    )
    text = text.replace("a + f", "a + f + g")
    with pytest.raises(lgm.LgmError, match="nothing fixes `g`") as refused:
        lgm.fit(lgm.loads(text), DATA, hyper="map")
    assert "coefficient 1 of g" in str(refused.value) and ".free" not in str(refused.value)
    assert "shrink = true" in str(refused.value)
    fit = lgm.fit(lgm.loads(text.replace("at = t, sd = 1", "at = t, sd = 1, shrink = true")), DATA)
    assert fit.converged


def test_coefficients_are_not_shown(fit: lgm.Fit) -> None:
    """Neither in names that are offered, nor in draws and tables."""
    for name in ("ff", "f.curv"):
        with pytest.raises(lgm.ModelError) as refused:
            fit.mean(name)
        assert "f.curve" not in str(refused.value)
    assert [*fit.sample(3)] == ["a", "f"]
    drawn = lgm.simulate(
        lgm.loads(TEXT.replace("size = 8", "size = 8, shrink = true")), DATA[["t"]]
    )
    assert {k for k in drawn if k.startswith("truth.")} == {"truth.s", "truth.a", "truth.f"}
    shrunk = lgm.loads(TEXT.replace("size = 8", "size = 8, shrink = true"))
    made = lgm.calibrate(shrunk, DATA[["t"]], runs=2, method="laplace")
    assert {*made.outcomes[0].values} == {"a", "f[.]", "s", "log likelihood"}


def test_each_curve_is_drawn_along_its_covariate() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    text = TEXT.replace(
        "latent f", "data u[obs] : real\nlatent g[obs] ~ spline(at = u, sd = s)\nlatent f"
    )
    text = text.replace("a + f", "a + f + g")
    fit = lgm.fit(lgm.loads(text), DATA.assign(u=RNG.normal(size=70)), hyper="map")
    for name, covariate in (("f", "t"), ("g", "u")):
        assert fit.plot(name).get_xlabel() == covariate
        new = fit.predict({"t": [0.1, 0.5], "u": [2.0, 3.0]})
        assert new.plot(name).get_xlabel() == covariate


def test_partial_residuals_are_drawn_where_the_curve_stands_as_it_is() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    data = DATA.assign(u=np.random.default_rng(4).normal(size=70))
    data.loc[3, "y"] = np.nan
    text = TEXT.replace("data y[obs] : real", "data y[obs] : real?").replace(
        "latent f", "data u[obs] : real\nlatent g[obs] ~ spline(at = u, sd = s)\nlatent f"
    )
    fit = lgm.fit(lgm.loads(text.replace("a + f", "a + 0.5 * g + f")), data, hyper="map")
    dots = [d for d in fit.plot("f").lines if d.get_label() == "partial residuals"]
    assert not [d for d in fit.plot("g").lines if d.get_label() == "partial residuals"]
    wanted = data["y"] - float(fit.mean("a")) - 0.5 * fit.mean("g").values
    found = np.asarray(dots[0].get_xydata())
    known = wanted.notna().to_numpy()
    at = np.column_stack([T, wanted])[known]
    np.testing.assert_allclose(found[np.lexsort(found.T)], at[np.lexsort(at.T)], atol=1e-9)
    counts = text.replace("y[obs] : real?", "y[obs] : count?")
    counts = counts.replace("normal(mean = a + f, sd = 0.3)", "poisson(log_rate = a + f + g)")
    rounded = data.assign(y=data["y"].abs().round())
    for line in lgm.fit(lgm.loads(counts), rounded, hyper="map").plot("f").lines:
        assert line.get_label() != "partial residuals"


def test_a_curve_may_stand_twice_in_a_predictor(fit: lgm.Fit) -> None:
    twice = lgm.loads(TEXT.replace("a + f", "a + 0.5 * f + 0.5 * f"))
    again = lgm.fit(twice, DATA, hyper="map")
    np.testing.assert_allclose(again.mean("f"), fit.mean("f"), atol=1e-6)
    np.testing.assert_allclose(again.log_evidence, fit.log_evidence, rtol=1e-9)


# ---- smooths -------------------------------------------------------------------------------------


def dense_edf(fit: lgm.Fit, theta: dict[str, float], rows: np.ndarray) -> float:
    """The degrees of freedom of f by dense algebra, `rows` (n, r + 1) its free and other columns,
    the noise sd 0.3 and the intercept's 5."""
    design = np.column_stack([np.ones(len(rows)), rows])
    free = 1
    prior = np.diag([1.0 / 25.0, *[0.0] * free, *[theta["s"] ** -2] * (rows.shape[1] - free)])
    information = design.T @ design / 0.09
    influence = np.linalg.solve(prior + information, information)
    return float(np.trace(influence[1:, 1:]))


def test_degrees_of_freedom_are_those_of_dense_algebra(fit: lgm.Fit) -> None:
    made = smooth(T[:, None], "cubic", 8)
    rows = np.hstack(made.columns(T[:, None]))
    table = fit.smooths()
    assert [*table.columns] == ["name", "labels", "edf", "sd"] and [*table["name"]] == ["f"]
    s = float(fit.mean("s"))
    np.testing.assert_allclose(table["edf"], dense_edf(fit, {"s": s}, rows), rtol=1e-9)
    np.testing.assert_allclose(table["sd"], s)
    whole = lgm.fit(lgm.loads(TEXT), DATA, hyper="integrate")
    wanted = sum(p.share * dense_edf(whole, {"s": float(p.theta["s"])}, rows) for p in whole.points)
    np.testing.assert_allclose(whole.smooths()["edf"], wanted, rtol=1e-9)
    np.testing.assert_allclose(whole.smooths()["sd"], float(whole.mean("s")), rtol=1e-12)


def test_a_straight_line_takes_one_degree_of_freedom() -> None:
    text = TEXT.replace("hyper s : positive ~ pc_sd(u = 1, alpha = 0.01)", "hyper s : positive")
    text = text.replace("hyper s : positive", "hyper s : positive = 1e-9")
    table = lgm.fit(lgm.loads(text), DATA).smooths(test=True)
    np.testing.assert_allclose(table["edf"], 1.0, atol=1e-6)
    np.testing.assert_allclose(table["ref_df"], 1.0, atol=1e-6)


def test_each_curve_of_a_product_is_a_smooth() -> None:
    """Independent walks, whose coefficients do not interact: each is a fit of its own."""
    text = """lgm 1
index obs
index g
index day = 1..12
data y[obs] : real
data who[obs] : g
data d[obs] : day
latent f[g, day] ~ iid * rw2(sd = 0.4)
observe y ~ normal(mean = f[who, d], sd = 0.5)
"""
    rng = np.random.default_rng(2)
    who, d = np.array(["b", "a", "c"])[np.arange(90) % 3], rng.integers(1, 13, 90)
    y = np.sin(d / 2.0) * (who == "b") + rng.normal(size=90)
    table = lgm.fit(lgm.loads(text), {"y": y, "who": who, "d": d}).smooths(test=True)
    assert [*table["labels"]] == ["a", "b", "c"] and set(table["name"]) == {"f"}
    np.testing.assert_allclose(table["sd"], 0.4)
    single = text.replace("index g\n", "").replace("data who[obs] : g\n", "")
    single = single.replace("f[g, day] ~ iid *", "f[day] ~").replace("[who, d]", "[d]")
    for label, row in table.set_index("labels").iterrows():
        mine = who == label
        alone = lgm.fit(lgm.loads(single), {"y": y[mine], "d": d[mine]}).smooths(test=True)
        np.testing.assert_allclose(
            row[["edf", "statistic", "p_value"]].astype(float),
            alone.loc[0, ["edf", "statistic", "p_value"]].astype(float),
            rtol=1e-6,
        )


def test_degrees_of_freedom_do_not_depend_on_units(fit: lgm.Fit) -> None:
    for unit in (1e-20, 1e20):
        text = TEXT.replace("pc_sd(u = 1,", f"pc_sd(u = {unit:g},").replace(
            "0.3", f"{0.3 * unit:g}"
        )
        text = text.replace("normal(sd = 5)", f"normal(sd = {5.0 * unit:g})")
        data = DATA.assign(y=unit * DATA["y"])
        again = lgm.fit(lgm.loads(text), data, hyper="map").smooths(test=True)
        wanted = fit.smooths(test=True)
        for column in ("edf", "statistic", "ref_df"):
            np.testing.assert_allclose(again[column], wanted[column], rtol=1e-4)
        np.testing.assert_allclose(again["sd"], unit * wanted["sd"], rtol=1e-4)


def test_a_model_without_smooths_has_no_rows() -> None:
    text = TEXT.replace('spline(at = t, sd = s, basis = "cubic", size = 8)', "normal(sd = s)")
    fit = lgm.fit(lgm.loads(text), DATA, hyper="map")
    assert len(fit.smooths(test=True)) == 0 and "smooths" not in str(fit.summary())


def test_the_page_and_the_file_have_the_smooths(fit: lgm.Fit, tmp_path: Path) -> None:
    edf = float(fit.smooths()["edf"].iloc[0])
    assert f"smooths   edf     sd\n  f      {edf:.2f}" in str(fit.summary())
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc").smooths(test=True)
    pd.testing.assert_frame_equal(again, fit.smooths(test=True), rtol=1e-9)


# ---- tensor products -----------------------------------------------------------------------------

SURFACE = """lgm 1
index obs
index d = 2
data x[obs, d] : real
data y[obs] : real
hyper s[d] : positive ~ pc_sd(u = 1, alpha = 0.01)
latent a ~ normal(sd = 5)
latent f[obs] ~ tensor_spline(at = x, sd = s)
observe y ~ normal(mean = a + f, sd = 0.3)
"""
PLACES_OF = np.column_stack([RNG.uniform(0.0, 1.0, 90).round(1), RNG.uniform(-50.0, 50.0, 90)])
SURFACE_DATA = {
    "x": PLACES_OF,
    "y": np.sin(5.0 * PLACES_OF[:, 0]) * PLACES_OF[:, 1] / 20.0 + 0.3 * RNG.normal(size=90),
}


@pytest.fixture(scope="module")
def surface() -> lgm.Fit:
    return lgm.fit(lgm.loads(SURFACE), SURFACE_DATA, hyper="map")


def test_a_surface_is_reported_predicted_and_stored(surface: lgm.Fit, tmp_path: Path) -> None:
    f = surface.mean("f").values
    assert surface.converged and abs(f.sum()) < 1e-9
    one = surface.predict({"x": PLACES_OF[7:8]})
    np.testing.assert_allclose(one.mean("f"), f[7:8], atol=1e-10)
    np.testing.assert_allclose(one.sd("f"), surface.sd("f").values[7:8], atol=1e-10)
    surface.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc")
    new = {"x": [[-0.5, 0.0], [0.33, 80.0]]}
    np.testing.assert_allclose(
        again.predict(new).mean("f"), surface.predict(new).mean("f"), rtol=1e-12
    )
    pd.testing.assert_frame_equal(again.smooths(test=True), surface.smooths(test=True), rtol=1e-9)


def test_the_size_of_a_surface_is_that_of_its_prior(surface: lgm.Fit) -> None:
    made = tensor_smooth(PLACES_OF, np.array([5.0, 5.0]), False)
    assert made.penalties is not None
    curves = made.columns(PLACES_OF)[1]
    sds = (made.penalties @ surface.mean("s").values ** -2.0) ** -0.5
    wanted = np.exp(0.5 * np.log((curves * sds) ** 2 @ np.ones(len(sds))).mean())
    np.testing.assert_allclose(surface.smooths()["sd"], wanted)


def test_one_sd_is_that_of_all_columns(surface: lgm.Fit) -> None:
    def fitted(hypers: str, sd: str, size: str) -> lgm.Fit:
        text = SURFACE.replace("hyper s[d] : positive ~ pc_sd(u = 1, alpha = 0.01)", hypers)
        text = text.replace("sd = s)", f"sd = {sd}, size = {size})")
        return lgm.fit(lgm.loads(text), SURFACE_DATA | {"k": [4, 4]})

    one = fitted("data k[d] : count", "0.7", "4")
    two = fitted("hyper s[d] : positive = 0.7\ndata k[d] : count", "s", "k")
    np.testing.assert_allclose(one.mean("f"), two.mean("f"), atol=1e-10)
    np.testing.assert_allclose(one.log_evidence, two.log_evidence, rtol=1e-12)


def test_a_plane_and_what_goes_along_one_column_alone() -> None:
    """Sds at 0: a product of lines; with one of them, a curve along the other column."""
    x, noise = PLACES_OF, 0.05 * (-1.0) ** np.arange(90)
    text = SURFACE.replace("pc_sd(u = 1, alpha = 0.01)", "flat").replace("(sd = 5)", "(sd = 1e4)")
    data = {"x": x, "y": 1.0 - x[:, 0] + 0.02 * x[:, 1] + noise}
    fit = lgm.fit(lgm.loads(text), data, hyper="map")
    assert fit.converged and not fit.warnings
    lines = np.column_stack([np.ones(90), x, x[:, 0] * x[:, 1]])
    plane = lines @ np.linalg.lstsq(lines, data["y"], rcond=None)[0]
    np.testing.assert_allclose(float(fit.mean("a")) + fit.mean("f").values, plane, atol=2e-3)
    np.testing.assert_allclose(fit.smooths()["edf"], 3.0, atol=0.01)


def test_sds_are_one_number_or_one_for_each_column() -> None:
    text = SURFACE.replace("hyper s[d]", "hyper s[obs]")
    with pytest.raises(lgm.LgmError, match="one for each input dimension") as refused:
        lgm.loads(text)
    assert refused.value.codes == ("E108",)
    curve = SURFACE.replace("x[obs, d]", "x[obs]").replace("sd = s", "sd = 1")
    with pytest.raises(lgm.LgmError, match="two columns"):
        lgm.fit(lgm.loads(curve), SURFACE_DATA | {"x": PLACES_OF[:, 1]})
