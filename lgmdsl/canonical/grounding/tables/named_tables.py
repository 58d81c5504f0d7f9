"""A table that has a name: the index set that its rows are, and the column of their labels.

It is over the index set of that name, over the one that the map of that name leads to, or over the
one that a column of it is called by.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.canonical.grounding.tables.matrices import example
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.dataset.refusals import refused
from lgmdsl.errors import DataError, Diagnostic, listed, nearest
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.remedies import either, key


@dataclass(frozen=True, eq=False)
class NamedTable:
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


def table_of(model: CheckedModel, dataset: Dataset, name: str, entry: Entry) -> NamedTable:
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
        return NamedTable(name, entry.source, columns, *_key_column(model, dataset, columns))
    words = dict.fromkeys([name, *words_for(model, dataset, index.name, maps=True)])
    keyed = next((w for w in words if w in columns), None)
    labelled = any(entry.labels and not entry.weak for entry in columns.values())
    targets = {s.target for s in model.of_kind("data")}
    if keyed is None and not labelled and index.name in targets:
        raise DataError(_keyless(entry.source, columns, index, [*words]))
    return NamedTable(name, entry.source, columns, index.name, keyed)


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


# ---- remedies ----------------------------------------------------------------------------------
# Where a datum that is not there may be meant to come from.


def remedy_for(symbol: Symbol, dataset: Dataset) -> str:
    """The remedy for a datum that the data lack; empty where a near name is the best there is.

    A sparse matrix without a name, a map whose column is called by its index, the columns of a wide
    table (`height1`, `height2`), and a column of nearly that name.
    """
    name, keys, mapped = symbol.name, dataset.keys, symbol.name in dataset.mapping
    parts = {"data", "indices", "indptr", "shape"}
    if parts <= set(keys) and len(symbol.dims) == 2 and not mapped:
        return f"the file holds a sparse matrix without a name: {key(name, '.')}"
    if symbol.target is not None and dataset.key(symbol.target) in keys:
        found = dataset.key(symbol.target)
        return f"if `{found}` is it: {key(name, found)}"
    if len(symbol.dims) in (1, 2) and not mapped:
        form = re.compile(rf"{re.escape(name)}[\W_]*\d+", re.IGNORECASE)
        wide = [k for k in dataset.entries if form.fullmatch(k)]
        wide = [k for k in wide if dataset.entries[k].table]
        if len(wide) > 2 and len(symbol.dims) == 1:
            return (
                f"{wide[0]} to {wide[-1]} are columns of a wide table: write one row for each of "
                "their entries (in pandas: frame.melt)"
            )
        if len(wide) > 1 and len(symbol.dims) == 2:
            shown = wide if len(wide) <= 12 else [*wide[:3], "..."]
            return f"if its columns are {wide[0]} to {wide[-1]}: {example(name, shown)}"
    if len(symbol.dims) > 1 and dataset.tabular:
        return _no_column(symbol)
    close = dataset.suggestion(name)
    entry = None if close is None else dataset.entries.get(close)
    if close is not None and entry is not None and entry.table and not mapped:
        return f"did you mean `{close}`? {key(name, close)}"
    return ""


def _no_column(symbol: Symbol) -> str:
    """How to give what no column of a table can hold."""
    name = symbol.name
    if symbol.type == "graph":
        pairs = f"{name}=FILE"
        more = either(f"--data {pairs}", f'give a list, the table and {{"{name}": PAIRS}}')
        return f"a graph is not a column: {more}, two columns with the ends of each edge"
    if len(symbol.dims) == 2:
        return f"an array of 2 axes is not a column, but may be made of several: {example(name)}"
    ways = either(f"--data {name}=FILE.npz", f'give a list, the table and {{"{name}": ARRAY}}')
    return f"an array of {len(symbol.dims)} axes is not a column: {ways}"
