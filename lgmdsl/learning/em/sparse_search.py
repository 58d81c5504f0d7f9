"""A maximum with exact zeros: EM finds which entries of a precision are not 0, L-BFGS the values.

Evidence + log prior is smooth in all coordinates but those that a graphical lasso holds at 0. From
where EM is slow, L-BFGS climbs in the others; then an EM step, which takes zeros in and out, says
whether it ended at the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.status import Status
from lgmdsl.learning.coordinates.vector import sparse
from lgmdsl.learning.em.closed_steps import covariances
from lgmdsl.learning.em.em import EM
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import GAIN, NOISE, LearningStep, Maximum
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, Evaluated, Iterate

ROUNDS, STEPS = 60, 200
FIRST, STRETCH = 30, 1.3  # steps of EM, and how fast they grow
SETTLED = 1e-6  # nats that the EM step at the end may gain

OnStep = Callable[[LearningStep], None]


def sparse_slices(objective: Objective) -> tuple[slice, ...]:
    """Where the coordinates stand that a prior makes exactly 0."""
    coordinates = objective.coordinates
    return tuple(coordinates.slices[b.name] for b in coordinates.blocks if sparse(b))


def sparse_maximum(em: EM, first: Evaluation, on_step: OnStep | None = None) -> Maximum:
    """From an evaluated start; `converged` where L-BFGS expects less than GAIN of another step and
    an EM step gains less than SETTLED."""
    relaxed = replace(em, acceleration="none", limit=FIRST, stretch=STRETCH)
    climbed = relaxed.run(first, on_step)
    now, steps = climbed.at, list(climbed.steps)
    status, reason = Status.iteration_limit, "the zeros of a precision did not settle"
    if climbed.status is Status.interrupted:
        return _ended(now, steps, climbed.status, climbed.reason)
    try:
        for _ in range(ROUNDS):
            now, left = _in_support(em.objective, now)
            following = em.step(now)
            gained = 0.0 if following is None else following.value - now.value
            steps.append(LearningStep(len(steps), now.value, max(left, gained), em.objective.calls))
            if on_step is not None:
                on_step(steps[-1])
            now = following or now
            if gained <= SETTLED and left <= NOISE:
                status, reason = Status.converged, ""
                break
    except KeyboardInterrupt:
        status, reason = Status.interrupted, "interrupted"
    return _ended(now, steps, status, reason)


def _ended(now: Evaluation, steps: list[LearningStep], status: Status, reason: str) -> Maximum:
    return Maximum(now, status, tuple(steps), lambda: np.ones(len(now.x)), None, reason)


def _in_support(objective: Objective, now: Evaluation) -> tuple[Evaluation, float]:
    """L-BFGS in the coordinates that are not held at 0; and what another step would gain."""
    zero = np.zeros(len(now.x), dtype=bool)
    for entries in sparse_slices(objective):
        zero[entries] = now.x[entries] == 0.0
    free = np.flatnonzero(~zero)
    unit = _units(objective, now)[free]
    search = LBFGS(memory=max(10, min(len(free), 50)))
    iterate: Iterate[Evaluation] = search.start(now.x[free] / unit, _part(now, free, unit))
    gain = math.inf
    for _ in range(STEPS):
        gain = -0.5 * float(iterate.at.gradient @ search.direction(iterate))
        if gain <= GAIN:
            break
        evaluate = partial(_evaluate, objective, iterate.at.kept, free, unit)
        following = search.step(iterate, evaluate)
        if following is None:
            break
        iterate = following
    return iterate.at.kept, gain


def _evaluate(
    objective: Objective, last: Evaluation, free: IntArray, unit: Array, part: Array
) -> Evaluated[Evaluation] | None:
    x = last.x.copy()
    x[free] = unit * part
    evaluation = objective.at(x, last.posterior)
    return None if evaluation is None else _part(evaluation, free, unit)


def _part(at: Evaluation, free: IntArray, unit: Array) -> Evaluated[Evaluation]:
    return Evaluated(-at.value, -unit * at.gradient[free], at)


def _units(objective: Objective, now: Evaluation) -> Array:
    """(d,) the sds of the coordinates if the latents were seen: of n vectors, those of the entries
    of a precision from the Hessian of n/2 log|P|, and 1/sqrt(n) for others."""
    coordinates = objective.coordinates
    counts = {c.name: c.count for c in covariances(objective.planned.canonical, coordinates)}
    out = np.full(coordinates.size, min((c**-0.5 for c in counts.values()), default=1.0))
    for block in coordinates.blocks:
        if not sparse(block) or block.name not in counts:
            continue
        s = np.asarray(now.theta[block.name])
        rows, columns = np.tril_indices(len(s))
        seen = s[rows, rows] * s[columns, columns] + s[rows, columns] ** 2
        seen = np.where(rows == columns, 0.5 * seen, seen)
        out[coordinates.slices[block.name]] = (0.5 * counts[block.name] * seen) ** -0.5
    return out
