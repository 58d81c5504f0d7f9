"""Khan 2012, figures 5.7 and 5.8(a): a categorical latent Gaussian graphical model of
tic-tac-toe boards by bound: cross entropy of entries held out, against time and over ten splits."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from lgmdsl.compile import compile_model
from lgmdsl.dataset import read
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.learning.search.maximise import Maximiser
from lgmdsl.learning.starts.factor_axes import idle_loadings, scattered
from lgmdsl.sites import catalogue as sites
from tests.reproductions.record import COLOURS, figure, splits_table, table
from tests.reproductions.tic_tac_toe.boards import (
    BLANK,
    Split,
    bits,
    boards,
    model,
    split,
)

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
SPLITS = 10
METHODS = {
    "stick-pw": ("stick", "piecewise-quadratic-20"),
    "logit-log": ("softmax", "log"), "logit-bohning": ("softmax", "bohning"),
    "logit-tilted": ("softmax", "tilted"), "logit-sigmoids": ("softmax", "product-of-sigmoids"),
    "logit-quadrature": ("softmax", None),
}  # fmt: skip
TRACED = ("logit-log", "stick-pw")
STEPS = (2, 5, 10, 20, 40, 80)  # of L-BFGS
TOL = 1e-5
SURE = 0.01  # the imputer's probabilities are at least this


def test_boards_are_those_of_the_data_set(shared: Path) -> None:
    y, won = boards()
    assert y.shape == (958, 9) and won.sum() == 626
    with np.load(shared / "data" / "tic_tac_toe.npz") as held:
        codes = {1: 0, -1: 1, 0: BLANK}
        kept = {
            (*map(codes.get, row.tolist()), int(c == 1))
            for row, c in zip(held["X"], held["y"], strict=True)
        }
    assert kept == {(*row, int(w)) for row, w in zip(y.tolist(), won, strict=True)}


def imputed(given: Split, name: str, theta: Mapping[str, object]) -> float:
    """Bits of the entries held out, from the others of their boards."""
    link, bound = METHODS[name]
    fit = lgm.fit(
        model(link), given.holed, "natural-gradient", hyper="fixed", fixed=theta, bound=bound
    )
    found = fit.impute()
    return bits(given, found["y"].values, found["won"].values)


def errors_of(number: int) -> dict[str, float]:
    """Of one split: bits and CPU seconds of learning by bound, and the peers' bits."""
    given = split(number)
    found: dict[str, float] = {}
    for name, (link, bound) in METHODS.items():
        began = time.process_time()
        fit = lgm.fit(model(link), given.data, "natural-gradient", hyper="em", bound=bound, tol=TOL)
        assert fit.converged, (number, name)
        found[f"{name}, CPU s"] = time.process_time() - began
        found[name] = imputed(given, name, dict(fit.theta))
    found["imputer"] = by_regressions(given)
    found["columns"] = by_columns(given)
    return found


def indicators(y: Array, won: AnyArray) -> Array:
    """(N, 19): is a square x, is it o, and the class; NaN where they are. (With a third for blank
    each would be told by the other two, and a missing square would stay at its first filling.)"""
    marks = np.where(np.isnan(y)[..., None], np.nan, y[..., None] == np.arange(2))
    return np.column_stack([marks.reshape(len(y), -1), won])


def by_regressions(given: Split) -> float:
    """scikit-learn's IterativeImputer on indicators, cut at SURE and made to sum to 1."""
    pytest.importorskip("sklearn")
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    filler = IterativeImputer(max_iter=20, random_state=0, tol=1e-2)
    filler.fit(indicators(given.y.astype(float), given.won))
    y = np.where(given.out_y, np.nan, given.new_y)
    filled = filler.transform(indicators(y, np.where(given.out_won, np.nan, given.new_won)))
    two = filled[:, :18].reshape(-1, 9, 2)
    marks = np.concatenate([two, 1.0 - two.sum(axis=2, keepdims=True)], axis=2)
    marks = np.clip(marks, SURE, 1.0 - SURE)
    marks /= marks.sum(axis=2, keepdims=True)
    return bits(given, marks, np.clip(filled[:, 18], SURE, 1.0 - SURE))


def by_columns(given: Split) -> float:
    """Shares of each column, one added to each count."""
    count = (given.y[..., None] == np.arange(3)).sum(axis=0) + 1.0
    share = count / count.sum(axis=1, keepdims=True)
    won = (given.won.sum() + 1.0) / (len(given.won) + 2.0)
    size = len(given.new_y)
    return bits(given, np.broadcast_to(share, (size, 9, 3)), np.full(size, won))


def test_figure_5_8() -> None:
    """To show: stick with pieces below log below Boehning on every split."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(errors_of, range(SPLITS)))
    each = splits_table(FOLDER, found, "stick-pw", (*METHODS, "imputer", "columns"))
    draw(each)
    assert np.all(each["stick-pw"] < each["logit-log"])
    assert np.all(each["logit-log"] < each["logit-bohning"])
    assert np.all(each["logit-bohning"] < each["columns"])


def draw(each: Mapping[str, Array]) -> None:
    """The stick against the others, a point a split."""
    with figure(FOLDER, 4.4, 3.2, name="splits") as picture:
        axes = picture.subplots()
        for name, colour, marker in zip(
            ("logit-log", "logit-bohning", "imputer"), COLOURS, "os^", strict=False
        ):
            axes.plot(each[name], each["stick-pw"], marker, color=colour, markersize=4, label=name)
        low, high = each["stick-pw"].min() - 0.02, each["imputer"].max()
        axes.plot([low, high], [low, high], "--", color="#7F7F7F", linewidth=0.8)
        axes.set(xlabel="bits with ...", ylabel="bits with stick-pw", ylim=(low, 1.5))
        axes.set_xlim(low, high + 0.02)
        axes.legend(loc="upper left")


def test_figure_5_7() -> None:
    """Error against time on one split: L-BFGS stopped after so many steps."""
    given = split(0)
    rows: list[list[object]] = []
    for name in TRACED:
        link, bound = METHODS[name]
        canonical = compile_model(model(link).checked, read(given.data), sites.find_site)
        coordinates = Coordinates(canonical.hypers)
        for limit in STEPS:
            objective = Objective(
                plan(canonical, "natural-gradient", bound), coordinates, {}, Tolerances.scaled(TOL)
            )
            theta = canonical.hypers.start()
            began = time.process_time()
            first = objective.at(
                coordinates.pack(scattered(theta, idle_loadings(objective, theta)))
            )
            assert first is not None
            end = Maximiser(objective, jacobian=False, limit=limit).run(first)
            seconds = time.process_time() - began
            rows.append(
                [
                    name,
                    len(end.steps) - 1,
                    seconds,
                    end.at.posterior.log_evidence,
                    imputed(given, name, dict(end.at.theta)),
                ]
            )
    table(
        FOLDER, ["method", "steps", "CPU s", "log evidence", "bits"], rows, name="trace", digits=5
    )
    with figure(FOLDER, 4.4, 3.2, name="trace") as picture:
        axes = picture.subplots()
        for name, marker in zip(TRACED, "so", strict=True):
            own = [(float(str(r[2])), float(str(r[4]))) for r in rows if r[0] == name]
            axes.plot(*zip(*own, strict=True), marker + "-", markersize=4, label=name)
        axes.set(xlabel="CPU seconds of learning", ylabel="bits an entry", xlim=(0, None))
        axes.legend()
    ends = {name: [float(str(r[4])) for r in rows if r[0] == name][-1] for name in TRACED}
    assert ends["stick-pw"] < ends["logit-log"]
