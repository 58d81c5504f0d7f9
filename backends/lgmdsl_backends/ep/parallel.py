"""Parallel and sequential EP: one step from a point to the next, damped where the residual grows.

parallel     all sites at once: Anderson's candidate for the map (tau, nu) -> target where it leads
             to a usable point, else (tau, nu) + r (target - (tau, nu)), r halved until it does
sequential   one row after another, each followed by a rank-one update of all marginals

A point is usable while every cavity is proper and the (signed) factorisation succeeds; weights of
log-concave sites stay at zero or above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.joint import Divisible, row_covariance
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.stacked import flatten, split_like
from lgmdsl.numerics.optimisation.anderson import Anderson
from lgmdsl_backends.ep.matching import (
    FLATTEST,
    ROUNDING,
    Matched,
    in_sds,
    matched,
    shaped,
    target_of,
    usable,
)

# The damping: how it shrinks when the residual grows and recovers when it falls, and its floor.
SHRINK, RECOVER, FLOOR = 0.7, 1.1, 0.1
# Where the residual grows by more than this the step is shortened, to FLOOR.
WILD = 10.0
# A step this short is none.
SHORTEST = 1e-4
# Anderson's candidates are tried once the residual is below this, and kept while it grows by less
# than GROWTH; the memory is eight steps.
NEAR, GROWTH = 1.0, 2.0


@dataclass(frozen=True, eq=False)
class Walk:
    """A point, the share r of the next step, and the steps before it."""

    point: Matched
    share: float = 1.0
    history: Anderson = field(default_factory=lambda: Anderson(8))


def parallel(problem: Problem, walk: Walk) -> Walk | None:
    """The next point; None where none is usable, however short the step."""
    point = walk.point
    now = np.concatenate([point.weight, point.shift])
    history = walk.history.seen(now, np.concatenate(target_of(point)))
    if point.residual < NEAR and len(history.points) > 1:
        tried = _matched_at(problem, point, history.candidate(_measure(point), walk.share))
        if tried is not None and tried.residual <= GROWTH * point.residual:
            return Walk(tried, walk.share, history)
        history = Anderson(history.memory).seen(now, now + history.residuals[-1])
    move = history.residuals[-1]
    return _damped(walk, history, lambda share: _matched_at(problem, point, now + share * move))


def sequential(problem: Problem, walk: Walk) -> Walk | None:
    """The point after one sweep over the rows; None where none is usable."""
    point = walk.point
    swept = np.concatenate(sweep(problem, point))
    now = np.concatenate([point.weight, point.shift])
    return _damped(
        walk, walk.history, lambda share: _matched_at(problem, point, now + share * (swept - now))
    )


def _damped(walk: Walk, history: Anderson, point: Callable[[float], Matched | None]) -> Walk | None:
    step = damped(walk.share, walk.point.residual, point)
    return None if step is None else Walk(*step, history)


class Distant(Protocol):
    """A point with a distance from the fixed point."""

    @property
    def residual(self) -> float: ...


P = TypeVar("P", bound=Distant)


def damped(
    share: float, residual: float, point: Callable[[float], P | None]
) -> tuple[P, float] | None:
    """The longest usable step of `share`, half of it, ..., from a point with a residual; the share
    adapted for the next. None where none is usable."""
    while share > SHORTEST:
        tried = point(share)
        if tried is None or (tried.residual > WILD * residual and share > FLOOR):
            share *= 0.5
        elif tried.residual > residual:
            return tried, max(SHRINK * share, min(FLOOR, share))
        else:
            return tried, min(1.0, RECOVER * share)
    return None


def _matched_at(problem: Problem, before: Matched, flat: Array) -> Matched | None:
    weight, shift = np.split(flat, [len(before.weight)])
    point = matched(problem, usable(problem, weight), shift, before.power)
    return None if isinstance(point, Failed) else point


def _measure(point: Matched) -> Callable[[Array], Array]:
    """Changes of (tau, nu) as the changes of each row's log variance and mean (in posterior sds)
    that they would make alone."""
    means = tuple(b.mean for b in point.blocks)
    variances = tuple(b.variance for b in point.blocks)

    def measure(change: Array) -> Array:
        if change.ndim > 1:
            return np.stack([measure(column) for column in change.T], axis=1)
        weight, shift = np.split(change, [len(point.weight)])
        rows = zip(shaped(weight, means), split_like(shift, means), means, variances, strict=True)
        parts = [in_sds(*row) for row in rows]
        widths, moves = (flatten(tuple(p[k] for p in parts)) for k in (0, 1))
        return np.concatenate([widths, moves])

    return measure


# ---- sweep -------------------------------------------------------------------------------------
# One sequential sweep of EP over the rows, by rank-one updates of their joint posterior.


# A rank-one update that would leave less than this share of a row's precision is skipped.
LEAST = 1e-6


def sweep(problem: Problem, point: Matched) -> tuple[Array, Array]:
    """(tau, nu) after matching the moments of each row in turn.

    V <- V - d V_i V_i' / (1 + d V_ii),  m <- m + V_i (dn - d m_i) / (1 + d V_ii), for changes
    (d, dn) of row i. Rows whose cavity is improper by then, or whose update is not finite, stay.
    """
    covariance = row_covariance(point.conditioned, problem.engine.linear)
    mean, power = point.mean.copy(), point.power
    weight, shift = point.weight.copy(), point.shift.copy()
    for i, tilted in enumerate(_each_row(problem)):
        v = float(covariance[i, i])
        share = 1.0 - power * weight[i] * v
        if point.known[i] or not v > 0.0 or share < -ROUNDING:
            continue
        cavity = v / max(share, FLATTEST)
        moments = tilted(mean[i] - power * cavity * (shift[i] - weight[i] * mean[i]), cavity, power)
        if moments is None:
            continue
        matched_mean, matched_variance = moments
        target = (cavity - matched_variance) / (power * cavity * matched_variance)
        change = target - weight[i]
        scale = 1.0 + change * v
        if not scale > LEAST:
            continue
        gap = (matched_mean - mean[i]) / (power * matched_variance)
        # The change of nu less that of tau m is the change of the slope at m.
        shift[i] += gap + change * mean[i]
        weight[i] = target
        column = covariance[i].copy()
        mean += column * (gap / scale)
        covariance -= np.multiply.outer(column * (change / scale), column)
    return weight, shift


def _each_row(
    problem: Problem,
) -> Iterator[Callable[[float, float, float], tuple[float, float] | None]]:
    """(cavity mean, variance, power) -> tilted mean and variance, row by row."""
    for answer, predictor in zip(problem.tilting(), problem.engine.linear.predictors, strict=True):
        for k in range(predictor.rows):
            yield _row(answer, k, predictor.rows)


def _row(
    answer: Tilted, k: int, size: int
) -> Callable[[float, float, float], tuple[float, float] | None]:
    alone = answer.take(np.array([k])) if isinstance(answer, Divisible) else None

    def tilted(mean: float, variance: float, power: float) -> tuple[float, float] | None:
        if alone is not None:
            answers = alone.tilted(np.array([mean]), np.array([variance]), power)
            m, v = answers.mean[0], answers.variance[0]
        else:  # over all its rows, which costs more
            answers = answer.tilted(np.full(size, mean), np.full(size, variance), power)
            m, v = answers.mean[k], answers.variance[k]
        return (float(m), float(v)) if np.isfinite(m) and 0.0 < v < np.inf else None

    return tilted
