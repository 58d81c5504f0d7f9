"""Classes that are reached one cut after the other: class k is where cut k is taken, once all the
cuts before it have been passed."""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, BoolArray


def reached_and_taken(classes: Array, size: int) -> tuple[BoolArray, BoolArray]:
    """Which of `size` cuts each of the classes (N,), counted from 0, has reached, and whether it
    was taken there: (N, size) both. The last class has reached all of them and taken none."""
    code, cut = np.asarray(classes)[:, None], np.arange(size)
    return cut <= code, cut == code
