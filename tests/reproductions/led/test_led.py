"""Khan 2012, figures 4.10 to 4.12: binary latent Gaussian graphical models, dense and
sparse, of the digits of an LED display: 7 segments that go together and 17 columns of noise.

The points of the sparse models over rates are made by `rates.py`; the test reads those that are
there.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.arrays import Array
from tests.reproductions.led.digits import (
    BOUNDS,
    DENSE,
    OWN,
    bits,
    digits,
    learned,
    sparse,
    split,
)
from tests.reproductions.led.rates import FIRST, RATES, Point, missing, of_bound, of_split, points
from tests.reproductions.record import COLOURS, figure, splits_table, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
SPLITS, SEGMENTS = 10, 7


def dense_errors(y: Array, number: int) -> dict[str, float]:
    """80 % for training, 20 % for testing."""
    train, test, out = split(y, number, 0.8, 0.2)
    found: dict[str, float] = {}
    for short, bound in BOUNDS.items():
        fit = learned(DENSE, {"y": train, "own": OWN}, bound)
        found[short] = bits(DENSE, fit, bound, {"own": OWN}, test, out)
    found["columns"] = by_columns(train, test, out)
    return found


def by_columns(train: Array, test: Array, out: Array) -> float:
    """Each column's share, one added to each count."""
    share = (train.sum(axis=0) + 1.0) / (len(train) + 2.0)
    chance = np.broadcast_to(share, test.shape)[out]
    return float(-np.mean(np.log2(np.where(test[out] > 0, chance, 1.0 - chance))))


def _told(found: list[dict[str, float]], name: str) -> dict[str, Array]:
    errors = [n for n in found[0] if n in (*BOUNDS, "columns")]
    each = splits_table(FOLDER, found, "Q20", errors, name=name)
    with figure(FOLDER, 3.6, 3.4, name=name) as picture:
        axes = picture.subplots()
        for short, colour, marker in zip("BJ", COLOURS, "os", strict=False):
            axes.plot(
                each[short],
                each["Q20"],
                marker,
                color=colour,
                markersize=4,
                label=f"{short} vs Q20",
            )
        together = np.concatenate([each[s] for s in BOUNDS])
        ends = [together.min() - 0.005, together.max() + 0.005]
        axes.plot(ends, ends, "--", color="#7F7F7F", linewidth=0.8)
        axes.set(xlabel="bits with B and J", ylabel="bits with Q20", aspect="equal")
        axes.legend(loc="upper left")
    return each


