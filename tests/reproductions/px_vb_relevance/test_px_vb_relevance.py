"""Automatic relevance determination by px-vb (Qi and Jaakkola 2007, figure 2): rounds of plain
variational Bayes and of its expansions on sinc data, and on a design like that of motifs and genes.

A round is one update of q(tau), q(alpha) and q(w), in the paper's order.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.arrays import AnyArray, Array, BoolArray
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.learning.mean_field.factors import factor
from lgmdsl.priors.positive import Gamma
from lgmdsl_backends.px_vb import ParameterExpanded
from lgmdsl_backends.px_vb.bound import at
from tests.compiled import canonical_form
from tests.reproductions.record import figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
VAGUE = 1e-6  # a and b of every gamma prior
MODEL = f"""lgm 1
index obs
index centre
data K[obs, centre] : real
data y[obs] : real
hyper tau : positive ~ gamma(shape = {VAGUE}, rate = {VAGUE})
latent w[centre] ~ flat
potential w ~ student_t(scale = 1, df = {2 * VAGUE})
observe y ~ normal(mean = K @ w, sd = 1 / sqrt(tau))
"""
WAYS = {
    "plain": ParameterExpanded(expand=False),
    "r and s": ParameterExpanded(auxiliaries="separate"),
    "joint c": ParameterExpanded(auxiliaries="joint"),
    "each precision": ParameterExpanded(),
}
ROUNDS = 3000
MOVES = (1e-1, 1e-2, 1e-3, 1e-4)
LEFT = (1.0, 0.1, 0.01)


def sinc() -> dict[str, AnyArray]:
    """100 noisy points on (-10, 10), a Gaussian kernel of width 3 at each, and a constant."""
    rng = np.random.default_rng(4)
    x = np.sort(rng.uniform(-10.0, 10.0, 100))
    kernel = np.exp(-((x[:, None] - x) ** 2) / (2.0 * 3.0**2))
    y = np.sinc(x / np.pi) + 0.1 * rng.normal(size=100)
    return {"K": np.column_stack([np.ones(100), kernel]), "y": y}


def genes() -> dict[str, AnyArray]:
    """Expression of 120 genes by the counts of 12 motifs before each, two of which act together;
    polynomial kernels of order 3 at every gene."""
    rng = np.random.default_rng(7)
    motifs = rng.poisson(0.6, size=(120, 12)).astype(float)
    level = 0.8 * motifs[:, 0] - 0.5 * motifs[:, 3] + 0.6 * motifs[:, 1] * motifs[:, 2]
    kernel = (1.0 + motifs @ motifs.T / 12.0) ** 3
    y = level - level.mean() + 0.4 * rng.normal(size=120)
    return {"K": kernel / kernel.std(), "y": y}


DATA = {"sinc": sinc, "genes": genes}


@dataclass(frozen=True)
class Course:
    """After each round the bound of all factors, the last move of E[w] and the CPU seconds; the
    kept and the refused expansions; the last fit f."""

    bound: Array
    move: Array
    seconds: Array
    kept: int
    skipped: int
    predicted: Array


def rounds(planned: Plan, backend: ParameterExpanded) -> Iterator[tuple[float, Array, str, Array]]:
    """The bound, E[w], stage and fit after each round, without end."""
    canonical, prior = planned.canonical, Gamma(np.asarray(VAGUE), np.asarray(VAGUE))
    (y,) = (b.y for b in canonical.blocks if b.y is not None)
    tau = 1.0 / np.var(y)
    state = backend.start(planned.at({"tau": np.asarray(tau)}))
    while True:
        assert state.following is not None and state.failed is None, state.reason
        q = state.following.q
        k = next(k for k, b in enumerate(canonical.blocks) if b.y is not None)
        squares = float(((y - q.mean[k]) ** 2 + q.variance[k]).sum())
        noise = factor(prior, -0.5, np.asarray(-0.5 * len(y)), np.asarray(0.5 * squares))
        problem = planned.at({"tau": noise.effective}, None)
        point = at(problem, q)
        yield point.bound + noise.correction, q.conditioned().latent_mean, state.ahead, q.mean[k]
        state = backend._ahead(problem, state, point)


@cache
def course(name: str, way: str) -> Course:
    """To the last tolerance of the moves, or ROUNDS."""
    data = DATA[name]()
    planned = plan(canonical_form(MODEL, data), "px-vb")
    found: list[tuple[float, float, float]] = []
    stages: list[str] = []
    last, began = np.zeros(data["K"].shape[1]), time.process_time()
    curve = data["y"]
    for bound, mean, stage, predicted in rounds(planned, WAYS[way]):
        move = float(np.linalg.norm(mean - last))
        found.append((bound, move, time.process_time() - began))
        stages.append(stage)
        last, curve = mean, predicted
        if move < MOVES[-1] or len(found) == ROUNDS:
            break
    bound_, move_, seconds = np.array(found).T
    kept, skipped = stages.count("expanded"), stages.count("expansion skipped")
    return Course(bound_, move_, seconds, kept, skipped, curve)


def first(reached: BoolArray) -> int | None:
    """The number of the first round where something holds."""
    return int(reached.argmax()) + 1 if reached.any() else None


def test_figure_2() -> None:
    rows = []
    for name in DATA:
        best = max(course(name, way).bound.max() for way in WAYS)
        for way in WAYS:
            c = course(name, way)
            assert (np.diff(c.bound) > -1e-7).all(), (name, way)
            rows.append([
                name, way, *(first(c.move < m) for m in MOVES),
                *(first(c.bound > best - left) for left in LEFT), float(c.bound[-1]),
                len(c.bound), 1e3 * float(c.seconds[-1]) / len(c.bound), c.kept, c.skipped,
            ])  # fmt: skip
        plain, each = course(name, "plain"), course(name, "each precision")
        assert each.bound[-1] > plain.bound[-1] - 0.5
        assert len(each.bound) < 0.5 * len(plain.bound)
        far = np.sqrt(np.mean((each.predicted - plain.predicted) ** 2)) / DATA[name]()["y"].std()
        assert far < 0.2, (name, far)
        print(f"\n{name}: fitted curves of plain and each differ by {far:.3f} sds of y (RMS)")
    header = ["data", "way", *(f"move < {m:g}" for m in MOVES),
              *(f"{left:g} nats left" for left in LEFT), "last bound", "rounds",
              "ms a round", "expanded", "skipped"]  # fmt: skip
    table(FOLDER, header, rows, digits=6)
    with figure(FOLDER, 7.4, 5.4) as picture:
        axes = picture.subplots(2, 2, squeeze=False)
        for (move, bound), name in zip(axes, DATA, strict=True):
            best = max(course(name, way).bound.max() for way in WAYS)
            for way in WAYS:
                c = course(name, way)
                count = np.arange(1, len(c.bound) + 1)
                move.loglog(count, c.move, label=way, alpha=0.85)
                bound.loglog(count, np.maximum(best - c.bound, 1e-5), label=way, alpha=0.85)
            move.set(title=f"{name}: last move of E[w]", xlabel="rounds")
            bound.set(title=f"{name}: nats below the best bound", xlabel="rounds")
        axes[0, 0].legend()
