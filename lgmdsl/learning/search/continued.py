"""Searches that go on where another ended: from below the top, and at exact zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.status import Status
from lgmdsl.errors import DataError
from lgmdsl.learning.coordinates.vector import sparse
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import GAIN, NO_STEP, LearningStep, Maximiser, Maximum

OnStep = Callable[[LearningStep], None]


def numbered(steps: Iterable[LearningStep], done: int) -> tuple[LearningStep, ...]:
    """The steps with `done` before them."""
    return tuple(replace(step, step=step.step + done) for step in steps)


def reporting(on_step: OnStep | None, done: int, first: int = 1) -> OnStep:
    """What reports the steps of a search with `done` before them, from its step `first` on: step 0
    is where the earlier search ended."""

    def report(step: LearningStep) -> None:
        if on_step is not None and step.step >= first:
            on_step(replace(step, step=step.step + done))

    return report


# ---- top ---------------------------------------------------------------------------------------
# Going on from where the curvature says that a search ended below its maximum.
#
# A search in the inner product of a metric (EM's complete data) sees the gain of its next step by
# that metric. Where the metric is far stiffer than the objective, as next to loadings of thousands,
# this is next to nothing tens of nats below the top. The Hessian, which standard errors need
# anyway, shows it.


# Nats that slope and curvature may promise at a maximum: before the search goes on from there, and
# before it is called one no more. Curvatures are differences of slopes.
UNSEEN, NATS = 0.01, 1.0
ROUNDS = 3
SHARES = (1.0, 0.5, 0.2, 0.05)  # of Newton's step


def to_the_top(
    search: Maximiser, found: Maximum, on_step: Callable[[LearningStep], None] | None
) -> Maximum:
    """The maximum `found`, with a curvature, or what Newton's steps and searches in the inner
    product of the coordinates reach from there; not converged where more than NATS are promised
    all the same."""
    for _ in range(ROUNDS):
        if found.status is not Status.converged or _promised(search, found) <= UNSEEN:
            return found
        done = found.steps[-1].step
        again = search.run(_by_newton(search, found), reporting(on_step, done))
        steps = (*found.steps, *numbered(again.steps[1:], done))
        if search.value(again.at) <= search.value(found.at) + GAIN:
            break
        found = replace(again, steps=steps)
        if again.reason == NO_STEP.reason:  # at rest, if the curvature promises nothing either
            found = replace(found, status=Status.converged, reason="")
        if found.status is Status.converged:
            found = search.with_curvature(found)
    promised = _promised(search, found)
    if promised <= NATS or found.status is not Status.converged:
        return found
    reason = f"no step rises, but slope and curvature promise {promised:.2g} nats"
    return replace(found, status=Status.stalled, reason=reason)


def _by_newton(search: Maximiser, found: Maximum) -> Evaluation:
    """The end of a step that rises along every axis of the curvature, by the slope over the size of
    the curvature; where the search was if none of its SHARES is higher."""
    step = search.newton(found)
    for share in SHARES:
        at = search.objective.at(found.at.x + share * step, found.at.posterior)
        if at is not None and search.value(at) > search.value(found.at):
            return at
    return found.at


def _promised(search: Maximiser, found: Maximum) -> float:
    """Nats that Newton's step gains by the quadratic model."""
    return float(0.5 * search.gradient(found.at) @ search.newton(found))


# ---- exact zeros -------------------------------------------------------------------------------
# Zeros among probabilities and variances: whether a maximum on an edge is one.
#
# Along an edge, p_k = 0, the slope in every coordinate of p_k vanishes whatever the objective does
# inside. At a maximum the conditions of Karush, Kuhn and Tucker hold as well: with g the slope in
# p,
#
#     g_k <= sum_j p_j g_j   where p_k = 0   (equal where p_k > 0, which the search has seen to)
#
# An entry that does not meet its own was left there by a step too long: it is lifted, and the
# search goes on from there. So are the directions in which a covariance is nearly singular: the
# slope in the logarithms of its factor vanishes there as well, wherever the search began or was
# led.


