"""The columns of a table, and what a model may make of each: for `lgm new`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from lgmdsl.api.page import several
from lgmdsl.arrays import Array
from lgmdsl.canonical.grounding.label_line import line_of
from lgmdsl.canonical.grounding.labels import labels_of, union
from lgmdsl.canonical.grounding.values import why_no_numbers
from lgmdsl.dataset import Entry
from lgmdsl.errors import DataError
from lgmdsl.language.tree.reserved import RESERVED_WORDS
from lgmdsl.language.tree.statements import STATEMENTS

# Whole numbers under these names are labels.
GROUPS = re.compile(
    r"(^|_)(id|ids|nr|no|code|group|subject|site|batch|school|class|ward|zip|zip_?code|post_?code"
    r"|postal(_?code)?|plz|policy|person|patient|plot"
    r"|block|plate|cluster|household|clinic|hospital|county|district|region|village|litter|observer"
    r"|herd|farm|animal|sire|dam|cow|family|tree|nest|tank|pot|lot|rater|judge|operator|machine"
    r"|worker|player|team|country|state|variety|genotype|breed|store|user|firm|student|pupil|child"
    r"|teacher|lecturer|instructor|department|dept|inst|institution|center|centre|brood|location"
    r"|rat|mouse|dog|fish|bird|cage|pen|box|colony|transect|quadrat|station|island|item|stimulus"
    r"|participant|respondent|subj|individual|ind|idx|physician|surgeon|practice|strain|donor"
    r"|replicate|technician|litter_?mate|pair|stratum|strata|cohort|party|election)$"
    r"|[a-z]id$|(id|seq|case)_?(num|no|nr)$",
    re.I,
)
# Names of rows: never a number.
IDS = re.compile(
    r"(^|_)(id|ids|nr|no|uid|uuid|key|index|idx|row|rownum|record|obs|case|barcode|serial|mrn)$"
    r"|[a-z]id$|(id|seq|case)_?(num|no|nr)$",
    re.I,
)
# Words that end in id and name no rows.
NO_IDS = re.compile(
    r"(acid|fluid|solid|rapid|humid|liquid|grid|valid|covid|paid|bid|lipid|mid)$", re.I
)
TIMES = re.compile(r"(^|_)(year|yr|month|week|day|hour|time|t)s?$|^[xyz]$|response", re.I)
RESERVED = frozenset({w.name for w in RESERVED_WORDS} | {s.word for s in STATEMENTS})
# Numbers that are positions or amounts, also where they are 1, 2, 3.
AMOUNTS = re.compile(
    r"(^|_)(age|dose|depth|temp|temperature|elevation|altitude|lat|latitude|lon|longitude|score"
    r"|rank|parity|size|number|num|n|counts?|rooms|children|kids|dist|distance|weight|length|height"
    r"|width|income|price|conc|concentration|level|amount|rate|visit|wave|trial|round|session"
    r"|period|order|position|effort|duration|stage|grade|test|math|maths|english|reading|iq|doy"
    r"|julian|points|mark|day|days|week|weeks|month|months|year|years)s?$",
    re.I,
)
# Distinct whole numbers that may be counts.
COUNTS = 3
# Rows in any order that 1 to n numbers.
SHUFFLED = 10
# Rows of each code, on average, where whole numbers are codes of groups.
ROWS_PER_CODE = 2
MAX_CODES = 100
FEW = 12
# Codes beyond these need not be all there: so many of them are, and evenly so.
PRESENT, UNEVEN = 0.5, 0.1


@dataclass(frozen=True, eq=False)
class Column:
    """A column of the table: `kind` is number, count, binary, date, group, or, with the reason in
    `why`, left out. `name` is what the model calls it; `map` the column of the first table whose
    groups it describes, for those of further tables; `entries` its numbers, NaN where missing, of a
    column of two texts the place among its `pair` of labels. `base`: the label of 0 of a column
    that the model reads as 0 and 1 by contrasts. `open`: the one infinity that it holds, in place
    of which entries are NaN: an open end of an interval."""

    key: str
    name: str
    kind: str
    why: str = ""
    entries: Array = field(default_factory=lambda: np.zeros(0))
    levels: int = 0
    missing: int = 0
    map: str = ""
    pair: tuple[str, ...] = ()
    base: str = ""
    open: float = 0.0

    @property
    def called(self) -> str:
        """Key of the column with its words joined by underscores."""
        return re.sub(r"(?<=[a-z])(?=[A-Z])|[ .-]+", "_", self.key)

    @property
    def source(self) -> str:
        """What the datum is read from: the key, or the contrast of its two labels."""
        return f"contrasts({self.key}, base={self.base})" if self.base else self.key

    def as_binary(self, base: str) -> Column:
        """A column of two labels as one of 0, at the `base`, and 1; raises ValueError where these
        cannot stand in a contrast."""
        if any(re.search(r"[,()=\"']|^\s|\s$", text) for text in (self.key, base)):
            raise ValueError(f"{self.key} and {base} cannot stand between brackets")
        high = next(k for k, label in enumerate(self.pair) if label != base)
        known = np.unique(self.values)
        ones = np.where(np.isnan(self.entries), np.nan, self.entries == known[high])
        plain = self.kind == "binary" and high == 1
        return replace(self, kind="binary", why="", entries=ones, base="" if plain else base)

    @cached_property
    def values(self) -> Array:
        """Numbers of the column, without missing ones."""
        there: Array = self.entries[~np.isnan(self.entries)]
        return there

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.values.size > 0 and bool((self.values == np.round(self.values)).all())

    @property
    def contiguous(self) -> bool:
        """Whether it holds 1 to K without gaps."""
        return self.whole and bool(self.values.min() == 1 and self.values.max() == self.levels)

    @property
    def repeated(self) -> bool:
        """Whether its values, some at least, are of several rows each."""
        return self.levels >= COUNTS and ROWS_PER_CODE * self.levels <= self.values.size

    @property
    def codes(self) -> bool:
        """Whether its whole numbers may be codes: 1 to K without gaps, some rows of each; or many
        of the numbers up to one above MAX_CODES, evenly."""
        if AMOUNTS.search(self.called) or TIMES.search(self.called) or not self.repeated:
            return False
        return (self.contiguous and self.levels <= MAX_CODES) or self._many_codes

    @cached_property
    def _many_codes(self) -> bool:
        if not self.whole or self.levels <= MAX_CODES or self.values.min() not in (0.0, 1.0):
            return False
        distinct, rows = np.unique(self.values, return_counts=True)
        share = np.cumsum(rows) / self.values.size
        even = np.abs(share - distinct / distinct[-1]).max() < UNEVEN
        return bool(even) and self.levels > PRESENT * float(distinct[-1])

    @property
    def few(self) -> bool:
        """Whether whole numbers with few values that repeat are taken as amounts."""
        return self.whole and self.levels <= FEW and self.repeated


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
        header = several([f"`{key}`" for key in entries])
        raise DataError.of(
            "E306",
            f"{source}: it has no rows below the names of its columns",
            details=(f"columns: {header}",),
            help="export the table again, with its rows",
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
    pair = tuple(str(v) for v in union([present]).tolist()) if levels == 2 else ()
    if levels == 1:
        why = f"all its entries are {present[0]}"
        entries = np.where(labels.missing, np.nan, _constant(present[0]))
        return Column(key, name, "left out", why, entries, levels, missing)
    if loaded.values.dtype.kind == "U":
        distinct = np.unique(present)
        if line_of(distinct) is not None and not missing and _is_date(str(distinct[0])):
            return Column(key, name, "date", levels=levels)
        odd = why_no_numbers(present)
        if odd:
            return Column(key, name, "left out", odd)
        if levels == rows - missing:
            return Column(key, name, "left out", "all its entries differ: they are labels")
        entries = np.zeros(0)
        if pair:
            entries = np.where(labels.missing, np.nan, labels.values.astype(np.str_) == pair[1])
        return Column(key, name, "group", "", entries, levels, missing, pair=pair)
    values = np.array(loaded.values, dtype=np.float64)
    gone = labels.missing | ~np.isfinite(values)
    numbers: Array = values[~gone]
    infinite = values[np.isinf(values) & ~labels.missing]
    if infinite.size:
        why = f"it holds infinite values ({infinite.size})"
        end = float(infinite[0]) if (infinite == infinite[0]).all() and numbers.size else 0.0
        entries = np.where(gone, np.nan, values)
        return Column(key, name, "left out", why, entries, levels, missing, open=end)
    with np.errstate(all="ignore"):
        spread = float(numbers.std())
    if not np.isfinite(spread) or spread < np.finfo(np.float64).tiny:
        return Column(key, name, "left out", "its entries are too large or too small to be scaled")
    whole = bool((numbers == np.round(numbers)).all())
    kind = "number"
    if whole and _numbers_the_rows(key, numbers) and not missing:
        return Column(key, name, "left out", "it numbers the rows")
    words = Column(key, name, "").called
    called = not NO_IDS.search(words)
    if whole and set(np.unique(numbers).tolist()) <= {0.0, 1.0}:
        kind = "binary"
    elif whole and called and IDS.search(words) and levels == rows - missing:
        return Column(key, name, "left out", "all its entries differ: they name the rows")
    elif whole and called and GROUPS.search(words) and levels < rows - missing:
        kind = "group"
    elif whole and numbers.min() >= 0 and levels >= COUNTS:
        kind = "count"
    entries = np.where(gone, np.nan, values)
    return Column(key, name, kind, "", entries, levels, missing, pair=pair)


def _constant(label: object) -> float:
    """A number that is a column's only label; NaN for text."""
    try:
        return float(str(label))
    except ValueError:
        return np.nan


def _numbers_the_rows(key: str, numbers: Array) -> bool:
    """Whether a column counts 0, 1, 2 ... or 1, 2, 3 ... through the table, in some order, or the
    like from another number down the table, and is not a time."""
    if numbers.size <= COUNTS or TIMES.search(key):
        return False
    shuffled = numbers.min() in (0.0, 1.0) and numbers.size > SHUFFLED
    steps = np.diff(np.sort(numbers) if shuffled else numbers)
    return bool((steps == 1.0).all())


def _is_date(text: str) -> bool:
    return re.match(r"\d{4}-?(\d{2}|Q\d|W\d{2})", text) is not None
