"""Lanczos vectors (Nickisch and Seeger 2009, section 2.3) and perturbation samples beside exact
variances on a 128 x 128 image, and as what drives the double loop.

The bound of a driven loop is taken exactly, by the sparse engine at the widths of each step.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.engines.sparse.engine import SparseEngine
from lgmdsl_backends.double_loop import DoubleLoop
from tests.benchmarks.image_models import Measured, course, halved, masked, picture
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
# Vectors or samples, and whether a loop is driven by them.
KINDS = (
    ("lanczos", 50, False), ("lanczos", 100, True), ("lanczos", 200, False), ("lanczos", 400, True),
    ("lanczos", 800, False), ("perturb", 5, True), ("perturb", 20, True), ("perturb", 50, False),
)  # fmt: skip
STEPS = 10
HEADS = [
    "variances", "vectors", "mean ratio", "RMS error", "CPU seconds", "steps", "falls of the bound",
    "bound below the optimum", "true variance by the right one", "mean error in sds",
]  # fmt: skip


def engine(linear: LinearGaussian, kind: str, count: int) -> IterativeEngine:
    if kind == "lanczos":
        return IterativeEngine(linear, variances="lanczos", steps=count)
    return IterativeEngine(linear, samples=count)


def potentials(q: Conditioned) -> Array:
    """Variances of the Laplace sites."""
    return np.concatenate(q.variance[1:])


def driven(case: Measured, exact: SparseEngine, kind: str, count: int) -> tuple[Array, Conditioned]:
    """The exact bound after each step, and the exact posterior at the last widths."""
    problem = case.problem(lambda linear: engine(linear, kind, count))
    loop, bounds = DoubleLoop(), []
    state = loop.start(problem)
    while True:
        assert state.failed is None and state.point is not None, state.reason
        point = state.point
        q = exact.condition(point.conditioned.weight, point.conditioned.shift)
        assert not isinstance(q, Failed)
        bounds.append(point.bound - point.conditioned.log_normaliser + q.log_normaliser)
        if len(bounds) > STEPS:
            return np.array(bounds), q
        state = loop.step(problem, state)


def test_lanczos_beside_perturbation(shared: Path) -> None:
    case = masked(halved(picture(shared, "camera")))
    problem = case.problem(SparseEngine)
    best = course(problem, 1e-4)
    right = best.point.conditioned
    truth, optimum = potentials(right), float(best.bounds[-1])
    sd = np.sqrt(right.latent_variance)
    assert isinstance(problem.engine, SparseEngine)
    rows: list[list[object]] = []
    curves: dict[str, Array] = {"exact": best.bounds}
    for kind, count, drives in KINDS:
        began = time.process_time()
        q = engine(problem.engine.linear, kind, count).condition(right.weight, right.shift)
        assert not isinstance(q, Failed)
        ratio = potentials(q) / truth
        seconds = time.process_time() - began
        own = [float(ratio.mean()), float(np.sqrt(np.mean((ratio - 1.0) ** 2))), seconds]
        told: list[object] = [None] * 5
        if drives:
            bounds, last = driven(case, problem.engine, kind, count)
            curves[f"{kind}, {count}"] = bounds
            falls = int((np.diff(bounds) < -1e-9 * abs(optimum)).sum())
            assert falls == (STEPS if kind == "lanczos" else 0)
            told = [
                STEPS,
                falls,
                optimum - float(bounds[-1]),
                float(np.mean(potentials(last) / truth)),
                float(np.sqrt(np.mean(((last.latent_mean - right.latent_mean) / sd) ** 2))),
            ]
        rows.append([kind, count, *own, *told])
        print(dict(zip(HEADS, rows[-1], strict=True)), flush=True)
        if kind == "lanczos":
            assert ratio.max() < 1.0 + 1e-6  # from below
        elif count >= 20:
            assert own[1] < 0.05
    table(FOLDER, HEADS, rows, digits=4)
    with figure(FOLDER, 5.5, 3.4) as canvas:
        axes = canvas.subplots()
        for k, (name, bounds) in enumerate(curves.items()):
            below = np.maximum(optimum - bounds, 1e-3)
            axes.semilogy(below[: STEPS + 1], color=COLOURS[k], label=name, marker=".")
        axes.set_xlabel("outer step")
        axes.set_ylabel("exact bound below its optimum (nats)")
        axes.set_title("128 x 128, half of the pixels: what drives the loop")
        axes.legend()
