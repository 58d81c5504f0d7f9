"""The other two panels of Nickisch and Seeger 2009, figure 2, on what can be had: 1,500 cases of
rcv1, and synthetic ones in the shape of real-sim; and all four panels in one picture.

As in the paper tau = 3, variance 1, K = 20, one outer iteration a block; 36,000 of the 72,201 cases
like real-sim's for training, 500 at the start; of rcv1 1,000 for training, 100 at the start.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from tests.reproductions.record import COLOURS, figure, table
from tests.reproductions.sparse_cases import Cases, like_real_sim, stored

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
BLOCK = 20
SCORES = ("uncertainty", "information", "random")
MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ normal(sd = 1)
let eta[obs] = {tau} * (X @ w)
observe y ~ bernoulli(logit = eta)
"""


@dataclass(frozen=True)
class Panel:
    """How many cases are labelled first, are for training, are asked for; how many splits."""

    title: str
    first: int
    train: int
    steps: int
    splits: int


PANELS = {
    "rcv1_vw_small": Panel("rcv1, 1,500 cases", 100, 1_000, 160, 1),
    "like real-sim": Panel("in the shape of real-sim", 500, 36_000, 80, 1),
}


def run(cases: Cases, panel: Panel, score: str, split: int) -> tuple[Array, float, float]:
    """Test error in % after each block, the share of positive queries, CPU seconds."""
    order = np.random.default_rng(split).permutation(len(cases.y))
    first, pool, test = np.split(order, [panel.first, panel.train])
    began = time.process_time()
    found = lgm.design(
        lgm.loads(MODEL.format(tau=cases.tau)), cases.rows(first), cases.covariates(pool), score,
        panel.steps, BLOCK, cases.labels(pool), cases.rows(test),
    )  # fmt: skip
    seconds = time.process_time() - began
    errors = [100.0 * p.test_error for p in found.course if p.test_error is not None]
    return np.array(errors), float(np.mean([q.label or 0.0 for q in found.queries])), seconds


def whole(cases: Cases, panel: Panel, split: int) -> float:
    """Test error in % with all training cases."""
    order = np.random.default_rng(split).permutation(len(cases.y))
    train, test = np.split(order, [panel.train])
    model = lgm.loads(MODEL.format(tau=cases.tau))
    fit = lgm.fit(model, cases.rows(train), "double-loop")
    mean = cases.x[test] @ np.asarray(fit.mean("w"))
    return 100.0 * float(np.mean((mean > 0.0) != (cases.y[test] > 0)))


@pytest.mark.parametrize("name", PANELS)
def test_errors_against_inclusions(shared: Path, name: str) -> None:
    panel = PANELS[name]
    made = name == "like real-sim"
    cases = like_real_sim() if made else stored(shared, name, 3.0)
    full = None if made else np.mean([whole(cases, panel, k) for k in range(panel.splits)])
    curves: dict[str, Array] = {}
    rows: list[list[object]] = []
    included = np.arange(0, panel.steps + 1, BLOCK)
    for score in SCORES:
        found = [run(cases, panel, score, k) for k in range(panel.splits)]
        print(name, score, found, flush=True)
        curves[score] = np.array([errors for errors, _, _ in found])
        ones, seconds = (float(np.mean([f[k] for f in found])) for k in (1, 2))
        at = [float(curves[score][:, i].mean()) for i in range(0, len(included), 4)]
        rows.append([score, *at, None if full is None else float(full), ones, round(seconds)])
    heads = ["score", *(str(k) for k in included[::4]), f"all {panel.train}"]
    file = name.replace(" ", "_").replace("-", "_")
    table(FOLDER, [*heads, "share of y = 1", "CPU seconds"], rows, name=file, digits=4)
    names = [f"{s} {k}" for s in SCORES for k in range(panel.splits)]
    lines = [[int(k), *(float(c[i]) for s in SCORES for c in curves[s])]
             for i, k in enumerate(included)]  # fmt: skip
    table(FOLDER, ["inclusions", *names], lines, name=f"{file}_curves", digits=5)
    drawn()
    late = len(included) // 2
    means = {s: float(curves[s][:, late:].mean()) for s in SCORES}
    assert means["uncertainty"] < means["random"]


def columns(name: str) -> dict[str, Array]:
    """A stored table of curves by its heads."""
    with (FOLDER / f"{name}.csv").open(encoding="utf-8") as file:
        heads, *lines = csv.reader(file)
    return {h: np.array([float(line[k]) for line in lines]) for k, h in enumerate(heads)}


def drawn() -> None:
    """All panels for which curves are stored."""
    panels = [(f"a9a, {p} prior", "curves", f"{p} ", 100) for p in ("Gaussian", "Laplace")]
    for name, panel in PANELS.items():
        file = name.replace(" ", "_").replace("-", "_") + "_curves"
        if (FOLDER / f"{file}.csv").exists():
            panels.append((panel.title, file, "", panel.first))
    with figure(FOLDER, 8.0, 6.0, name="panels", dpi=90) as picture:
        for axes, (title, file, prefix, first) in zip(
            picture.subplots(2, 2).ravel(), panels, strict=False
        ):
            stored_curves = columns(file)
            x = stored_curves["inclusions"]
            for score, colour in zip(SCORES, COLOURS, strict=False):
                each = [v for h, v in stored_curves.items() if h.startswith(f"{prefix}{score}")]
                for one in each:
                    axes.plot(x, one, color=colour, linewidth=0.4, alpha=0.5)
                axes.plot(x, np.mean(each, axis=0), color=colour, label=score)
            axes.set_title(title)
            axes.set_xlabel(f"inclusions after {first} cases")
            axes.set_ylabel("test error in %")
            if first == 100 and file == "curves":
                axes.legend()
