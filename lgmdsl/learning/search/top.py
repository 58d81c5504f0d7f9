"""Going on from where the curvature says that a search ended below its maximum.

A search in the inner product of a metric (EM's complete data) sees the gain of its next step by
that metric. Where the metric is far stiffer than the objective, as next to loadings of thousands,
this is next to nothing tens of nats below the top. The Hessian, which standard errors need anyway,
shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lgmdsl.contract.status import Status
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.continued import numbered, reporting
from lgmdsl.learning.search.maximise import GAIN, NO_STEP, LearningStep, Maximiser, Maximum

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
