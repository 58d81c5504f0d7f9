"""Fits of an objective on workers, which give the bits that fits in this process give.

A task carries x and the coefficients of its start; the model, the plan and the site parameters of
earlier fits are bundles, which each worker gets once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.status import Guarantee
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.blend import Blend, Sites
from lgmdsl.workers.sources import PlanParts, Source
from lgmdsl.workers.task import Bundle, Task
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.learning.objective.log_posterior import Evaluation, Objective


@dataclass(frozen=True, eq=False)
class Base:
    """The evaluation that starts are made from: theta, and its posterior but for the site
    parameters (W, b), which are a bundle, and what follows from them."""

    theta: Theta
    log_evidence: float
    guarantee: Guarantee
    notes: tuple[str, ...]
    _made: dict[int, Conditioned | None] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_made": {}}

    def conditioned(self, planned: Plan, sites: Sites, seed: int) -> Conditioned | None:
        """q of these sites, made once."""
        if id(planned) not in self._made:
            q = planned.at(self.theta, seed=seed).engine.condition(*sites)
            self._made[id(planned)] = None if isinstance(q, Failed) else q
        return self._made[id(planned)]


@dataclass(frozen=True, eq=False)
class ObjectiveTerms:
    """What all fits of an objective share besides the plan."""

    coordinates: Coordinates
    max_steps: int | None
    seed: int
    tolerances: Tolerances
    roughest: float | None
    keep: Callable[[Any], Any]


@dataclass(frozen=True, eq=False)
class Kept:
    """What comes back: what `keep` took of the evaluation, None where there was none; steps and
    seconds of the fit."""

    value: Any
    steps: int
    seconds: float


@dataclass(frozen=True, eq=False)
class WorkersOfFits:
    """Workers, and the source of the model that an objective's plan is for."""

    workers: Workers
    source: Source

    def evaluations(
        self,
        objective: Objective,
        places: Sequence[Array],
        base: Evaluation,
        starts: Sequence[Blend | None],
        keep: Callable[[Evaluation], Any],
        rough: Sequence[float],
        arrived: Callable[[int, Kept], None],
        call: Callable[..., Kept],
    ) -> None:
        """Fit at all places by `call`; `starts`: where each begins, None: at the base; `rough`: the
        tolerance of each. `arrived`
        gets each as soon as it is there. `keep` has to be a function that can be imported."""
        q = base.posterior
        terms = ObjectiveTerms(
            objective.coordinates,
            objective.max_steps,
            objective.seed,
            objective.tolerances,
            objective.roughest,
            keep,
        )
        about = Base(base.theta, q.log_evidence, q.guarantee, q.notes)
        common = (
            *self.planned(objective.planned),
            Bundle.of(terms),
            Bundle.of(about),
            self.sites(base),
        )
        tasks = []
        for x, start, loose in zip(places, starts, rough, strict=True):
            fits, share = ((), None) if start is None else (start.fits, start.share)
            bundles = (*common, *map(self._of, fits))
            name = f"the fit at {words(objective.coordinates, x)}"
            tasks.append(Task(name, call, (x, share, loose), bundles))
        self.workers.results(tasks, arrived)

    def planned(self, planned: Plan) -> tuple[Bundle, Bundle]:
        """The model, and the rest of a plan for it."""
        return self.workers.bundle(self.source), self.workers.bundle(PlanParts.of(planned), planned)

    def sites(self, at: Evaluation) -> Bundle:
        """(W, b) of a fit."""
        return self._of((at.posterior.weight, at.posterior.shift))

    def _of(self, sites: Sites) -> Bundle:
        return self.workers.bundle(sites, sites[0])


def words(coordinates: Coordinates, x: Array) -> str:
    """A place, for messages: `s = 0.5, r = 2`."""
    theta = coordinates.unpack(x)
    few = [b for b in coordinates.blocks if np.size(theta[b.name]) == 1][:6]
    return (
        ", ".join(f"{b.name} = {float(np.ravel(theta[b.name])[0]):.6g}" for b in few) or "a place"
    )
