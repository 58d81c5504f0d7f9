"""fit.curve(): against predictions, their differences, draws; its arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm
from lgmdsl.structures.splines import smooth
from tests.api.test_splines import DATA, SURFACE, SURFACE_DATA, TEXT, T

BASES = ("thin-plate", "cubic", "cyclic", "p-spline")
AT = np.linspace(-0.2, 1.3, 31) + 0.00123  # beyond the data too
GROUPS = (
    TEXT.replace("index obs\n", "index obs\nindex g\n")
    .replace("f[obs] ~ spline", "f[g, obs] ~ iid * spline")
    .replace("data y", "data who[obs] : g\ndata y")
    .replace("a + f", "a + f[who, obs]")
)


def grouped(labels: list[str]) -> lgm.Fit:
    data = DATA.assign(who=np.array(labels)[np.arange(70) % 3])
    return lgm.fit(lgm.loads(GROUPS), data, hyper="map")


@pytest.fixture(scope="module", params=["map", "integrate"])
def fit(request: pytest.FixtureRequest) -> lgm.Fit:
    return lgm.fit(lgm.loads(TEXT), DATA, hyper=request.param)


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("shrink", [False, True])
def test_derivatives_are_those_of_the_curves(basis: str, shrink: bool) -> None:
    made, step = smooth(T[:, None], basis, 8, shrink), 1e-5
    for order in (1, 2):
        above, below = (np.hstack(made.columns(AT[:, None] + h, order - 1)) for h in (step, -step))
        found = np.hstack(made.columns(AT[:, None], order))
        scale = np.abs(found).max()
        np.testing.assert_allclose(found, (above - below) / (2.0 * step), atol=1e-7 * scale)


def test_the_curve_is_what_is_predicted(fit: lgm.Fit) -> None:
    table, wanted = fit.curve("f", AT), fit.predict({"t": AT})
    np.testing.assert_allclose(table["estimate"], wanted.mean("f"), atol=1e-10)
    np.testing.assert_allclose(table["sd"], wanted.sd("f"), atol=1e-10)
    ends = wanted.quantile("f", [0.025, 0.975]).values
    np.testing.assert_allclose(table[["lower", "upper"]].T, ends, atol=1e-9)
    grid = fit.curve("f")
    np.testing.assert_allclose(grid["at"], np.linspace(T.min(), T.max(), 100))


def test_the_band_holds_whole_curves(fit: lgm.Fit) -> None:
    """As often as it says, of draws of the fit at all of its own positions."""
    table = fit.curve("f", T, level=0.9)
    draws = fit.sample(8000, seed=5)["f"].values
    inside = (draws >= table["band_lower"].values) & (draws <= table["band_upper"].values)
    assert abs(inside.all(axis=1).mean() - 0.9) < 0.02
    low, high = table["lower"].values, table["upper"].values
    assert abs(((draws >= low) & (draws <= high)).mean() - 0.9) < 0.01


def test_the_band_is_of_all_points_of_the_mixture() -> None:
    """With few rows, of which the points make unlike curves."""
    text = TEXT.replace("size = 8", "size = 5")
    fit = lgm.fit(lgm.loads(text), DATA.iloc[:7], hyper="integrate")
    at = DATA["t"].to_numpy()[:7]
    table = fit.curve("f", at, level=0.8, n=100_000)
    draws = fit.sample(100_000, seed=9)["f"].values
    furthest = np.abs((draws - table["estimate"].values) / table["sd"].values).max(axis=1)
    width = (table["band_upper"] - table["estimate"]) / table["sd"]
    np.testing.assert_allclose(width, np.quantile(furthest, 0.8), atol=0.012)


def test_slopes_do_not_depend_on_units() -> None:
    for unit in (1e-20, 1e20):
        fit = lgm.fit(lgm.loads(TEXT), DATA.assign(t=unit * T), hyper="map")
        plain = lgm.fit(lgm.loads(TEXT), DATA, hyper="map")
        for order in (0, 1, 2):
            found = fit.curve("f", derivative=order, n=500)
            wanted = plain.curve("f", derivative=order, n=500)
            for column in ("estimate", "sd", "lower", "band_upper"):
                scaled = found[column] * unit**order
                size = np.abs(wanted[column]).max()
                np.testing.assert_allclose(scaled, wanted[column], rtol=1e-5, atol=1e-7 * size)


def test_an_answer_does_not_depend_on_what_else_is_asked(fit: lgm.Fit) -> None:
    one, many = fit.curve("f", [0.4], n=0), fit.curve("f", [0.1, 0.4], n=0)
    assert "band_lower" not in one
    np.testing.assert_allclose(one.iloc[0], many.iloc[1], rtol=1e-12)
    alone = fit.curve("f", [0.4], n=100_000)
    np.testing.assert_allclose(alone["band_upper"], alone["upper"], atol=0.02 * alone["sd"][0])


def test_a_stored_fit_has_the_same_curve(fit: lgm.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "fit.nc")
    again = lgm.load_fit(tmp_path / "fit.nc").curve("f", derivative=1)
    pd.testing.assert_frame_equal(again, fit.curve("f", derivative=1), rtol=1e-8)


def test_each_curve_of_a_product_and_their_differences() -> None:
    fit, other = grouped(["x", "y", "z"]), grouped(["z", "y", "x"])
    table = fit.curve("f", AT)
    assert [*table.columns[:3]] == ["g", "at", "estimate"] and len(table) == 3 * len(AT)
    turned = other.curve("f", AT)
    for mine, theirs in (("x", "z"), ("y", "y"), ("z", "x")):
        one = table[table["g"] == mine].drop(columns="g").to_numpy()
        two = turned[turned["g"] == theirs].drop(columns="g").to_numpy()
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    pairs = fit.curve("f", AT, contrast="pairwise")
    assert [*pairs["contrast"].unique()] == ["y - x", "z - x", "z - y"]
    between = fit.curve("f", AT, contrast="sequential")
    assert [*between["contrast"].unique()] == ["y - x", "z - y"]
    back = fit.curve("f", AT, contrast=("y", "x"))
    forth = pairs[pairs["contrast"] == "y - x"]
    np.testing.assert_allclose(back["estimate"], -forth["estimate"])
    np.testing.assert_allclose(back["sd"], forth["sd"])
    at_rows = fit.curve("f", T, contrast=("x", "z"))
    draws = fit.sample(20_000, seed=2)["f"]
    gap = draws.sel(g="z").values - draws.sel(g="x").values
    np.testing.assert_allclose(at_rows["estimate"], gap.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(at_rows["sd"], gap.std(axis=0), rtol=0.05)


def test_a_posterior_of_draws_has_the_curves_of_its_draws() -> None:
    text = TEXT.replace("data y[obs] : real", "data y[obs] : binary")
    text = text.replace("normal(mean = a + f, sd = 0.3)", "bernoulli(logit = a + f)")
    data = DATA.assign(y=(DATA["y"] > DATA["y"].median()).astype(int))
    fit = lgm.fit(lgm.loads(text), data, options={"effort": "high"})
    assert fit.marginals.of_draws
    table = fit.curve("f", T)
    np.testing.assert_allclose(table["estimate"], fit.mean("f"), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(table["sd"], fit.sd("f"), rtol=1e-4)
    wanted = fit.quantile("f", [0.025, 0.975]).values
    np.testing.assert_allclose(table[["lower", "upper"]].T, wanted, rtol=1e-4, atol=1e-4)
    assert (table["band_lower"] < table["lower"]).all()


def test_a_curve_without_a_bend_has_an_sd_of_zero_there() -> None:
    """The second derivative of what is straight beyond the data: 0, and not its rounding."""
    fit = lgm.fit(lgm.loads(TEXT), DATA, hyper="map")
    beyond = fit.curve("f", [1.5, 2.0, 3.0], derivative=2)
    np.testing.assert_allclose(beyond.drop(columns="at"), 0.0, atol=1e-9)
    both = fit.curve("f", [0.4, 0.6, 2.0], derivative=2)
    inside = fit.curve("f", [0.4, 0.6], derivative=2)
    np.testing.assert_allclose(both.iloc[:2], inside, rtol=1e-9)
    plates = lgm.loads(TEXT.replace('"cubic"', '"thin-plate"'))
    plate = lgm.fit(plates, DATA, hyper="map")
    both = plate.curve("f", [0.4, *np.linspace(1.5, 9.0, 60)], derivative=2)
    inside = plate.curve("f", [0.4], derivative=2)
    np.testing.assert_allclose(both.iloc[0], inside.iloc[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("asked", "code", "says"),
    [
        ({"name": "ff"}, "E103", "did you mean `f`?"),
        ({"name": "a"}, "E501", "it is no spline"),
        ({"name": "f", "at": ["x"]}, "E108", "`at` must be finite numbers"),
        ({"name": "f", "at": [0.1, np.nan]}, "E108", "`at` must be finite numbers"),
        ({"name": "f", "at": []}, "E108", "`at` must be finite numbers"),
        ({"name": "f", "derivative": 3}, "E108", "`derivative` is 0, 1 or 2"),
        ({"name": "f", "derivative": 1.0}, "E108", "`derivative` is 0, 1 or 2"),
        ({"name": "f", "at": np.zeros(10**7)}, "E505", "the draws of a curve"),
        ({"name": "f", "derivative": True}, "E108", "`derivative` is 0, 1 or 2"),
        ({"name": "f", "level": 95}, "E108", "the level of an interval"),
        ({"name": "f", "contrast": "pairwise"}, "E108", "`f` is a single curve"),
        ({"name": "f", "n": -1}, "E108", "draws are asked for"),
        ({"name": "f", "backend": "excel"}, "E104", "frames are not made by"),
    ],
)
def test_what_is_wrong_is_said(asked: dict[str, Any], code: str, says: str) -> None:
    fit = lgm.fit(lgm.loads(TEXT), DATA, hyper="map")
    with pytest.raises(lgm.LgmError) as refused:
        fit.curve(**asked)
    assert code in refused.value.codes and says in str(refused.value)
    assert "help" in str(refused.value)


def test_labels_and_surfaces_are_refused_where_there_are_none() -> None:
    fit = grouped(["x", "y", "z"])
    with pytest.raises(lgm.ModelError, match='no curve "w"'):
        fit.curve("f", contrast=("x", "w"))
    with pytest.raises(lgm.ModelError, match="did you mean `pairwise`"):
        fit.curve("f", contrast="pairwis")
    surface = lgm.fit(lgm.loads(SURFACE), SURFACE_DATA, hyper="map")
    with pytest.raises(lgm.MethodError, match="it is a surface"):
        surface.curve("f")
