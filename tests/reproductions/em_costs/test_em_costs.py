"""Khan 2012, table 4.1: how the cost of an EM iteration grows with cases, variables and
factors, by bound. CPU seconds of one M-step and the E-step after it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.em.em import EM
from lgmdsl.learning.objective.log_posterior import Objective
from tests.compiled import canonical_form
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
HEAD = """lgm 1
index n
index d
index l = {factors}
data y[n, d] : {type}
hyper w0[d] : real ~ normal(sd = 3)
hyper W[d, l] : real ~ normal(sd = 1)
latent z[n, l] ~ normal(sd = 1)
let eta[n, d] = w0 + W @ z
observe y ~ {family}
"""
WAYS = {"Gaussian": None, "B": "bohning", "J": "jaakkola", "Q10": "piecewise-quadratic-10"}
BASE = {"N": 2000, "D": 20, "L": 4}
SIZES = {"N": (2000, 4000, 8000), "D": (20, 40, 80), "L": (4, 8, 16)}
WARM, TIMED = 2, 3


def cost(way: str, n: int, d: int, factors: int) -> tuple[float, float, float]:
    """Median CPU seconds of an iteration of EM, mean steps of its E-step, and their flops."""
    rng = np.random.default_rng(0)
    loads = rng.normal(size=(d, factors)) / np.sqrt(factors)
    eta = rng.normal(size=(n, factors)) @ loads.T
    gaussian = WAYS[way] is None
    y = eta + rng.normal(size=eta.shape) if gaussian else (eta > rng.logistic(size=eta.shape)) * 1
    family = "normal(mean = eta, sd = 1)" if gaussian else "bernoulli(logit = eta)"
    text = HEAD.format(factors=factors, type="real" if gaussian else "binary", family=family)
    canonical = canonical_form(text, {"y": y})
    coordinates = Coordinates(canonical.hypers)
    planned = plan(canonical, "auto", WAYS[way])
    objective = Objective(planned, coordinates, {}, Tolerances())
    theta = {**canonical.hypers.start(), "W": loads + 0.3 * rng.normal(size=loads.shape)}
    em, now = EM.of(objective, theta, "none"), objective.at(coordinates.pack(theta))
    seconds, steps = [], []
    for k in range(WARM + TIMED):
        began = time.process_time()
        assert em is not None and now is not None
        now = em.step(now)
        if k >= WARM and now is not None:
            seconds.append(time.process_time() - began)
            steps.append(now.run.steps)
    flops = planned.at(theta).flops * max(float(np.mean(steps)), 1.0)
    return float(np.median(seconds)), float(np.mean(steps)), flops


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Slope of log costs on log sizes."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def test_table_4_1() -> None:
    rows: list[list[object]] = []
    curves: dict[tuple[str, str], list[float]] = {}
    flops: dict[tuple[str, str], list[float]] = {}
    for way in WAYS:
        for axis, sizes in SIZES.items():
            found = [cost(way, *({**BASE, axis: size}.values())) for size in sizes]
            curves[way, axis] = [s for s, _, _ in found]
            flops[way, axis] = [f for _, _, f in found]
            grows = exponent(sizes, curves[way, axis])
            rows.append([way, axis, *curves[way, axis], *(i for _, i, _ in found), grows])
    head = [
        "bound",
        "grows",
        *(f"seconds at {k}" for k in ("1 x", "2 x", "4 x")),
        *(f"E-steps at {k}" for k in ("1 x", "2 x", "4 x")),
        "exponent",
    ]
    table(FOLDER, head, rows, digits=3)
    with figure(FOLDER, 7.4, 2.8) as picture:
        panels = picture.subplots(1, 3, sharey=True)
        for axes, (axis, sizes) in zip(panels, SIZES.items(), strict=True):
            for way, colour in zip(WAYS, COLOURS, strict=False):
                axes.loglog(sizes, curves[way, axis], "o-", color=colour, label=way)
            axes.set_xticks(sizes, [str(s) for s in sizes])
            axes.minorticks_off()
            axes.set_xlabel(axis)
        panels[0].set_ylabel("CPU seconds of an iteration")
        panels[0].legend()
    for way in WAYS:
        assert exponent(SIZES["N"], flops[way, "N"]) < 1.5
        assert exponent(SIZES["D"], flops[way, "D"]) < 2.0  # its steps grow too
        assert exponent(SIZES["L"], flops[way, "L"]) < 3.0
