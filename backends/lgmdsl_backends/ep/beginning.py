"""The first point of EP: an earlier posterior, or sites matched against the prior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.stacked import flatten
from lgmdsl_backends.ep.matching import Matched, matched


def begin(
    problem: Problem, power: float, warm: GaussianPosterior | None = None
) -> Matched | Failed:
    """The sites of an earlier posterior; or those that match the moments against the prior as their
    cavity, their weights not negative (where a prior is flat, against N(prior mean, 1)); or weights
    of 1 at the prior mean."""
    reason = Failed("no site gives a finite moment at the prior mean")
    for point in _points(problem, power, warm):
        if isinstance(point, Matched):
            return point
        reason = point
    return reason


def beginnings(problem: Problem, power: float) -> Iterator[Matched]:
    """Every first point that exists, without an earlier posterior, in the same order."""
    return (point for point in _points(problem, power, None) if isinstance(point, Matched))


def _points(
    problem: Problem, power: float, warm: GaussianPosterior | None
) -> Iterator[Matched | Failed]:
    for weight, shift in _candidates(problem, power, warm):
        if np.isfinite(weight).all() and np.isfinite(shift).all():
            yield matched(problem, weight, shift, power)


def _candidates(
    problem: Problem, power: float, warm: GaussianPosterior | None
) -> Iterator[tuple[Array, Array]]:
    if warm is not None:
        yield flatten(warm.weight), flatten(warm.shift)
    prior, mean = problem.engine.prior_mean, flatten(problem.engine.prior_mean)
    unit = tuple(np.ones_like(m) for m in prior)
    none = tuple(np.zeros_like(m) for m in prior)
    alone = problem.engine.condition(none, none)
    for spread in (unit,) if isinstance(alone, Failed) else (alone.variance, unit):
        answers = [
            site.tilted(m, v, power)
            for site, m, v in zip(problem.tilting(), prior, spread, strict=True)
        ]
        tilted_mean = flatten(tuple(a.mean for a in answers))
        tilted_variance = flatten(tuple(a.variance for a in answers))
        known = ~(tilted_variance > 0.0)
        size = np.where(known, 1.0, tilted_variance)
        cavity = np.where(known, 1.0, flatten(spread))
        weight = np.maximum((cavity - size) / (size * cavity), 0.0) / power
        slope = np.where(known, 0.0, (tilted_mean - mean) / (power * size))
        yield weight, slope + weight * mean
    yield np.ones_like(mean), mean
