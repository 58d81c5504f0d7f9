"""Runs of solvers that share one objective: CPU seconds, flops and objective after every step.

Seconds are those of `start` and `step` alone, on one thread. Flops follow one convention for all, N
the number of rows (here as many latents):

    N^3/3   a factorisation of I + W^1/2 S W^1/2;  N^3/3 more for the variances (the engine counts)
    2 N^3   all of C = Cov_q[s] from a factorisation: a triangular solve and a product
            (opper-archambeau: at each evaluation, for C o C; coordinate-ascent: at each sweep)
    2 N^3   the N rank-one updates of C in one sweep of coordinate-ascent
    2 N^3   K^-1 L, at each evaluation of the plain cholesky;  8 N^3 for its whitened form

What is of order N^2 (products with vectors, sites, L-BFGS on 2N unknowns) is left out. The code
forms C by general solves, 6 N^3: seconds pay for that, flops do not.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import lgmdsl as lgm
from lgmdsl.arrays import Array
from lgmdsl.compile import compile_model
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.status import Guarantee
from lgmdsl.dataset import read
from lgmdsl.engines.dense.covariance import CovarianceEngine
from lgmdsl.inference.plan import plan
from lgmdsl.sites.catalogue import find_site
from tests.reproductions.record import table

GP = """lgm 1
index obs
index dim
data X[obs, dim] : real
data y[obs] : binary
latent f[obs] ~ gp(at = X, kernel = se(sd = {sd!r}, length = {length!r}))
let eta[obs] = f
observe y ~ bernoulli(logit = eta)
"""


@dataclass(frozen=True)
class Solver:
    """A method with its options, by the name that tables and figures give it."""

    name: str
    method: str
    options: Mapping[str, object] = field(default_factory=dict)


# The papers' own parametrisations, with as many pairs as the L-BFGS of minFunc keeps, which they
# ran; and what the back ends do unless told otherwise.
PLAIN: dict[str, object] = {"whitened": False, "memory": 100}
SOLVERS = {
    s.name: s
    for s in (
        Solver("natural-gradient", "natural-gradient"),
        Solver("coordinate-ascent", "coordinate-ascent"),
        Solver("lcl, plain", "lcl", {"solver": "lbfgs", "scaled": False, "memory": 100}),
        Solver("lcl", "lcl"),
        Solver("opper-archambeau, plain", "opper-archambeau", PLAIN),
        Solver("opper-archambeau", "opper-archambeau"),
        Solver("cholesky, plain", "cholesky", PLAIN),
        Solver("cholesky", "cholesky"),
    )
}


@dataclass(frozen=True)
class Mark:
    """After one step: CPU seconds, flops, objective."""

    step: int
    seconds: float
    flops: float
    objective: float


@dataclass(frozen=True)
class Course:
    """A run. `stopped`: where the papers stop, at the first step that gains less than `rise`.
    `reached`: the first mark within `rise` of the optimum. `ended`: "converged" where it came to
    both, "not converged" where the CPU seconds were spent, else why the next step failed."""

    marks: tuple[Mark, ...]
    optimum: float
    stopped: Mark | None
    reached: Mark | None
    ended: str

    def gap(self, mark: Mark | None = None) -> float:
        """Nats from the optimum, at the last mark unless told."""
        return self.optimum - (mark or self.marks[-1]).objective


@dataclass(frozen=True)
class Classification:
    """Gaussian-process classification: the squared-exponential kernel of both papers,
    sd^2 exp(-|x - x'|^2 / (2 s)), with a logistic link."""

    X: Array
    y: Array
    log_sd: float
    log_s: float

    @property
    def text(self) -> str:
        return GP.format(sd=float(np.exp(self.log_sd)), length=float(np.exp(0.5 * self.log_s)))

    @property
    def data(self) -> dict[str, Any]:
        return {"X": self.X, "y": self.y}

    def optimum(self) -> float:
        """The ELBO's maximum, by the default method at a tight tolerance."""
        fit = lgm.fit(lgm.loads(self.text), self.data, "natural-gradient", tol=1e-11)
        assert fit.converged
        return fit.log_evidence

    def posed(self, solver: Solver) -> tuple[Backend[Any], Problem]:
        """The back end and a problem of its own (its engine counts from zero)."""
        checked = lgm.loads(self.text).checked
        canonical = compile_model(checked, read(self.data), find_site)
        planned = plan(canonical, solver.method, options=solver.options)
        return planned.backend, planned.at(canonical.hypers.theta(None))


def standing(problem: Problem, alpha: Array, weight: Array) -> GaussianPosterior:
    """q with m = s0 + S alpha and V = (K^-1 + B'WB)^-1, for the methods to start from."""
    prior = problem.engine.condition((np.zeros_like(weight),), (alpha,))
    assert not isinstance(prior, Failed), prior
    point = elbo_at(problem, (weight,), (alpha + weight * prior.mean[0],))
    assert isinstance(point, ElboPoint), point
    return point.posterior(problem, Guarantee.LOWER)


def course(
    given: Classification, solver: Solver, start: tuple[Array, Array], rise: float, budget: float
) -> Course:
    """Run a solver from (alpha, weight) until a step gains less than `rise` within `rise` of the
    optimum, until `budget` CPU seconds, or until a step cannot be made."""
    optimum = given.optimum()
    backend, problem = given.posed(solver)
    warm = standing(problem, *start)
    engine = problem.engine
    assert isinstance(engine, CovarianceEngine)
    engine.flops = 0.0
    cube = float(engine.linear.rows) ** 3
    marks: list[Mark] = []
    stopped, reached, ended = None, None, "not converged"
    began = time.process_time()
    with np.errstate(all="ignore"):
        state = backend.start(problem, warm)
        while state.failed is None:
            seconds = time.process_time() - began
            flops = engine.flops + cube * _own(solver, state, len(marks))
            now = Mark(len(marks), seconds, flops, state.objective)
            small = bool(marks) and now.objective - marks[-1].objective < rise
            close = optimum - now.objective < rise
            marks.append(now)
            stopped = stopped or (now if small else None)
            reached = reached or (now if close else None)
            if small and close:
                ended = "converged"
                break
            if seconds > budget:
                break
            state = backend.step(problem, state)
        else:
            ended = f"{state.failed.name}: {state.reason}"
    return Course(tuple(marks), optimum, stopped, reached, ended)


def _own(solver: Solver, state: Any, steps: int) -> float:
    """Flops outside the engine, over N^3 (see above)."""
    if solver.method == "opper-archambeau":
        return 2.0 * float(state.iterate.evaluations)
    if solver.method == "cholesky":
        each = 8.0 if solver.options.get("whitened", True) else 2.0
        return each * float(state.iterate.evaluations)
    return 4.0 * steps if solver.method == "coordinate-ascent" else 0.0


HEADER = ("setting", "solver", "step", "seconds", "flops", "objective", "event", "optimum", "ended")


def keep(folder: Path, setting: str, solver: Solver, found: Course, most: int = 50) -> None:
    """Put a course, thinned to about `most` marks evenly in log(step), in `courses.csv`, in place
    of an earlier one."""
    last = len(found.marks) - 1
    wanted = {0, last, *np.round(np.geomspace(1, max(last, 1), most)).astype(int).tolist()}
    wanted |= {m.step for m in (found.stopped, found.reached) if m is not None}
    rows = [row for row in _rows(folder) if (row[0], row[1]) != (setting, solver.name)]
    for k in sorted(w for w in wanted if w <= last):
        m = found.marks[k]
        event = "stopped" * (m == found.stopped) + " reached" * (m == found.reached)
        rows.append((setting, solver.name, m.step, m.seconds, m.flops, m.objective, event.strip(),
                     found.optimum, found.ended))  # fmt: skip
    table(folder, HEADER, sorted(rows), name="courses", digits=12)


def kept(folder: Path) -> dict[tuple[str, str], Course]:
    """The courses of `courses.csv` by (setting, solver)."""
    groups: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in _rows(folder):
        groups.setdefault((row[0], row[1]), []).append(row)
    return {key: _course(rows) for key, rows in groups.items()}


def _course(rows: list[tuple[Any, ...]]) -> Course:
    marks = [Mark(*row[2:6]) for row in rows]

    def event(name: str) -> Mark | None:
        return next((m for m, r in zip(marks, rows, strict=True) if name in r[6].split()), None)

    return Course(tuple(marks), rows[0][7], event("stopped"), event("reached"), rows[0][8])


def _rows(folder: Path) -> list[tuple[Any, ...]]:
    """The rows of `courses.csv`, numbers as numbers."""
    path = folder / "courses.csv"
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    return [(a, b, int(k), float(s), float(f), float(o), e, float(best), end)
            for a, b, k, s, f, o, e, best, end in rows]  # fmt: skip
