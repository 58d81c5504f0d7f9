"""Khan's thesis (003), figures 4.10 to 4.12: binary latent Gaussian graphical models, dense and
sparse, of the digits of an LED display: 7 segments that go together and 17 columns of noise."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.api.fit import Fit
from lgmdsl.arrays import Array
from tests.benchmarks.reproductions.record import COLOURS, figure, splits_table, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
CASES, SPLITS, SEGMENTS = 2000, 10, 7
SPARSE = 2  # splits of the sparse models: 18 fits each
BOUNDS = {"B": "bohning", "J": "jaakkola", "Q20": "piecewise-quadratic-20"}
RATES = (3.0, 10.0, 20.0, 40.0, 80.0, 160.0)  # of the lasso on the entries of the precision
MODEL = """lgm 1
index case
index item
{more}data y[case, item] : binary?
hyper mu[item] : real ~ normal(sd = 10)
hyper S[item, item] : covariance ~ {prior}
latent z[case, item] ~ iid * dense(cov = S)
let eta[case, item] = mu + z
observe y ~ bernoulli(logit = eta)
"""
# Worth 50 cases of covariance I beside 1,600: Böhning's covariance would be singular.
DENSE = lgm.loads(
    MODEL.format(more="data own[item, item] : real\n", prior="inv_wishart(df = 25, scale = own)")
)
OWN = 50.0 * np.eye(24)


def sparse(rate: float) -> lgm.Model:
    return lgm.loads(MODEL.format(more="", prior=f"graphical_lasso(rate = {rate})"))


def digits(shared: Path) -> Array:
    """(2000, 24), as many as in the thesis."""
    with np.load(shared / "data" / "led24_generated.npz") as file:
        return np.asarray(file["X"][:CASES], dtype=float)


def split(y: Array, number: int, train: float, test: float) -> tuple[Array, Array, Array]:
    """Shares of the cases for training and testing, and the entry of each test case held out."""
    rng = np.random.default_rng(number)
    order = rng.permutation(len(y))
    first, last = round(train * len(y)), round(test * len(y))
    tested = y[order[-last:]]
    out = np.arange(y.shape[1]) == rng.integers(0, y.shape[1], last)[:, None]
    return y[order[:first]], tested, out


def bits(asked: lgm.Model, fit: Fit, bound: str, more: dict[str, Array], test: Array,
         out: Array) -> float:  # fmt: skip
    """Average cross entropy, base 2, of the held-out entries."""
    data = {"y": np.where(out, np.nan, test), **more}
    found = lgm.fit(asked, data, hyper="fixed", fixed=dict(fit.theta), bound=bound)
    chance = found.impute()["y"].values[out]
    return float(-np.mean(np.log2(np.where(test[out] > 0, chance, 1.0 - chance))))


def learned(asked: lgm.Model, data: dict[str, Array], bound: str) -> Fit:
    fit = lgm.fit(asked, data, hyper="em", bound=bound, tol=1e-6)
    assert fit.learning.steps[-1].gain < 0.5, (bound, fit.status)  # nats another step promises
    return fit


def dense_errors(y: Array, number: int) -> dict[str, float]:
    """80 % for training, 20 % for testing."""
    train, test, out = split(y, number, 0.8, 0.2)
    found: dict[str, float] = {}
    for short, bound in BOUNDS.items():
        fit = learned(DENSE, {"y": train, "own": OWN}, bound)
        found[short] = bits(DENSE, fit, bound, {"own": OWN}, test, out)
    share = (train.sum(axis=0) + 1.0) / (len(train) + 2.0)
    chance = np.broadcast_to(share, test.shape)[out]
    found["columns"] = float(-np.mean(np.log2(np.where(test[out] > 0, chance, 1.0 - chance))))
    return found


def sparse_errors(y: Array, number: int) -> dict[str, float]:
    """10 % for training, 50 % for testing; a rate is chosen on a fifth of the test cases."""
    train, test, out = split(y, number, 0.1, 0.5)
    held = len(test) // 5
    found: dict[str, float] = {}
    for short, bound in BOUNDS.items():
        tried = []
        for rate in RATES:
            asked = sparse(rate)
            fit = learned(asked, {"y": train}, bound)
            chosen = bits(asked, fit, bound, {}, test[:held], out[:held])
            error = bits(asked, fit, bound, {}, test[held:], out[held:])
            found[f"{short} at {rate:g}"] = error
            tried.append((chosen, error, rate))
        found[short], found[f"{short} rate"] = min(tried)[1:]
    return found


def _all(
    errors: Callable[[Array, int], dict[str, float]], y: Array, splits: int
) -> list[dict[str, float]]:
    with ProcessPoolExecutor(max((os.cpu_count() or 1) // 2, 1)) as pool:
        return list(pool.map(partial(errors, y), range(splits)))


def _told(found: list[dict[str, float]], name: str) -> dict[str, Array]:
    errors = [n for n in found[0] if n in (*BOUNDS, "columns")]
    each = splits_table(FOLDER, found, "Q20", errors, name=name)
    with figure(FOLDER, 3.6, 3.4, name=name) as picture:
        axes = picture.subplots()
        for short, colour, marker in zip("BJ", COLOURS, "os", strict=False):
            axes.plot(each[short], each["Q20"], marker, color=colour, markersize=4,
                      label=f"{short} vs Q20")  # fmt: skip
        together = np.concatenate([each[s] for s in BOUNDS])
        ends = [together.min() - 0.005, together.max() + 0.005]
        axes.plot(ends, ends, "--", color="#7F7F7F", linewidth=0.8)
        axes.set(xlabel="bits with B and J", ylabel="bits with Q20", aspect="equal")
        axes.legend(loc="upper left")
    return each


def test_dense(shared: Path) -> None:
    """Figure 4.10, left."""
    each = _told(_all(dense_errors, digits(shared), SPLITS), "dense")
    mean = {n: float(v.mean()) for n, v in each.items()}
    assert mean["Q20"] < mean["J"] < mean["B"] < mean["columns"]


def test_sparse(shared: Path) -> None:
    """Figure 4.10, middle and right; 4.11 and 4.12 for the first split."""
    y = digits(shared)
    each = _told(_all(sparse_errors, y, SPARSE), "sparse")
    with figure(FOLDER, 4.0, 3.2, name="rates") as picture:
        axes = picture.subplots()
        for short, colour in zip(BOUNDS, COLOURS, strict=False):
            axes.semilogx(RATES, [each[f"{short} at {r:g}"].mean() for r in RATES], "o-",
                          color=colour, label=short)  # fmt: skip
        axes.set(xlabel="rate of the lasso", ylabel=f"bits, mean of {SPARSE} splits")
        axes.legend()
    train = split(y, 0, 0.1, 0.5)[0]
    fits = {
        s: learned(sparse(float(each[f"{s} rate"][0])), {"y": train}, b) for s, b in BOUNDS.items()
    }
    rows: list[list[object]] = []
    with figure(FOLDER, 7.6, 6.4, name="learned") as picture:
        panels = picture.subplots(3, 3)
        for column, (short, fit) in enumerate(fits.items()):
            s, q = np.asarray(fit.theta["S"]), np.asarray(fit.precision("S").values)
            mu = np.asarray(fit.theta["mu"])
            zeros = float(np.mean(q[~np.eye(24, dtype=bool)] == 0.0))
            inside = np.abs(q[:SEGMENTS, :SEGMENTS]).mean()
            outside = np.abs(q[SEGMENTS:, :SEGMENTS]).mean()
            rows.append([short, float(each[f"{short} rate"][0]), zeros, float(s.max()),
                         float(np.abs(mu).max()), float(outside / inside)])  # fmt: skip
            panels[0, column].bar(np.arange(1, 25), mu, color=COLOURS[0])
            panels[0, column].set_title(short)
            for row, m in ((1, s), (2, q - np.diag(q.diagonal()))):
                size = np.abs(m).max()
                image = panels[row, column].imshow(m, vmin=-size, vmax=size, cmap="RdBu_r")
                picture.colorbar(image, ax=panels[row, column])
        for axes, label in zip(panels[:, 0], ("mean", "covariance", "precision, off its diagonal"),
                               strict=True):  # fmt: skip
            axes.set_ylabel(label)
    head = ["bound", "rate", "share of zeros", "largest variance", "largest mean",
            "other columns' precision"]  # fmt: skip
    table(FOLDER, head, rows, name="learned", digits=3)
    mean = {n: float(v.mean()) for n, v in each.items()}
    assert mean["Q20"] < mean["J"] < mean["B"]
    assert all(float(str(row[2])) > 0.5 and float(str(row[5])) < 0.2 for row in rows)
