"""Labels that the data give under an index's own name: one for each member, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.canonical.ground_errors import count_of, index_conflict, repeated_labels
from lgmdsl.canonical.ground_labels import LabelArray, labels_of, plain
from lgmdsl.canonical.ground_model import IndexSet
from lgmdsl.dataset import Loaded
from lgmdsl.errors import Diagnostic
from lgmdsl.language.checked import Symbol
from lgmdsl.remedies import key


def keyed(name: str, given: LabelArray, origin: str) -> IndexSet:
    """The index set of labels under its name: in the order of the labels, or of their levels."""
    labels = plain(given.values)
    if given.levels is not None:
        rank = IndexSet(name, given.levels).positions(labels)
        labels = labels[np.argsort(rank, kind="stable")]
    return IndexSet(name, labels, origin, given=True)


def checked(
    problems: list[Diagnostic],
    symbol: Symbol,
    loaded: Loaded,
    origin: str,
    maps: Sequence[str] | None,
) -> LabelArray | None:
    """Labels are whole: none missing, none twice.

    `maps` are the data without a key that map into the index, which these may be meant for; None
    where all maps have data of their own.
    """
    labels = labels_of(loaded)
    if labels.missing.any():
        rows = ", ".join(str(int(k)) for k in np.flatnonzero(labels.missing)[:5])
        problems.append(
            index_conflict(
                symbol,
                f"has {count_of(int(labels.missing.sum()), 'missing label')} in {origin}",
                f"give a label at position {rows}",
            )
        )
        return None
    if np.unique(labels.values).size < labels.values.size:
        if maps:
            help = f"if these map rows to {symbol.name}: {key(maps[0], symbol.name)}"
        elif maps is not None:
            help = (
                f"let rows map to {symbol.name}: index row, data to[row] : {symbol.name}, the "
                f"other data over row, and {key('to', symbol.name)}"
            )
        else:
            help = "give every member a label of its own"
        problems.append(
            repeated_labels(symbol.name, origin, labels.values, symbol.statement.span, help)
        )
        return None
    return labels
