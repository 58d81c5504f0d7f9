"""Where a datum that is not there may be meant to come from."""

from __future__ import annotations

import re

from lgmdsl.canonical.grounding.tables.selections import example
from lgmdsl.dataset import Dataset
from lgmdsl.language.checked import Symbol
from lgmdsl.remedies import either, key


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
        return f"if `{symbol.target}` is it: {key(name, symbol.target)}"
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