EDGE = 1e-6  # a probability that is no more is on the edge
EXCESS = 1e-6  # of a slope over the mean of all, relative: rounding and unfinished fits
LIFTS = (1e-2, 1e-3, 1e-4, 1e-5)  # what the entries of one simplex get between them
ZERO_ROUNDS = 5
# Eigenvalues below NARROW of the largest are lifted to so much of it; by WORTH nats, or not at all.
NARROW, WIDTHS, WORTH = 1e-2, (0.3, 0.03), 1e-3


def held_wrongly(objective: Objective, at: Evaluation) -> dict[str, BoolArray]:
    """The entries of each free simplex that are on its edge while the objective rises inwards."""
    out = {}
    for block in objective.coordinates.blocks:
        if block.type != "simplex":
            continue
        p = np.asarray(at.theta[block.name])
        slope = _slope(objective, at, block.name)
        level = (p * slope).sum(axis=-1, keepdims=True)
        found = (p <= EDGE) & (slope > level + EXCESS * np.abs(level))
        if found.any():
            out[block.name] = found
    return out


def released(
    search: Maximiser, found: Maximum, on_step: Callable[[LearningStep], None] | None = None
) -> Maximum:
    """A converged maximum, sought further while lifting what is on an edge wrongly raises it."""
    for _ in range(ZERO_ROUNDS):
        if found.status is not Status.converged:
            break
        try:
            higher = _lifted(search.objective, found.at)
        except KeyboardInterrupt:
            return replace(found, status=Status.interrupted, reason="interrupted")
        if higher is None:
            break
        done = len(found.steps)
        further = search.run(higher, reporting(on_step, done, first=0))
        found = replace(further, steps=(*found.steps, *numbered(further.steps, done)))
    return found


def _lifted(objective: Objective, at: Evaluation) -> Evaluation | None:
    """Where the objective is higher with these entries above 0; None where there are none such."""
    wrong = held_wrongly(objective, at)
    for lift in LIFTS if wrong else ():
        moved = {n: _mixed(np.asarray(at.theta[n]), some, lift) for n, some in wrong.items()}
        found = _fit(objective, {**at.theta, **moved}, at)
        if found is not None and found.value > at.value + GAIN:
            return found
    for theta in _widened(objective, at):
        found = _fit(objective, theta, at)
        if found is not None and found.value > at.value + WORTH:
            return found
    return None


def _fit(objective: Objective, theta: Theta, near: Evaluation) -> Evaluation | None:
    """None where there is no fit, or where one wide direction leaves the rest of a covariance
    without digits."""
    try:
        x = objective.coordinates.pack(theta)
    except DataError:
        return None
    return objective.at(x, near.posterior)


def _widened(objective: Objective, at: Evaluation) -> Iterator[Theta]:
    """The hypers with each nearly singular covariance made wider: where it is narrow altogether,
    and in the narrow direction in which the objective rises most."""
    begin = objective.coordinates.unpack(objective.origin)
    for block in objective.coordinates.blocks:
        name = block.name
        if block.type != "covariance" or sparse(block) or np.ndim(at.theta[name]) != 2:
            continue
        s = np.asarray(at.theta[name])
        values, vectors = np.linalg.eigh(s)
        size = max(values[-1], float(np.mean(np.diag(np.asarray(begin[name])))))
        narrow = vectors[:, values < NARROW * size]
        if not narrow.shape[1]:
            continue
        slope = _slope(objective, at, name)
        inner = narrow.T @ (slope + slope.T) @ narrow
        steepest = narrow @ np.linalg.eigh(inner)[1][:, -1:]
        for way in (narrow, steepest):
            for width in WIDTHS:
                yield {**at.theta, name: s + width * size * (way @ way.T)}


def _slope(objective: Objective, at: Evaluation, name: str) -> Array:
    """Slope of evidence + log prior in a hyper on its natural scale, in its shape."""
    prior = objective.planned.canonical.hypers.log_prior(at.theta, objective.pinned.keys())[1]
    found = at.slopes.get(name, 0.0) + prior.get(name, 0.0)
    return np.asarray(found + np.zeros_like(at.theta[name]))


def _mixed(p: Array, some: BoolArray, lift: float) -> Array:
    count = some.sum(axis=-1, keepdims=True)
    share = np.where(count > 0, lift, 0.0)
    return np.asarray((1.0 - share) * p + share * some / np.maximum(count, 1))
