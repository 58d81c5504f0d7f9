"""Whether a search has come to the basin of a maximum that is known.

It has where, on the line to the maximum, height and slope are those of a parabola with its top
there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.objective.log_posterior import Evaluation
from lgmdsl.learning.search.maximise import Maximiser

# A gap of the heights of at most BELOW nats, of which half the slope times the distance is between
# the SHARES; or so few NATS, a distance of at most NEAR sds.
BELOW, SHARES, NATS, NEAR = 4.0, (0.6, 1.6), 0.02, 0.7
ALIKE = 0.5  # sds: maxima that are no farther apart are one


class Top(NamedTuple):
    """A maximum: x (d,), the height that is climbed, and rough sds of the coordinates there."""

    x: Array
    value: float
    sds: Array


def alike(one: Top, other: Top) -> bool:
    """Whether two maxima are too near each other to be two."""
    gap = np.abs(one.x - other.x) / np.maximum(one.sds, other.sds)
    return float(np.max(gap, initial=0.0)) < ALIKE


def in_basin(search: Maximiser, top: Top, at: Evaluation) -> bool:
    """Whether `at` lies in the basin of a maximum."""
    gap = top.x - at.x
    fall = top.value - search.value(at)
    if abs(fall) <= NATS:
        return float(np.max(np.abs(gap) / top.sds, initial=0.0)) <= NEAR
    half = 0.5 * float(search.gradient(at) @ gap)
    return 0.0 < fall <= BELOW and SHARES[0] <= half / fall <= SHARES[1]
