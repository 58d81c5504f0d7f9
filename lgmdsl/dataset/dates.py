"""Dates and times of day as ISO 8601 text, no finer than they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, time
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray


def dates_of(values: Sequence[Any]) -> AnyArray:
    """Dates and times in UTC, to the nanosecond where any has some, else to the microsecond."""
    stamps = [_date(v) for v in values]
    units = {np.datetime_data(stamp.dtype)[0] for stamp in stamps}
    unit = "ns" if "ns" in units else "us"
    return np.array([stamp.astype(f"datetime64[{unit}]") for stamp in stamps], f"M8[{unit}]")


def _date(value: Any) -> np.datetime64:
    if getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value.isoformat() if hasattr(value, "isoformat") else value)


def date_text(dates: AnyArray) -> AnyArray:
    """Dates as ISO text, no finer than they are, so that the same days have the same labels."""
    return _coarsest(dates, ("D", "s", "us"))


def clock_text(nanoseconds: AnyArray) -> AnyArray:
    """Times of day, in nanoseconds since midnight, as ISO text, no finer than they are."""
    stamps = _coarsest(nanoseconds.astype("datetime64[ns]"), ("s", "us"))
    return np.array([stamp.rpartition("T")[2] for stamp in stamps.tolist()], dtype=np.str_)


def nanoseconds(value: time) -> int:
    """A time of day as nanoseconds since midnight."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 10**9 + value.microsecond * 1000


def _coarsest(dates: AnyArray, units: Sequence[str]) -> AnyArray:
    known = dates[~np.isnat(dates)]
    for unit in units:
        coarse = f"datetime64[{unit}]"
        if (known.astype(coarse) == known).all():
            return dates.astype(coarse).astype(np.str_)
    return dates.astype(np.str_)
