"""Averages over standard normals: a lattice within a ball, whose step follows how wide f is.

The trapezoidal rule with step h leaves e^{-2 pi d / h} of a function whose singularities are d away
from the real axis (in sds: theirs over the sd of f's argument), and e^{-2 pi^2 / h^2} of the normal
law. Beyond three dimensions there is no lattice that is small, and points are quasi-random.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics.expectations.log_sum_exp import normal_points

REACH = 5.8  # of the lattice, in sds
# Its steps: WIDEST, finer by RATIO as long as the largest sd times the step is above ANALYTIC,
# down to the finest that is had for so many dimensions.
WIDEST, RATIO, ANALYTIC = 1.05, 0.8, 1.0
FINEST = {1: 0.02, 2: 0.15, 3: 0.7}

Rule = tuple[Array, Array]  # points, (P, dimension), and their weights, (P,)


def level(sd: float, dimension: int) -> int:
    """How many times the lattice is made finer for arguments of sds to `sd`; 0 of other rules."""
    if dimension not in FINEST or not sd * WIDEST > ANALYTIC:
        return 0
    step = max(ANALYTIC / sd, FINEST[dimension])
    return int(np.ceil(np.log(step / WIDEST) / np.log(RATIO)))


@cache
def rule(dimension: int, level: int, pairs: int, seed: int = 0) -> Rule:
    """The lattice of a level, or `pairs` of quasi-random points beyond three dimensions. Of a log
    density of classes: errors of 1e-6 where the level is `level`'s and not the finest."""
    if dimension not in FINEST:
        points = normal_points(dimension, pairs, seed) if dimension else np.zeros((1, 0))
        return points, np.full(len(points), 1.0 / len(points))
    step = WIDEST * RATIO**level
    half = int(REACH / step)
    line = step * np.arange(-half, half + 1)
    points = np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1)
    points = points.reshape(-1, dimension)
    square = (points**2).sum(axis=1)
    points, weight = points[square <= REACH**2], np.exp(-0.5 * square[square <= REACH**2])
    return points, weight / weight.sum()
