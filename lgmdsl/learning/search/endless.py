"""Real coordinates along which the density has no maximum: it rises for ever, ever more slowly.

Counts that are all 0 under a flat prior of the log rate let it go to minus infinity; a search ends
where what is left to gain is little. The curvature is small there, but it is no maximum's: one of
its sds farther on, where a normal density has fallen by half a nat, this one has not.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

# Nats that evidence + log prior falls by at least, a conditional sd beyond a maximum. A Poisson
# rate with a single event in the data falls by 0.37 on its longer side.
FALLS = 0.05


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


def _without_prior(objective: Objective, at: Evaluation) -> BoolArray:
    """(d,) real values whose log prior has no slope."""
    coordinates = objective.coordinates
    real = np.zeros(coordinates.size, dtype=np.bool_)
    for block in coordinates.blocks:
        real[coordinates.slices[block.name]] = block.type == "real"
    space = objective.planned.canonical.hypers
    slopes = space.log_prior(coordinates.unpack(at.x), objective.pinned.keys())[1]
    return np.asarray(real & (coordinates.pull(slopes, at.x) == 0.0))
