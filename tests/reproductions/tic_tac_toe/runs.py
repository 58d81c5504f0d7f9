"""Bits of held-out entries of tic-tac-toe boards by bound, a split at a time: Khan 2012, figure
5.8(a).

    python -m tests.reproductions.tic_tac_toe.runs [--splits 20]

puts the splits that `runs.csv` lacks into it, each when it has ended. The first ten have every
method, the others those that the figure compares and the quickest.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import AnyArray, Array
from tests.reproductions.record import table
from tests.reproductions.tic_tac_toe.boards import Split, bits, model, split

FOLDER = Path(__file__).parent
METHODS = {
    "stick-pw": ("stick", "piecewise-quadratic-20"),
    "logit-log": ("softmax", "log"), "logit-bohning": ("softmax", "bohning"),
    "logit-tilted": ("softmax", "tilted"), "logit-sigmoids": ("softmax", "product-of-sigmoids"),
    "logit-quadrature": ("softmax", None),
}  # fmt: skip
TOL = 1e-5
SURE = 0.01  # the imputer's probabilities are at least this
WHOLE, ALWAYS = 10, ("stick-pw", "logit-log", "logit-bohning")  # of the splits after these


def imputed(given: Split, name: str, theta: Mapping[str, object]) -> float:
    """Bits of the entries held out, from the others of their boards."""
    link, bound = METHODS[name]
    fit = lgm.fit(
        model(link), given.holed, "natural-gradient", hyper="fixed", fixed=theta, bound=bound
    )
    found = fit.impute()
    return bits(given, found["y"].values, found["won"].values)


def errors_of(number: int) -> dict[str, float | None]:
    """Of one split: bits and CPU seconds of learning by bound, and the peers' bits; None where the
    split does without."""
    given = split(number)
    found: dict[str, float | None] = {}
    for name, (link, bound) in METHODS.items():
        if number >= WHOLE and name not in ALWAYS:
            found |= {f"{name}, CPU s": None, name: None}
            continue
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


def stored() -> dict[int, dict[str, float | None]]:
    """The splits of `runs.csv`."""
    path = FOLDER / "runs.csv"
    if not path.is_file():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        return {
            int(row.pop("split")): {n: float(cell) if cell else None for n, cell in row.items()}
            for row in csv.DictReader(lines)
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=20)
    for number in range(parser.parse_args().splits):
        known = stored()
        if number not in known:
            known[number] = errors_of(number)
            header = ["split", *known[number]]
            rows = [[k, *one.values()] for k, one in sorted(known.items())]
            table(FOLDER, header, rows, name="runs", digits=7)


if __name__ == "__main__":
    main()
