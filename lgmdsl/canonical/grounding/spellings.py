"""Labels that are meant by others: another case, other spaces or another Unicode form, a slip."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from lgmdsl.arrays import AnyArray
from lgmdsl.canonical.grounding.label_line import rounded
from lgmdsl.errors import listed, nearest

NEAR = 5000  # labels among which a near one is looked for
_DIGITS = re.compile(r"\d+")
_ZEROS = re.compile(r"[-+]?\d+\.0+")


def nearest_label(label: object, known: Iterable[str]) -> str | None:
    """The known label that `label` most likely means, or None. Of labels with numbers only those
    with the same ones: `plot 7` is no slip for `plot 22`."""
    word, words = str(label), list(known)
    spelt = {_spelling(w): w for w in reversed(words)}
    same = spelt.get(_spelling(word))
    if same is not None:
        return same
    numbers = _numbers(word)
    return nearest(word, [w for w in words if _numbers(w) == numbers])


def meant_labels(labels: Sequence[object], known: AnyArray) -> str:
    """`did you mean "A" for "a" and "B" for "b"?` of those that are near one; else nothing. Forms
    that look alike are named as such."""
    words = [str(v) for v in known[:NEAR].tolist()]
    pairs = [(str(v), near) for v in labels if (near := nearest_label(v, words)) is not None]
    if not pairs:
        return ""
    if len(labels) == 1 and not _alike(*pairs[0]):
        return f'did you mean "{pairs[0][1]}"?'
    text = listed([f'"{close}" for "{label}"' for label, close in pairs])
    form = " They differ in Unicode form alone: write both in NFC (unicodedata.normalize)"
    return f"did you mean {text}?{form if any(_alike(*p) for p in pairs) else ''}"


def alike_labels(labels: AnyArray) -> list[list[str]]:
    """Groups of labels that are the same without surplus spaces, in one Unicode form and, if they
    are fractions, to 15 digits."""
    if labels.dtype.kind != "U":
        return []
    groups: dict[str, list[str]] = {}
    for label in labels.tolist():
        key = rounded(label) or " ".join(unicodedata.normalize("NFC", label).split())
        groups.setdefault(key, []).append(label)
    return [group for group in groups.values() if len(group) > 1]


def _alike(a: str, b: str) -> bool:
    """Whether two labels that differ show as the same."""
    return unicodedata.normalize("NFC", a) == unicodedata.normalize("NFC", b)


def _spelling(word: str) -> str:
    """What is left of a label without case, surplus spaces, form, leading zeros and a decimal 0."""
    text = " ".join(unicodedata.normalize("NFKC", word).casefold().split())
    if _ZEROS.fullmatch(text):
        text = text.split(".")[0]
    return _DIGITS.sub(lambda m: m.group().lstrip("0") or "0", text)


def _numbers(word: str) -> list[int]:
    return [int(n) for n in _DIGITS.findall(word)]
