"""Which of two labels is 1, and which columns are times to an event: for `lgm new`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from lgmdsl.api.explain.nearly import mostly, negative, unknown
from lgmdsl.api.explain.table_columns import Column

EVENT = re.compile(
    r"(^|_)(event|events|status|died|dead|death|delta|failed|failure|fail|relapsed?|cens|censor"
    r"|censored|censoring|uncensored|observed|fustat|progressed|recurred|recurrence|churn(ed)?"
    r"|dropped_?out|dropout)$|[a-z]stat$|^(event|status|censor\w*|cens|death|died|dead)_",
    re.I,
)
# 1 in such a column is a row that was censored.
REVERSED = re.compile(r"(^|_)(right_?)?censored$", re.I)
LIFETIME = re.compile(
    r"(^|_)(time|t|survival|surv|lifetime|[sf]u?time|survtime|followup|follow_up|tte|os|pfs|dfs|rfs"
    r"|stop|tstop|exit)$|(^|_)(time|days|weeks|months|years)_(to|until|at|on|in|of)(_|$)|^surv",
    re.I,
)
# Times where an event stands beside them.
DURATION = re.compile(
    r"(^|_)(days?|weeks?|months?|years?|hours?|duration|tenure|fu|age_at_\w+)$|[a-z]time$"
    r"|^(days|weeks|months|years|time|duration)_",
    re.I,
)
ENTRY = re.compile(r"(^|_)(entry|enter|entered|start|tstart|begin|left_?trunc\w*)(_|$)", re.I)
# Words of rows without an event, which hold against all others; of those with one; and of none.
_CENSORED = re.compile(
    r"(right|left)?[- _]?(censored|censor|censoring|cens)|right|alive|living|survived|survivor"
    r"|lost( to follow[- ]?up)?|administrative|withdrawn"
    r"|(event|disease|relapse|progression|recurrence)[- _]?free|no[- _](event|relapse|progression)",
    re.I,
)
_ONE = re.compile(
    r"event|dead|died|deceased|death|dod|yes|y|true|t|failure|failed|fail|relapsed?|observed|exact"
    r"|uncensored|recurr(ence|ed|ent)|progress(ion|ed|ive)|recurred/progressed|positive|pos|success|present|presence|infected|diseased"
    r"|case|ill|sick|correct|hit|win|won|pass(ed)?|\+",
    re.I,
)
_ZERO = re.compile(
    r"no|n|false|f|none|ongoing|active|control|negative|neg|absent|absence|healthy"
    r"|well|incorrect|wrong|miss|loss|lost|fail(ed)?",
    re.I,
)
# One of two labels that only an outcome has.
_OUTCOME = re.compile(
    r"case|infected|diseased|ill|sick|present|presence|relapsed?|recurrence", re.I
)

# A code before the word: 1:DECEASED.
_CODE = re.compile(r"\s*([01])\s*[:=.)-]\s*(?=\D)")


def _words(column: Column) -> tuple[str, ...]:
    """The two labels without codes before them."""
    return tuple(_CODE.sub("", label, count=1).strip() for label in column.pair)


def is_outcome(column: Column) -> bool:
    """Whether one of two labels is a word for an outcome, whatever the column is called."""
    return telling(column) or any(_OUTCOME.fullmatch(label) for label in _words(column))


def telling(column: Column) -> bool:
    """Whether one of two labels alone is a word for censoring and the other one for an event,
    whatever the column is called."""
    other = [label for label in _words(column) if not _CENSORED.fullmatch(label)]
    return (
        len(other) == 1 and (_ONE.fullmatch(other[0]) or other[0].casefold() == "none") is not None
    )


def base_of(column: Column) -> str:
    """Which of its two labels is 0; "" where nothing says so."""
    codes = [_CODE.match(label) for label in column.pair]
    if sorted(code[1] if code else "" for code in codes) == ["0", "1"]:
        return next(label for label in column.pair if label.lstrip().startswith("0"))
    for words, is_base in ((_CENSORED, True), (_ONE, False), (_ZERO, True)):
        said = [words.fullmatch(label) is not None for label in _words(column)]
        if sum(said) == 1:
            base = column.pair[said.index(is_base)]
            break
    else:
        if column.kind == "group":
            return ""
        base = column.pair[0]
    if REVERSED.search(column.called) and not telling(column):
        base = next(label for label in column.pair if label != base)
    return base


def read_as_binary(column: Column, wanted: bool = False) -> Column:
    """The column as one of 0 and 1, where it has two labels of which one is 0, or is `wanted` so;
    else as it is. Two numbers are labels where they are codes: whole, and next to each other or
    -1 and 1; others are readings."""
    if column.kind in ("number", "count") and not _are_codes(column):
        return column
    base = base_of(column) if len(column.pair) == 2 else ""
    if wanted and len(column.pair) == 2:
        base = base or column.pair[0]
    try:
        return column.as_binary(base) if base else column
    except ValueError:
        return column


def _are_codes(column: Column) -> bool:
    pair = np.unique(column.values)
    apart = pair.size == 2 and bool(np.diff(pair)[0] == 1.0 or (pair == [-1.0, 1.0]).all())
    return column.whole and apart


def pairs_of(columns: Sequence[Column], wanted: str = "") -> Iterator[tuple[Column, Column]]:
    """Times and their events, the likeliest first: those that stand side by side, then by the names
    of the times. A time is 0 or above and an event known, but for a few rows; `wanted` is the key
    of the time that is to be it."""
    place = {id(c): k for k, c in enumerate(columns)}
    events = [c for c in columns if _is_event(c) and c.kind == "binary" and mostly(~unknown(c))]
    found = []
    for c in columns:
        name = LIFETIME.search(c.called), DURATION.search(c.called)
        if c.kind not in ("number", "count") or not mostly(~negative(c)):
            continue
        if not any(name) or (wanted and c.key != wanted):
            continue
        for event in events:
            apart = abs(place[id(c)] - place[id(event)])
            before = place[id(event)] < place[id(c)]
            faulty = negative(c).any() or unknown(event).any()
            found.append(((apart > 1, not name[0], apart, before, faulty, place[id(c)]), c, event))
    for _, time, event in sorted(found, key=lambda f: f[0]):
        yield time, event


def _is_event(column: Column) -> bool:
    return EVENT.search(column.called) is not None or telling(column)


def other_outcomes(columns: Sequence[Column], known: Sequence[Column]) -> tuple[Column, ...]:
    """Columns that are called like an event or the time to one, but for those `known`."""
    rest = [c for c in columns if not any(c is k for k in known)]
    # Of two that stand side by side, a time that is called like many other things.
    beside = {id(a) for a, b in pairs_of(rest) if abs(rest.index(a) - rest.index(b)) == 1}
    return tuple(c for c in rest if id(c) in beside or _tells_of_event(c))


def _tells_of_event(column: Column) -> bool:
    if column.kind == "binary":
        return _is_event(column)
    return column.kind in ("number", "count") and LIFETIME.search(column.called) is not None


def unclear_events(columns: Sequence[Column]) -> list[Column]:
    """Columns called like an event that hold more than two labels: which is the event is unsaid."""
    return [
        c
        for c in columns
        if c.levels > 2 and c.levels < 10 and EVENT.search(c.called) and c.kind != "number"
    ]
