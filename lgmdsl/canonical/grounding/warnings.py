"""Accepted with a warning: W302 an order that was guessed, W303 loops, W304 an expansion, W308 a
key that is not used, next to a name that has no key, W309 levels and members without rows, W310
labels that look alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lgmdsl.canonical.grounding.errors import SHOWN, about, count_of, show
from lgmdsl.canonical.grounding.label_line import rounded
from lgmdsl.canonical.grounding.labels import alike_labels, nearest_label
from lgmdsl.canonical.grounding.model import IndexSet
from lgmdsl.canonical.grounding.usage import latent_axes
from lgmdsl.contract.structure import Members
from lgmdsl.dataset import Dataset, Loaded
from lgmdsl.dataset.codings import Coding, Design
from lgmdsl.errors import Diagnostic, meant, nearest
from lgmdsl.graph.model_graph import ModelGraph
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.language.tree import ast
from lgmdsl.remedies import key, table
from lgmdsl.structures.catalogue import members_of


def _warning(code: str, symbol: Symbol, message: str, detail: str, help: str = "") -> Diagnostic:
    return Diagnostic(
        code,
        message,
        symbol.statement.span,
        details=(detail,),
        help=help,
        severity="warning",
        layout="plain",
    )


def guessed_order(symbol: Symbol, index: IndexSet, dataset: Dataset) -> Diagnostic:
    """W302: an unlabelled array over labels that only the maps gave, or that are numbers from 0
    of which the maps never use 0."""
    shown = ", ".join(str(v) for v in index.labels[:4].tolist())
    labels = f"give a key `{index.name}` with the labels in the order of `{symbol.name}`"
    if dataset.key(index.name) in dataset.entries:
        # The key is a column of something else, as of a map into the index set.
        labels = f"give `{symbol.name}` in a table with a column of the labels: {table(index.name)}"
    pairs = f"give `{symbol.name}` as pairs of labels"
    return _warning(
        "W302",
        symbol,
        f"`{symbol.name}` has no labels for `{index.name}`; its entries are taken in the sorted "
        "order of the labels",
        f"{index.name}: {shown}{', ...' if index.size > 4 else ''}",
        pairs if symbol.type == "graph" else labels,
    )


def dropped_loops(symbol: Symbol, number: int, first: str) -> Diagnostic:
    """W303: edges from a member to itself."""
    return _warning(
        "W303",
        symbol,
        f"`{symbol.name}` joins members to themselves; these loops are dropped",
        f"{number} {'loop' if number == 1 else 'loops'}, first at {first}",
    )


def expanded(symbol: Symbol, shape: tuple[int, ...], stored: int) -> Diagnostic:
    """W304: a sparse matrix that is used elsewhere than in `@`."""
    filled = stored / max(1, shape[0] * shape[1])
    return _warning(
        "W304",
        symbol,
        f"`{symbol.name}` is sparse but is used outside `@`; it is expanded",
        f"{shape[0]} x {shape[1]}, {filled:.1%} of the entries stored",
        f"products with `@` keep it sparse, and are taken before others: 3 * ({symbol.name} @ w), "
        f"not 3 * {symbol.name} @ w",
    )


def _alike(
    model: CheckedModel, dataset: Dataset, indices: Mapping[str, IndexSet]
) -> Iterator[Diagnostic]:
    """W310: labels that differ in spaces, Unicode form or rounding alone, of index sets whose
    members the data name and of levels of contrasts; and those that a .csv file joins."""
    for symbol in model.symbols.values():
        entry = dataset.ask(symbol.name) if symbol.target is not None else None
        joined = [] if entry is None else _joined_by_spaces(entry.loaded)
        if joined:
            yield _warning(
                "W310",
                symbol,
                f"labels of `{symbol.target}` differ in outer spaces alone, and are one member: "
                "fields of .csv files lose these",
                _shown(joined),
                "write them alike; or, if they are different, with other letters",
            )
    for index in indices.values():
        pairs = alike_labels(index.labels)
        if pairs:
            yield _alike_warning(model.symbols[index.name], index.name, pairs)
    for name, coding in _coded(dataset):
        pairs = alike_labels(np.array(coding.levels, dtype=np.str_))
        if pairs:
            yield _alike_warning(model.symbols[name], coding.column, pairs)


def _coded(dataset: Dataset) -> Iterator[tuple[str, Coding]]:
    """The contrasts of each matrix, each column once."""
    for name, design in dataset.designs.items():
        codings = {c.column: c for t in design.terms for c in t.codings if c.of_levels}
        for coding in codings.values():
            yield name, coding


def _alike_warning(symbol: Symbol, name: str, pairs: Sequence[Sequence[str]]) -> Diagnostic:
    numbers = all(rounded(max(pair, key=len)) for pair in pairs)
    how = "beyond 15 digits" if numbers else "in spaces or Unicode form"
    remedy = "column.round(12)" if numbers else "column.str.strip()"
    return _warning(
        "W310",
        symbol,
        f"labels of `{name}` differ {how} alone, and are different members",
        _shown(pairs),
        f"write them alike in the data; in pandas: {remedy}",
    )


def _shown(groups: Sequence[Sequence[str]]) -> str:
    return "; ".join(", ".join(f'"{v}"' for v in group) for group in groups[:SHOWN])


def _joined_by_spaces(loaded: Loaded) -> list[list[str]]:
    """Labels of a text file that are one without their outer spaces, in all their spellings."""
    text = loaded.values.dtype.kind == "U" or loaded.settled().kept
    fields = set(loaded.written if text and loaded.written is not None else ())
    spaced = {f.strip() for f in fields if f[:1].isspace() or f[-1:].isspace()}
    groups: dict[str, list[str]] = {label: [] for label in sorted(spaced - {""})}
    for field in sorted(fields) if groups else ():
        groups.get(field.strip(), []).append(field)
    return [group for group in groups.values() if len(group) > 1]


def data_warnings(
    graph: ModelGraph,
    dataset: Dataset,
    indices: Mapping[str, IndexSet],
    values: Mapping[str, Any],
    reused: Collection[str] | None,
) -> Iterator[Diagnostic]:
    """W308, W309 and W310 of all data together. `reused`: the names whose values are those of a fit
    where new data are for one, which need no rows; else None."""
    yield from _unused_keys(graph.model, dataset, indices, reused or ())
    if reused is None:
        yield from _without_rows(graph, dataset, indices, values)
        yield from _alike(graph.model, dataset, indices)


def _empty_cells(symbol: Symbol, design: Design, matrix: Any) -> Iterator[Diagnostic]:
    """W309: products of contrasts that no row has, though each level has some."""
    if len(symbol.dims) != 2 or not isinstance(matrix, np.ndarray):
        return
    labels: list[str] = []
    columns: tuple[str, ...] = ()
    first = 0
    for term in design.terms:
        last = first + len(term.labels)
        if term.alone is None and all(c.of_levels and not c.unused for c in term.codings):
            nowhere = np.flatnonzero(~np.nan_to_num(matrix[:, first:last]).any(axis=0))
            labels += [term.labels[k] for k in nowhere]
            columns = term.columns if nowhere.size else columns
        first = last
    if labels:
        yield _warning(
            "W309",
            symbol,
            f"no row has {_several(labels, 'column')} of `{symbol.name}`",
            "the levels are never met together",
            "its coefficient keeps its prior; for a value of each cell, declare "
            f"latent cell[{', '.join(columns)}] ~ normal(sd = 1) and maps to its indices",
        )


def _without_rows(
    graph: ModelGraph,
    dataset: Dataset,
    indices: Mapping[str, IndexSet],
    values: Mapping[str, Any],
) -> Iterator[Diagnostic]:
    """W309: levels of contrasts that no row has; and members that a table names and no row of a
    map, where they are independent of the others (those of a walk or a graph are not)."""
    model = graph.model
    for name, coding in _coded(dataset):
        if coding.unused:
            yield _warning(
                "W309",
                model.symbols[name],
                f"no row has {_several(coding.unused, 'level')} of `{coding.column}`",
                f"{coding.column} has {', '.join(map(show, coding.levels[:SHOWN]))}",
                f"the column of such a level in `{name}` is zero, and its coefficient keeps "
                "its prior: drop the level, unless this is intended",
            )
    for name, design in dataset.designs.items():
        yield from _empty_cells(model.symbols[name], design, values.get(name))
    yield from _of_graphs_alone(graph, indices, values)
    for name in (dataset.placements or {}).keys() & indices.keys():
        maps = [s for s in model.of_kind("data") if s.target == name and s.name in values]
        over = {d for n in graph.observed if n in model.symbols for d in model.symbols[n].dims}
        if not maps or name in over or not _independent(model, name):
            continue
        used = np.concatenate([np.asarray(values[s.name]).reshape(-1) for s in maps])
        idle = np.setdiff1d(np.arange(indices[name].size), used)
        if idle.size:
            labels = [str(v) for v in indices[name].labels[idle].tolist()]
            yield _warning(
                "W309",
                model.symbols[name],
                f"no row has {_several(labels, 'member')} of `{name}`",
                f"{about(indices[name])}; rows name them by "
                + ", ".join(f"`{s.name}`" for s in maps),
                "their effects keep their prior: nothing to do if this is intended, else drop them "
                f"from the table, or correct `{maps[0].name}`",
            )


def _of_graphs_alone(
    graph: ModelGraph, indices: Mapping[str, IndexSet], values: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    """Members whose labels a graph alone gives, in pairs: they may be mistyped."""
    for symbol in graph.model.of_kind("data"):
        if symbol.type != "graph" or symbol.name not in values:
            continue
        index = indices[symbol.dims[0]]
        maps = [s for s in graph.model.of_kind("data") if s.target == index.name]
        maps = [s for s in maps if s.name in values]
        if not maps or not index.united:
            continue
        used = np.concatenate([np.asarray(values[s.name]).reshape(-1) for s in maps])
        idle = np.setdiff1d(np.arange(index.size), used)
        if not idle.size:
            continue
        labels = [str(v) for v in index.labels[idle].tolist()]
        known = [str(v) for v in index.labels[np.unique(used[used >= 0])].tolist()]
        close = nearest_label(labels[0], known)
        yield _warning(
            "W309",
            symbol,
            f"no row has {_several(labels, 'member')} of `{index.name}`, named by `{symbol.name}`",
            f"rows name their {index.name} by {', '.join(f'`{s.name}`' for s in maps)}",
            meant(
                show(close) if close else None,
                then="nothing to do if it has no rows: it is inferred from its neighbours",
                quote="",
            ),
        )


def _independent(model: CheckedModel, index: str) -> bool:
    """Whether all latents over an index set have independent members."""
    factors = [
        factor
        for statement in model.tree.statements
        if isinstance(statement, ast.Latent)
        for dim, factor in latent_axes(statement)
        if dim == index
    ]
    return bool(factors) and all(members_of(f.name.id) is Members.JOINED for f in factors)


def _several(labels: Sequence[str], word: str) -> str:
    shown = ", ".join(show(label) for label in labels[:SHOWN])
    more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
    return f"{count_of(len(labels), word)} ({shown}{more})"


def _unused_keys(
    model: CheckedModel, dataset: Dataset, indices: Mapping[str, IndexSet], reused: Collection[str]
) -> Iterator[Diagnostic]:
    """W308: where the source has no key for a name that can do without, as an index without labels
    and a datum whose values are `reused` from the fit, an idle key of its shape that is almost it.

    The columns of a table are many and all of one shape: only another case is near to them. W308
    too for a table that was given by name, and of which nothing is used.
    """
    for name in dataset.idle:
        table = dataset.tables[name]
        yield Diagnostic(
            "W308",
            f"the table `{name}` is not used: no name of the model is a column of it",
            details=(f"{table.source} has: {', '.join([*(table.columns or ())][:20])}",),
            help="leave it out, or name a column: " + key("NAME", f"{name}.COLUMN"),
            severity="warning",
            layout="plain",
        )
    taken = {dataset.key(name) for name in model.symbols}
    idle = {k: e for k, e in dataset.entries.items() if k not in taken}
    for symbol in model.symbols.values():
        name, statement = symbol.name, symbol.statement
        if not idle or name in dataset.mapping or dataset.ask(name) is not None:
            continue
        shape: tuple[int, ...]
        if isinstance(statement, ast.Index) and name in indices and statement.definition is None:
            shape, has = (indices[name].size,), "has no labels of its own in these data"
        elif name in reused:
            shape, has = tuple(indices[d].size for d in symbol.dims), "keeps its values of the fit"
        else:
            continue
        near = [
            k
            for k, e in idle.items()
            if e.shape == shape and (not e.table or k.casefold() == name.casefold())
        ]
        close = nearest(name, near)
        if close is not None:
            yield _warning(
                "W308",
                symbol,
                f"`{close}` is not used, and `{name}` {has}",
                f"{dataset.name} has `{close}`, and no `{name}`",
                f"if `{name}` is meant: {key(name, close)}",
            )
