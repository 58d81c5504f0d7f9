"""What may be said of how a row is censored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import Array, IntArray

# Arguments of a family that say how far a response was seen, and nothing of its distribution.
CENSORING = ("event", "lower", "upper")
# The same, and how much it counts: nothing of these is known of a response to come.
OBSERVING = (*CENSORING, "entry", "weight")


def censoring_fault(y: Array | None, given: Mapping[str, Array]) -> tuple[str, IntArray] | None:
    """What is wrong with `event`, `lower`, `upper` and `entry` (those that are given, each as long
    as y), with a place `{y}` for the name of y, and in which rows; None where nothing is."""
    if y is None:
        return None
    missing = np.full(len(y), np.nan)
    event = given.get("event", np.ones(len(y)))
    low, high = given.get("lower", missing), given.get("upper", missing)
    entry = given.get("entry", missing)
    bounded = ~np.isnan(low) | ~np.isnan(high)
    faults = (
        ("`event` must be 0 (censored at {y}) or 1 (observed)", (event != 0.0) & (event != 1.0)),
        ("`event` is 0 where `lower` or `upper` is given", (event == 0.0) & bounded),
        ("`lower` is above `upper`", low > high),
        ("{y} lies outside `lower` and `upper`", (y < low) | (y > high)),
        ("`entry` is not before {y}", (entry > 0.0) & (entry >= y)),
        ("`entry` is infinite", np.isinf(entry)),
    )
    for fault, wrong in faults:
        if wrong.any():
            return fault, np.flatnonzero(wrong)
    return None
