"""What may be said of how a row is censored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lgmdsl.arrays import Array, IntArray

# Arguments of a family that say how far a response was seen, and nothing of its distribution.
ENDS = ("lower", "upper")  # of the interval that holds y; a missing or an infinite one is open
CENSORING = ("event", *ENDS)
# The same, and how much it counts: nothing of these is known of a response to come.
OBSERVING = (*CENSORING, "entry", "weight")


def within(ends: Mapping[str, Array], positive: bool) -> Array:
    """A value between the ends that are given (`lower`, `upper`, and `entry`, which it exceeds),
    NaN where none is. It stands for a y of which no more is known; no density is taken of it."""
    low, high, entry = (
        np.asarray(ends.get(name, np.nan), dtype=np.float64) for name in (*ENDS, "entry")
    )
    known = ~(np.isnan(low) & np.isnan(high))
    low = np.fmax(low, entry)
    low = np.fmax(low, 0.0) if positive else low
    beyond = np.where(low > 0.0, 2.0 * low, 1.0) if positive else low
    y = np.where(np.isnan(high), beyond, np.where(np.isnan(low), high, 0.5 * (low + high)))
    return np.where(known, y, np.nan)


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
