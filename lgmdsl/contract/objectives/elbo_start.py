"""A first point on the ELBO for the back ends that then climb it by a general optimiser."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import EPSILON, Failed, Rows
from lgmdsl.contract.objectives.elbo import ElboPoint, elbo_at, elbo_of, expected
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem

# Weights below this fraction of the largest are lifted: a flat site has no log weight.
LEAST = 1e-10
# The relative error to which the terms of an ELBO may cancel.
RESOLVED = 1e-10
# A rise by so many times what may be lost is one.
CERTAIN = 100.0
# How many times more than before may be lost where neither is resolved.
WORSE = 10.0
# What may be lost, in nats, for an ELBO to be one.
LEGIBLE = 1e-2
# Nats a row below the evidence that a posterior to start from had: its sites do not suit here.
FALLEN = 100.0


def begin(problem: Problem, warm: GaussianPosterior | None = None) -> ElboPoint | Failed:
    """The point of an earlier posterior, or one with positive weights at the best mean for them.

    Weights are |2 f_v| at the prior mean with unit variances, and again at the best mean for the
    variances they give; the better point of the two is taken. Where weights of 1 are better than
    that (a wide prior on a log variance: f overflows at its variance) they take their place.

    An earlier posterior may be of other hyperparameters, at which its weights leave variances so
    wide that f is e^300 (a Poisson rate), and Newton comes down from there by e a step: far below
    its own evidence it is held against the other start, and the better of the two taken.
    """
    known = _of_earlier(problem, warm)
    if known is None:
        return _own(problem)
    assert warm is not None
    count = sum(len(m) for m in problem.engine.prior_mean)
    if known.elbo >= warm.log_evidence - FALLEN * max(count, 1):
        return known
    own = _own(problem)
    return own if isinstance(own, ElboPoint) and own.elbo > known.elbo else known


def _of_earlier(problem: Problem, warm: GaussianPosterior | None) -> ElboPoint | None:
    """The point of an earlier posterior; None where its ELBO is not known to any digit."""
    point = None if warm is None else elbo_at(problem, warm.weight, warm.shift)
    if isinstance(point, ElboPoint) and (resolved(point) or blur(point) < LEGIBLE):
        return point
    return None


def _own(problem: Problem) -> ElboPoint | Failed:
    """The start without an earlier posterior."""
    unit = tuple(_unit(m) for m in problem.engine.prior_mean)
    answers = expected(problem, problem.engine.prior_mean, unit)
    point = _profiled(problem, lifted(tuple(-2.0 * a.d_variance for a in answers)))
    if problem.gaussian and isinstance(point, ElboPoint):
        return point  # the posterior: its weights are the sites' whatever the moments
    plain = elbo_at(problem, unit, _products(unit, problem.engine.prior_mean))
    if isinstance(point, Failed) or (isinstance(plain, ElboPoint) and plain.elbo > point.elbo):
        return _profiled(problem, unit)
    return point


def resolved(point: ElboPoint) -> bool:
    """Whether the terms of the ELBO, which grow with the weights, leave its digits standing."""
    return blur(point) <= RESOLVED * (1.0 + abs(point.elbo))


def comparable(tried: ElboPoint, point: ElboPoint) -> bool:
    """Whether tried's ELBO can be held against that of a point before it: it is resolved, or not
    much worse than the other in that, or legible and higher by far more than it can have lost."""
    if resolved(tried):
        return True
    unsure = blur(tried)
    if not resolved(point):
        return unsure <= WORSE * blur(point)
    return unsure < LEGIBLE and tried.elbo - point.elbo > CERTAIN * unsure


def blur(point: ElboPoint) -> float:
    """About how much the ELBO may have lost to the cancellation of its terms, in nats."""
    traces = zip(point.weight, point.variance, strict=True)
    more = rows.total(tuple(np.abs(rows.trace(w, v)) for w, v in traces))
    return point.conditioned.lost + more * EPSILON


def _profiled(problem: Problem, weight: Rows) -> ElboPoint | Failed:
    """The better of the point with these weights and the one with |2 f_v|, at the best mean."""
    engine, s = problem.engine, problem.engine.prior_mean
    first = engine.condition(weight, _products(weight, s))
    if isinstance(first, Failed):
        return first
    still = tuple(np.zeros_like(m) for m in s)
    profile = maximise_mean(engine, problem.expecting(), first.variance, s, still, tolerance=0.1)
    if isinstance(profile, Failed):
        return profile
    sharper = lifted(tuple(-2.0 * a.d_variance for a in profile.answers))
    slope = tuple(a.d_mean for a in profile.answers)
    points = (
        elbo_of(problem, first.with_shift(rows.shift_of(profile.alpha, weight, profile.mean))),
        elbo_at(problem, sharper, rows.shift_of(slope, sharper, profile.mean), first),
    )
    candidates = [p for p in points if isinstance(p, ElboPoint)]
    # Predictors far from zero next to a small noise lose digits everywhere: then all are taken.
    sound = [p for p in candidates if resolved(p)] or candidates
    if not sound:
        return Failed("the bound cannot be evaluated at the start")
    return max(sound, key=lambda p: p.elbo)


def lifted(weight: Rows) -> Rows:
    """|W|, its entries (eigenvalues) at least LEAST times the block's largest; 1 if all are 0."""
    return tuple(_lifted(w) for w in weight)


def _lifted(weight: Array) -> Array:
    if weight.ndim == 1:
        size = np.abs(weight)
        return np.maximum(size, _least(size))
    values, vectors = np.linalg.eigh(weight)
    size = np.abs(values)
    size = np.maximum(size, _least(size))
    return np.asarray((vectors * size[:, None, :]) @ vectors.transpose(0, 2, 1))


def _least(size: Array) -> float:
    return LEAST * float(size.max(initial=0.0)) or 1.0


def _unit(mean: Array) -> Array:
    if mean.ndim == 1:
        return np.ones_like(mean)
    n, k = mean.shape
    return np.broadcast_to(np.eye(k), (n, k, k)).copy()


def _products(weight: Rows, mean: Rows) -> Rows:
    return tuple(rows.times(w, m) for w, m in zip(weight, mean, strict=True))
