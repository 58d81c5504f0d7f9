"""Khan 2012, figure 6.1: two factors of 392 cars by three factor analyses: of the five
continuous variables; of those and the three discrete ones recoded as -1 and 1; of all eight, each
with its own likelihood (multinomial logit, Böhning's bound)."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array, BoolArray, IntArray
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
CONTINUOUS = ("mpg", "displacement", "horsepower", "weight", "acceleration")
DISCRETE = ("cylinders", "year", "origin")
COUNTRIES = {1: "US", 2: "Europe", 3: "Japan"}
GAUSSIAN = """lgm 1
index car
index column
index factor = 2
data x[car, column] : real
hyper c[column] : real ~ normal(sd = 5)
hyper L[column, factor] : real ~ normal(sd = 3)
hyper s[column] : positive ~ pc_sd(u = 1, alpha = 0.05)
latent z[car, factor] ~ normal(sd = 1)
let eta[car, column] = c + L @ z
observe x ~ normal(mean = eta, sd = s)
"""
ONE_CLASS = """index {name}_class
index {name}_cut = head({name}_class)
data {name}[car] : {name}_class
hyper c_{name}[{name}_cut] : real ~ normal(sd = 3)
hyper L_{name}[{name}_cut, factor] : real ~ normal(sd = 1)
let eta_{name}[car, {name}_cut] = c_{name} + L_{name} @ z
observe {name} ~ categorical(softmax = eta_{name})
"""
MIXED = GAUSSIAN + "".join(ONE_CLASS.format(name=name) for name in DISCRETE)


def cars(shared: Path) -> tuple[Array, dict[str, IntArray]]:
    """Standardised continuous columns, (392, 5), and discrete ones by name."""
    with np.load(shared / "data" / "auto_mpg.npz") as file:
        names = [str(n) for n in file["columns"]]
        columns = {n: file["X"][:, k] for k, n in enumerate(names)} | {"mpg": file["y"]}
    x = np.column_stack([columns[n] for n in CONTINUOUS])
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    return x, {n: columns[n].astype(np.int64) for n in DISCRETE}


def recoded(discrete: dict[str, IntArray]) -> Array:
    """A column for each class, 1 where a car is of it and -1 where not."""
    tables = [np.where(v[:, None] == np.unique(v), 1.0, -1.0) for v in discrete.values()]
    return np.hstack(tables)


def told_apart(z: Array, american: BoolArray) -> float:
    """Share of cars on the right side of the best line between two groups (Fisher's)."""
    one, other = z[american], z[~american]
    within = np.cov(one.T) * (len(one) - 1) + np.cov(other.T) * (len(other) - 1)
    along = z @ np.linalg.solve(within, one.mean(axis=0) - other.mean(axis=0))
    cuts = np.sort(along)
    return float(max(np.mean((along >= cut) == american) for cut in cuts))


def test_figure_6_1(shared: Path) -> None:
    x, discrete = cars(shared)
    assert x.shape == (392, 5)
    assert [len(np.unique(discrete[n])) for n in DISCRETE] == [5, 13, 3]  # as in the thesis
    asked = {
        "GaussianFA-1": (GAUSSIAN, {"x": x}),
        "GaussianFA-2": (GAUSSIAN, {"x": np.hstack([x, recoded(discrete)])}),
        "MixedDataFA": (MIXED, {"x": x} | discrete),
    }
    fits: dict[str, Fit] = {}
    rows: list[list[object]] = []
    country = discrete["origin"]
    for name, (text, data) in asked.items():
        began = time.process_time()
        bound = "bohning" if text is MIXED else None
        fit = lgm.fit(lgm.loads(text), data, hyper="em", bound=bound, tol=1e-7)
        last = fit.learning.steps[-1]
        assert fit.converged, (name, fit.status)
        seconds = time.process_time() - began
        z, sd = fit.mean("z").values, fit.sd("z").values
        fits[name] = fit
        apart = told_apart(z, country == 1), told_apart(z[country > 1], country[country > 1] == 3)
        rows.append(
            [name, *apart, float(sd.min()), float(sd.max()), fit.status.name, last.step, seconds]
        )
    head = [
        "model",
        "US told apart",
        "Japan from Europe",
        "least sd",
        "largest sd",
        "status",
        "steps",
        "CPU seconds",
    ]
    table(FOLDER, head, rows, digits=3)
    with figure(FOLDER, 8.4, 3.0) as picture:
        for axes, (name, fit) in zip(picture.subplots(1, 3), fits.items(), strict=True):
            z = fit.mean("z").values
            for code, colour, marker in zip(COUNTRIES, COLOURS, "os^", strict=False):
                of = country == code
                axes.plot(
                    z[of, 0],
                    z[of, 1],
                    marker,
                    color=colour,
                    markersize=3,
                    fillstyle="none",
                    markeredgewidth=0.7,
                    label=COUNTRIES[code],
                )
            axes.set(title=name, xlabel="factor 1", ylabel="factor 2")
        picture.axes[0].legend()
    # Two noise sds of the mixed model end at 0, which is told: its factors are those columns.
    mixed = fits["MixedDataFA"]
    edge = [w.message for w in mixed.warnings if w.code == "W605"]
    assert len(edge) == 1 and all(f"`s[column {k}]`" in edge[0] for k in (2, 3))
    x_of = [np.linalg.lstsq(mixed.mean("z").values, x[:, k], rcond=None) for k in (2, 3)]
    assert max(float(found[1][0]) for found in x_of) < 0.01 * len(x)
