"""Khan 2012, section 6.4.3: gradients from subsets of the data, on 10^6 rows of a logistic
regression: natural gradients of all rows, EM under Jaakkola's bound, mini-batches with and without
variance reduction.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from lgmdsl.arrays import Array
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.inference.plan import plan
from lgmdsl_backends.natural_gradient import NaturalGradient
from lgmdsl_backends.stochastic import Batch, StochasticGradient, Visits
from tests.compiled import canonical_form
from tests.reproductions.record import COLOURS, figure, table

pytestmark = pytest.mark.reproduction
FOLDER = Path(__file__).parent
ROWS, FEATURES, BATCH = 1_000_000, 50, 1000
MODEL = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent level ~ normal(sd = 3)
latent b[feat] ~ normal(sd = 1)
observe y ~ bernoulli(logit = level + X @ b)
"""
DELAY, FORGETTING = 1.0, 0.7  # of plain mini-batches: step (t + DELAY)^-FORGETTING, Hoffman et al.
PLAIN_PASSES, EM_STEPS = 4, 12
TOLERANCE = 1e-4  # posterior sds: what the driver stops at


@dataclass
class Course:
    """What a method has reached: site evaluations in passes over all rows, CPU seconds, the ELBO of
    its q. What evaluates that for the table is not counted."""

    problem: Problem
    name: str
    points: list[tuple[float, float, float]] = field(default_factory=list)
    asked: float = 0.0
    began: float = field(default_factory=time.process_time)

    def counting(self) -> Problem:
        """The problem whose sites count what they are asked."""
        answers = tuple(Counting(a, self) for a in self.problem.expecting())
        return replace(self.problem, answers=answers)

    def add(self, mean: Array, covariance: Array) -> None:
        now = time.process_time()
        bound = elbo(self.problem, mean, covariance)
        self.points.append((self.asked, now - self.began, bound))
        self.began += time.process_time() - now

    def reached(self, gap: float, top: float) -> tuple[float, float] | tuple[None, None]:
        """Passes and CPU seconds at the first point within `gap` nats of the top."""
        found = [(p, s) for p, s, bound in self.points if bound >= top - gap]
        return found[0] if found else (None, None)


@dataclass(frozen=True, eq=False)
class Counting(Expected):
    answer: Expected
    course: Course

    def expected(self, mean: Array, variance: Array, second: bool = False) -> ExpectedAnswer:
        self.course.asked += len(mean) / ROWS
        return self.answer.expected(mean, variance, second)

    def take(self, rows: Array) -> Counting:
        return Counting(self.answer.take(rows), self.course)  # type: ignore[attr-defined]


def elbo(problem: Problem, mean: Array, covariance: Array) -> float:
    """sum f - KL(q || p) by its definition, over chunks of rows; the prior is diagonal."""
    sds = np.r_[3.0, np.ones(FEATURES)]
    root = np.linalg.cholesky(covariance)
    scaled = root / sds[:, None]
    kl = 0.5 * ((scaled**2).sum() + ((mean / sds) ** 2).sum() - len(mean))
    kl -= np.log(scaled.diagonal()).sum()
    (site,) = problem.expecting()
    X, total = design(problem), 0.0
    for first in range(0, ROWS, 20_000):
        rows = np.arange(first, first + 20_000)
        x = X[first : first + 20_000]
        m = mean[0] + x @ mean[1:]
        v = ((root[0] + x @ root[1:]) ** 2).sum(axis=1)
        total += float(site.take(rows).expected(m, v).value.sum())  # type: ignore[attr-defined]
    return total - float(kl)


def design(problem: Problem) -> Array:
    return np.asarray(problem.engine.linear.predictors[0].columns["b"].dense())


def simulated() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    X[:, 1:] += 0.5 * X[:, :-1]  # neighbours are correlated
    b = 0.3 * rng.normal(size=FEATURES)
    y = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-(0.3 + X @ b)))
    return {"X": X, "y": y.astype(np.int64)}


def problem_of(data: dict[str, Array], bound: str | None = None) -> Problem:
    canonical = canonical_form(MODEL, data)
    planned = plan(canonical, "natural-gradient", bound, {"engine": "precision"})
    return planned.at(canonical.hypers.theta(None))


def driven(problem: Problem, method: NaturalGradient | StochasticGradient, name: str) -> Course:
    """A method's steps, one at a time, until the driver would say that it has converged."""
    course = Course(problem, name)
    counted = course.counting()
    state = method.start(counted)
    for _ in range(20):
        assert state.point is not None and state.failed is None
        q = state.point.conditioned
        course.add(q.latent_mean, q.solve(np.eye(FEATURES + 1)))
        # What the method says of its bound is true, by the definition.
        assert state.objective == pytest.approx(course.points[-1][2], rel=1e-11)
        if method.residual(counted, state) < TOLERANCE:
            return course
        state = method.step(counted, state)
    raise AssertionError(f"{name} does not end")


