"""What a column is in all but a few rows, and which rows these are: for `lgm new`.

A start after its stop, a status that is missing, a time below 0 are mistakes in the data: the model
is the one that the other rows ask for, and its comments name the rows that have to be corrected.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.api.explain.table_columns import Column
from lgmdsl.arrays import BoolArray

# Rows that may be mistakes: one, or this share of the table.
SHARE = 0.1


def mostly(holds: BoolArray) -> bool:
    """Whether something holds in all rows but a few, and in half of a short table."""
    wrong = int((~holds).sum())
    return wrong <= max(1, int(SHARE * holds.size)) and 2 * wrong <= holds.size


def negative(column: Column) -> BoolArray:
    """The rows in which a number is below 0."""
    return np.asarray(column.entries < 0.0)


def unknown(column: Column) -> BoolArray:
    """The rows in which a number is missing."""
    return np.asarray(np.isnan(column.entries))


def in_rows(wrong: BoolArray, *columns: Column) -> str:
    """`in 1 of 80 rows, first row 7 (start 9.1, stop 8.1)`: as the messages about data count them,
    from 0."""
    first = int(np.flatnonzero(wrong)[0])
    values = ", ".join(f"`{c.key}` {_shown(float(c.entries[first]))}" for c in columns)
    return (
        f"in {int(wrong.sum()):,} of {wrong.size:,} rows, first in row {first} (counted from 0: "
        f"{values})"
    )


def _shown(value: float) -> str:
    return "missing" if np.isnan(value) else f"{value:.10g}"
