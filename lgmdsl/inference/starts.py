"""Two starts where the sites are not log-concave, so that the optimum may be a local one.

The second start replaces each site by a Gaussian at its landmark: for a robust regression that is
least squares, which outliers drag away; the back end's own start lets them go. Both runs are
reported, and the one with the higher objective is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.inference.driver import Run, Tolerances, TraceEntry, run


@dataclass(frozen=True)
class Started:
    """How one start ended: where it began, the status, the objective reached, the steps taken."""

    name: str
    status: Status
    objective: float
    steps: int

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
    """Run a back end from its own start and, where another optimum may exist, from the Gaussian at
    the sites' landmarks. One start where all sites are log-concave, where the caller gave one
    (`warm`), or where the objective does not rank two fixed points (not monotone)."""
    first = run(backend, problem, tolerances, max_steps, warm, on_step)
    concave = all(Property.LOG_CONCAVE in s.spec.properties for s in problem.sites)
    if warm is not None or concave or not backend.spec.monotone:
        return first, ()
    other = None if first.status is Status.interrupted else at_landmarks(problem)
    if other is None:
        return first, ()
    second = run(backend, problem, tolerances, max_steps, other, on_step)
    started = (_started("own start", first), _started("least squares", second))
    best, left = (second, first) if _reached(second) > _reached(first) else (first, second)
    return replace(best, seconds=best.seconds + left.seconds), started


def at_landmarks(problem: Problem) -> GaussianPosterior | None:
    """The posterior when each site is N(s; centre, distance^2) at its landmark; where a site
    declares none, at the prior mean with variance 1. None where it does not exist, or for vector
    sites."""
    if any(site.spec.vector for site in problem.sites):
        return None
    found = [
        _landmark(site.landmark(), s0)
        for site, s0 in zip(problem.sites, problem.engine.prior_mean, strict=True)
    ]
    centre, weight = tuple(c for c, _ in found), tuple(w for _, w in found)
    shift = tuple(rows.times(w, c) for w, c in zip(weight, centre, strict=True))
    q = problem.engine.condition(weight, shift)
    if isinstance(q, Failed):
        return None
    return GaussianPosterior(weight, shift, q, -math.inf, Guarantee.APPROXIMATE)


def _landmark(declared: tuple[Array, Array] | None, prior: Array) -> tuple[Array, Array]:
    if declared is None:
        return prior, np.ones_like(prior)
    centre, distance = declared
    return centre + np.zeros_like(prior), 1.0 / (distance**2 + np.zeros_like(prior))


def _reached(found: Run) -> float:
    return found.trace[-1].objective if found.posterior is not None else -math.inf


def _started(name: str, found: Run) -> Started:
    return Started(name, found.status, _reached(found), found.steps)
