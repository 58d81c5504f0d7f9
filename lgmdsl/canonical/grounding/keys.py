"""Index sets as the model declares them, and as labels under their own names give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from lgmdsl.canonical.grounding.errors import (
    SHOWN,
    about,
    count_of,
    index_conflict,
    repeated_labels,
    show,
)
from lgmdsl.canonical.grounding.labels import LabelArray, labels_of, plain, truthful
from lgmdsl.canonical.grounding.limits import check_sizes, most
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.dataset import Dataset, Loaded
from lgmdsl.errors import Diagnostic, suggestion
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.tree import ast
from lgmdsl.remedies import either, key


def keyed(name: str, source: LabelArray, origin: str) -> IndexSet:
    """The index set of labels under its name: in the order of the labels, or of their levels."""
    labels = plain(source.values)
    if source.levels is not None:
        rank = IndexSet(name, source.levels).positions(labels)
        labels = labels[np.argsort(rank, kind="stable")]
    return IndexSet(name, labels, origin, given=True)


def checked(
    problems: list[Diagnostic],
    symbol: Symbol,
    loaded: Loaded,
    origin: str,
    maps: Sequence[str] | None,
    called: str,
    known: IndexSet | None = None,
    again: bool = False,
) -> LabelArray | None:
    """Labels are whole: none missing, none twice (unless rows may come `again`), and no truth
    values where the index set is `known` with others.

    `maps` are the data without a key that map into the index, which these may be meant for; None
    where all maps have data of their own. `called`: the key of these labels in the source.
    """
    labels = labels_of(loaded)
    if known is not None and labels.truth and not truthful(known.labels):
        problems.append(truth_values(symbol, symbol.name, known))
        return None
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
    if not again and np.unique(labels.values).size < labels.values.size:
        if maps:
            help = f"if these map rows to {symbol.name}: {key(maps[0], called)}"
        elif maps is not None:
            help = (
                f"let rows map to {symbol.name}: index row, data to[row] : {symbol.name}, the "
                f"other data over row, and {key('to', called)}"
            )
        else:
            help = "give every member a distinct label"
        problems.append(
            repeated_labels(symbol.name, origin, labels.values, symbol.statement.span, help)
        )
        return None
    return labels


def truth_values(symbol: Symbol, datum: str, target: IndexSet) -> Diagnostic:
    """E302: truth values where labels are wanted, and they are others than 0 and 1."""
    known = ", ".join(show(v) for v in target.labels[:SHOWN].tolist())
    more = ", ..." if target.size > SHOWN else ""
    return Diagnostic(
        "E302",
        f"`{datum}` holds truth values, which are no labels of `{target.name}`",
        symbol.statement.span,
        details=(f"{about(target)}: {known}{more}",),
        help="give labels; those that a mask marks are labels[mask]",
        layout="plain",
    )


def declared(
    graph: ModelGraph,
    symbol: Symbol,
    definition: ast.Size | ast.Range | ast.Labels | ast.Head,
    indices: Mapping[str, IndexSet],
    keyed_labels: LabelArray | None,
    source: str,
) -> IndexSet | Diagnostic | None:
    """An index set that the model declares; `keyed_labels` are for one of which
    it gives the size alone. Raises MethodError E505 where what is indexed by it is larger than
    the memory budget."""
    name = symbol.name
    span = symbol.statement.span
    origin = f"from line {span.line}" if span.known else "from the model"
    match definition:
        case ast.Head(of=of):
            whole = indices.get(of.id)
            if whole is None:  # reported already where it was looked up
                return None
            if whole.size < 2:
                return index_conflict(
                    symbol,
                    f"is empty: {of.id} has {count_of(whole.size, 'label')}",
                    "give more classes",
                )
            return replace(whole, name=name, labels=whole.labels[:-1], origin=origin, added=None)
        case ast.Labels(labels=labels):
            return IndexSet(name, plain(np.array(labels, dtype=np.str_)), origin, given=True)
        case ast.Range(first=first, last=last):
            size = last - first + 1
        case ast.Size(size=size):
            first = 0
    if not 0 <= size <= most() or not -(2**62) < first < 2**62:
        return index_conflict(
            symbol, f"has {size} labels; at most {most()} are possible", "declare a smaller set"
        )
    check_sizes(graph, {name: size})
    if (
        isinstance(definition, ast.Size)
        and keyed_labels is not None
        and keyed_labels.values.size == size
    ):
        return keyed(name, keyed_labels, source)
    counted = np.arange(first, first + size, dtype=np.int64)
    return IndexSet(name, counted, origin, sized=isinstance(definition, ast.Size))


def unknown_names(
    model: CheckedModel, dataset: Dataset, sizes: Mapping[str, int]
) -> Iterator[Diagnostic]:
    """Names given by `--map` and `--sizes` must be names of the model."""
    known = [s.name for s in model.symbols.values() if s.kind in ("data", "index")]
    indices = [s.name for s in model.of_kind("index")]
    for option, names, allowed in (
        (either("--map", "mapping"), dataset.mapping, known),
        (either("--sizes", "sizes"), sizes, indices),
    ):
        for name in names:
            if name in allowed:
                continue
            kind = "datum or index" if allowed is known else "index"
            meant = dataset.mapping.get(name) if allowed is known else None
            turned = meant in known and name in dataset.keys
            yield (
                Diagnostic(
                    "E305",
                    f"{option} names `{name}`, which is no {kind} of the model",
                    help=f"the name in the model comes first: {key(str(meant), name)}"
                    if turned
                    else suggestion(name, allowed, f"one of: {', '.join(allowed)}"),
                    layout="plain",
                )
            )
