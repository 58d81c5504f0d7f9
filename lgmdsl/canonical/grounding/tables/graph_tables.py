"""A graph as a table: two columns, the ends of each edge, or an adjacency matrix with a header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lgmdsl.canonical.grounding.errors import absent
from lgmdsl.canonical.grounding.tables.selections import example
from lgmdsl.dataset import Entry, Loaded
from lgmdsl.dataset.tables import side_by_side
from lgmdsl.errors import DataError, Diagnostic, nearest
from lgmdsl.language.checked import Symbol


def graph_table(symbol: Symbol, source: str, columns: Mapping[str, Entry]) -> Entry:
    """The graph that a table of these columns is; raises DataError E301 where it is none."""
    names = list(columns)
    if len(names) == 2:
        return pairs(symbol, source, columns, names)
    rows = max((entry.shape[0] for entry in columns.values()), default=0)
    if rows > 2 and len(names) in (rows, rows + 1):
        labels = Loaded(np.array(names[-rows:], dtype=np.str_))
        first = labels if len(names) == rows else columns[names[0]].loaded
        matrix = side_by_side(source, symbol.name, [columns[n] for n in names[-rows:]])
        return Entry(symbol.name, source, (rows, rows), lambda: matrix, labels=(first, labels))
    raise DataError(
        Diagnostic(
            "E301",
            f"the graph `{symbol.name}` wants two columns, the ends of each edge",
            symbol.statement.span,
            details=(f"{source} has: {', '.join(names[:20])}",),
            help=f"name them: {example(symbol.name, (names * 2)[:2])}",
            layout="plain",
        )
    )


def pairs(symbol: Symbol, source: str, columns: Mapping[str, Entry], names: Sequence[str]) -> Entry:
    """Edges by the labels of their ends; raises DataError E305 for columns that are not there."""
    lacking = [n for n in names if n not in columns]
    if lacking or len(names) != 2:
        close = nearest(lacking[0], columns) if lacking else None
        help = "" if lacking else f"name the two ends: {example(symbol.name)}"
        raise DataError(absent(symbol, source, columns, close, ", ".join(names), help))
    whole = side_by_side(source, symbol.name, [columns[n] for n in names])
    return Entry(symbol.name, source, whole.shape, lambda: whole)
