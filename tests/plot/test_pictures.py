"""Pictures of a fit: which are drawn, from which numbers, and that they can be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import lgmdsl as lgm
from lgmdsl.api.pictures.hyper_pictures import panels, prior_density
from lgmdsl.api.pictures.pictures import bins
from lgmdsl.api.positions import line, places
from lgmdsl.plot import effects, fields
from lgmdsl.plot.effects import (
    LEVELS,
    Curve,
    ForestRow,
    curve_picture,
    forest_picture,
    sorted_picture,
)
from lgmdsl.plot.fields import Heat, Map, heat_picture, map_picture
from lgmdsl.plot.hypers import HyperPanel, hyper_picture
from lgmdsl.plot.pit import pit_picture

pytest.importorskip("matplotlib")

RNG = np.random.default_rng(0)
QUANTILES = np.sort(RNG.standard_normal((5, 60)), axis=0)

MODEL = """lgm 1
index site
index day = 1..20
index obs
index t
index stop
data name[obs] : stop
data lon[site] : real  "degrees east"
data lat[site] : real
data where[obs] : site
data when[obs] : day
data at[t] : real  "hours"
data y[obs] : count
data r[t] : real
hyper v : positive ~ inv_gamma(shape = 3, scale = 1)
hyper s : positive = sqrt(v)  "sd between sites"
hyper rho[t] : positive = 1
hyper w : positive ~ gamma(shape = 2, rate = v)
latent b0 ~ normal(sd = 2)  "level"
latent u[site] ~ normal(sd = s)
latent f[day] ~ rw1(sd = 0.3)
latent g[t] ~ gp(at = at, kernel = se(sd = 1, length = 2))
latent h[stop] ~ rw1(sd = 0.3)
latent st[site, day] ~ iid * ar1(sd = 0.2, rho = 0.5)
let eta[obs] = b0 + u[where] + f[when] + h[name]
observe y ~ poisson(log_rate = eta)
observe r ~ normal(mean = g, sd = w)
report rate[site] = exp(b0 + u)  "visitors an hour"
report flat = 2 * v
"""


@pytest.fixture(scope="module")
def fitted() -> lgm.Fit:
    data: dict[str, Any] = {
        "lon": RNG.uniform(-3, 0, 45), "lat": RNG.uniform(51, 53, 45),
        "where": np.arange(90) % 45, "when": np.arange(90) % 20 + 1, "y": RNG.poisson(3, 90),
        "name": np.array(["depot", "market", "school"])[np.arange(90) % 3],
        "stop": np.array(["depot", "market", "school"]),
        "at": np.array([5.0, 1.0, 3.0, 8.0]), "r": np.array([0.5, 1.0, 0.3, -0.7]),
    }  # fmt: skip
    return lgm.fit(lgm.loads(MODEL), data, method="laplace", hyper="map")


FILES = {"terms", "response_y", "response_r",
    "map_u", "latent_f", "latent_g", "latent_h", "latent_st", "let_eta", "map_rate",
    "scalars", "hyper", "pit",
}  # fmt: skip


@pytest.mark.thorough
def test_every_quantity_has_its_picture(fitted: lgm.Fit, tmp_path: Path) -> None:
    files = fitted.plot(tmp_path / "new" / "folder")
    assert {f.stem for f in files} == FILES
    assert all(f.read_bytes().startswith(b"\x89PNG") for f in files)
    assert {f.name for f in (tmp_path / "new" / "folder").iterdir()} == {f.name for f in files}
    again = fitted.plot(tmp_path, names=["g", "s"], format="svg")
    assert [f.name for f in again] == ["latent_g.svg", "hyper.svg"]
    first = again[0].read_bytes()
    assert fitted.plot(tmp_path, names=["g"], format="svg")[0].read_bytes() == first


def test_lines_and_places(fitted: lgm.Fit) -> None:
    canonical = fitted.canonical
    days, hours = line(canonical, "day"), line(canonical, "t")
    assert days is not None and (days.axis, days.x.tolist()) == ("day", list(range(1, 21)))
    assert hours is not None and (hours.axis, hours.x.tolist()) == ("at: hours", [5, 1, 3, 8])
    stops = line(canonical, "stop")
    assert stops is not None and stops.labels == ("depot", "market", "school")
    assert line(canonical, "site") is None and line(canonical, "obs") is None
    where = places(canonical, "site")
    assert where is not None and where.axes == ("lon: degrees east", "lat")
    np.testing.assert_array_equal(where.places[:, 0], canonical.grounded.values["lon"])
    assert where.ratio == pytest.approx(1 / np.cos(np.radians(where.places[:, 1].mean())))
    assert places(canonical, "day") is None


def test_a_file_keeps_the_coordinates(fitted: lgm.Fit, tmp_path: Path) -> None:
    fitted.save(tmp_path / "f.nc")
    found = places(lgm.load_fit(tmp_path / "f.nc").canonical, "site")
    where = places(fitted.canonical, "site")
    assert found is not None and where is not None
    np.testing.assert_array_equal(found.places, where.places)


@pytest.mark.thorough
def test_inputs_of_two_columns_are_places(root: Path) -> None:
    folder = root / "models" / "gp_classification"
    fit = lgm.fit(lgm.load(folder / "model.lgm"), folder / "data.npz", method="laplace")
    found = places(fit.canonical, "obs")
    assert found is not None and found.axes == ("x1", "x2") and found.ratio == 1.0
    np.testing.assert_array_equal(found.places, fit.canonical.grounded.values["x"])
    assert line(fit.canonical, "obs") is None


def test_priors_behind_posteriors(fitted: lgm.Fit) -> None:
    space, x = fitted.canonical.hypers, np.linspace(0.1, 2.0, 30)
    exact = stats.invgamma(3, scale=1.0)
    v, s, w = (space.block(name) for name in ("v", "s", "w"))
    assert v is not None and s is not None and w is not None
    own, computed = prior_density(space, v, x), prior_density(space, s, x)
    assert own is not None and computed is not None
    np.testing.assert_allclose(own, exact.pdf(x), rtol=1e-9)
    np.testing.assert_allclose(computed, exact.pdf(x**2) * 2 * x, rtol=1e-5)
    assert prior_density(space, w, x) is None  # another hyper is in it
    shown = panels(fitted, ["v", "s"])
    assert [p.name for p in shown] == ["v", "s"] and shown[1].label == "sd between sites"
    for panel in shown:
        assert np.trapezoid(panel.density, panel.x) == pytest.approx(1.0, abs=2e-3)
        assert panel.median == pytest.approx(float(fitted.quantile(panel.name, [0.5])[0]))


def test_nothing_to_draw(fitted: lgm.Fit, tmp_path: Path) -> None:
    with pytest.raises(lgm.MethodError, match="nothing to draw") as caught:
        fitted.plot(tmp_path, names=["rho"])
    assert caught.value.codes == ("E501",) and "rho: it has no density" in str(caught.value)
    with pytest.raises(lgm.ModelError, match="did you mean `eta`") as unknown:
        fitted.plot(tmp_path, names=["etta"])
    assert unknown.value.codes == ("E103",)
    with pytest.raises(lgm.ModelError, match="png, svg, pdf"):
        fitted.plot(tmp_path, format="gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(lgm.DataError, match="cannot write") as taken:
        fitted.plot(tmp_path / "file", names=["f"])
    assert taken.value.codes == ("E306",)


@pytest.mark.thorough
def test_from_arrays_alone() -> None:
    """Odd sizes, labels and values: one entry, long names, NaN, spreads of zero."""
    x = np.arange(60.0)
    labels = [f"a long label number {k}" for k in range(60)]
    drawn = [
        curve_picture(Curve("f[t]: " + "wörter " * 40, "f", "t", x, QUANTILES, labels)),
        curve_picture(Curve("f", "f", "t", x[:1], QUANTILES[:, :1])),
        sorted_picture(Curve("u", "u", "g", x, QUANTILES)),
        forest_picture("b", "b", [ForestRow("$a_1$", QUANTILES[:, 0])]),
        forest_picture(
            "b", "b", [ForestRow("a", QUANTILES[:, 0]), ForestRow("b", 1e6 + QUANTILES[:, 1])]
        ),
        heat_picture(Heat("h", ("a", "b"), (labels, ["1"]), QUANTILES[:1].T, QUANTILES[1:2].T)),
        map_picture(Map("m", ("x", "y"), np.zeros((3, 2)), np.array([1, np.nan, -1]), np.ones(3))),
        hyper_picture("h", [HyperPanel("s", "", x, stats.gamma(5).pdf(x), 4.7)] * 30),
        pit_picture("p", np.ones(10), 0),
        pit_picture("p", np.linspace(0.5, 1.5, 10), 100),
    ]
    assert all(d.startswith(b"\x89PNG") for d in drawn)


def test_rows_of_unlike_scales_have_their_own_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    monkeypatch.setattr(effects, "_whiskers", lambda axes, rows: counts.append(len(rows)))
    alike = [ForestRow("a", QUANTILES[:, 0]), ForestRow("b", QUANTILES[:, 1])]
    forest_picture("b", "b", alike)
    forest_picture("b", "b", [*alike, ForestRow("c", 1e5 + QUANTILES[:, 2])])
    assert counts == [2, 1, 1, 1]


def test_curves_are_in_the_order_of_x(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(
        effects, "_bands", lambda axes, x, q, dots, known=None: seen.append((x, q, dots))
    )
    curve_picture(Curve("g", "g", "t", np.array([5.0, 1.0, 3.0]), QUANTILES[:, :3]))
    many = np.sort(RNG.standard_normal((5, 400)), axis=0)
    sorted_picture(Curve("g", "g", "t", np.arange(400.0), many))
    assert seen[0][0].tolist() == [1.0, 3.0, 5.0] and seen[0][2]
    np.testing.assert_array_equal(seen[0][1], QUANTILES[:, [1, 2, 0]])
    assert (np.diff(seen[1][1][LEVELS.index(0.5)]) >= 0).all()


def test_colours_diverge_about_zero() -> None:
    both = fields._colours(np.array([-1.0, 3.0, np.nan]), True)
    assert (both["vmin"], both["vmax"]) == (-3.0, 3.0)
    assert "vmin" not in fields._colours(np.array([1.0, 3.0]), True)
    assert "vmin" not in fields._colours(np.array([-1.0, 3.0]), False)


def test_bars_hold_about_ten() -> None:
    assert [bins(n) for n in (3, 59, 120, 945)] == [5, 5, 12, 20]
