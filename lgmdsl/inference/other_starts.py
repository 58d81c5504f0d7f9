"""Other starts where the sites are not log-concave, so that the optimum may be a local one.

The second start replaces each site by a Gaussian at its landmark: for a robust regression that is
least squares, which outliers drag away; the back end's own start lets them go. A heavy-tailed prior
with a narrow peak (a potential on weights) holds both of them in its peak: where other sites are
log-concave the third start lets those sites speak alone. All runs are reported, and the one with
the highest objective is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Run, Tolerances, TraceEntry, run

FAR, NARROW = 3.0, 4.0  # sds of q that a far start is away, and times its precision
LEAST_SQUARES = "least squares"
WIDE = 1e4  # times the distance of a landmark: no peak to speak of


@dataclass(frozen=True)
class Started:
    """How one start ended: where it began, the status, the objective reached, the steps taken; and
    E z there, (n,), where it is known."""

    name: str
    status: Status
    objective: float
    steps: int
    mean: Array | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.status} at {self.objective:.6g} in {self.steps} steps"


def run_from_starts(
    backend: Backend[Any],
    problem: Problem,
    tolerances: Tolerances,
    max_steps: int | None = None,
    warm: GaussianPosterior | None = None,
    on_step: Callable[[TraceEntry], None] | None = None,
) -> tuple[Run, tuple[Started, ...]]:
    """Run a back end from its own start and, where another optimum may exist, from the others. One
    start where all sites are log-concave, where the caller gave one (`warm`), or where the
    objective does not rank two fixed points (neither monotone nor `ranks`)."""
    first = run(backend, problem, tolerances, max_steps, warm, on_step)
    concave = [Property.LOG_CONCAVE in s.spec.properties for s in problem.sites]
    if warm is not None or all(concave) or not (backend.spec.monotone or backend.spec.ranks):
        return first, ()
    runs = [("own start", first)]
    for name, start in landmark_starts(problem):
        if runs[-1][1].status is Status.interrupted:
            break
        runs.append((name, run(backend, problem, tolerances, max_steps, start, on_step)))
    if len(runs) == 1:
        return first, ()

    def rank(outcome: Run) -> tuple[bool, float]:
        return outcome.status is Status.converged or backend.spec.monotone, _reached(outcome)

    best = max((outcome for _, outcome in runs), key=rank)
    ends = tuple(started(name, outcome) for name, outcome in runs)
    return replace(best, seconds=sum(outcome.seconds for _, outcome in runs)), ends


def landmark_starts(
    problem: Problem, q: Conditioned | None = None
) -> Iterator[tuple[str, GaussianPosterior]]:
    """The other starts that exist, by name: least squares; wide peaks, where some sites are
    log-concave; and of the rows that a fit's q gives up, as its outliers, alone."""
    concave = [Property.LOG_CONCAVE in s.spec.properties for s in problem.sites]
    wider = {LEAST_SQUARES: 1.0} | ({"wide peaks": WIDE} if any(concave) else {})
    for name, factor in wider.items():
        start = at_landmarks(problem, factor)
        if start is not None:
            yield name, start
    start = None if q is None else _given_up(problem, q)
    if start is not None:
        yield "outliers alone", start


def _given_up(problem: Problem, q: Conditioned) -> GaussianPosterior | None:
    """The posterior of the rows that are farther from their landmark than its distance alone, of
    sites that are not log-concave; the others keep q's weights. None where there are none."""
    weight, shift, some = [], [], False
    for site, w, b, m in zip(problem.sites, q.weight, q.shift, q.mean, strict=True):
        declared = None if site.spec.vector else site.landmark()
        if declared is not None and Property.LOG_CONCAVE not in site.spec.properties:
            centre, distance = declared
            away = np.abs(m - centre) > distance
            some = some or bool(away.any())
            w = np.where(away, 1.0 / (distance + np.zeros_like(m)) ** 2, 0.0)
            b = w * centre
        weight.append(w)
        shift.append(b)
    return _conditioned(problem, tuple(weight), tuple(shift)) if some else None


