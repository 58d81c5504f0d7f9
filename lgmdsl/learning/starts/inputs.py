"""Lengths, ranges and rates on the scale of the inputs.

Where a kernel's length is far below the distances between inputs, or far above all of them, the
evidence has no slope in it, and no search leaves. So where a positive hyper of a latent's prior
that sets no size has little slope, and no maximum near, other values are tried, a few logs apart;
those uphill, where it has a slope.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.canonical.queries.hyper_uses import of_latents, roots
from lgmdsl.canonical.queries.sizes import sizes
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.maximise import Maximiser

# A slope of the evidence, in nats per log, that is little; the logs by which values are moved, both
# ways: a curve through 20 inputs has lengths that matter over three logs or more; and the nats of a
# maximum above the places on its sides.
LITTLE, FALLS = 2.0, 1.0
MOVES = tuple(sign * 2.0 * k for k in range(1, 9) for sign in (1.0, -1.0))


def at_inputs(search: Maximiser, at: Evaluation) -> Evaluation:
    """The highest of the places at which such hypers have other values, one coordinate after
    another, which searches may begin at; `at` where none is higher."""
    objective, best = search.objective, at
    for j in _shapes(search, at):
        base, slope = best, _slope(search, best, j)
        flat, heights = abs(slope) <= LITTLE, list[float]()
        for move in MOVES:
            if not flat and move * slope < 0.0:
                continue
            if heights and not flat and heights[-1] < search.value(best) - FALLS:
                break  # beyond a maximum uphill
            if len(heights) == 2 and flat and max(heights) < search.value(base) - FALLS:
                break  # a maximum between two places is there
            x = base.x.copy()
            x[j] += move
            there = objective.at(x, at.posterior)
            heights.append(-np.inf if there is None else search.value(there))
            if there is not None and search.value(there) > search.value(best):
                best = there
    objective.centre(best.x, best.x != at.x)
    return best


def _shapes(search: Maximiser, at: Evaluation) -> IntArray:
    """The coordinates of positive hypers of latents' priors that set no size."""
    objective = search.objective
    canonical, coordinates = objective.planned.canonical, objective.coordinates
    used = {n for depends in of_latents(canonical) for n in roots(canonical, depends)}
    set_by = {n for size in sizes(canonical, at.theta, set(objective.pinned)) for n in size.powers}
    names = [
        b.name
        for b in coordinates.blocks
        if b.type == "positive" and b.name in used and b.name not in {*set_by, *objective.begin}
    ]
    own = [np.arange(s.start, s.stop) for s in (coordinates.slices[n] for n in names)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *own])


def _slope(search: Maximiser, at: Evaluation, j: int) -> float:
    """The slope of the evidence in coordinate j."""
    return float(search.objective.coordinates.pull(at.slopes, at.x)[j])
