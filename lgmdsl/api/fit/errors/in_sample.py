"""The estimated errors of a fit of very many rows, from a sample of them.

Where rows fall into groups that are independent given the latents that all share, and one group in
k is a sample, log p(y) less the reported log evidence is k times what it is of the sample, at the
same hyperparameters. What a mean is off stays as it is, the posterior's sd being sqrt(k) times as
large in the sample where all rows tell of it, and the same where one group's do: in sds of all rows
it is the sample's error times the ratio of the two sds. Of rows in shards the sample holds the
latents of its groups, which the fit does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.accuracy.better import Unknown, better
from lgmdsl.accuracy.errors import Accuracy, Errors, moments_of
from lgmdsl.api.fit.errors.estimated import Estimated, errors_by_name, joined, summed_up, unsettled
from lgmdsl.api.fit.errors.hyper_errors import OfTheta, hyper_errors, second_order_gap
from lgmdsl.api.solve.solved import Solved
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.status import Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan

ROWS, GROUPS = 50_000, 500  # of a sample, at least


@dataclass(frozen=True, eq=False)
class Sample(OfTheta):
    """A plan for a model of some of the rows, of which there are so many `times` as many in all."""

    planned: Plan
    times: float
    seed: int

    def fitted(self, theta: Theta) -> tuple[Problem, GaussianPosterior] | None:
        """The posterior given its rows; None where the fit does not converge."""
        problem = self.planned.at(theta, seed=self.seed)
        result = run(self.planned.backend, problem, Tolerances(), None)
        found = result.posterior
        if found is None or result.status is not Status.converged:
            return None
        return problem, found

    def at(self, theta: Theta) -> float:
        gap_of = second_order_gap(self.planned, self.seed)
        try:
            part = self.fitted(theta)
        except (LgmError, np.linalg.LinAlgError):
            return math.nan
        if part is None:
            return math.nan
        problem, q = part
        with np.errstate(all="ignore"):
            return self.times * gap_of(problem, theta, q.conditioned, q.log_evidence)


def estimated_of_many(planned: Plan, solved: Solved, seed: int) -> Estimated | None:
    """Estimated errors of a fit whose rows were read by batches or lie in shards; None where they
    are few enough to look at all of them as at any other sites."""
    try:
        sample = sample_of(planned, solved.theta, seed)
    except LgmError as why:
        return Estimated(Accuracy.none(why.diagnostics[0].message), math.nan)
    if sample is not None:
        return estimated_in(sample, planned, solved)
    reason = planned.canonical.rows.unsampled
    return Estimated(Accuracy.none(reason), math.nan) if reason else None


def sample_of(planned: Plan, theta: Theta, seed: int) -> Sample | None:
    """A sample of the groups of rows that were read by batches or lie in shards; None where it
    would be most of them, or they are not apart. Raises LgmError where shards cannot be read
    here."""
    canonical = planned.canonical
    part = canonical.rows.few_groups(canonical, theta, ROWS, GROUPS)
    if part is None:
        return None
    times = canonical.total_weight / part.total_weight
    return Sample(replace(planned, canonical=part), times, seed)


def estimated_in(sample: Sample, planned: Plan, solved: Solved) -> Estimated:
    """Estimated errors of a fit of all rows, made by `planned`, from a sample of them."""
    cut = unsettled(solved)
    if cut is not None:
        return cut
    q, theta = solved.posterior, solved.theta
    try:
        found = sample.fitted(theta)
        if found is None:
            return Estimated(
                Accuracy.none("a fit of a sample of the rows did not converge"), math.nan
            )
        _, part = found
        with np.errstate(all="ignore"):
            known = better(sample.planned, theta, part.conditioned, part.log_evidence, sample.seed)
    except (Unknown, LgmError, np.linalg.LinAlgError) as why:
        return Estimated(Accuracy.none(str(why)), math.nan)
    if known is None:
        return Estimated(Accuracy.exact(), q.log_evidence)

    some = sample.planned.canonical
    where = planned.canonical.linear(theta).slices

    def errors(functional: Predictor | None) -> Errors:
        found = known.errors(functional)
        every = few = moments_of(part.conditioned, functional)[1]
        if functional is None:
            every = every.copy()
            for name, own in some.linear(theta).slices.items():
                if name in where:
                    every[own] = q.conditioned.latent_variance[where[name]]
        elif functional.columns.keys() <= where.keys():
            every = moments_of(q.conditioned, functional)[1]
        away = found.mean * np.sqrt(few / np.where(every > 0.0, every, np.inf))
        quantile = np.abs(away) + np.maximum(found.quantile - np.abs(found.mean), 0.0)
        return Errors(away, found.sd, quantile)

    gap = sample.times * (known.log_evidence - part.log_evidence)
    named = list(errors_by_name(some, theta, errors, known.width))
    how = known.basis
    if some.observations < planned.canonical.observations:
        how += f", in {some.observations:,} of {planned.canonical.observations:,} rows"
    given = summed_up(some, named, gap, q.log_evidence + gap, how)
    if solved.learned is None or gap == 0.0:
        return given
    hyper = hyper_errors(planned, solved, gap, sample.seed, sample)
    return given if hyper is None else joined(planned.canonical, given, hyper)
