"""Text where numbers are wanted: which entries are none, and what to write instead."""

from __future__ import annotations

import re

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.errors import show
from lgmdsl.canonical.grounding.label_line import looks_like_dates
from lgmdsl.errors import listed
from lgmdsl.remedies import either

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
# Numbers of other forms: what is about them, what parts their thousands, and a decimal comma.
_CURRENCY = re.compile(r"[$€£¥₹₩]|\b(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|kr)\b\.?")
_BRACKETS = re.compile(r"\((.*)\)")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}([,'’ \u00a0\u202f])\d{3}(?:\1\d{3})*(?:\.\d+)?")
_THOUSANDS_BY_POINTS = re.compile(
    r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+,\d+|[-+]?[1-9]\d{0,2}(?:\.\d{3}){2,}"
)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
# What other programs write for a missing entry.
_ABSENT = frozenset(
    ["#n/a", "#na", "#div/0!", "#value!", "#ref!", "#null!", ".", "-", "--", "?", "none", "n.a.",
     "n/a", "na", "nan", "null", "nil", "missing", "unknown"]
)  # fmt: skip


def _iso(texts: list[str]) -> bool:
    """Whether dates are written with the year first."""
    return all(re.match(r"\d{4}-", text) for text in texts)


def _plain(text: str) -> tuple[str, str] | None:
    """The number that a text is, as it is written here, and what has to go ("" where it is written
    so); None for text that is none."""
    number, signs = text.strip(), list[str]()
    if bracketed := _BRACKETS.fullmatch(number):
        number = f"-{bracketed[1]}"
        signs.append("brackets")
    if _CURRENCY.search(number):
        number = re.sub(r"^([-+]?)\s*", r"\1", _CURRENCY.sub("", number, count=1).strip())
        signs.append("currency signs")
    if number.endswith("%"):
        number = number[:-1].rstrip()
        signs.append("percent signs")
    if _THOUSANDS.fullmatch(number):
        number = re.sub(r"[,'’\s]", "", number)
        signs.append("commas" if "," in text else "spaces or marks between thousands")
    elif _THOUSANDS_BY_POINTS.fullmatch(number):
        number = number.replace(".", "").replace(",", ".")
        signs.append("points between thousands and decimal commas")
    elif _DECIMAL_COMMA.fullmatch(number):
        number = number.replace(",", ".")
        signs.append("decimal commas")
    return (number, listed(signs)) if _NUMBER.fullmatch(number) else None


def _dressed(distinct: list[str]) -> tuple[str, str, str] | None:
    """Of texts that all are numbers, and some of another form: one of these, the number that it is,
    and what has to go; None of others."""
    known = [_plain(text) for text in distinct]
    if any(plain is None for plain in known):
        return None
    other = [(t, *p) for t, p in zip(distinct, known, strict=True) if p is not None and p[1]]
    return max(other, key=lambda form: len(form[2]), default=None)


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
    if (dressed := _dressed(distinct)) is not None:
        text, number, signs = dressed
        return f"write numbers without {signs}: {number} for {show(text)}"
    if all(v.lower() in _ABSENT for v in distinct):
        return "an entry that is missing is empty or NA"
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
    if (dressed := _dressed(distinct)) is not None:
        text, number, signs = dressed
        return f"its numbers are written with {signs}: write {number} for {show(text)}"
    if len(odd) == len(distinct):
        other = looks_like_dates(values) and not _iso(distinct)
        return "its dates are not written as 2024-01-31" if other else ""
    if 2 * len(odd) >= len(distinct):
        return ""
    shown = ", ".join(show(v) for v in odd[:3])
    return f"it holds text among numbers: {shown}{', ...' if len(odd) > 3 else ''}"