def test_dense(shared: Path) -> None:
    """Figure 4.10, left."""
    with ProcessPoolExecutor(max((os.cpu_count() or 1) // 2, 1)) as pool:
        found = list(pool.map(partial(dense_errors, digits(shared)), range(SPLITS)))
    mean = {n: float(v.mean()) for n, v in _told(found, "dense").items()}
    assert mean["Q20"] < mean["J"] < mean["B"] < mean["columns"]


def by_split() -> dict[int, dict[str, list[Point]]]:
    """The points of each split by bound, by rate; splits that lack a bound are left out."""
    found = points()
    each = {k: {s: of_bound(found, k, s) for s in BOUNDS} for k in sorted({p.split for p in found})}
    return {k: one for k, one in each.items() if all(one.values())}


def test_rates_are_searched_until_the_best_lies_between_two() -> None:
    def searched(best: float, short: str) -> list[float]:
        tried: list[Point] = []
        while (rate := missing(tried, FIRST[short])) is not None:
            far = abs(RATES.index(rate) - RATES.index(best))
            tried.append(Point(0, short, rate, float(far), 0.0, 0.0, 0.0, 0.0))
        return sorted(p.rate for p in tried)

    assert searched(3.0, "B") == [1.0, 3.0, 10.0]
    assert searched(40.0, "J") == [3.0, 10.0, 20.0, 40.0, 80.0]
    assert searched(0.1, "B") == [0.1, 0.3, 1.0, 3.0]  # 1 is better than 3: no need of 10
    assert searched(5120.0, "Q20") == [160.0, 320.0, 640.0, 1280.0, 2560.0, 5120.0]


def test_sparse(shared: Path) -> None:
    """Figure 4.10, middle and right; 4.11 and 4.12 for the first split."""
    y, splits = digits(shared), by_split()
    chosen = {
        k: {s: min(tried, key=lambda p: p.choice) for s, tried in one.items()}
        for k, one in splits.items()
    }
    rows: list[dict[str, float]] = []
    for number, one in chosen.items():
        train, test, out = of_split(y, number)
        own = {"columns": by_columns(train, test[len(test) // 5 :], out[len(test) // 5 :])}
        for s, p in one.items():
            own |= {s: p.error, f"{s} rate": p.rate, f"{s} zeros": p.zeros}
            own[f"{s} between two"] = float(missing(splits[number][s], FIRST[s]) is None)
        rows.append(own)
    mean = {n: float(v.mean()) for n, v in _told(rows, "sparse").items()}
    with figure(FOLDER, 4.0, 3.2, name="rates") as picture:
        axes = picture.subplots()
        for (s, tried), colour in zip(splits[0].items(), COLOURS, strict=False):
            axes.semilogx(
                [p.rate for p in tried], [p.error for p in tried], "o-", color=colour, label=s
            )
            best = chosen[0][s]
            axes.semilogx([best.rate], [best.error], "*", color=colour, markersize=11)
        axes.axhline(rows[0]["columns"], color="#7F7F7F", linestyle="--", linewidth=0.8)
        axes.set(xlabel="rate of the lasso (star: chosen)", ylabel="bits, split 0")
        axes.legend(loc="upper right")
    shown = draw_learned(of_split(y, 0)[0], {s: p.rate for s, p in chosen[0].items()})
    assert mean["Q20"] < mean["columns"]
    assert all(shown[s] < 0.5 for s in BOUNDS)  # other columns hardly go with the segments


def draw_learned(train: Array, rates: dict[str, float]) -> dict[str, float]:
    """Figures 4.11 and 4.12; how large the precision is between segments and other columns, beside
    that among segments."""
    beside: dict[str, float] = {}
    rows: list[list[object]] = []
    with figure(FOLDER, 7.6, 6.4, name="learned") as picture:
        panels = picture.subplots(3, 3)
        for column, (short, bound) in enumerate(BOUNDS.items()):
            fit = learned(sparse(rates[short]), {"y": train}, bound)
            s, q = np.asarray(fit.theta["S"]), np.asarray(fit.precision("S").values)
            mu = np.asarray(fit.theta["mu"])
            off = q - np.diag(q.diagonal())
            zeros = float(np.mean(q[~np.eye(24, dtype=bool)] == 0.0))
            inside = np.abs(off[:SEGMENTS, :SEGMENTS]).sum() / (SEGMENTS * (SEGMENTS - 1))
            beside[short] = float(np.abs(q[SEGMENTS:, :SEGMENTS]).mean() / inside)
            rows.append(
                [short, rates[short], zeros, float(s.max()), float(np.abs(mu).max()), beside[short]]
            )
            panels[0, column].bar(np.arange(1, 25), mu, color=COLOURS[0])
            panels[0, column].set_title(f"{short}, rate {rates[short]:g}")
            for row, m in ((1, s), (2, off)):
                size = np.abs(m).max()
                image = panels[row, column].imshow(m, vmin=-size, vmax=size, cmap="RdBu_r")
                picture.colorbar(image, ax=panels[row, column])
        for axes, label in zip(
            panels[:, 0], ("mean", "covariance", "precision, off its diagonal"), strict=True
        ):
            axes.set_ylabel(label)
    head = [
        "bound",
        "rate",
        "share of zeros",
        "largest variance",
        "largest mean",
        "precision beside the segments'",
    ]
    table(FOLDER, head, rows, name="learned", digits=3)
    return beside
