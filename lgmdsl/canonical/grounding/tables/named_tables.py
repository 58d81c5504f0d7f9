"""A table that has a name: the index set that its rows are, and the column of their labels.

It is over the index set of that name, over the one that the map of that name leads to, or over the
one that a column of it is called by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.dataset.refusals import refused
from lgmdsl.errors import DataError, Diagnostic, listed, nearest
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.remedies import key


@dataclass(frozen=True, eq=False)
class Table:
    """Columns that share their rows: `index` is what these are, None where only the data say;
    `key` the column of their labels."""

    name: str
    source: str
    columns: Mapping[str, Entry]
    index: str | None = None
    key: str | None = None

    @property
    def labels(self) -> Loaded | None:
        """The labels of the rows."""
        return None if self.key is None else self.columns[self.key].loaded

    def column(self, key: str) -> Entry:
        """A column with the labels of its rows."""
        entry = self.columns[key]
        return entry if self.key is None else replace(entry, labels=(self.labels,), weak=False)


def table_of(model: CheckedModel, dataset: Dataset, name: str, entry: Entry) -> Table:
    """The table of a name. Raises DataError E305 where no column says which member a row is, and
    the members have labels, E306 for one without rows."""
    symbol, columns = model.symbols.get(name), entry.columns or {}
    if columns and not entry.shape[0]:
        what = "has the names of its columns and no rows"
        raise refused(entry.source, f"it {what}", help="give at least one row, or leave it out")
    index = symbol if symbol is not None and symbol.kind == "index" else None
    if symbol is not None and symbol.kind == "data" and symbol.target is not None:
        index = model.symbols[symbol.target]
    if index is None:
        return Table(name, entry.source, columns, *_key_column(model, dataset, columns))
    words = dict.fromkeys([name, *words_for(model, dataset, index.name, maps=True)])
    keyed = next((w for w in words if w in columns), None)
    labelled = any(entry.labels and not entry.weak for entry in columns.values())
    targets = {s.target for s in model.of_kind("data")}
    if keyed is None and not labelled and index.name in targets:
        raise DataError(_keyless(entry.source, columns, index, [*words]))
    return Table(name, entry.source, columns, index.name, keyed)


def words_for(
    model: CheckedModel, dataset: Dataset, index: str, maps: bool = False
) -> Iterator[str]:
    """What a column with the labels of an index set is called."""
    yield dataset.key(index)
    yield index
    if maps:
        yield from (dataset.key(s.name) for s in model.of_kind("data") if s.target == index)


def _key_column(
    model: CheckedModel, dataset: Dataset, columns: Mapping[str, Entry]
) -> tuple[str, str] | tuple[()]:
    """The index set that a table without a name of the model is over, and its key column."""
    taken = {dataset.key(s.name) for s in model.of_kind("data")}
    candidates = []
    for symbol in model.of_kind("index"):
        words = words_for(model, dataset, symbol.name)
        word = next((w for w in words if w in columns and w not in taken), None)
        if word is not None:
            candidates.append((symbol.name, word))
    whole = [c for c in candidates if _distinct(columns[c[1]])]
    if len(candidates) == 1:
        return candidates[0]
    return whole[0] if len(whole) == 1 else ()


def _keyless(
    source: str, columns: Mapping[str, Entry], index: Symbol, words: list[str]
) -> Diagnostic:
    words_of = [c for c, entry in columns.items() if _distinct(entry) and _is_text(entry)]
    close = nearest(index.name, columns) or next(iter(words_of), "COLUMN")
    return Diagnostic(
        "E305",
        f"no column of `{source}` says which `{index.name}` its rows are",
        index.statement.span,
        details=(
            f"wanted {listed([f'`{w}`' for w in words], 'or')}",
            f"{source} has: {', '.join(columns)}",
        ),
        help=f"add such a column, or name it: {key(index.name, close)}",
        layout="plain",
    )


def _is_text(entry: Entry) -> bool:
    return bool(entry.loaded.values.dtype.kind == "U")


def _distinct(entry: Entry) -> bool:
    labels = labels_of(entry.loaded)
    return bool(not labels.missing.any() and np.unique(labels.values).size == labels.values.size)
