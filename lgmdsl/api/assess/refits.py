"""Refits of a fit without some of its responses, here or on workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lgmdsl.api.assess.components import (
    Assessed,
    assessed,
    component,
    conditioned_once,
    observed,
)
from lgmdsl.api.page import counted
from lgmdsl.api.solve.hyper_starts import starting_values
from lgmdsl.api.solve.recondition import point_of
from lgmdsl.api.solve.solved import solve
from lgmdsl.arrays import IntArray
from lgmdsl.assess.mixture import Renewal
from lgmdsl.assess.refit import RefitWithout, of_blocks
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Rows
from lgmdsl.errors import ModelError, NumericalError
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.learning.search.learning_record import LearningOptions
from lgmdsl.posterior.hyper_points import HyperPoint
from lgmdsl.workers.task import Bundle, Task
from lgmdsl.workers.workers import Workers

if TYPE_CHECKING:
    from lgmdsl.posterior.fit_record import FitRecord

T = TypeVar("T")


def without(fit: FitRecord, asked: Assessed, seed: int = 0) -> RefitWithout:
    """Refits without some responses: the method of the fit, its options and bound.

    The tolerance is at most a hundredth of the default, since small differences are taken of it.
    """
    settings = json.loads(fit.provenance.get("settings", "{}"))
    options = json.loads(fit.provenance.get("options", "{}"))
    planned = plan(asked.canonical, fit.method, settings.get("bound"), options)
    tol = settings.get("tol")
    tolerances = Tolerances.scaled(1e-9 if tol is None else min(float(tol), 1e-9))
    limit = settings.get("max_steps")
    renew = Renewed(fit, planned) if len(fit.mixed) > 1 else None
    # A fit that reports a Gaussian though it is off is asked for Gaussians.
    judging = fit.accuracy.known and fit.accuracy.within
    places = observed(asked.canonical)
    return RefitWithout(planned, places, tolerances, limit, seed, renew=renew, judging=judging)


@dataclass(frozen=True, eq=False)
class Renewed:
    """Fits without some rows that integrate over the hyperparameters anew."""

    fit: FitRecord
    planned: Plan

    def __call__(self, rows: tuple[IntArray, ...]) -> Renewal | None:
        """`rows`: of each observed datum. None where the others determine no posterior."""
        whole = self.planned.canonical
        removed = of_blocks(rows, observed(whole), len(whole.blocks))
        found = without_rows(self.fit, self.planned, removed)
        if found is None:
            return None
        points, log_evidence = found
        try:
            components = tuple(component(whole, p, conditioned_once(p)) for p in points)
        except NumericalError:
            return None
        return Renewal(components, self.fit.log_evidence - log_evidence)


@dataclass(frozen=True, eq=False)
class SharedFit:
    """A fit with its responses, as it goes to workers."""

    fit: FitRecord
    together: bool
    seed: int

    @cached_property
    def opened(self) -> tuple[Assessed, RefitWithout]:
        """What is assessed of the fit, and its refits without some responses."""
        asked = assessed(self.fit, None, None, "loo", self.together)
        return asked, without(self.fit, asked, self.seed)


@dataclass(frozen=True, eq=False)
class Refits:
    """Refits on workers: a task names its components by their positions."""

    workers: Workers
    shared: SharedFit
    asked: Assessed

    def __call__(
        self,
        call: Callable[..., T],
        arguments: Sequence[tuple[Any, ...]],
        common: tuple[Any, ...] = (),
    ) -> Iterator[T]:
        """`RefitWithout.each`."""
        known = {id(c): k for k, c in enumerate(self.asked.components)}
        bundles = self.workers.bundle(self.shared), Bundle.of(common)
        tasks = [
            Task(self._name(rows), again, (call, known.get(id(first)), rows, *more), bundles)
            for first, rows, *more in arguments
        ]
        return self.workers.in_order(tasks)

    def _name(self, rows: tuple[IntArray, ...]) -> str:
        left = [(k, int(i)) for k, some in enumerate(rows) for i in some]
        what = counted(len(left), "response")
        if len(left) == 1:
            what = self.asked.observations.entry(*left[0])
        return f"the fit without {what}"


def again(
    shared: SharedFit,
    common: tuple[Any, ...],
    call: Callable[..., T],
    number: int | None,
    *more: Any,
) -> T:
    """In a worker: a refit at one component, or at all hyperparameter points (None)."""
    asked, refit = shared.opened
    first = asked.at_points if number is None else asked.components[number]
    return call(refit, *common, first, *more)


# ---- hyperparameters integrated anew -------------------------------------------------------------
# A fit without some of its rows, whose hyperparameters are integrated anew.


def without_rows(
    fit: FitRecord, planned: Plan, removed: Sequence[IntArray]
) -> tuple[tuple[HyperPoint, ...], float] | None:
    """The points of a fit that integrates over the hyperparameters anew without some rows of
    each site block, as points of all rows (the sites of those left out have weight 0), and its
    log evidence. `planned`: how the whole model is fitted. None where the others determine no
    posterior."""
    whole = planned.canonical
    pairs = list(zip(whole.blocks, removed, strict=True))
    rest = replace(whole, blocks=tuple(block.without(out) for block, out in pairs))
    known = json.loads(fit.provenance.get("settings", "{}"))
    settings = FitSettings(
        hyper="integrate",
        fixed=known.get("fixed") or {},
        seed=fit.seed,
        tol=known.get("tol"),
        max_steps=known.get("max_steps"),
    )
    options = LearningOptions(fit.learning.design if fit.learning else "auto")
    begin = starting_values(rest.hypers, settings, fit.theta, settings.hyper)
    try:
        solved = solve(
            replace(planned, canonical=rest), settings.hyper, settings, options, begin=begin
        )
    except (ModelError, NumericalError):
        return None
    if solved.learned is None or not solved.run.status.usable:
        return None
    left = [block.remaining(out) for block, out in pairs]
    points = []
    for fitted, share in solved.learned.points:
        sites = (_among_all(x, whole, left) for x in fitted.sites)
        points.append(point_of(fit, fitted.theta, share, fitted.log_evidence, *sites))
    q = solved.posterior
    return tuple(points), solved.learned.evidence(q.log_evidence, q.guarantee)[0]


def _among_all(some: Rows, canonical: CanonicalModel, left: Sequence[IntArray]) -> Rows:
    """What the sites that are left have, among all sites of each block: 0 of the others."""
    out = []
    for block, values, rows in zip(canonical.blocks, some, left, strict=True):
        whole = np.zeros((len(block.rows), *values.shape[1:]))
        whole[rows] = values
        out.append(whole)
    return tuple(out)
