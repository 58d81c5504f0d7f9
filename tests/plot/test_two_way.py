"""Quantities over two indices, and members that are dates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import lgmdsl as lgm

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib.figure import Figure  # noqa: E402

TEXT = """lgm 1
index obs
index a
index b
data y[obs] : real
data first[obs] : a
data second[obs] : b
latent f[a, b] ~ {prior}
observe y ~ normal(mean = f[first, second], sd = 0.3)
"""
CELLS, CURVES = "normal(sd = 3)", "iid * rw1(sd = 0.4)"


def fitted(prior: str, first: Any, second: Any, sizes: Any = 1.0) -> lgm.Fit:
    """Every pair once, the second of them by `sizes` larger."""
    count = len(first) * len(second)
    y = np.random.default_rng(1).normal(size=(len(first), len(second))) * sizes
    rows = {
        "y": y.reshape(count),
        "first": np.repeat(np.asarray(first), len(second)),
        "second": np.tile(np.asarray(second), len(first)),
    }
    return lgm.fit(lgm.loads(TEXT.format(prior=prior)), pd.DataFrame(rows), "laplace")


def drawn(fit: lgm.Fit) -> Any:
    """The axes that `f` gets by itself."""
    import matplotlib.pyplot as plt

    axes = np.ravel(fit.plot("f"))
    plt.close("all")
    return axes


def named(axes: Any) -> list[str]:
    return [t.get_text() for t in axes.get_legend().get_texts()]


def test_curves_by_group() -> None:
    fit = fitted(CURVES, ["north", "south", "west"], np.arange(2000, 2012))
    (axes,) = drawn(fit)
    assert named(axes) == ["north", "south", "west"] and axes.get_xlabel() == "b"
    for line, group in zip(axes.lines, ["north", "south", "west"], strict=False):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(2000, 2012))
        expected = fit.quantile("f", [0.5]).sel(a=group).values.reshape(-1)
        np.testing.assert_allclose(line.get_ydata(), expected)


def test_many_curves_have_a_line_each_and_very_many_are_a_heat_map() -> None:
    (axes,) = drawn(fitted(CURVES, [f"g{k}" for k in range(20)], np.arange(5)))
    assert len(axes.lines) >= 20 and named(axes) == ["median, one line for each of 20 a"]
    heat = drawn(fitted(CURVES, [f"g{k}" for k in range(41)], np.arange(3)))
    assert [len(a.images) for a in heat] == [1, 1]


def test_cells_are_dots_of_a_colour_for_each_group() -> None:
    fit = fitted(CELLS, ["low", "mid", "high"], ["n", "e", "s", "w"])
    (axes,) = drawn(fit)
    assert named(axes) == ["high", "low", "mid"] or named(axes) == ["low", "mid", "high"]
    assert [t.get_text() for t in axes.get_yticklabels()] == [
        str(v) for v in fit.mean("f").b.values
    ]
    dots = [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]
    for line, group in zip(dots, named(axes), strict=True):
        expected = fit.quantile("f", [0.5]).sel(a=group).values.reshape(-1)
        np.testing.assert_allclose(line.get_xdata(), expected)


def test_effects_of_unlike_size_have_panels() -> None:
    fit = fitted(CELLS, [f"s{k}" for k in range(12)], ["level", "slope"], np.array([5.0, 0.2]))
    panels = drawn(fit)
    assert [a.get_title(loc="left") for a in panels] == ["f, b: level", "f, b: slope"]
    assert all(len(a.get_yticklabels()) == 12 for a in panels)
    one = Figure().subplots()
    fit.plot("f", ax=one)
    assert one.get_title(loc="left") == "f, b: level"


def test_of_two_orders_a_short_one_makes_the_groups() -> None:
    for first, second in ((np.arange(4), np.arange(2000, 2012)), (np.arange(12), np.arange(3))):
        fit = fitted("rw1(sd = 1) * rw1", first, second)
        (axes,) = drawn(fit)
        short = min(first, second, key=len)
        assert not axes.images and named(axes) == [str(k) for k in short]


THREE = """lgm 1
index obs
index region
index sex
index year
data y[obs] : real
data where[obs] : region
data who[obs] : sex
data when[obs] : year
latent f[region, sex, year] ~ {prior}
observe y ~ normal(mean = f[where, who, when], sd = 0.3)
"""


def three(prior: str, regions: int = 2) -> lgm.Fit:
    places = [f"r{k}" for k in range(regions)]
    rows = [(a, b, t) for a in places for b in "fm" for t in range(6)]
    table = pd.DataFrame(rows, columns=["where", "who", "when"])
    table["y"] = np.random.default_rng(3).normal(size=len(table))
    return lgm.fit(lgm.loads(THREE.format(prior=prior)), table, "laplace")


def test_predictions_over_three_indices() -> None:
    prediction = three("iid * iid * rw1(sd = 0.4)").predict({"year": [2, 4, 9]})
    axes = Figure().subplots()
    assert prediction.plot("f", ax=axes) is axes
    assert named(axes) == ["r0, f", "r0, m", "r1, f", "r1, m"] and axes.get_xlabel() == "year"
    wanted = prediction.quantile("f", [0.5]).sel(region="r1", sex="f").values.reshape(-1)
    np.testing.assert_allclose(np.asarray(axes.lines[2].get_xdata()), [2, 4, 9])
    np.testing.assert_allclose(np.asarray(axes.lines[2].get_ydata()), wanted)
    cells = Figure().subplots()
    three("normal(sd = 1)").predict({"region": ["r1", "r0"]}).plot("f", ax=cells)
    assert named(cells) == ["r1, f", "r1, m", "r0, f", "r0, m"]
    assert [t.get_text() for t in cells.get_yticklabels()] == [str(k) for k in range(6)]


def test_predictions_of_many_groups_are_refused() -> None:
    prediction = three("normal(sd = 1)", 9).predict({"sex": ["f", "m"]})
    with pytest.raises(lgm.MethodError, match="cannot be drawn") as caught:
        prediction.plot("f", ax=Figure().subplots())
    assert "prediction.frame()" in caught.value.diagnostics[0].help


def test_two_orders_and_many_groups_are_heat_maps() -> None:
    walks = fitted("rw1(sd = 1) * rw1", np.arange(9), np.arange(10))
    many = fitted(CELLS, [f"r{k}" for k in range(12)], [f"c{k}" for k in range(9)])
    assert all([len(a.images) for a in drawn(fit)] == [1, 1] for fit in (walks, many))


def test_two_way_pictures_are_written(tmp_path: Any) -> None:
    fit = fitted(CELLS, [f"s{k}" for k in range(3)], ["level", "slope"], np.array([5.0, 0.2]))
    (path,) = fit.plot(tmp_path, names=["f"])
    assert path.name == "latent_f.png" and path.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    "dates",
    [
        pd.date_range("2023-01-05", periods=30, freq="D"),
        pd.to_datetime(["1949-12-01", "1950-01-01", "1950-03-01", "1958-06-01"]),
    ],
)
def test_dates_are_drawn_as_they_read(dates: pd.DatetimeIndex) -> None:
    text = TEXT.replace("f[a, b]", "f[b]").replace("f[first, second]", "f[second]")
    text = text.replace("index a\n", "").replace("data first[obs] : a\n", "")
    rows = pd.DataFrame({"y": np.sin(np.arange(len(dates))), "second": dates})
    fit = lgm.fit(lgm.loads(text.format(prior="rw1(sd = 0.4)")), rows, "laplace")
    axes = Figure().subplots()
    fit.plot("f", ax=axes)
    ticks = [t.get_text() for t in axes.get_xticklabels()]
    written = [str(v) for v in fit.mean("f").b.values]
    assert ticks[0] == written[0] and ticks[-1] == written[-1] and {*ticks} <= {*written}
    # Ticks lie where their members do, at distances by the calendar.
    places = axes.get_xticks()[[0, -1]]
    median = next(line for line in axes.lines if line.get_label() == "median")
    np.testing.assert_array_equal(np.asarray(median.get_xdata())[[0, -1]], places)
