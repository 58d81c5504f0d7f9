"""Nickisch and Seeger 2009, the table of section 2.4: how many products with A (one with B and one
with B', "MVMs") each stage takes, counted.

Logistic regression, Gaussian prior of variance 1 (a9a also with Laplace sites), as many cases as
the paper trains on. The inner loop and the mode are the same Newton's method, with variances z and
with none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.compile import compile_model
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Leftover, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.objectives.profile import Profile, maximise_mean
from lgmdsl.contract.objectives.super_gaussian import Penalty, super_gaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.dataset import read
from lgmdsl.engines.iterative.engine import IterativeEngine
from lgmdsl.inference.plan import plan
from lgmdsl.sites.catalogue import find_site
from tests.reproductions.record import COLOURS, figure, table
from tests.reproductions.sparse_cases import Cases, like_real_sim, stored

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
OUTER = 5
SOLVED = 48  # rows whose variances are solved for
SAMPLES = 20
MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ {prior}
let eta[obs] = {tau} * (X @ w)
observe y ~ bernoulli(logit = eta)
"""
LAPLACE = "potential w ~ laplace(scale = 0.7071067811865476)\n"
HEADS = [
    "data", "q", "n", "entries", "k", "CG per solve", "MAP: Newton steps", "MAP: MVMs",
    "inner loop: Newton steps", "inner loop: MVMs", "outer loop by Lanczos: MVMs",
    "outer loop by 20 samples: MVMs", "exact gradient: MVMs", "approximate gradient: MVMs",
    "Lanczos over exact variance", "error of samples", "fit of 5 inner loops: MVMs",
    "fit over MAP", "CPU seconds",
]  # fmt: skip


class Counting(IterativeEngine):
    """Counts how often it is asked to condition."""

    asked = 0

    def approach(
        self, weight: Rows, shift: Rows, begin: Leftover | None, share: float
    ) -> Conditioned | Failed:
        self.asked += 1
        return super().approach(weight, shift, begin, share)


@dataclass
class Stage:
    """Newton steps and products of one stage after another."""

    steps: list[int] = field(default_factory=list)
    products: list[int] = field(default_factory=list)


def problem_of(cases: Cases, laplace: bool) -> tuple[Problem, LinearGaussian]:
    """The double loop's problem, and its linear model."""
    text = MODEL.format(prior="flat" if laplace else "normal(sd = 1)", tau=cases.tau)
    model = lgm.loads(text + (LAPLACE if laplace else ""))
    data = read({"X": cases.x, "y": cases.y})
    canonical = compile_model(model.checked, data, find_site)
    planned = plan(canonical, "double-loop")
    linear = canonical.linear({})
    return planned.at({}, engine=IterativeEngine(linear)), linear


def newton(
    problem: Problem, engine: Counting, variance: Rows, start: Conditioned | None, stage: Stage
) -> Profile:
    """The best mean at these variances, from an earlier posterior's or the prior mean."""
    before, asked = engine.products, engine.asked
    mean = engine.prior_mean if start is None else start.mean
    alpha = tuple(np.zeros_like(m) for m in mean)
    left = None
    if start is not None:
        alpha = rows.slope_of(start.shift, start.weight, start.mean)
        left = start.leftover
    sites = [Penalty(s) for s in super_gaussian(problem)]
    found = maximise_mean(engine, sites, variance, mean, alpha, leftover=left)
    assert not isinstance(found, Failed), found.reason
    stage.steps.append(engine.asked - asked)
    stage.products.append(engine.products - before)
    return found


def conditioned(problem: Problem, engine: IterativeEngine, mean: Rows, z: Rows) -> Conditioned:
    """q at the best widths for a mean and variances."""
    sites = zip(super_gaussian(problem), mean, z, strict=True)
    answers = [site.widths(m, v) for site, m, v in sites]
    q = engine.condition(tuple(1.0 / a.width for a in answers), tuple(a.shift for a in answers))
    assert not isinstance(q, Failed), q.reason
    return q


def flat(variance: Rows) -> Array:
    return np.concatenate(variance)


