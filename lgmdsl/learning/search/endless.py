"""Real coordinates along which the density has no maximum: it rises for ever, ever more slowly.

Counts that are all 0 under a flat prior of the log rate let it go to minus infinity; a search ends
where what is left to gain is little. The curvature is small there, but it is no maximum's: one of
its sds farther on, where a normal density has fallen by half a nat, this one has not. Where other
coordinates go along (the scale of a generalized gamma, as its shape grows, to that of a power law)
a search would crawl on the ridge until its limit: it ends where twice the value gains little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

# Nats that evidence + log prior falls by at least, a conditional sd beyond a maximum. A Poisson
# rate with a single event in the data falls by 0.37 on its longer side.
FALLS = 0.05
# A real goes to infinity that is FAR units from its start and gained less than DOUBLED nats since
# it was half as far: of c / x, no more than that is left.
FAR, DOUBLED = 100.0, 1e-3


def endless(objective: Objective, at: Evaluation, hessian: Array | None) -> tuple[int, ...]:
    """The coordinates, of values themselves and not of their logs, whose prior is flat at `at` and
    whose density does not fall uphill of it. One evaluation for each."""
    if hessian is None:
        return ()
    uphill = np.where(at.gradient != 0.0, np.sign(at.gradient), np.sign(at.x - objective.origin))
    curvature = -np.diag(hessian)
    length = np.where(curvature > 0.0, 1.0 / np.sqrt(np.abs(curvature)), 1.0 + np.abs(at.x))
    out = []
    for j in np.flatnonzero(_without_prior(objective, at) & np.isfinite(length)):
        x = at.x.copy()
        x[j] += length[j] * (uphill[j] or 1.0)
        ahead = objective.at(x, at.posterior)
        if ahead is not None and ahead.value > at.value - FALLS:
            out.append(int(j))
    return tuple(out)


def distant(objective: Objective, at: Evaluation) -> BoolArray:
    """(d,) real values under flat priors that are FAR units from their start, and rise."""
    away = at.x - objective.origin
    far = (np.abs(away) > FAR * objective.units(at.x)) & (away * at.gradient > 0.0)
    return np.asarray(far & _without_prior(objective, at)) if far.any() else far


def doubled(
    objective: Objective, path: Sequence[tuple[Array, float]], at: Evaluation
) -> tuple[int, ...]:
    """Those `distant` that have doubled their distance for next to nothing, on a `path` of points
    and values."""
    out = []
    away = np.abs(at.x - objective.origin)
    for j in np.flatnonzero(distant(objective, at)):
        half = [v for x, v in path if 2.0 * abs(x[j] - objective.origin[j]) <= away[j]]
        if half and at.value - half[-1] < DOUBLED:
            out.append(int(j))
    return tuple(out)


def _without_prior(objective: Objective, at: Evaluation) -> BoolArray:
    """(d,) real values whose log prior has no slope."""
    coordinates = objective.coordinates
    real = np.zeros(coordinates.size, dtype=np.bool_)
    for block in coordinates.blocks:
        real[coordinates.slices[block.name]] = block.type == "real"
    space = objective.planned.canonical.hypers
    slopes = space.log_prior(coordinates.unpack(at.x), objective.pinned.keys())[1]
    return np.asarray(real & (coordinates.pull(slopes, at.x) == 0.0))
