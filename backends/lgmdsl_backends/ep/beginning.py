"""The first point of EP: an earlier posterior, or sites matched against rough cavities."""

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
    """The sites of an earlier posterior; or those that match the moments against cavities of
    variance 1 at the prior mean, their weights not negative; or weights of 1 there."""
    reason = Failed("no site gives a finite moment at the prior mean")
    for weight, shift in _candidates(problem, power, warm):
        if np.isfinite(weight).all() and np.isfinite(shift).all():
            found = matched(problem, weight, shift, power)
            if isinstance(found, Matched):
                return found
            reason = found
    return reason


def _candidates(
    problem: Problem, power: float, warm: GaussianPosterior | None
) -> Iterator[tuple[Array, Array]]:
    if warm is not None:
        yield flatten(warm.weight), flatten(warm.shift)
    mean = flatten(problem.engine.prior_mean)
    answers = [
        site.tilted(m, np.ones_like(m), power)
        for site, m in zip(problem.tilting(), problem.engine.prior_mean, strict=True)
    ]
    tilted_mean = flatten(tuple(a.mean for a in answers))
    tilted_variance = flatten(tuple(a.variance for a in answers))
    weight = np.maximum(1.0 / tilted_variance - 1.0, 0.0) / power
    slope = (tilted_mean - mean) / (power * tilted_variance)
    yield weight, slope + weight * mean
    yield np.ones_like(mean), mean
