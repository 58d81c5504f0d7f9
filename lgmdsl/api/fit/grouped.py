"""Exact evidences in place of estimated ones, where a model's latents fall into small groups: what
they do to the posterior of the hyperparameters."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from lgmdsl.api.fit.correction import ALLOWANCE, OPERATIONS
from lgmdsl.api.fit.errors.estimated import Estimated, joined
from lgmdsl.api.fit.errors.hyper_errors import NEAR, HyperErrors, gaps_wanted, hyper_errors
from lgmdsl.api.solve.solved import Solved
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import log_concave
from lgmdsl.inference.plan import Plan

if TYPE_CHECKING:
    from lgmdsl.assess.grouped.lattice import Lattice

# What evidences at all points may take of the allowance for draws: they are asked for where
# estimates come near, not where something is off. With 2,000 binary intercepts estimates leave an
# sd 0.17 of its sds off.
EVIDENCES = 0.6


class GroupedGap:
    """Exact less reported log evidence at hyperparameter points of one model."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.lattice: Lattice | None = None

    def price(self, problem: Problem, q: Conditioned) -> float:
        """Operations for a point, about; infinite where there are no groups."""
        from lgmdsl.assess.grouped.draws import evidence_price
        from lgmdsl.assess.grouped.groups import groups_of
        from lgmdsl.assess.grouped.split import NoGroups
        from lgmdsl.assess.sampling.draws import MixturePoint

        point = MixturePoint(1.0, problem.sites, problem.engine.linear, q)
        groups = groups_of(point.linear)
        try:
            return math.inf if groups is None else evidence_price(point, groups)
        except (NoGroups, np.linalg.LinAlgError):
            return math.inf

    def __call__(self, problem: Problem, theta: Theta, q: Conditioned, reported: float) -> float:
        """NaN where it cannot be had."""
        from lgmdsl.assess.grouped.draws import grouped_evidence
        from lgmdsl.assess.grouped.groups import groups_of
        from lgmdsl.assess.grouped.split import NoGroups
        from lgmdsl.assess.sampling.draws import MixturePoint

        point = MixturePoint(1.0, problem.sites, problem.engine.linear, q)
        groups = groups_of(point.linear)
        if groups is None:
            return math.nan
        try:
            with np.errstate(all="ignore"):
                known, self.lattice = grouped_evidence(point, groups, self.seed, self.lattice)
        except (NoGroups, np.linalg.LinAlgError):
            return math.nan
        return known.log - reported


def by_groups(
    planned: Plan, solved: Solved, errors: Estimated, effort: str, seed: int
) -> Estimated:
    """The errors of the hyperparameters by exact evidences, where a model has groups, the estimates
    come near to what is tolerated and operations allow; else as they are."""
    q = solved.posterior
    given = errors.of_latents
    gap = given.log_evidence - q.log_evidence
    if solved.learned is None or not given.accuracy.known or gap == 0.0:
        return errors
    if q.conditioned.errors is not None or not _near(errors.hyper):
        return errors
    problem, gap_of = planned.at(solved.theta, seed=seed), GroupedGap(seed)
    if not log_concave(problem.sites):  # other modes are looked for, which no lattice would see
        return errors
    allowance = ALLOWANCE[effort] * max(OPERATIONS, solved.flops * solved.run.steps)
    price = gap_of.price(problem, q.conditioned)
    wanted = 1 + gaps_wanted(solved, problem.engine.linear.rows)
    if not price * wanted <= EVIDENCES * allowance:
        return errors
    gap = gap_of(problem, solved.theta, q.conditioned, q.log_evidence)
    if not math.isfinite(gap):
        return errors
    hyper = hyper_errors(planned, solved, gap, seed, gap_of, exact=True)
    if hyper is None:
        return errors
    accuracy = replace(given.accuracy, evidence=gap)
    known = replace(given, accuracy=accuracy, log_evidence=q.log_evidence + gap)
    return joined(planned.canonical, known, hyper)


def _near(hyper: HyperErrors | None) -> bool:
    """Whether estimates are not known, or near to what is tolerated."""
    return hyper is None or bool(hyper.beyond(NEAR))
