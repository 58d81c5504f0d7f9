"""Precisions of scale mixtures by Newton, each on its own: the expansion that pays.

A mixture's expected precision W_i is stationary where it is what its own q asks for, P_i(x_i) with
x_i = m_i^2 + v_i. Plain variational Bayes takes W_i <- P_i and creeps where W_i v_i is near 1, a
weight that data say nothing about: x_i then follows W_i. With that response taken into account,

    dv/dlog W = -W v^2,   dm/dlog W = -W v m,   log W <- log W + (log P - log W) / (1 - k),
    k = (dlog P/dx) (-W v (2 m^2 + v)),

which for gamma precisions is nearly MacKay's step, (1 - W v) over m^2. It has the fixed points of
plain variational Bayes and no others. Such a step need not raise the bound: where it does not, nor
leaves it as it was and brings W nearer to P, the plain one is taken, and the next is shortened by
half.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Augmented
from lgmdsl.contract.site import Property, Site
from lgmdsl_backends.px_vb.bound import Point, augmented

STRETCHED = 1e4  # times the plain step in log W at most,
LONGEST = 3.0  # and so long
ROUNDING = 1e-12  # of the bound
RELATIVE = 1e-5  # of x, for the difference that gives P'


def mixture(site: Site) -> bool:
    """Whether a site is a mixture of Gaussians over their scale."""
    properties = site.spec.properties
    return Property.SUPER_GAUSSIAN in properties and Property.GAUSSIAN not in properties


def stepped(problem: Problem, point: Point, share: float) -> Point | None:
    """The point with the mixtures' precisions moved on by Newton's excess over the plain step times
    `share`; its bound is that of the point. None where there are no mixtures."""
    if not any(mixture(s) for s in problem.sites):
        return None
    answers = list(point.answers)
    for k, (site, answer) in enumerate(zip(problem.sites, augmented(problem), strict=True)):
        if mixture(site):
            q = point.q
            asked = answers[k].precision
            excess = _excess(answer, asked, q.weight[k], q.mean[k], q.variance[k])
            move = (1.0 + share * excess) * np.log(asked / q.weight[k])
            precision = q.weight[k] * np.exp(np.clip(move, -LONGEST, LONGEST))
            fine = np.isfinite(precision) & (precision > 0.0)
            answers[k] = replace(answers[k], precision=np.where(fine, precision, asked))
    return Point(point.q, tuple(answers), point.bound)


def nearer(problem: Problem, following: Point, point: Point) -> bool:
    """Whether a point is better than another: by its bound, or where the bounds are the same to
    rounding by how far its precisions are from those asked for."""
    rise = following.bound - point.bound
    if rise > ROUNDING * max(1.0, abs(point.bound)):
        return True
    return _gap(problem, following) < 0.99 * _gap(problem, point)


def _gap(problem: Problem, point: Point) -> float:
    gaps = [
        float(np.abs(np.log(a.precision / w)).max(initial=0.0))
        for s, a, w in zip(problem.sites, point.answers, point.q.weight, strict=True)
        if mixture(s)
    ]
    return max(gaps, default=0.0)


def _excess(answer: Augmented, asked: Array, weight: Array, mean: Array, variance: Array) -> Array:
    """k / (1 - k): how many times the plain step Newton's is longer."""
    more = RELATIVE * (mean * mean + variance)
    beyond = answer.weights(mean, variance + more).precision
    with np.errstate(all="ignore"):
        slope = (np.log(beyond) - np.log(asked)) / more
        k = -slope * weight * variance * (2.0 * mean * mean + variance)
        ratio = np.clip(k, 0.0, 1.0 - 1.0 / STRETCHED)
    return np.where(np.isfinite(ratio), ratio / (1.0 - ratio), 0.0)
