"""Nickisch and Seeger 2009, figure 2 on a9a: test error against the number of inclusions, by
classifier uncertainty, information gain and random sampling, Gaussian and Laplace prior.

16,000 of the 32,561 cases for training, the rest for testing; 100 of them at the start, all others
candidates; blocks of K = 3, one outer iteration a block; Gaussian prior variance 1; three random
splits.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import lgmdsl as lgm
from lgmdsl.api.design.design import Design
from lgmdsl.api.fit.fit import Fit
from lgmdsl.arrays import Array, IntArray
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
FIRST, TRAIN, STEPS, BLOCK = 100, 16_000, 1_500, 3
SPLITS = 3
SHOWN = (0, 150, 300, 600, 900, 1200, 1500)
SCORES = ("uncertainty", "information", "random")
MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ {prior}
let eta[obs] = X @ w
observe y ~ bernoulli(logit = eta)
"""
# The Laplace prior has the Gaussian's variance, 2 scale^2 = 1.
PRIORS = {
    "Gaussian": MODEL.format(prior="normal(sd = 1)"),
    "Laplace": MODEL.format(prior="flat") + "potential w ~ laplace(scale = 0.7071067811865476)\n",
}
Cases = dict[str, object]


def a9a(shared: Path) -> tuple[sp.csr_array, IntArray]:
    with np.load(shared / "data" / "a9a.npz") as file:
        parts = file["data"].astype(float), file["indices"], file["indptr"]
        return sp.csr_array(parts, shape=tuple(file["shape"])), (file["y"] > 0).astype(np.int64)


def cases(x: sp.csr_array, y: IntArray, rows: IntArray) -> tuple[Cases, Cases]:
    """Covariates and labels of some rows."""
    return {"X": x[rows]}, {"y": y[rows]}


def errors(found: Design) -> Array:
    """Test error in % after each block, the start first."""
    return np.array([100.0 * p.test_error for p in found.course if p.test_error is not None])


def error_of(fit: Fit, covariates: Cases, labels: Cases) -> float:
    """Test error in % of a fit."""
    mean = np.asarray(fit.predict(covariates).mean("eta"))
    return 100.0 * float(np.mean((mean > 0.0) != (np.asarray(labels["y"]) > 0)))


def run(
    model: lgm.Model, score: str, x: sp.csr_array, y: IntArray, order: IntArray
) -> tuple[Design, float]:
    """A design on one split of the cases, and its CPU seconds."""
    covariates, labels = cases(x, y, order[:FIRST])
    pool, oracle = cases(x, y, order[FIRST:TRAIN])
    test = cases(x, y, order[TRAIN:])
    began = time.process_time()
    found = lgm.design(
        model, {**covariates, **labels}, pool, score, STEPS, BLOCK, oracle, {**test[0], **test[1]}
    )
    return found, time.process_time() - began


def test_errors_against_inclusions(shared: Path) -> None:
    x, y = a9a(shared)
    orders = [np.random.default_rng(k).permutation(len(y)) for k in range(SPLITS)]
    included = np.arange(0, STEPS + 1, BLOCK)
    curves: dict[tuple[str, str], Array] = {}
    full: dict[str, float] = {}
    rows: list[list[object]] = []
    for prior, text in PRIORS.items():
        model = lgm.loads(text)
        whole = []
        for order in orders:
            covariates, labels = cases(x, y, order[:TRAIN])
            fit = lgm.fit(model, {**covariates, **labels}, "double-loop")
            assert fit.converged
            whole.append(error_of(fit, *cases(x, y, order[TRAIN:])))
        full[prior] = float(np.mean(whole))
        for score in SCORES:
            found = [run(model, score, x, y, order) for order in orders]
            each = np.array([errors(design) for design, _ in found])
            assert each.shape == (SPLITS, len(included))
            assert all(len(set(design.rows)) == STEPS for design, _ in found)
            curves[prior, score] = each
            mean = each.mean(axis=0)
            ones = np.mean([q.label for d, _ in found for q in d.queries if q.label is not None])
            at = [float(mean[np.searchsorted(included, k)]) for k in SHOWN]
            seconds = float(np.mean([s for _, s in found]))
            rows.append([prior, score, *at, full[prior], float(ones), round(seconds)])
    heads = ["prior", "score", *map(str, SHOWN), "all 16000", "share of y = 1", "CPU seconds"]
    table(FOLDER, heads, rows, digits=4)
    names = [f"{p} {s} {k}" for p, s in curves for k in range(SPLITS)]
    points = [[float(v) for c in curves.values() for v in c[:, i]] for i in range(len(included))]
    lines = [[int(k), *p] for k, p in zip(included, points, strict=True) if k % 30 == 0]
    table(FOLDER, ["inclusions", *names], lines, name="curves", digits=5)
    with figure(FOLDER, 8.0, 3.8) as picture:
        panels = picture.subplots(1, 2, sharey=True)
        for axes, prior in zip(panels, PRIORS, strict=True):
            for k, score in enumerate(SCORES):
                for one in curves[prior, score]:
                    axes.plot(included, one, color=COLOURS[k], linewidth=0.4, alpha=0.5)
                mean = curves[prior, score].mean(axis=0)
                axes.plot(included, mean, color=COLOURS[k], label=score)
            axes.axhline(full[prior], color="#7F7F7F", linewidth=0.9, linestyle="--")
            axes.text(STEPS, full[prior] - 0.03, "all 16,000", ha="right", va="top", fontsize=8)
            axes.set_title(f"a9a, {prior} prior of variance 1, K = {BLOCK}")
            axes.set_xlabel("inclusions after 100 cases")
        panels[0].set_ylabel("test error in %")
        panels[0].legend()
    late = included >= 300
    for prior in PRIORS:
        means = {s: float(curves[prior, s][:, late].mean()) for s in SCORES}
        assert full[prior] < means["uncertainty"] < min(means["information"], means["random"])
