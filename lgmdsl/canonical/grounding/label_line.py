"""Labels as points of a line: numbers and dates have an order and distances, other text has none.

Dates are ISO 8601 text of one form throughout: `2001-02` (months), `2001Q1` (quarters),
`2001-W05` (weeks), `2001-02-03` (days), `2001-02-03T04:05` and finer. Weeks, days and times of day
count in days.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray

# Steps that an axis is filled up to: so many, or so many for each label that the data have.
STEPS, STEPS_FOR_EACH = 10_000, 50
# Gaps of decimal labels are equal up to the rounding of 15 digits.
ROUNDING = 1e-9

_DIGITS = re.compile(r"([0-9]+)")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_MONTH = re.compile(r"\d{4}-\d{2}")
_QUARTER = re.compile(r"\d{4}-?Q[1-4]")
_WEEK = re.compile(r"\d{4}-W\d{2}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_OTHER_DATE = re.compile(
    rf"\d{{1,4}}[./-]\d{{1,2}}[./-]\d{{1,4}}(\s+\d.*)?|\d{{1,2}}/\d{{4}}"
    rf"|(\d{{1,2}}[\s.-]+)?({_MONTHS})[a-z]*\.?[\s-]*(\d{{1,2}},?\s+)?\d{{2,4}}",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}([T ])\d{2}:\d{2}(?::\d{2}(?:\.(\d{1,9}))?)?(Z?)")
_MONDAY = date(1970, 1, 5).toordinal()
_FIRST_MONDAY = _MONDAY - date(1970, 1, 1).toordinal()
_PER_DAY = {"m": 1440, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400 * 10**9}


@dataclass(frozen=True, eq=False)
class Steps:
    """Integers that count the steps of labels, and labels for others: one way to read the labels
    as equal steps."""

    ticks: IntArray
    write: Callable[[IntArray], AnyArray]


@dataclass(frozen=True, eq=False)
class Line:
    """Labels on a line.

    `places` (n,) are their positions in `unit` (`number`, `month`, `quarter` or `day`, counted from
    1970); `steps` is None for numbers that are not whole.
    """

    labels: AnyArray
    unit: str
    places: Array
    steps: Steps | None

    @property
    def distinct(self) -> bool:
        """Whether all positions differ in float64, and fractions to 15 digits."""
        places = {rounded(v) or v for v in self.labels.tolist()} if self.steps is None else ()
        apart = self.steps is not None or len(places) == self.places.size
        return apart and np.unique(self.places).size == self.places.size


class Uneven(ValueError):
    """Labels whose steps are not equal; the text describes them."""


def line_of(labels: AnyArray) -> Line | None:
    """The labels (int64 or text) as points of a line; None for text that is no number or date."""
    if labels.dtype.kind != "U":
        ticks = labels.astype(np.int64)
        return Line(labels, "number", ticks.astype(np.float64), Steps(ticks, lambda t: t))
    if not labels.size:
        return None
    return _decimals(labels) or _dates(labels)


def sorted_labels(labels: AnyArray) -> AnyArray:
    """Distinct labels in their natural order: text that holds numbers by value, other text by the
    numbers in it (m2 before m10)."""
    if labels.dtype.kind != "U" or not labels.size:
        return labels
    line = _decimals(labels)
    if line is not None:
        return labels[np.argsort(line.places, kind="stable")]
    return np.array(sorted(labels.tolist(), key=natural_key), dtype=labels.dtype)


def sorted_distinct(labels: AnyArray) -> tuple[AnyArray, IntArray]:
    """The labels that there are in their natural order, and the position of each among them."""
    known, codes = np.unique(labels, return_inverse=True)
    ordered = sorted_labels(known)
    places = np.empty(known.size, dtype=np.int64)
    places[np.searchsorted(known, ordered)] = np.arange(known.size)
    return ordered, places[codes.reshape(labels.shape)]


def natural_key(text: str) -> tuple[list[tuple[int, str]], str]:
    """Runs of digits as numbers, between the texts around them; the text itself of those that are
    the same by that."""
    parts = _DIGITS.split(text)
    parts[1::2] = [digits.lstrip("0") for digits in parts[1::2]]
    return [(k % 2 * len(part), part) for k, part in enumerate(parts)], text


def rounded(label: str) -> str:
    """The 15 digits of a fraction that has more, as a computed one has; "" for anything else."""
    if sum(map(str.isdigit, label)) <= 15:
        return ""
    try:
        number = float(label)
    except ValueError:
        return ""
    return f"{number:.15g}" if repr(number) == label and not number.is_integer() else ""


def looks_like_dates(labels: AnyArray) -> bool:
    """Whether text holds dates that are not written by ISO 8601: 31.1.2024, 1/31/24, Jan 2024."""
    texts = labels.tolist()
    return bool(texts) and labels.dtype.kind == "U" and _all(_OTHER_DATE, texts)


def equal_steps(line: Line) -> AnyArray:
    """The labels in equal steps from the first to the last, those that the data lack among them.

    The step is the largest of which all gaps are multiples. Raises Uneven where there is none, or
    where the steps between the labels outnumber them by far.
    """
    order = np.argsort(line.places, kind="stable")
    if line.steps is None:
        gaps = np.diff(line.places[order])
        slack = ROUNDING * gaps.mean() + 1e-14 * np.abs(line.places).max() if gaps.size else 0.0
        if gaps.size and np.ptp(gaps) > slack:
            raise Uneven(f"its steps are between {gaps.min():.6g} and {gaps.max():.6g}")
        return line.labels[order]
    ticks, count = line.steps.ticks[order], len(order)
    first, last = int(ticks[0]), int(ticks[-1])
    if last - first >= 2**62:
        raise Uneven(f"it goes from {first} to {last}")
    step = int(np.gcd.reduce(np.diff(ticks))) if count > 1 else 1
    size = (last - first) // step + 1
    if size == count:
        return line.labels[order]
    if size > max(STEPS, STEPS_FOR_EACH * count):
        raise Uneven(f"{size:,} equal steps lie between the first and the last")
    labels = line.steps.write(np.arange(size, dtype=np.int64) * step + first)
    if labels.dtype.kind == "U":
        labels = labels.astype(np.promote_types(labels.dtype, line.labels.dtype))
    labels[(ticks - first) // step] = line.labels[order]
    return labels


def _decimals(labels: AnyArray) -> Line | None:
    """Text that holds numbers."""
    first = str(labels.flat[0])
    if "_" in first or not first.isascii():
        return None
    try:
        places = labels.astype(np.float64)
    except ValueError:
        return None
    texts = labels.tolist()
    if not np.isfinite(places).all() or not all(t.isascii() and "_" not in t for t in texts):
        return None
    steps = None
    if _all(_WHOLE, texts):
        ticks = np.array([int(t) for t in texts], dtype=np.int64)
        steps = Steps(ticks, lambda t: t.astype(np.str_))
    return Line(labels, "number", places, steps)


def _dates(labels: AnyArray) -> Line | None:
    """Dates of one form, which are all there is on the calendar."""
    texts = labels.tolist()
    if len({len(text) for text in texts}) > 1:
        return None
    try:
        if _all(_MONTH, texts):
            months = np.array(texts, dtype="datetime64[M]").astype(np.int64)
            return _counted(labels, "month", Steps(months, lambda t: _text(t, "M")))
        if _all(_QUARTER, texts):
            return _quarters(labels, texts)
        if _all(_WEEK, texts):
            return _weeks(labels, texts)
        if _all(_DAY, texts):
            days = np.array(texts, dtype="datetime64[D]")
            return _counted(labels, "day", _monthly(days) or _daily(days), days.astype(np.int64))
        if _all(_TIME, texts):
            return _times(labels, texts)
    except ValueError:  # 2001-02-30
        return None
    return None


def _all(form: re.Pattern[str], texts: Iterable[str]) -> bool:
    return all(form.fullmatch(text) for text in texts)


def _counted(labels: AnyArray, unit: str, steps: Steps, places: IntArray | None = None) -> Line:
    ticks = steps.ticks if places is None else places
    return Line(labels, unit, ticks.astype(np.float64), steps)


def _text(ticks: IntArray, unit: str) -> AnyArray:
    return np.asarray(ticks.astype(f"datetime64[{unit}]").astype(np.str_))


def _daily(days: AnyArray) -> Steps:
    return Steps(days.astype(np.int64), lambda t: _text(t, "D"))


def _monthly(days: AnyArray) -> Steps | None:
    """Days that are the same one of every month, or the last one: their steps are months."""
    months = days.astype("datetime64[M]")
    of_month = (days - months.astype("datetime64[D]")).astype(np.int64)
    last = _lengths(months) - 1
    if len(days) < 2 or not ((of_month == last).all() or (of_month == of_month[0]).all()):
        return None
    wanted = 30 if (of_month == last).all() else int(of_month[0])

    def write(ticks: IntArray) -> AnyArray:
        calendar = ticks.astype("datetime64[M]")
        day = np.minimum(wanted, _lengths(calendar) - 1).astype("timedelta64[D]")
        return np.asarray((calendar.astype("datetime64[D]") + day).astype(np.str_))

    return Steps(months.astype(np.int64), write)


def _lengths(months: AnyArray) -> IntArray:
    """Days of each month."""
    days = (months + np.timedelta64(1, "M")).astype("datetime64[D]") - months.astype(
        "datetime64[D]"
    )
    return np.asarray(days.astype(np.int64))


def _quarters(labels: AnyArray, texts: list[str]) -> Line:
    dash = "-" if "-" in texts[0] else ""
    ticks = np.array([4 * int(t[:4]) + int(t[-1]) - 1 for t in texts], dtype=np.int64)

    def write(periods: IntArray) -> AnyArray:
        return np.array(
            [f"{t // 4:04d}{dash}Q{t % 4 + 1}" for t in periods.tolist()], dtype=np.str_
        )

    return _counted(labels, "quarter", Steps(ticks - 4 * 1970, lambda t: write(t + 4 * 1970)))


def _weeks(labels: AnyArray, texts: list[str]) -> Line:
    """Weeks of ISO 8601, by the days of their Mondays."""
    mondays = [date.fromisocalendar(int(t[:4]), int(t[-2:]), 1).toordinal() for t in texts]
    days = np.array(mondays, dtype=np.int64) - date(1970, 1, 1).toordinal()

    def write(ticks: IntArray) -> AnyArray:
        weeks = [date.fromordinal(int(7 * t) + _MONDAY).isocalendar() for t in ticks]
        return np.array([f"{w.year:04d}-W{w.week:02d}" for w in weeks], dtype=np.str_)

    return Line(labels, "day", days.astype(np.float64), Steps((days - _FIRST_MONDAY) // 7, write))


def _times(labels: AnyArray, texts: list[str]) -> Line:
    form = _TIME.fullmatch(texts[0])
    assert form is not None, "the form of all labels has been seen"
    blank, fraction, zone = form[1], len(form[2] or ""), form[3]
    width = len(texts[0]) - len(zone)
    unit = ("s", "ms", "us", "ns")[-(-fraction // 3)] if width > 16 else "m"
    bare = [text.removesuffix("Z").replace(" ", "T") for text in texts]
    ticks = np.array(bare, dtype=f"datetime64[{unit}]").astype(np.int64)

    def write(periods: IntArray) -> AnyArray:
        stamps = _text(periods, unit).tolist()
        return np.array([t[:width].replace("T", blank) + zone for t in stamps], dtype=np.str_)

    return Line(labels, "day", ticks / _PER_DAY[unit], Steps(ticks, write))
