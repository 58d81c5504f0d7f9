"""Qi and Jaakkola 2007, figure 1 (a): plain and expanded variational Bayes for the probit
regression of 100 rows of 20 features whose labels a random classifier gives, 500 rows to predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from tests.reproductions.px_rounds import (
    FLAT,
    PROBIT,
    as_printed,
    changes,
    problem_of,
    rounds,
    until,
)
from tests.reproductions.record import COLOURS, figure, table

pytestmark = [pytest.mark.reproduction, pytest.mark.thorough]
FOLDER = Path(__file__).parent
ROWS, TESTED, FEATURES = 100, 500, 20
TOLERANCE, MOST, SHOWN = 1e-7, 5000, 2000


@dataclass(frozen=True)
class Way:
    """How the estimates follow one another, and under which prior."""

    prior: str
    name: str
    start: Callable[[], Iterator[Array]]


def made() -> tuple[Array, AnyArray, Array, AnyArray]:
    """Rows to learn from and to predict, from one classifier."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=FEATURES)
    X = rng.normal(size=(ROWS + TESTED, FEATURES))
    y = (X @ w > 0.0).astype(np.int64)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def test_synthetic() -> None:
    X, y, X_test, y_test = made()
    data: dict[str, AnyArray] = {"X": X, "y": y}
    labels = y.astype(np.float64)
    with pytest.raises(lgm.ModelError, match="E402"):
        lgm.fit(lgm.loads(FLAT), data, "px-vb")
    ways = [
        Way("flat", "plain", lambda: as_printed(X, labels, None)),
        Way("flat", "(13) with N + M", lambda: as_printed(X, labels, ROWS + FEATURES)),
        Way("flat", "(13) with N", lambda: as_printed(X, labels, ROWS)),
    ]
    for sd in (0.3, 1.0):
        problem = problem_of(PROBIT.format(prior=f"normal(sd = {sd})"), data)
        for name, expand in (("plain", False), ("expanded", True)):

            def start(problem=problem, expand=expand) -> Iterator[Array]:  # type: ignore[no-untyped-def]
                return rounds(problem, X, expand)

            ways.append(Way(f"sd {sd:g}", name, start))
    table_rows: list[list[object]] = []
    found: dict[tuple[str, str], tuple[int | None, Array]] = {}
    for way in ways:
        reached = until(way.start, (TOLERANCE,), MOST)
        w = reached[0].w if reached else changes(way.start(), MOST)[1][-1]
        found[way.prior, way.name] = (reached[0].rounds if reached else None, w)
        wrong = [float(np.mean((A @ w > 0.0) != b)) for A, b in ((X, y), (X_test, y_test))]
        table_rows.append(
            [
                way.prior,
                way.name,
                reached[0].rounds if reached else f"not in {MOST}",
                float(np.linalg.norm(w)),
                *wrong,
            ]
        )
    heads = ["prior", "way", "rounds to 1e-7", "|w|", "training error", "test error"]
    table(FOLDER, heads, table_rows, digits=4)
    for prior in ("sd 0.3", "sd 1"):
        (plain, one), (expanded, two) = (found[prior, n] for n in ("plain", "expanded"))
        assert plain is not None and expanded is not None and expanded < plain
        np.testing.assert_allclose(one, two, atol=1e-4)
    assert found["flat", "plain"][0] is None and found["flat", "(13) with N + M"][0] is None
    assert found["flat", "(13) with N"][0] is not None
    _picture(ways)


def _picture(ways: list[Way]) -> None:
    with figure(FOLDER, 7.4, 3.4) as canvas:
        left, right = canvas.subplots(1, 2)
        for k, way in enumerate(ways):
            moved, _ = changes(way.start(), SHOWN)
            axes = left if way.prior == "flat" else right
            colour, style = COLOURS[k % len(COLOURS)], "--" if way.name.startswith("(") else "-"
            label = way.name if way.prior == "flat" else f"{way.prior}, {way.name}"
            axes.loglog(np.arange(2, SHOWN + 1), moved, style, color=colour, label=label)
        left.set_title("flat prior: only the wrong denominator stops")
        right.set_title("proper priors")
        for axes in (left, right):
            axes.set_ylim(1e-9, 3.0)
            axes.set_xlabel("rounds")
            axes.set_ylabel("|w$_t$ $-$ w$_{t-1}$|")
            axes.legend(loc="lower left")
