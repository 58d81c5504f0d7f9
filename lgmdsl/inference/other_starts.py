"""Other starts where the sites are not log-concave, so that the optimum may be a local one.

The second start replaces each site by a Gaussian at its landmark: for a robust regression that is
least squares, which outliers drag away; the back end's own start lets them go. A heavy-tailed prior
with a narrow peak (a potential on weights) holds both of them in its peak: where other sites are
log-concave the third start lets those sites speak alone. All runs are reported, and the one with
the highest objective is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Site, log_concave
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Run, Tolerances, TraceEntry, run

CANDIDATES, NEIGHBOURHOODS = 48, 4  # neighbourhoods of outliers: looked at, and tried
TOGETHER = 0.5  # the correlation under q of predictors of one neighbourhood
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
    if warm is not None or log_concave(problem.sites) or not backend.spec.comparable:
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
    """Further starts that exist, by name: least squares; wide peaks, where some sites are
    log-concave; and the rows that a fit's q gives up, as its outliers, alone."""
    some = any(log_concave([site]) for site in problem.sites)
    wider = {LEAST_SQUARES: 1.0} | ({"wide peaks": WIDE} if some else {})
    for name, factor in wider.items():
        start = at_landmarks(problem, factor)
        if start is not None:
            yield name, start
    if q is not None:
        yield from _outliers(problem, q)


def _outliers(problem: Problem, q: Conditioned) -> Iterator[tuple[str, GaussianPosterior]]:
    """Starts from rows that q gives up (those farther from their landmark than its distance, of
    sites that are not log-concave): all alone; then those of one neighbourhood alone, which are
    rows whose predictors move together under q, for the heaviest few: in a large posterior a part
    may have another optimum of the same height where the whole has none."""
    given_up = [
        None if log_concave([site]) else _away(site, m)
        for site, m in zip(problem.sites, q.mean, strict=True)
    ]
    if not any(a is not None and a.any() for a in given_up):
        return
    everywhere = [np.ones(len(m), dtype=np.bool_) for m in q.mean]
    start = _alone(problem, q, given_up, everywhere)
    if start is not None:
        yield "outliers alone", start
    for name, near in _neighbourhoods(problem, q, given_up):
        start = _alone(problem, q, given_up, near)
        if start is not None:
            yield name, start


def _away(site: Site, mean: Array) -> BoolArray | None:
    """Rows that are farther from their landmark than its distance; None where none is declared."""
    declared = None if site.spec.vector else site.landmark()
    if declared is None:
        return None
    return np.asarray(np.abs(mean - declared[0]) > declared[1])


def _alone(
    problem: Problem,
    q: Conditioned,
    given_up: Sequence[BoolArray | None],
    near: Sequence[BoolArray],
) -> GaussianPosterior | None:
    """q with its outliers in place of the other rows `near`."""
    weight, shift = [], []
    for site, w, b, out, here in zip(problem.sites, q.weight, q.shift, given_up, near, strict=True):
        declared = site.landmark() if out is not None else None
        if declared is not None and out is not None:
            centre, distance = declared
            strong = np.where(out, 1.0 / (distance + np.zeros_like(b)) ** 2, 0.0)
            w, b = np.where(here, strong, w), np.where(here, strong * centre, b)
        weight.append(w)
        shift.append(b)
    return _conditioned(problem, tuple(weight), tuple(shift))


def _neighbourhoods(
    problem: Problem, q: Conditioned, given_up: Sequence[BoolArray | None]
) -> Iterator[tuple[str, list[BoolArray]]]:
    """Neighbourhoods of the rows given up for the largest gains, the largest sum first."""
    gains = []
    for site, m, out in zip(problem.sites, q.mean, given_up, strict=True):
        declared = site.landmark() if out is not None else None
        gain = np.zeros(len(m))
        if declared is not None and out is not None:
            there = site.log_density(declared[0] + np.zeros_like(m)) - site.log_density(m)
            gain = np.where(out, np.nan_to_num(there), 0.0)
        gains.append(gain)
    linear, taken = problem.engine.linear, [g <= 0.0 for g in gains]
    known: list[tuple[float, list[BoolArray]]] = []
    for _ in range(CANDIDATES):
        left = [np.where(t, 0.0, g) for t, g in zip(taken, gains, strict=True)]
        block = int(np.argmax([g.max(initial=0.0) for g in left]))
        row = int(left[block].argmax()) if len(left[block]) else 0
        if not left[block].max(initial=0.0) > 0.0:
            break
        unit = np.zeros(linear.predictors[block].rows)
        unit[row] = 1.0
        direction = np.zeros(linear.size)
        linear.predictors[block].add_transposed(unit, linear.slices, direction)
        move = q.solve(direction)
        own = max(q.variance[block][row], 1e-300)
        near = []
        for p, v, out in zip(linear.predictors, q.variance, given_up, strict=True):
            close = np.zeros(len(v), dtype=np.bool_)
            if out is not None:
                along = p.times(move, linear.slices)
                close = np.asarray(along > TOGETHER * np.sqrt(own * np.maximum(v, 0.0)))
            near.append(close)
        near[block][row] = True
        known.append((sum(float(g[n].sum()) for g, n in zip(gains, near, strict=True)), near))
        taken = [t | n for t, n in zip(taken, near, strict=True)]
    known.sort(key=lambda pair: -pair[0])
    for number, (_, near) in enumerate(known[:NEIGHBOURHOODS], 1):
        yield f"outliers of neighbourhood {number}", near


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
            1.0 if log_concave([site]) else wider,
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
