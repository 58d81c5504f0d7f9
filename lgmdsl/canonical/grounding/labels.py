"""Raw arrays as labels: whole numbers stay numbers, truth values are 0 and 1, the rest is text."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.canonical.grounding.label_line import sorted_labels
from lgmdsl.dataset import Loaded
from lgmdsl.dataset.entries import texts_of


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