def counted(cases: Cases, k: int, laplace: bool = False) -> list[object]:
    began = time.process_time()
    problem, linear = problem_of(cases, laplace)
    engine = Counting(linear, samples=SAMPLES, most=SAMPLES)
    mode, inner, outer = Stage(), Stage(), Stage()
    if not laplace:  # with kinks it is no problem for Newton's method
        none = tuple(np.zeros_like(m) for m in engine.prior_mean)
        newton(problem, engine, none, None, mode)
        engine = Counting(linear, samples=SAMPLES, most=SAMPLES)
    z: Rows = tuple(np.ones_like(m) for m in engine.prior_mean)
    best = newton(problem, engine, z, None, inner)
    q = conditioned(problem, engine, best.mean, z)
    while len(inner.steps) < OUTER:
        before = engine.products
        z = q.variance
        outer.products.append(engine.products - before)
        best = newton(problem, engine, z, q, inner)
        q = conditioned(problem, engine, best.mean, z)
    fit = engine.products
    driver = IterativeEngine(linear, variances="lanczos", steps=k)
    other = driver.condition(q.weight, q.shift)
    assert not isinstance(other, Failed)
    before = driver.products
    below = flat(other.variance)
    lanczos = driver.products - before
    filled = np.flatnonzero(np.diff(cases.x.indptr))
    some = np.random.default_rng(0).choice(filled, SOLVED, replace=False)
    b = cases.tau * cases.x[some].toarray().T
    w = np.concatenate(q.weight)
    before = engine.products
    solution = engine.certified(w, engine.diagonal(w), b, engine.tolerance)
    each = (engine.products - before) / SOLVED
    exact = np.einsum("ij,ij->j", b, solution.x)
    size, n = linear.rows, linear.size
    above = flat(q.variance)[some] / exact - 1.0
    map_counts = [None, None] if laplace else [mode.steps[0], mode.products[0]]
    assert lanczos <= k and 0.0 < float(np.mean(below[some] / exact)) < 1.0 + 1e-6
    found: list[object] = [
        cases.name + (", Laplace" if laplace else ""), size, n, int(cases.x.nnz), k, each,
        *map_counts, float(np.mean(inner.steps)),
        float(np.mean(inner.products)), lanczos, float(np.mean(outer.products)),
        round(size * each), round(lanczos + each), float(np.mean(below[some] / exact)),
        float(np.sqrt(np.mean(above**2))), fit, None if laplace else fit / mode.products[0],
        round(time.process_time() - began),
    ]  # fmt: skip
    print(dict(zip(HEADS, found, strict=True)), flush=True)
    return found


def some_of(cases: Cases, count: int) -> Cases:
    """Random cases."""
    rows = np.sort(np.random.default_rng(0).permutation(len(cases.y))[:count])
    return Cases(cases.name, cases.x[rows], cases.y[rows], cases.tau)


def test_products_of_each_stage(shared: Path) -> None:
    a9a = some_of(stored(shared, "a9a"), 16_000)
    runs = [
        counted(a9a, 80),
        counted(some_of(a9a, 2_000), 80, laplace=True),
        counted(some_of(stored(shared, "w8a"), 16_000), 80),
        counted(some_of(stored(shared, "rcv1_vw_small", 3.0), 1_000), 250),
        counted(some_of(like_real_sim(), 36_000), 250),
    ]
    table(FOLDER, HEADS, runs, digits=4)
    drawn(runs)
    for run in runs:
        of = dict(zip(HEADS, run, strict=True))
        inner, exact = of["inner loop: MVMs"], of["exact gradient: MVMs"]
        assert isinstance(inner, float) and isinstance(exact, int)
        assert 100.0 * inner < exact


def drawn(runs: list[list[object]]) -> None:
    stages = (
        "MAP: MVMs", "inner loop: MVMs", "outer loop by Lanczos: MVMs",
        "outer loop by 20 samples: MVMs", "fit of 5 inner loops: MVMs", "exact gradient: MVMs",
    )  # fmt: skip
    with figure(FOLDER, 7.0, 3.4) as canvas:
        axes = canvas.subplots()
        width = 0.8 / len(runs)
        for k, run in enumerate(runs):
            of = dict(zip(HEADS, run, strict=True))
            heights = [0.0 if of[stage] is None else float(str(of[stage])) for stage in stages]
            axes.bar(
                np.arange(len(stages)) + k * width, heights, width, color=COLOURS[k],
                label=f"{of['data']}, {of['q']:,} x {of['n']:,}",
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_ylabel("products with A")
        names = [s.replace(": MVMs", "").replace(" by ", "\nby ").replace(" of ", "\nof ")
                 for s in stages]  # fmt: skip
        axes.set_xticks(np.arange(len(stages)) + 0.4 - width / 2, names, fontsize=7)
        axes.legend(fontsize=7)
