"""Searches that are made on workers before their turn.

Of several searches each ends where it comes to a maximum that an earlier one has found, so that
they seem to follow one another. But most lead to nothing new, and then they are independent. On
workers each is made as if those between it and the maxima known now led to nothing; where one does
not, it is made here, and those after it once more with what it found. What is found, and the number
of fits that it took, are those of one search after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.objective.blend import Sites
from lgmdsl.learning.objective.elsewhere import Base, words
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective, ObjectiveState
from lgmdsl.learning.search.maximise import Maximiser
from lgmdsl.workers.sources import PlanParts, Source


class Led(NamedTuple):
    """How a search on a worker ended: its status and where, the fits with their steps and seconds,
    and whether it asked for fits of more digits from then on."""

    status: Status
    end: Top
    calls: int
    steps: int
    seconds: float
    refined: bool


@dataclass(frozen=True, eq=False)
class Begun:
    """The fit at a start, but for what follows from (W, b)."""

    x: Array
    base: Base
    run: Run
    log_prior: float
    rounding: float
    slopes: Gradient
    gradient: Array
    jacobian: float
    jacobian_gradient: Array

    @classmethod
    def of(cls, at: Evaluation) -> Begun:
        """What there is to send."""
        q = at.posterior
        base = Base(at.theta, q.log_evidence, q.guarantee, q.notes)
        bare = replace(at.run, posterior=None, trace=(), failure=None)
        ends = at.log_prior, at.rounding, at.slopes, at.gradient, at.jacobian, at.jacobian_gradient
        return cls(at.x, base, bare, *ends)

    def evaluation(self, planned: Plan, sites: Sites, seed: int) -> Evaluation | None:
        """The fit, for searches that begin there; None where (W, b) give no posterior."""
        theta: Theta = self.base.theta
        with np.errstate(all="ignore"):
            q = self.base.conditioned(planned, sites, seed)
        if q is None:
            return None
        base = self.base
        posterior = GaussianPosterior(*sites, q, base.log_evidence, base.guarantee, base.notes)
        run = replace(self.run, posterior=posterior)
        return Evaluation(
            self.x,
            theta,
            planned.at(theta, seed=seed),
            run,
            self.log_prior,
            self.rounding,
            self.slopes,
            self.gradient,
            self.jacobian,
            self.jacobian_gradient,
        )


@dataclass(frozen=True, eq=False)
class SearchTerms:
    """A search, without its fits: those of `Maximiser`, the state of its objective, and the maxima
    that are known."""

    state: ObjectiveState
    jacobian: bool
    limit: int
    enough: float
    rough: float
    patience: int
    tops: tuple[Top, ...]


class Ahead:
    """Searches from `starts`, in the order in which they would be made."""

    def __init__(self, search: Maximiser, starts: Sequence[Evaluation]) -> None:
        self.search, self.starts = search, list(starts)
        self._led: dict[int, Led] = {}
        self._seen: tuple[int, bool] | None = None

    def leads_nowhere(self, start: Evaluation, tops: Sequence[Top]) -> bool:
        """Whether the search from a start leads to none but the maxima known, `tops`; its fits are
        then counted. False too where nobody knows."""
        objective = self.search.objective
        if objective.elsewhere is None:
            return False
        first = next(k for k, s in enumerate(self.starts) if s is start)
        now = len(tops), objective.refined
        if self._seen != now:  # what was found since may be where others end
            self._seen, self._led = now, self._made(range(first, len(self.starts)), tops)
        led = self._led.get(first)
        highest = max(top.value for top in tops)
        if led is None or led.refined or led.status is Status.interrupted:
            return False
        if led.end.value > highest + NATS:
            return False
        if led.status is Status.converged and not alike(led.end, tops[0]):
            return False  # the caller looks for a valley
        objective.calls, objective.steps = objective.calls + led.calls, objective.steps + led.steps
        objective.seconds += led.seconds
        return True

    def _made(self, numbers: Sequence[int], tops: Sequence[Top]) -> dict[int, Led]:
        """The ends of those searches that begin at none of the maxima, by number; of one alone
        nothing."""
        search, objective = self.search, self.search.objective
        elsewhere = objective.elsewhere
        waiting = [k for k in numbers if not any(in_basin(search, t, self.starts[k]) for t in tops)]
        if elsewhere is None or len(waiting) < 2:
            return {}
        from lgmdsl.workers.task import Bundle, Task

        options = search.jacobian, search.limit, search.enough, search.rough, search.patience
        terms = Bundle.of(SearchTerms(ObjectiveState.of(objective), *options, tuple(tops)))
        tasks = []
        for k in waiting:
            start = self.starts[k]
            bundles = (*elsewhere.planned(objective.planned), terms, elsewhere.sites(start))
            name = f"the search from {words(objective.coordinates, start.x)}"
            tasks.append(Task(name, led, (Begun.of(start),), bundles))
        out = {}
        for number, outcome in elsewhere.workers.outcomes(tasks):
            if outcome.error is None and outcome.result is not None:
                out[waiting[number]] = outcome.result
        return out


def led(
    source: Source, parts: PlanParts, terms: SearchTerms, sites: Sites, begun: Begun
) -> Led | None:
    """In a worker: one search; None where its start has no posterior."""
    planned = parts.plan(source)
    objective: Objective = terms.state.objective(planned)
    before = objective.calls, objective.steps
    first = begun.evaluation(planned, sites, objective.seed)
    if first is None:
        return None
    options: dict[str, Any] = {
        "enough": terms.enough, "rough": terms.rough, "patience": terms.patience,
    }  # fmt: skip
    search = Maximiser(objective, terms.jacobian, terms.limit, **options)
    end = replace(search, known=partial(_known, search, terms.tops)).run(first)
    return Led(
        end.status,
        Top(end.at.x, search.value(end.at), end.spread()),
        objective.calls - before[0],
        objective.steps - before[1],
        objective.seconds,
        objective.refined is not terms.state.refined,
    )


def _known(search: Maximiser, tops: Sequence[Top], at: Evaluation) -> bool:
    return any(in_basin(search, top, at) for top in tops)


# ---- basin -------------------------------------------------------------------------------------
# Whether a search has come to the basin of a maximum that is known.
#
# It has where, on the line to the maximum, height and slope are those of a parabola with its top
# there.


# A gap of the heights of at most BELOW nats, of which half the slope times the distance is between
# the SHARES; or so few NATS, a distance of at most NEAR sds.
BELOW, SHARES, NATS, NEAR = 4.0, (0.6, 1.6), 0.02, 0.7
ALIKE = 0.5  # sds: maxima that are no farther apart are one


class Top(NamedTuple):
    """A maximum: x (d,), the height that is climbed, and rough sds of the coordinates there."""

    x: Array
    value: float
    sds: Array


def alike(one: Top, other: Top) -> bool:
    """Whether two maxima are too near each other to be two."""
    gap = np.abs(one.x - other.x) / np.maximum(one.sds, other.sds)
    return float(np.max(gap, initial=0.0)) < ALIKE


def in_basin(search: Maximiser, top: Top, at: Evaluation) -> bool:
    """Whether `at` lies in the basin of a maximum."""
    gap = top.x - at.x
    fall = top.value - search.value(at)
    if abs(fall) <= NATS:
        return float(np.max(np.abs(gap) / top.sds, initial=0.0)) <= NEAR
    half = 0.5 * float(search.gradient(at) @ gap)
    return 0.0 < fall <= BELOW and SHARES[0] <= half / fall <= SHARES[1]
