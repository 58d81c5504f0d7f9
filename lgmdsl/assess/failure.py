"""Flags of leave-one-out values that are unreliable or do not exist."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.influence import MOST_MOVED

# Effective share of the hyperparameter points below which they are too far from where the rest of
# the data has them, and below which exact values are of new points.
LEAST_EVEN = 0.25
EVEN = 0.7


class Failure(IntEnum):
    """Flags of a response, the most severe that applies; `words` is the sentence for it."""

    none = 0
    influential = 1
    hyperparameters = 2
    tail = 3
    not_finite = 4
    improper = 5

    @property
    def words(self) -> str:
        return WORDS[self]


WORDS = {
    Failure.none: "",
    Failure.influential: "moves the predictors of others, whose sites would change",
    Failure.hyperparameters: "moves the hyperparameters too far to reweight their points",
    Failure.tail: "the draws hardly reach what is left without it",
    Failure.not_finite: "the predictive density is not finite",
    Failure.improper: "without it its predictor has no proper posterior",
}


def judged(log_density: Array, sound: BoolArray, evenness: Array, influence: Array) -> IntArray:
    """Flags (N,). `influence`: moves of other predictors in sds, 0 where they do no harm."""
    flag = np.zeros(len(log_density), dtype=np.int64)
    flag[influence > MOST_MOVED] = Failure.influential
    flag[np.logical_not(evenness >= LEAST_EVEN)] = Failure.hyperparameters
    flag[np.logical_not(np.isfinite(log_density))] = Failure.not_finite
    flag[np.logical_not(sound)] = Failure.improper
    return flag
