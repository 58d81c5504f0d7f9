"""Text where numbers are wanted: which entries are none, and what to write instead."""

from __future__ import annotations

import re

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.errors import show
from lgmdsl.canonical.grounding.label_line import looks_like_dates
from lgmdsl.remedies import either

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
_PERCENT = re.compile(r"[-+]?\d+([.,]\d+)?\s*%")
# What other programs write for a missing entry.
_ABSENT = frozenset(
    ["#n/a", "#na", "#div/0!", "#value!", "#ref!", "#null!", ".", "-", "--", "?", "none", "n.a.",
     "n/a", "na", "nan", "null", "nil", "missing", "unknown"]
)  # fmt: skip


def _iso(texts: list[str]) -> bool:
    """Whether dates are written with the year first."""
    return all(re.match(r"\d{4}-", text) for text in texts)


def no_numbers(values: AnyArray) -> BoolArray:
    """The entries that do not read as numbers; all of them where all do, being text still."""
    distinct, where = np.unique(values, return_inverse=True)
    odd = np.array([_NUMBER.fullmatch(v.strip()) is None for v in distinct.tolist()], dtype=bool)
    faulty: BoolArray = (odd if odd.any() else ~odd)[where].reshape(values.shape)
    return faulty


def remedy(name: str, kind: str, odd: AnyArray, all_odd: bool) -> str:
    """What to do about these texts of a datum of this type; `all_odd`: it holds no number."""
    distinct = [v.strip() for v in np.unique(odd).tolist()]
    if kind == "binary" and all_odd and len(distinct) <= 2:
        one, zero = show(np.unique(odd)[-1]), show(np.unique(odd)[0])
        other = zero if zero != one else "all others"
        return either(
            f"0 and 1, or false and true, are taken: write e.g. 1 for {one} and 0 for {other}",
            f"0 and 1, or False and True, are taken: {name} == {one}",
        )
    if all(_NUMBER.fullmatch(v) for v in distinct):
        return f"np.asarray({name}, dtype=float)"
    if all(_THOUSANDS.fullmatch(v) for v in distinct):
        return f"write numbers without commas: {distinct[0].replace(',', '')}"
    if all(_DECIMAL_COMMA.fullmatch(v) for v in distinct):
        return f"write numbers with a decimal point: {distinct[0].replace(',', '.')}"
    if all(v.lower() in _ABSENT for v in distinct):
        return "an entry that is missing is empty or NA"
    if all(_PERCENT.fullmatch(v) for v in distinct):
        return f"write numbers without a percent sign: {distinct[0].rstrip('% ')}"
    if looks_like_dates(odd):
        iso = "" if _iso(distinct) else "write 2024-01-31, "
        return f"dates are labels: {iso}declare index day, and data {name}[obs] : day"
    if all_odd:
        return f"give numbers; for groups declare an index: index group, data {name}[obs] : group"
    return "give numbers in their place, or NA where they are missing"


def why_no_numbers(values: AnyArray) -> str:
    """What is odd in text most of whose entries read as numbers, or all as numbers of another
    form; empty for labels."""
    distinct = [v.strip() for v in np.unique(values).tolist()]
    odd = [v for v in distinct if _NUMBER.fullmatch(v) is None]
    if not odd or not distinct:
        return ""
    if len(odd) == len(distinct):
        forms = ((_PERCENT, "percent signs"), (_THOUSANDS, "commas"), (_DECIMAL_COMMA, "commas"))
        for form, sign in forms:
            if all(form.fullmatch(v) for v in distinct):
                return f"its numbers are written with {sign}"
        other = looks_like_dates(values) and not _iso(distinct)
        return "its dates are not written as 2024-01-31" if other else ""
    if 2 * len(odd) >= len(distinct):
        return ""
    shown = ", ".join(show(v) for v in odd[:3])
    return f"it holds text among numbers: {shown}{', ...' if len(odd) > 3 else ''}"
