"""The first point of EP: an earlier posterior, or sites matched against the prior."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.rows import diagonal, times
from lgmdsl.contract.stacked import flatten
from lgmdsl_backends.ep.blocks import cavities, nonnegative, tilt
from lgmdsl_backends.ep.matching import Matched, matched

# The largest variance of a predictor of a vector site in the first cavities, where it has no unit.
WIDEST = 0.1


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
    prior = problem.engine.prior_mean
    unit = tuple(_units(m) for m in prior)
    none = tuple(np.zeros_like(v) for v in unit)
    alone = problem.engine.condition(none, tuple(np.zeros_like(m) for m in prior))
    known = () if isinstance(alone, Failed) else zip(problem.sites, alone.variance, strict=True)
    narrow = tuple(_narrow(v, site.spec.link == "identity") for site, v in known)
    prior_spread = () if isinstance(alone, Failed) else (narrow,)
    for spread in (*prior_spread, unit):
        most = max((float(diagonal(v).max(initial=0.0)) for v in spread), default=0.0)
        targets = []
        for site, m, v in zip(problem.tilting(), prior, spread, strict=True):
            block = cavities(np.zeros_like(v), np.zeros_like(m), (m, v), None, power, most)
            if block is None:
                break
            block = tilt(block, site)
            if not block.finite:
                break
            weight = nonnegative(block.target_weight(), block.variance)
            targets.append((weight, block.slope_gap() + times(weight, m)))
        if len(targets) == len(prior):
            yield flatten(tuple(w for w, _ in targets)), flatten(tuple(s for _, s in targets))
    yield flatten(unit), flatten(tuple(times(w, m) for w, m in zip(unit, prior, strict=True)))


def _narrow(variance: Array, placed: bool) -> Array:
    """The variances; of vector sites with each predictor scaled down to WIDEST: their moments are
    quick where cavities are narrow, and the first ones need not be the prior's. `placed`: the first
    predictor is on the axis of y, whose unit is free: no variance is wide there."""
    if variance.ndim == 1:
        return variance
    scale = np.sqrt(WIDEST / np.maximum(diagonal(variance), WIDEST))
    if placed:
        scale[:, 0] = 1.0
    return np.asarray(variance * scale[:, :, None] * scale[:, None, :])


def _units(mean: Array) -> Array:
    """Variances of 1, (N,), or the identity, (N, K, K)."""
    if mean.ndim == 1:
        return np.ones_like(mean)
    return np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1])).copy()
