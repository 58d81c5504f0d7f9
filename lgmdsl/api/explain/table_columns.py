"""The columns of a table, and what a model may make of each: for `lgm new`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.canonical.grounding.label_line import line_of
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.canonical.grounding.text import why_no_numbers
from lgmdsl.dataset import Entry
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.language.tree.reserved import RESERVED_WORDS
from lgmdsl.language.tree.statements import STATEMENTS

# Whole numbers under these names are labels.
GROUPS = re.compile(
    r"(^|_)(id|nr|no|code|group|subject|site|batch|school|class|ward|zip|person|patient|plot|block"
    r"|plate|cluster|household|clinic|hospital|county|district|region|village|litter|observer)$"
    r"|[a-z](ID|Id)$",
    re.I,
)
TIMES = re.compile(r"(^|_)(year|yr|month|week|day|hour|time|t)s?$|^[xyz]$|response", re.I)
RESERVED = frozenset({w.name for w in RESERVED_WORDS} | {s.word for s in STATEMENTS})
# Distinct whole numbers that may be counts.
COUNTS = 3


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the table: `kind` is number, count, binary, date, group, or, with the reason in
    `why`, left out. `name` is what the model calls it; `map` the column of the first table whose
    groups it describes, for those of further tables."""

    key: str
    name: str
    kind: str
    why: str = ""
    values: Array = field(default_factory=lambda: np.zeros(0))
    levels: int = 0
    missing: int = 0
    map: str = ""


def columns_of(
    source: str, entries: Mapping[str, Entry], known: Collection[str] = ()
) -> list[Column]:
    """The columns, with names that the language takes and that are not `known`; raises E306 where
    there are no rows."""
    taken: set[str] = {*RESERVED, *known}
    out = []
    for key, entry in entries.items():
        name = _identifier(key, taken | (entries.keys() - {key}))
        taken.add(name)
        out.append(_column(key, name, entry))
    if not max((entry.shape[0] for entry in entries.values()), default=0):
        raise DataError(
            Diagnostic("E306", f"{source}: it has no rows", help="give a table of data")
        )
    return out


def _identifier(key: str, taken: set[str]) -> str:
    name = re.sub(r"\W", "_", key, flags=re.ASCII).strip("_")
    if not re.match(r"[A-Za-z]", name):
        name = f"x_{name}" if name else "x"
    return unused_name(name, taken)


def unused_name(name: str, taken: set[str]) -> str:
    """The name, with as many underscores as make it a new one."""
    while name in taken:
        name += "_"
    return name


def _column(key: str, name: str, entry: Entry) -> Column:
    try:
        loaded = entry.loaded
    except DataError as error:
        return Column(key, name, "left out", error.diagnostics[0].message)
    labels = labels_of(loaded)
    missing = int(labels.missing.sum())
    present = labels.present
    levels = int(np.unique(present).size)
    rows = int(labels.values.size)
    if levels == 0:
        return Column(key, name, "left out", "it has no entries")
    if levels == 1:
        return Column(key, name, "left out", f"all its entries are {present[0]}")
    if loaded.values.dtype.kind == "U":
        distinct = np.unique(present)
        if line_of(distinct) is not None and not missing and _is_date(str(distinct[0])):
            return Column(key, name, "date", levels=levels)
        odd = why_no_numbers(present)
        if odd:
            return Column(key, name, "left out", odd)
        if levels == rows - missing:
            return Column(key, name, "left out", "all its entries differ: they are labels")
        return Column(key, name, "group", levels=levels, missing=missing)
    values = np.array(loaded.values, dtype=np.float64)
    gone = labels.missing | ~np.isfinite(values)
    numbers: Array = values[~gone]
    infinite = int((np.isinf(values) & ~labels.missing).sum())
    if infinite:
        return Column(key, name, "left out", f"it holds infinite values ({infinite})")
    with np.errstate(all="ignore"):
        spread = float(numbers.std())
    if not np.isfinite(spread) or spread < np.finfo(np.float64).tiny:
        return Column(key, name, "left out", "its entries are too large or too small to be scaled")
    whole = bool((numbers == np.round(numbers)).all())
    kind = "number"
    if whole and _numbers_the_rows(key, numbers) and not missing:
        return Column(key, name, "left out", "it numbers the rows")
    if whole and set(np.unique(numbers).tolist()) <= {0.0, 1.0}:
        kind = "binary"
    elif whole and GROUPS.search(key) and levels < rows:
        kind = "group"
    elif whole and numbers.min() >= 0 and levels >= COUNTS:
        kind = "count"
    return Column(key, name, kind, "", numbers, levels, missing)


def _numbers_the_rows(key: str, numbers: Array) -> bool:
    """Whether a column counts 0, 1, 2 ... or 1, 2, 3 ... down the table, and is not a time."""
    counted = numbers.size > COUNTS and numbers[0] in (0.0, 1.0)
    return counted and not TIMES.search(key) and bool((np.diff(numbers) == 1.0).all())


def _is_date(text: str) -> bool:
    return re.match(r"\d{4}-?(\d{2}|Q\d|W\d{2})", text) is not None
