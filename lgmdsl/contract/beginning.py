"""A first point on the ELBO for the back ends that then climb it by a general optimiser."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.elbo import ElboPoint, elbo_at
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.profile import maximise_mean

# Weights below this fraction of the largest are lifted: a flat site has no log weight.
LEAST = 1e-10


def begin(problem: Problem, warm: GaussianPosterior | None = None) -> ElboPoint | Failed:
    """The point of an earlier posterior, or one with positive weights at the best mean for them.

    Weights are |2 f_v| at the prior mean with unit variances, and again at the best mean for the
    variances they give; the better point of the two is taken.
    """
    if warm is not None:
        point = elbo_at(problem, warm.weight, warm.shift)
        if isinstance(point, ElboPoint):
            return point
    engine, sites = problem.engine, problem.expecting()
    s = engine.prior_mean
    answers = tuple(x.expected(m, _unit(m)) for x, m in zip(sites, s, strict=True))
    weight = lifted(tuple(-2.0 * a.d_variance for a in answers))
    first = engine.condition(weight, _products(weight, s))
    if isinstance(first, Failed):
        return first
    still = tuple(np.zeros_like(m) for m in s)
    profile = maximise_mean(engine, sites, first.variance, s, still, tolerance=1e-2)
    if isinstance(profile, Failed):
        return elbo_at(problem, weight, first.shift)
    found = []
    sharper = lifted(tuple(-2.0 * a.d_variance for a in profile.answers))
    for w, slope in (
        (weight, profile.alpha),
        (sharper, tuple(a.d_mean for a in profile.answers)),
    ):
        moved = _products(w, profile.mean)
        point = elbo_at(problem, w, tuple(g + x for g, x in zip(slope, moved, strict=True)))
        found.append(point)
    points = [p for p in found if isinstance(p, ElboPoint)]
    return max(points, key=lambda p: p.elbo) if points else found[0]


def lifted(weight: Rows) -> Rows:
    """|W|, its entries (eigenvalues) at least LEAST times the largest of the block; 1 if all are 0.
    """
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
