"""Tables of their own: a frame in a dict, a file that has a name; and columns side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from lgmdsl.dataset.convert import from_sequence
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.refusals import check_memory, refused


def table_entry(name: str, source: str, columns: Mapping[str, Entry]) -> Entry:
    """A table as one value: a matrix whose columns are labelled, and its columns by name."""
    rows = max((entry.shape[0] for entry in columns.values()), default=0)
    labels = from_sequence(source, "columns", list(columns))
    return Entry(
        name,
        source,
        (rows, len(columns)),
        partial(side_by_side, source, name, tuple(columns.values())),
        labels=(None, labels),
        table=next((entry.table for entry in columns.values()), ""),
        columns=columns,
    )


def side_by_side(source: str, name: str, columns: Sequence[Entry]) -> Loaded:
    """Columns of one length as a matrix: of numbers, or of text where any column is text.

    Raises E306 for columns that are not arrays of one length.
    """
    if not columns:
        raise refused(source, f"`{name}` has no columns")
    loaded = [entry.loaded for entry in columns]
    shapes = {part.shape for part in loaded}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        lengths = ", ".join(
            f"{entry.name} {part.shape}" for entry, part in zip(columns, loaded, strict=True)
        )
        raise refused(source, f"the columns of `{name}` differ in length: {lengths}")
    check_memory(source, name, (*next(iter(shapes)), len(columns)), 8)
    text = any(part.values.dtype.kind == "U" for part in loaded)
    values = np.stack([p.settled().texts if text else p.values for p in loaded], axis=1)
    missing = np.stack([p.absent for p in loaded], axis=1)
    written = None
    if any(p.written is not None for p in loaded):
        fields = [p.texts if p.written is None else p.written for p in loaded]
        written = list(zip(*fields, strict=True))
    return Loaded(values, missing if missing.any() else None, written=written)
