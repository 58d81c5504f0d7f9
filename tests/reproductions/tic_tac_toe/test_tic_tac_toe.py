"""Khan 2012, figures 5.7 and 5.8(a): a categorical latent Gaussian graphical model of
tic-tac-toe boards by bound: cross entropy of entries held out, against time and over 20 splits.

The errors of each split are made by `runs.py`; the test makes the quick ones of one split
again, and the table and the figure of all that are there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.log_posterior import Objective
from lgmdsl.learning.search.maximise import Maximiser
from lgmdsl.learning.starts.factor_axes import idle_loadings, scattered
from tests.compiled import canonical_form
from tests.reproductions.record import COLOURS, figure, splits_table, table
from tests.reproductions.tic_tac_toe.boards import BLANK, boards, model, split
from tests.reproductions.tic_tac_toe.runs import METHODS, TOL, by_columns, imputed, stored

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
TRACED = ("logit-log", "stick-pw")
STEPS = (2, 5, 10, 20, 40, 80)  # of L-BFGS


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


def test_stored_errors_are_those_of_the_code() -> None:
    """Of split 10, those of the stick and of the columns' shares."""
    given, kept = split(10), stored()[10]
    link, bound = METHODS["stick-pw"]
    fit = lgm.fit(model(link), given.data, "natural-gradient", hyper="em", bound=bound, tol=TOL)
    assert imputed(given, "stick-pw", dict(fit.theta)) == pytest.approx(kept["stick-pw"], abs=2e-3)
    assert by_columns(given) == pytest.approx(kept["columns"], abs=1e-6)


@pytest.mark.thorough
def test_figure_5_8() -> None:
    """To show: stick with pieces below log below Boehning on every split."""
    found = list(stored().values())
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
        canonical = canonical_form(model(link), given.data)
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