def stochastic(problem: Problem, patch: pytest.MonkeyPatch) -> Course:
    """`stochastic`, with what q is after some of the batches of its first pass."""
    visit, visits = Visits.visit, 0
    first: list[tuple[float, float, Array, Array]] = []
    began = time.process_time()

    def watched(self: Visits, batch: Batch) -> bool:
        nonlocal visits
        done, visits = visit(self, batch), visits + 1
        if visits in (1, 3, 10, 30, 100, 300, 999):
            u, factor = self.now
            covariance = self.root @ factor.solve(self.root.T)
            share = sum(self.counts) / ROWS
            spent = time.process_time() - began
            first.append((share, spent, self.mean + self.root @ u, covariance))
        return done

    patch.setattr(Visits, "visit", watched)
    course = driven(problem, StochasticGradient(minibatch=BATCH), "batches, variance reduced")
    early = [(share, s, elbo(problem, mean, covariance)) for share, s, mean, covariance in first]
    course.points[:0] = early
    return course


def plain(problem: Problem) -> Course:
    """Stochastic variational inference: lambda <- (1 - r) lambda + r (lambda_0 + N / |S| sum T*),
    r = (t + DELAY)^-FORGETTING."""
    course = Course(problem, "batches, plain")
    (site,) = course.counting().expecting()
    X, rng = design(problem), np.random.default_rng(0)
    prior = np.diag(np.r_[1.0 / 9.0, np.ones(FEATURES)])
    precision, linear, t = prior, np.zeros(FEATURES + 1), 0
    mean, covariance = np.zeros(FEATURES + 1), np.eye(FEATURES + 1) / FEATURES
    shown = {1, 3, 10, 30, 100, 300, *range(1000, 1000 * PLAIN_PASSES + 1, 500)}
    for _ in range(PLAIN_PASSES):
        order = rng.permutation(ROWS)
        for first in range(0, ROWS, BATCH):
            few = np.sort(order[first : first + BATCH])
            x = np.column_stack([np.ones(BATCH), X[few]])
            m, v = x @ mean, np.einsum("ij,ij->i", x @ covariance, x)
            a = site.take(few).expected(m, v)  # type: ignore[attr-defined]
            w = -2.0 * a.d_variance
            r = (t + DELAY) ** -FORGETTING
            scale = r * ROWS / BATCH
            precision = (1.0 - r) * precision + r * prior + scale * (x.T @ (w[:, None] * x))
            linear = (1.0 - r) * linear + scale * (x.T @ (a.d_mean + w * m))
            covariance = np.linalg.inv(precision)
            mean, t = covariance @ linear, t + 1
            if t in shown:
                course.add(mean, covariance)
    return course


def em(data: dict[str, Array], problem: Problem) -> Course:
    """Variational EM under Jaakkola's bound (the thesis's algorithm 4) from xi = 0: q for the xi,
    then the best xi for q."""
    course = Course(problem_of(data, "jaakkola"), "EM (Jaakkola's bound)")
    counted = course.counting()
    course.problem = problem  # whose ELBO its q is judged by
    quarter, half = np.full(ROWS, 0.25), data["y"] - 0.5
    point = elbo_at(counted, (quarter,), (half,))
    for _ in range(EM_STEPS):
        assert isinstance(point, ElboPoint)
        q = point.conditioned
        course.add(q.latent_mean, q.solve(np.eye(FEATURES + 1)))
        point = elbo_at(counted, *point.target)
    return course


def test_bound_against_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    data = simulated()
    problem = problem_of(data)
    elbo(problem, np.zeros(FEATURES + 1), np.eye(FEATURES + 1))  # kernels are compiled
    full = driven(problem, NaturalGradient(), "natural gradient, all rows")
    reduced = stochastic(problem, monkeypatch)
    courses = [full, reduced, plain(problem), em(data, problem)]
    top = max(bound for course in courses for _, _, bound in course.points)
    rows: list[list[object]] = []
    for course in courses:
        cells: list[object] = [course.name]
        for gap in (1000.0, 10.0, 0.1, 1e-3):
            cells += course.reached(gap, top)
        passes, seconds, last = course.points[-1]
        rows.append([*cells, passes, seconds, max(top - last, 0.0)])
    gaps = [f"{kind} to {gap:g}" for gap in (1000, 10, 0.1, 0.001) for kind in ("passes", "CPU s")]
    table(FOLDER, ["method", *gaps, "passes", "CPU s", "nats below"], rows, digits=3)
    with figure(FOLDER, height=3.6) as picture:
        axes = picture.subplots(1, 2, sharey=True)
        for course, colour in zip(courses, COLOURS, strict=False):
            passes, seconds, bound = np.array(course.points).T
            gap = np.maximum(top - bound, 1e-6)
            axes[0].loglog(passes, gap, ".-", color=colour, label=course.name)
            axes[1].loglog(seconds, gap, ".-", color=colour)
        axes[0].set(xlabel="passes over the rows", ylabel="nats below the optimum")
        axes[1].set(xlabel="CPU seconds")
        axes[0].legend()
    # Variance reduction: the optimum of all rows. Without it, and under a local bound: short of it.
    assert top - reduced.points[-1][2] < 1e-3 and top - full.points[-1][2] < 1e-3
    assert top - courses[2].points[-1][2] > 1.0
    to_ten = [course.reached(10.0, top)[0] for course in (full, reduced)]
    assert to_ten[0] is not None and to_ten[1] is not None and to_ten[1] < to_ten[0]
