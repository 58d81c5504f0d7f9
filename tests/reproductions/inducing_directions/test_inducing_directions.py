"""Khan 2012, section 6.4.5: sparse approximations of the posterior. Gaussian-process classification
of ionosphere and of USPS threes and fives by q of k directions: bound, and errors on held-out rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
MODEL = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : binary
latent f[obs] ~ gp(at = X, kernel = se(sd = {sd}, length = {length}))
observe y ~ bernoulli(logit = f)
"""
Rows = tuple[Array, Array, int]  # X, y, and how many of them are fitted


def ionosphere(shared: Path) -> Rows:
    data = np.load(shared / "data" / "ionosphere.npz")
    X, order = data["X"].astype(np.float64), np.random.default_rng(0).permutation(351)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    return X[order], (data["y"][order] == data["y"].max()).astype(np.int64), 200


def usps(shared: Path) -> Rows:
    data = np.load(shared / "data" / "usps_3v5.npz")
    order = np.random.default_rng(0).permutation(1540)
    y = (data["y"][order] == data["y"].max()).astype(np.int64)
    return data["X"][order].astype(np.float64), y, 500


# Rows, sd and length of the kernel (by hand), directions.
CASES: dict[str, tuple[Callable[[Path], Rows], float, float, tuple[int, ...]]] = {
    "ionosphere": (ionosphere, 4.0, 5.0, (1, 5, 10, 20, 40, 80, 120, 160, 200)),
    "USPS 3 or 5": (usps, 8.0, 10.0, (1, 5, 10, 20, 50, 100, 200, 300, 400, 500)),
}


def judged(fit: lgm.Fit, X: Array, y: Array) -> tuple[float, float]:
    """Share of wrong classes and mean -log p of held-out rows."""
    p = np.clip(fit.predict({"X": X}).response("y")["mean"].values, 1e-12, 1.0 - 1e-12)
    return float(np.mean((p > 0.5) != y)), float(-np.mean(np.log(np.where(y == 1, p, 1.0 - p))))


def test_bound_and_errors_against_directions(shared: Path) -> None:
    rows: list[list[object]] = []
    found: dict[str, Array] = {}
    for name, (read, sd, length, counts) in CASES.items():
        X, y, size = read(shared)
        model = lgm.loads(MODEL.format(sd=sd, length=length))
        own: list[list[float]] = []
        for count in (*counts, None):
            began = time.process_time()
            fit = lgm.fit(
                model,
                {"X": X[:size], "y": y[:size]},
                "natural-gradient" if count is None else "inducing",
                options={"correction": "off"} | ({} if count is None else {"directions": count}),
            )
            seconds = time.process_time() - began
            error, loss = judged(fit, X[size:], y[size:])
            assert fit.converged
            rows.append([name, count, fit.log_evidence, error, loss, fit.steps, seconds])
            own.append([count or size, fit.log_evidence, error, loss])
        bounds = np.array(own)[:, 1]
        # Directions are nested: the bound rises, to that of all Gaussians, which it is at rank n.
        assert (np.diff(bounds[:-1]) > -1e-6).all()
        assert (bounds[:-1] <= bounds[-1] + 1e-6).all()
        assert bounds[-2] == pytest.approx(bounds[-1], abs=1e-6)
        found[name] = np.array(own)
    header = ["data", "directions", "bound", "error", "-log p", "steps", "CPU s"]
    table(FOLDER, header, rows, digits=5)
    with figure(FOLDER, height=3.4) as picture:
        axes = picture.subplots(1, 2)
        for (name, of), colour in zip(found.items(), COLOURS, strict=False):
            gap = of[-1, 1] - of[:-1, 1]
            axes[0].plot(of[:-1, 0], np.maximum(gap, 1e-4), ".-", color=colour, label=name)
            axes[1].plot(of[:-1, 0], of[:-1, 3], ".-", color=colour)
            axes[1].axhline(of[-1, 3], color=colour, linewidth=0.8, linestyle=":")
        axes[0].set(xlabel="directions", ylabel="nats below all Gaussians", yscale="log")
        axes[1].set(xlabel="directions", ylabel="-log p of held-out rows (dotted: all)")
        axes[0].legend()
