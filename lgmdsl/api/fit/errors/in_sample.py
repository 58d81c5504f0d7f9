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

from lgmdsl.accuracy.accuracy import Accuracy, basis
from lgmdsl.accuracy.better import Unknown, better
from lgmdsl.accuracy.errors import Errors, moments_of
from lgmdsl.api.fit.errors.estimated import Estimated, errors_by_name, joined, summed_up, unsettled
from lgmdsl.api.fit.errors.hyper_errors import OfTheta, hyper_errors, second_order_gap
from lgmdsl.api.solve.solved import Solved
from lgmdsl.assess.grouped.groups import pattern
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.status import Status
from lgmdsl.errors import LgmError
from lgmdsl.inference.driver import Tolerances, run
from lgmdsl.inference.plan import Plan, plan
from lgmdsl.shards.model import ShardedModel
from lgmdsl.shards.sample import sampled_rows
from lgmdsl.streams.model import StreamedModel

# Rows of a sample, and groups at least; predictors of places that are looked at all together.
ROWS, GROUPS, LARGEST = 50_000, 500, 6_000_000

APART = "rows lie in shards"
NO_SAMPLE = "rows were read by batches, and no sample of them tells of all"


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
    canonical = planned.canonical
    try:
        sample = sample_of(planned, solved.theta, seed)
    except LgmError as why:
        return Estimated(Accuracy.none(why.diagnostics[0].message), math.nan)
    if sample is not None:
        return estimated_in(sample, planned, solved)
    if isinstance(canonical, ShardedModel):
        return Estimated(Accuracy.none(APART), math.nan)
    assert isinstance(canonical, StreamedModel), "its rows are not in memory"
    places = sum(g.touched.size for g in canonical.gathers if g is not None)
    return Estimated(Accuracy.none(NO_SAMPLE), math.nan) if places > LARGEST else None


def sample_of(planned: Plan, theta: Theta, seed: int) -> Sample | None:
    """A sample of the groups of rows that were read by batches or lie in shards; None where it
    would be most of them, or they are not apart. Raises LgmError where shards cannot be read
    here."""
    canonical = planned.canonical
    if isinstance(canonical, ShardedModel):
        return _of_shards(planned, canonical, seed)
    if not isinstance(canonical, StreamedModel) or len(canonical.gathers) != 1:
        return None
    (gather,) = canonical.gathers
    if gather is None:
        return None
    step = min(gather.count // ROWS, gather.places // GROUPS)
    if step < 2 or not apart(canonical, theta):
        return None
    part = canonical.thinned(step)
    return Sample(replace(planned, canonical=part), _times(canonical, part), seed)


def _of_shards(planned: Plan, canonical: ShardedModel, seed: int) -> Sample | None:
    if canonical.passes is None or len(canonical.blocks) != 1:
        return None
    part = sampled_rows(canonical.passes.sources, ROWS, GROUPS)
    other = plan(part, planned.method)
    return Sample(replace(other, terms=planned.terms), _times(canonical, part), seed)


def _times(canonical: CanonicalModel, part: CanonicalModel) -> float:
    return canonical.total_weight / part.total_weight


def apart(canonical: StreamedModel, theta: Theta) -> bool:
    """Whether no place shares a latent with another one but with all, nor is joined with it by the
    prior or by a constraint."""
    linear = canonical.linear(theta)
    if linear.constraints is not None:
        return False
    place = np.full(linear.size, -1)
    for gather in canonical.gathers:
        assert gather is not None, "rows are streamed"
        for name, touched in zip(gather.latents, gather.touched.T, strict=True):
            positions = linear.slices[name].start + touched
            if (touched == touched[0]).all():
                continue
            order = np.arange(len(positions))
            known = place[positions]
            if ((known >= 0) & (known != order)).any():
                return False
            place[positions] = order
            if (place[positions] != order).any():
                return False
    for block in linear.blocks:
        own = place[linear.slices[block.name]]
        if (own < 0).all():
            continue
        joined_by = pattern(block)
        if joined_by is None:
            return False
        rows = np.repeat(np.arange(block.size), np.diff(joined_by.indptr))
        if (own[rows] != own[joined_by.indices]).any():
            return False
    return True


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
    named = list(errors_by_name(some, theta, errors, known.change.width))
    how = basis(known)
    if some.observations < planned.canonical.observations:
        how += f", in {some.observations:,} of {planned.canonical.observations:,} rows"
    given = summed_up(some, named, gap, q.log_evidence + gap, how)
    if solved.learned is None or gap == 0.0:
        return given
    hyper = hyper_errors(planned, solved, gap, sample.seed, sample)
    return given if hyper is None else joined(planned.canonical, given, hyper)
