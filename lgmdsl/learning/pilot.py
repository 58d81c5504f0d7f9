"""A search in a sample of the rows, before the one in all of them.

The maximum of a sample of one group in k is some sqrt(k) standard errors away from that of all, and
its curvature is 1/k of theirs. A search that begins there, in the inner product of that curvature,
takes a handful of fits, where one that knows nothing takes a dozen, the first of them far off.

What a sample cannot tell is left to the search of all rows: hypers that it leaves open or sees at
an edge, several maxima, and a maximum of all rows that the sample did not point to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import scipy.linalg as sla

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.stacked import StackedPredictors, split
from lgmdsl.contract.status import Status
from lgmdsl.errors import LgmError, TooLong
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import LearningStep, Maximiser, Maximum
from lgmdsl.learning.search.metric import Metric
from lgmdsl.learning.several_starts import from_corners
from lgmdsl.learning.starts.first import first_start
from lgmdsl.learning.starts.from_data import corners, highest_start, real_units

# The sd of a coordinate, in its units, from which on a sample leaves a hyper open; and the sds of
# the sample within which the maximum of all rows lies, if the sample tells of it.
OPEN, NEAR = 0.5, 6.0


@dataclass(frozen=True, eq=False)
class Pilot:
    """`first`: the fit of all rows at the sample's maximum; `half`: L^-1 of the curvature LL'
    there, of which all rows have `times` as much."""

    first: Evaluation
    half: Array
    times: float

    def climbed(
        self, search: Maximiser, on_step: Callable[[LearningStep], None] | None
    ) -> Maximum | None:
        """The maximum of all rows; None where the sample did not point to it."""
        inverse = self.half.T @ self.half / self.times
        metric = Metric(lambda g: inverse @ g, reach=NEAR * float(np.sqrt(self.times)))
        found = search.run(self.first, on_step, metric)
        if found.status is Status.interrupted:
            return found
        away = sla.solve_triangular(self.half, found.at.x - self.first.x, trans="T", lower=True)
        near = bool(np.linalg.norm(away) <= NEAR)
        return found if near and found.status is Status.converged and not found.edges else None


def piloted(search: Maximiser) -> Pilot | None:
    """What a sample of the rows tells of the maximum; None where the model has no sample, or one
    that tells too little."""
    objective = search.objective
    canonical = objective.planned.canonical
    part = canonical.rows.sampled(canonical)
    if part is None or not objective.coordinates.size:
        return None
    survey = objective.by(replace(objective.planned, canonical=part))
    top = _maximum(replace(search, objective=survey))
    if top is None:
        return None
    half = _whitening(survey, top)
    first = None if half is None else objective.at(top.at.x, _extended(objective, top.at))
    objective.counted(survey)
    if half is None or first is None:
        return None
    objective.origin, objective.spanned = survey.origin, survey.spanned
    objective.scales = real_units(objective, first)
    return Pilot(first, half, canonical.total_weight / part.total_weight)


def _maximum(search: Maximiser) -> Maximum | None:
    """The sample's, with its curvature; None where it has several, or none."""
    objective = search.objective
    try:
        first = first_start(objective, None)
        starts = corners(search, first)
        first = highest_start(search, first, starts)
        objective.scales = real_units(objective, first)
        modes = from_corners(search, search.run(first), starts)
    except TooLong:
        raise
    except LgmError:
        return None
    top = modes.highest
    if top.status is Status.interrupted:
        raise KeyboardInterrupt
    if top.status is not Status.converged or top.edges or modes.others:
        return None
    return search.with_curvature(top)


def _whitening(objective: Objective, top: Maximum) -> Array | None:
    """L^-1, (d, d), -H = LL' being the curvature at a maximum; None where a hyper is left open."""
    if top.hessian is None or not np.isfinite(top.hessian).all():
        return None
    try:
        factor = np.linalg.cholesky(-top.hessian)
    except np.linalg.LinAlgError:
        return None
    half = np.asarray(sla.solve_triangular(factor, np.eye(len(factor)), lower=True))
    sds = np.sqrt(np.einsum("ij,ij->j", half, half))
    return None if (sds > OPEN * objective.units(top.at.x)).any() else half


def _extended(objective: Objective, at: Evaluation) -> GaussianPosterior | None:
    """Where the fit of all rows starts: their weights and shifts at the mean of the sample's
    posterior, which latents that the sample has no rows of have from the prior."""
    problem = objective.planned.at(at.theta, seed=objective.seed)
    stacked = StackedPredictors(problem.engine.linear)
    s = stacked.lifted(at.posterior.conditioned.latent_mean) + stacked.offset
    mean = split(s, problem.engine.linear.predictors)
    try:
        sites = cast("tuple[Pointwise, ...]", problem.asking(Pointwise))
    except TypeError:
        return None
    answers = [site.pointwise(m) for site, m in zip(sites, mean, strict=True)]
    weight = tuple(-a.curvature for a in answers)
    shift = rows.shift_of(tuple(a.slope for a in answers), weight, mean)
    return replace(at.posterior, weight=weight, shift=shift)
