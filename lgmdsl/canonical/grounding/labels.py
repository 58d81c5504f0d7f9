"""Raw arrays as labels: whole numbers stay numbers, truth values are 0 and 1, the rest is text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.label_line import rounded, sorted_labels
from lgmdsl.dataset import Loaded
from lgmdsl.dataset.entries import texts_of
from lgmdsl.errors import listed, nearest


@dataclass(frozen=True, eq=False)
class LabelArray:
    """Labels (int64 or text) of any shape, with a mask of the missing ones."""

    values: AnyArray
    missing: BoolArray
    levels: AnyArray | None = None  # of an ordered categorical, in their order
    table: str = ""  # the table whose column they are
    truth: bool = False  # they were truth values, which are the labels 0 and 1

    @property
    def present(self) -> AnyArray:
        """The labels that are there, flat."""
        return self.values[~self.missing]


def labels_of(loaded: Loaded) -> LabelArray:
    """Labels from a raw dense array: floats that are whole become integers (csv with gaps does
    that to ids), other numbers become text, NaN and empty text are missing. What a text file or a
    decimal holds stays text where a number does not write back to it (`Loaded.settled`)."""
    labels = _labels(loaded)
    settled = loaded.settled()
    if settled.kept:
        labels = LabelArray(np.where(labels.missing, "", settled.texts), labels.missing)
    if loaded.levels is None:
        return labels
    return replace(labels, levels=_labels(Loaded(loaded.levels)).values)


def _labels(loaded: Loaded) -> LabelArray:
    values = loaded.values
    truth = values.dtype.kind == "b" and values.size > 0
    missing = loaded.absent
    if values.dtype.kind == "f":
        filled = np.where(missing, values.dtype.type(0.0), values)
        if bool((np.abs(filled) < 2**53).all()) and bool((filled == np.round(filled)).all()):
            return LabelArray(filled.astype(np.int64), missing)
        return LabelArray(texts_of(filled), missing)
    if values.dtype.kind == "U":
        return LabelArray(values, missing)
    if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
        return LabelArray(values.astype(np.str_), missing)
    return LabelArray(values.astype(np.int64), missing, truth=truth)


def reported(labels: AnyArray) -> AnyArray:
    """Labels as results have them: those that were numbers with a fraction, and are text within
    (`labels_of`), as float64; others as they are."""
    if labels.dtype.kind != "U" or not labels.size:
        return labels
    texts = labels.reshape(-1).tolist()
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return labels
    values = np.array(numbers, dtype=np.float64).reshape(labels.shape)
    written = np.array_equal(texts_of(values), labels)
    if not written or not np.isfinite(values).all() or all(v.is_integer() for v in numbers):
        return labels
    return values


def truthful(labels: AnyArray) -> bool:
    """Whether truth values can name members: there is none but 0 and 1."""
    return bool(np.isin(labels.astype(np.str_), ("0", "1")).all())


def plain(labels: AnyArray) -> AnyArray:
    """Labels of an index set: text without spare room for characters, and contiguous."""
    if labels.dtype.kind == "U":
        return np.array(labels.tolist(), dtype=np.str_)
    return np.ascontiguousarray(labels, dtype=np.int64)


def union(parts: list[AnyArray]) -> AnyArray:
    """The distinct labels of several arrays in natural order; text where any is text."""
    arrays = [part.reshape(-1) for part in parts if part.size]
    if not arrays:
        return np.zeros(0, dtype=np.int64)
    if any(part.dtype.kind == "U" for part in arrays):
        arrays = [part.astype(np.str_) for part in arrays]
    return sorted_labels(plain(np.unique(np.concatenate(arrays))))


# ---- spellings ---------------------------------------------------------------------------------


MAX_LABELS_COMPARED = 5000  # labels among which a near one is looked for
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
    words = [str(v) for v in known[:MAX_LABELS_COMPARED].tolist()]
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
