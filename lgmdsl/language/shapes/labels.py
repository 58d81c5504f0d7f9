"""The labels of an index as far as the model text defines them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from lgmdsl.language.tree import ast


@dataclass(frozen=True, slots=True)
class LabelSet:
    """The first `count` of some labels: positions by label, or a range of whole numbers. A head
    shares them with the set it is a head of."""

    known: Mapping[str, int] | range
    count: int

    @property
    def named(self) -> bool:
        """Whether the labels are text, not whole numbers."""
        return not isinstance(self.known, range)

    @property
    def last(self) -> int:
        """The last whole number."""
        return self.known[self.count - 1] if isinstance(self.known, range) else self.count - 1

    def first(self, most: int) -> list[str]:
        """The first few labels, as text."""
        return [str(v) for v in islice(self.known, min(most, self.count))]

    def __contains__(self, label: str) -> bool:
        if not isinstance(self.known, range):
            return self.known.get(label, self.count) < self.count
        digits = label[1:] if label.startswith("-") else label
        if not digits.isdecimal() or not digits.isascii() or len(digits) > 18:
            return False
        return int(label) in self.known[: self.count]


def labels_of(
    definition: ast.Size | ast.Range | ast.Labels | ast.Head | None,
    known: Mapping[str, LabelSet],
) -> LabelSet | None:
    """The labels that a definition gives, or None where they come with the data."""
    match definition:
        case ast.Labels(labels=labels):
            return LabelSet({v: k for k, v in enumerate(labels)}, len(labels))
        case ast.Size(size=size):
            return LabelSet(range(size), max(0, size))
        case ast.Range(first=first, last=last):
            return LabelSet(range(first, last + 1), max(0, last + 1 - first))
        case ast.Head(of=of):
            whole = known.get(of.id)
            return LabelSet(whole.known, max(0, whole.count - 1)) if whole else None
    return None
