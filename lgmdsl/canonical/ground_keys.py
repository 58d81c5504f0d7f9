"""Labels that the data give under an index's own name: one for each member, in their order."""

from __future__ import annotations

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
    problems: list[Diagnostic], symbol: Symbol, loaded: Loaded, origin: str, table: bool
) -> LabelArray | None:
    """Labels are whole: none missing, none twice."""
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
        if table:
            help = f"if this column maps rows to {symbol.name}: {key('NAME', symbol.name)}"
        else:
            help = "give every member a label of its own"
        problems.append(
            repeated_labels(symbol.name, origin, labels.values, symbol.statement.span, help)
        )
        return None
    return labels
