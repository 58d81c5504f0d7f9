"""A table read by batches: some of its rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from lgmdsl.dataset.arrow import opened, text_types
from lgmdsl.dataset.entries import Entry, Loaded
from lgmdsl.dataset.refusals import refused, refusing


def batches(
    source: str, entries: Mapping[str, Entry], size: int, keys: Collection[str], rows: str = ""
) -> Iterator[tuple[range, dict[str, Entry]]]:
    """The rows of the table that the entries `keys` are columns of, `size` at a time: their
    numbers, and all entries, the columns being over these rows alone. `rows`: the key of labels of
    the rows, which are counted where there are none.

    Raises E306 for columns that are of several tables, or that cannot be read.
    """
    columns = {key: entries[key] for key in keys}
    tables = {(entry.table, entry.shape) for entry in columns.values()}
    if len(tables) != 1:
        raise refused(source, "rows are read by batches from one table alone")
    ((table, shape),) = tables
    rest = {k: e for k, e in entries.items() if not table or e.table != table}
    for first, loaded in _parts(table, columns, size):
        count = len(next(iter(loaded.values())).values)
        part = {
            key: Entry(key, e.source, (count,), _given(loaded[key]), table=f"{table} {first}")
            for key, e in columns.items()
        }
        if rows:
            names = Loaded(np.arange(first, first + count))
            part[rows] = Entry(rows, source, (count,), _given(names))
        yield range(first, first + count), {**rest, **part}
        if first + count >= shape[0]:
            return


def undecided(entries: Mapping[str, Entry], keys: Collection[str]) -> str:
    """The first of the columns of a batched file that are read in a way which depends on all of
    their values; "" where there is none."""
    batched = {key: entries[key] for key in keys if entries[key].batched}
    if not batched:
        return ""
    import pyarrow as pa

    known = pa.types
    numbers = (known.is_boolean, known.is_integer, known.is_floating, known.is_decimal)
    plain = (*numbers, *text_types())
    for key, entry in batched.items():
        kind = opened(entry.table).schema.field(key).type
        kind = kind.value_type if known.is_dictionary(kind) else kind
        if not any(is_one(kind) for is_one in plain):
            return key
    return ""


def _given(loaded: Loaded) -> Any:
    return lambda: loaded


def _parts(
    table: str, columns: Mapping[str, Entry], size: int
) -> Iterator[tuple[int, dict[str, Loaded]]]:
    entry = next(iter(columns.values()))
    if entry.batched:
        yield from _from_file(table, entry, list(columns), size)
        return
    whole = {key: e.loaded.settled() for key, e in columns.items()}
    for first in range(0, max(entry.shape[0], 1), size):
        rows = slice(first, first + size)
        yield first, {key: part.rows(rows) for key, part in whole.items()}


def _from_file(
    table: str, entry: Entry, keys: list[str], size: int
) -> Iterator[tuple[int, dict[str, Loaded]]]:
    import pyarrow as pa

    from lgmdsl.dataset.arrow import from_arrow

    source, waiting, held, first = entry.source, list[Any](), 0, 0
    with refusing(source, "its rows cannot be read"):
        read = opened(table).scanner(
            columns=keys,
            batch_size=size,
            use_threads=False,
            batch_readahead=1,
            fragment_readahead=1,
        )
        parts = iter(read.to_batches())
        while True:
            part = next(parts, None)
            if part is not None:
                waiting.append(part)
                held += part.num_rows
            while held >= size or (part is None and held):
                joined = pa.Table.from_batches(waiting)
                now, later = joined.slice(0, size), joined.slice(size)
                yield (
                    first,
                    {key: from_arrow(source, key, now.column(key)) for key in keys},
                )
                first += now.num_rows
                waiting, held = later.to_batches(), later.num_rows
            if part is None:
                return
