"""fit.plot("f", ax=ax): what is drawn on the axes, with which legend; what cannot be drawn."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.pictures.hyper_pictures import drawn_density, panels
from lgmdsl.api.pictures.observed import Observations, with_data
from lgmdsl.plot.canvas import entry
from lgmdsl.plot.effects import Curve, ForestRow, draw_curve, draw_forest, draw_sorted
from lgmdsl.plot.fields import Map, draw_map
from lgmdsl.plot.responses import Agreement, draw_agreement

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

RNG = np.random.default_rng(3)
DAYS, SEEN, SITES = 24, 18, 60
TEXT = f"""lgm 1
index site
index obs
index day = 1..{DAYS}
index place
index coord = 1..2
index term = {{"a", "b"}}
data where[obs] : site
data when[obs] : day
data y[obs] : count
data k[obs] : real
data l[obs] : real
data z[day] : real?  "degrees"
data x[place, coord] : real  "km"
data m[place] : real
hyper s : positive ~ pc_sd(u = 1, alpha = 0.05)
hyper e : positive = 0.3
hyper S[term, term] : covariance ~ lkj_cov(eta = 2, u = 1, alpha = 0.05)
latent u[site] ~ normal(sd = s)  "log rate"
latent f[day] ~ rw1(sd = 0.4)  "degrees"
latent g[place] ~ gp(at = x, kernel = se(sd = 1, length = 2))
latent w[site, term] ~ iid * dense(cov = S)
let eta[obs] = u[where] + l * w[where, "a"] + k * w[where, "b"] + f[when]
observe y ~ poisson(log_rate = eta)
observe z ~ normal(mean = f, sd = e)
observe m ~ normal(mean = g, sd = e)
report twice[day] = 2 * f
"""


def data() -> dict[str, Any]:
    days, sites = np.arange(DAYS), RNG.normal(size=SITES)
    slopes, where = RNG.normal(size=(SITES, 2)), np.arange(180) % SITES
    k, l = RNG.normal(size=(2, 180))
    degrees = np.sin(days / 4.0)
    return {
        "where": np.array([f"site {k % SITES}" for k in range(180)]),
        "k": k,
        "l": l,
        "when": np.arange(180) % SEEN + 1,
        "y": RNG.poisson(
            2.0 * np.exp(sites[where] + 0.8 * (k * slopes[where, 0] + l * slopes[where, 1]))
        ),
        "z": np.where(days < SEEN, degrees, np.nan),
        "x": RNG.uniform(0.0, 5.0, (40, 2)),
        "m": RNG.normal(size=40),
    }


@pytest.fixture(scope="module")
def fit() -> lgm.Fit:
    return lgm.fit(
        lgm.loads(TEXT), data(), method="laplace", hyper="map", options={"correction": "off"}
    )


def axes(count: int = 1) -> Any:
    return Figure().subplots(1, count)


def said(ax: Axes) -> list[str]:
    legend = ax.get_legend()
    return [] if legend is None else [t.get_text() for t in legend.get_texts()]


@pytest.mark.thorough
def test_a_name_on_axes(fit: lgm.Fit) -> None:
    ax = axes()
    assert fit.plot("f", ax=ax) is ax
    assert said(ax) == ["90 %", "50 %", "median", "no data: forecast", "observed"]
    assert ax.get_ylabel() == "f: degrees" and ax.get_xlabel() == "day"
    median = next(line for line in ax.lines if line.get_label() == "median")
    kept = np.isfinite(np.asarray(median.get_ydata(), dtype=float))
    assert kept.tolist() == [True] * SEEN + [False] * (DAYS - SEEN)
    np.testing.assert_allclose(
        np.asarray(median.get_ydata())[:SEEN], fit.quantile("f", [0.5])[0, :SEEN]
    )
    dots = next(line for line in ax.lines if line.get_label() == "observed")
    np.testing.assert_allclose(
        np.asarray(dots.get_ydata(), dtype=float),
        np.asarray(fit.canonical.grounded.values["z"])[:SEEN],
    )


def test_data_are_drawn_over_the_mean_of_the_response_alone(fit: lgm.Fit) -> None:
    observations = Observations(fit)
    over = observations.over("f", ("day",))
    assert over is not None
    np.testing.assert_array_equal(over[0], fit.canonical.grounded.values["z"])
    assert observations.over("twice", ("day",)) is None  # another scale
    assert observations.over("eta", ("obs",)) is None  # a log rate


def test_what_has_data(fit: lgm.Fit) -> None:
    canonical = fit.canonical
    day, site = with_data(canonical, "day"), with_data(canonical, "site")
    assert day is not None and day.tolist() == [True] * SEEN + [False] * (DAYS - SEEN)
    assert site is not None and site.all()
    assert with_data(canonical, "coord") is None and with_data(canonical, "term") is None


def test_a_matrix_does_not_say_which_members_have_data() -> None:
    model = lgm.loads(
        "lgm 1\nindex obs\nindex k\ndata X[obs, k] : real\ndata by[obs] : k\ndata y[obs] : real\n"
        "latent b[k] ~ normal(sd = 1)\nobserve y ~ normal(mean = X @ b + b[by], sd = 1)\n"
    )
    given = {"X": np.eye(3), "by": [0, 0, 0], "y": [1.0, 2.0, 3.0]}
    assert with_data(lgm.fit(model, given).canonical, "k") is None


def test_many_entries_are_sorted_and_the_ends_named(fit: lgm.Fit) -> None:
    ax = axes()
    fit.plot("u", ax=ax)
    texts = "\n".join(t.get_text() for t in ax.texts)
    median = fit.quantile("u", [0.5])[0]
    order = np.argsort(median.values)
    labels = median["site"].values[order].tolist()
    highest, lowest = texts.split("lowest:\n")
    assert lowest.split("\n") == labels[:5]
    assert highest.split("\n")[1:6] == labels[:-6:-1]
    assert "5 lowest and highest" in said(ax)


def test_surfaces(fit: lgm.Fit) -> None:
    pair = axes(2)
    drawn = fit.plot("g", ax=pair)
    assert list(drawn) == list(pair)
    assert [a.get_title(loc="left") for a in pair] == ["mean", "sd"]
    assert pair[0].get_xlabel() == "x[1]: km"
    kinds = {type(c).__name__ for c in pair[0].collections}
    assert "TriContourSet" in kinds
    one = axes()
    assert fit.plot("g", ax=one) is one and one.get_title(loc="left") == "mean"


def test_a_lattice_is_drawn_as_cells() -> None:
    x, y = (v.ravel() for v in np.meshgrid(np.arange(6.0), np.arange(5.0)))
    values = x + 10 * y
    order = RNG.permutation(30)[:28]  # without two of them, in any order
    field = Map("m", ("x", "y"), np.column_stack([x, y])[order], values[order], np.ones(28))
    ax = axes()
    draw_map(ax, field, "mean")
    mesh = ax.collections[0]
    table = np.ma.filled(np.asarray(mesh.get_array(), dtype=float), np.nan)
    assert type(mesh).__name__ == "QuadMesh" and np.isnan(table).sum() == 2
    known = np.isfinite(table)
    np.testing.assert_array_equal(table[known], values.reshape(5, 6)[known])
    scattered = Map("m", ("x", "y"), RNG.normal(size=(28, 2)), values[order], np.ones(28))
    other = axes()
    draw_map(other, scattered, "mean")
    assert type(other.collections[0]).__name__ == "PathCollection"


def test_hypers_have_their_prior_behind(fit: lgm.Fit) -> None:
    ax = axes()
    fit.plot("s", ax=ax)
    assert said(ax) == ["posterior", "posterior median", "prior"]
    for panel in panels(fit, ["S"]):
        assert panel.prior is not None, panel.name
        inside = (panel.x > 0.0) | (panel.name[2] != panel.name[5])
        assert np.isfinite(panel.prior[inside]).all() and (panel.prior[inside] > 0.0).any()
    variance = next(p for p in panels(fit, ["S"]) if p.name == "S[a, a]")
    own = next(p for p in panels(fit, ["s"]))
    # The sd of a term has the prior of s: the density of its square.
    assert variance.prior is not None and own.prior is not None
    rate = -np.log(0.05)
    sd = np.sqrt(variance.x)
    exact = rate * np.exp(-rate * sd) / (2 * sd)
    middle = np.argmin(np.abs(variance.x - variance.median))
    assert variance.prior[middle] == pytest.approx(exact[middle], rel=0.25)


def test_densities_of_prior_draws() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(0.5, 3.0, 50)
    draws = rng.gamma(2.0, 1.0, 40_000)
    density = drawn_density(draws, x, (0.0, np.inf))
    assert density is not None
    np.testing.assert_allclose(density, stats.gamma(2.0).pdf(x), rtol=0.08)
    wide = drawn_density(rng.standard_cauchy(40_000), x, (-np.inf, np.inf))
    assert wide is not None
    np.testing.assert_allclose(wide, stats.cauchy.pdf(x), rtol=0.15)
    assert drawn_density(draws, np.linspace(500.0, 501.0, 5), (-np.inf, np.inf)) is None


def test_responses(fit: lgm.Fit, tmp_path: Path) -> None:
    ax = axes()
    fit.plot("z", ax=ax)
    assert {"observed", "no data: forecast"} <= {*said(ax)}
    rows = axes()
    fit.plot("y", ax=rows)
    assert said(rows) == ["90 %", "a row", "equal"] and rows.get_ylabel() == "y, observed"
    fit.save(tmp_path / "f.nc")
    loaded = lgm.load_fit(tmp_path / "f.nc")
    with pytest.raises(lgm.MethodError, match="result file") as caught:
        loaded.plot("y", ax=axes())
    assert "data=" in str(caught.value)


def test_several_names_and_new_figures(fit: lgm.Fit) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    grid = fit.plot(["f", "u", "s"])
    assert len(grid) == 3 and all(isinstance(a, Axes) for a in grid)
    one = fit.plot("f")
    assert isinstance(one, Axes)
    assert len(fit.plot("g")) == 2
    with pytest.raises(lgm.ModelError, match="do not fit"):
        fit.plot(["f", "u", "s"], ax=axes(2))
    pyplot.close("all")


def test_names_and_folders(fit: lgm.Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lgm.ModelError, match="`eta`") as caught:
        fit.plot("etta")
    assert caught.value.codes == ("E103",) and not list(tmp_path.iterdir())
    with pytest.raises(lgm.ModelError, match="named `pictures`"):
        fit.plot("pictures", ax=axes())
    assert [p.name for p in fit.plot("./f", names=["f"])] == ["latent_f.png"]
    assert [p.parent.name for p in fit.plot(Path("eta"), names=["f"])] == ["eta"]
    with pytest.raises(lgm.MethodError, match="`e` cannot be drawn") as fixed:
        fit.plot("e", ax=axes())
    assert fixed.value.codes == ("E501",)


def test_predictions(fit: lgm.Fit) -> None:
    prediction = fit.predict({"day": [26, 25, 24]})
    ax = axes()
    assert prediction.plot("f", ax=ax) is ax
    median = next(line for line in ax.lines if line.get_label() == "median")
    assert np.asarray(median.get_xdata()).tolist() == [24.0, 25.0, 26.0]
    np.testing.assert_allclose(
        np.asarray(median.get_ydata(), dtype=float), prediction.quantile("f", [0.5])[0, ::-1]
    )
    rows = fit.predict(
        {"where": ["site 1", "site 2"], "when": [1, 2], "k": [0.0, 1.0], "l": [0.0, 0.0]}
    )
    other = axes()
    rows.plot(ax=other)
    assert said(other) == ["90 %", "50 %", "median"]
    with pytest.raises(lgm.ModelError, match="has no `etta`"):
        rows.plot("etta", ax=other)


def test_odd_labels_are_shown_as_they_are() -> None:
    labels = ["$a_1$", "x" * 300, "日本 ü", "two\nlines", "nan", "$", ""] * 8
    q = np.sort(RNG.standard_normal((5, 56)), axis=0)
    ax = axes()
    draw_sorted(ax, Curve("", "u", "g", np.arange(56.0), q, labels))
    draw_curve(axes(), Curve("", "$u$", "g", np.arange(56.0), q, labels))
    shown = [t.get_text() for t in ax.texts]
    assert all("$" not in text.replace("\\$", "") for text in shown)
    assert all(len(line) <= 30 for text in shown for line in text.split("\n"))
    ax.figure.canvas.draw()


def test_one_place_and_nothing_observed() -> None:
    q = np.sort(RNG.standard_normal((5, 1)), axis=0)
    for seen in (None, np.array([True]), np.array([False])):
        ax = axes()
        draw_curve(
            ax, Curve("", "f", "t", np.zeros(1), q, None, (np.zeros(1), np.full(1, np.nan)), seen)
        )
        ax.figure.canvas.draw()
        assert said(ax) == ["90 %", "50 %", "median"]


def test_a_fit_that_was_drawn_can_be_pickled(fit: lgm.Fit) -> None:
    fit.plot("S", ax=axes())
    assert pickle.loads(pickle.dumps(fit)) == fit


def test_rows_that_do_not_fit_are_sorted() -> None:
    q = np.sort(RNG.standard_normal((5, 30)), axis=0)
    rows = [ForestRow(f"row {k}", q[:, k]) for k in range(30)]
    low, high = Figure(figsize=(6, 3)).subplots(), Figure(figsize=(6, 6)).subplots()
    draw_forest(low, "u", rows)
    draw_forest(high, "u", rows)
    assert [t.get_text() for t in high.get_yticklabels()] == [r.label for r in rows]
    assert "row" not in "".join(t.get_text() for t in low.get_yticklabels())
    assert low.get_xlabel() == "from the lowest median to the highest"


def test_transforms_on_axes(fit: lgm.Fit) -> None:
    ax = axes()
    fit.plot("pit", ax=ax)
    assert "uniform" in said(ax) and ax.get_ylabel() == "density"


def test_zeros_and_ones_are_shown_by_their_shares() -> None:
    rng = np.random.default_rng(0)
    x = np.repeat([-2.0, 0.0, 2.0], 50)
    given = {"x": x, "y": rng.uniform(size=150) < 1 / (1 + np.exp(-x))}
    text = (
        "lgm 1\nindex obs\ndata x[obs] : real\ndata y[obs] : binary\nlatent b ~ normal(sd = 1)\n"
        "observe y ~ bernoulli(logit = b * x)\n"
    )
    fit = lgm.fit(lgm.loads(text), {**given, "y": given["y"].astype(int)}, method="laplace")
    ax = axes()
    fit.plot("y", ax=ax)
    dots = next(line for line in ax.lines if "groups" in str(line.get_label()))
    shares = np.asarray(dots.get_ydata(), dtype=float)
    assert len(shares) == 10 and shares.mean() == pytest.approx(given["y"].mean(), abs=1e-9)
    assert (np.diff(np.asarray(dots.get_xdata(), dtype=float)) >= 0).all()


def test_labels_that_begin_alike_are_told_apart() -> None:
    assert entry("x" * 300 + "17", 16) != entry("x" * 300 + "18", 16)
    assert len(entry("x" * 300 + "17", 16)) == 16 and entry("short", 16) == "short"


CENSORED = """lgm 1
index day = 1..30
data y[day] : real?
data lo[day] : real?
data hi[day] : real?
latent f[day] ~ rw1(sd = 0.4)
observe y ~ normal(mean = f, sd = 0.5, lower = lo, upper = hi)
"""
LATE = """lgm 1
index obs
data time[obs] : positive
data died[obs] : binary
latent level ~ normal(sd = 5)
observe time ~ exponential(log_rate = level, event = died)
"""


def _drawn(ax: Any) -> dict[str, Any]:
    handles, labels = ax.get_legend_handles_labels()
    return dict(zip(labels, handles, strict=True))


def test_censored_rows_are_no_observations() -> None:
    """Triangles at the ends that are known, bars between two; only others are dots."""
    z = np.linspace(-2.0, 2.0, 30)
    low, high = np.full(30, np.nan), np.full(30, np.nan)
    low[25:], high[:4], low[10:12], high[10:12] = 1.2, -1.5, -1.0, 0.5
    y = np.where(np.isnan(low) & np.isnan(high), z, np.nan)
    fit = lgm.fit(lgm.loads(CENSORED), {"y": y, "lo": low, "hi": high}, method="laplace")
    for name in ("y", "f"):
        shown = _drawn(fit.plot(name, ax=axes()))
        assert np.allclose(shown["observed"].get_ydata(), y[~np.isnan(y)])
        assert shown["censored, above this"].get_ydata().tolist() == [1.2] * 5
        assert shown["censored, below this"].get_ydata().tolist() == [-1.5] * 4
        assert len(shown["censored, between ends"].get_segments()) == 2
    time, died = np.arange(1.0, 13.0), np.array([1, 0, 1] * 4)
    fit = lgm.fit(lgm.loads(LATE), {"time": time, "died": died}, method="laplace")
    shown = _drawn(fit.plot("time", ax=axes()))
    assert shown["censored, above this"].get_ydata().tolist() == time[died == 0].tolist()
    assert len(shown["a row"].get_ydata()) == 8
    assert "12 responses,\n4 censored, spread over their range" in _drawn(
        fit.plot("pit", ax=axes())
    )
    rows = fit.augment()
    assert (rows["time_residual"].isna() == (died == 0)).all()
    assert (rows["time_censored"] == (died == 0)).all()


@pytest.mark.parametrize("draw", [draw_forest, draw_sorted])
def test_an_interval_narrower_than_its_dot_is_said(draw: Any) -> None:
    """A white dot alone looks like an interval of no width: the dot is full, and the legend says
    so; in a forest its half-width stands beside it."""
    medians = np.array([0.0, 1000.0, 2.0, 400.0])
    widths = np.array([0.5, 0.5, 0.5, 300.0])
    q = medians + np.array([-1.0, -0.4, 0.0, 0.4, 1.0])[:, None] * widths
    ax = axes()
    if draw is draw_forest:
        draw(ax, "big", [ForestRow(str(k), row) for k, row in enumerate(q.T)])
        assert [t.get_text() for t in ax.texts] == ["± 0.5"] * 3
        label = "median ± half of 90 %, within the dot"
    else:
        draw(ax, Curve("", "big", "h", np.arange(1.0, 5.0), q, list("abcd")))
        label = "median, 90 % within the dot"
    shown = _drawn(ax)
    assert len(shown[label].get_xdata()) == 3
    assert len(shown["median"].get_xdata()) == 1


@pytest.mark.parametrize("wide", [3.0, 4.5, 6.0, 8.2])
@pytest.mark.parametrize("kinds", [0, 1, 2, 3])
def test_a_legend_leaves_the_axes_their_width(wide: float, kinds: int) -> None:
    """Three kinds of censored rows had a legend so wide that the axes kept half the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    rng = np.random.default_rng(0)
    middle = rng.uniform(1.0, 9.0, 40)
    ends = np.full((2, 40), np.nan)
    ends[:, :30] = np.array([[2.0, np.inf], [-np.inf, 4.0], [3.0, 5.0]]).T[:, np.arange(30) % 3]
    ends[:, np.arange(40) % 3 >= kinds] = np.nan
    observed = np.where(np.isnan(ends[0]), middle + 1.0, np.nan)
    quantiles = middle * np.array([0.5, 0.8, 1.0, 1.2, 1.5])[:, None]
    rows = Agreement("y", "y", observed, quantiles, ends)
    figure = Figure(figsize=(wide, 4.8), layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw_agreement(axes, rows)
    canvas.draw()
    legend = axes.get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == 3 + kinds
    box = legend.get_window_extent(canvas.get_renderer())
    assert box.x0 >= 0.0
    assert box.x1 <= figure.bbox.width
    assert axes.get_window_extent().width > 0.98 * (figure.bbox.width - 80.0)
