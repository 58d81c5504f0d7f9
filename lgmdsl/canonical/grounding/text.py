"""Text where numbers are wanted: which entries are none, and what to write instead."""

from __future__ import annotations

import re

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.errors import show
from lgmdsl.remedies import either

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+")
# What other programs write for a missing entry.
_ABSENT = frozenset(
    ["#n/a", "#na", "#div/0!", "#value!", "#ref!", "#null!", ".", "-", "--", "?", "none", "n.a.",
     "n/a", "na", "nan", "null", "nil", "missing", "unknown"]
)  # fmt: skip


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
    if all_odd:
        return "give numbers; for labels declare an index, and let it be the type"
    return "give numbers in their place, or NA where they are missing"