def at_landmarks(problem: Problem, wider: float = 1.0) -> GaussianPosterior | None:
    """The posterior when each site is N(s; centre, distance^2) at its landmark, the distance of one
    that is not log-concave being so many times `wider`; where a site
    declares none, at the prior mean with variance 1. None where it does not exist, or for vector
    sites."""
    if any(site.spec.vector for site in problem.sites):
        return None
    landmarks = [
        _landmark(
            site.landmark(),
            s0,
            1.0 if Property.LOG_CONCAVE in site.spec.properties else wider,
        )
        for site, s0 in zip(problem.sites, problem.engine.prior_mean, strict=True)
    ]
    centre, weight = tuple(c for c, _ in landmarks), tuple(w for _, w in landmarks)
    shift = tuple(rows.times(w, c) for w, c in zip(weight, centre, strict=True))
    return _conditioned(problem, weight, shift)


def _conditioned(problem: Problem, weight: Rows, shift: Rows) -> GaussianPosterior | None:
    """The start with these Gaussian sites; None where there is no such posterior."""
    q = problem.engine.condition(weight, shift)
    if isinstance(q, Failed):
        return None
    return GaussianPosterior(weight, shift, q, -math.inf, Guarantee.APPROXIMATE)


def at_point(problem: Problem, z: Array) -> GaussianPosterior | None:
    """Laplace's Gaussian at z, (n,): q with the sites' slopes and curvatures there. None where it
    does not exist, or a site does not answer for them."""
    linear = problem.engine.linear
    flat = [p.values(z, linear.slices) for p in linear.predictors]
    pairs = zip(flat, problem.engine.prior_mean, strict=True)
    s = tuple(x.reshape(m.shape) for x, m in pairs)
    try:
        answers = cast("tuple[Pointwise, ...]", problem.asking(Pointwise))
    except (TypeError, LgmError):
        return None
    answered = tuple(a.pointwise(x) for a, x in zip(answers, s, strict=True))
    weight = tuple(-a.curvature for a in answered)
    shift = rows.shift_of(tuple(a.slope for a in answered), weight, s)
    return _conditioned(problem, weight, shift)


def far_start(problem: Problem, q: Conditioned, seed: int) -> GaussianPosterior | None:
    """A Gaussian half as wide as q around a draw of q that is stretched threefold."""
    linear, mean = problem.engine.linear, q.latent_mean
    try:
        z = mean + FAR * (q.sample(np.random.default_rng([seed, 602]), 1)[0] - mean)
    except np.linalg.LinAlgError:
        return None
    weight, shift = [], []
    for p, v in zip(linear.predictors, q.variance, strict=True):
        narrow = NARROW / np.maximum(rows.diagonal(v), 1e-300)
        s = p.values(z, linear.slices).reshape(narrow.shape)
        weight.append(narrow if v.ndim == 1 else narrow[:, :, None] * np.eye(v.shape[1]))
        shift.append(narrow * s)
    return _conditioned(problem, tuple(weight), tuple(shift))


def _landmark(
    declared: tuple[Array, Array] | None, prior: Array, wider: float
) -> tuple[Array, Array]:
    if declared is None:
        return prior, np.ones_like(prior) / wider**2
    centre, distance = declared
    return centre + np.zeros_like(prior), 1.0 / ((wider * distance) ** 2 + np.zeros_like(prior))


def _reached(outcome: Run) -> float:
    return outcome.trace[-1].objective if outcome.posterior is not None else -math.inf


def started(name: str, outcome: Run) -> Started:
    """How a run from this start ended."""
    q = outcome.posterior
    mean = None if q is None else q.conditioned.latent_mean
    return Started(name, outcome.status, _reached(outcome), outcome.steps, mean)
