"""Which models can read their rows by batches, and why others cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from lgmdsl.canonical.grounding.tables.place import placed
from lgmdsl.canonical.grounding.usage import usage_of
from lgmdsl.dataset import Dataset
from lgmdsl.dataset.batches import undecided
from lgmdsl.graph.model_graph import FACTORS, ModelGraph
from lgmdsl.language.check.sites import residual_of
from lgmdsl.language.tree import ast


@dataclass(frozen=True)
class Table:
    """What is streamed: the rows of `index`, and the keys of its columns; how many rows; whether
    they can be read from a file by batches."""

    index: str
    keys: tuple[str, ...]
    rows: int
    batched: bool


def table_of(graph: ModelGraph, dataset: Dataset) -> Table | str | None:
    """The table whose rows are data alone, by batches; else why there is none; None where a datum
    is absent, which is said elsewhere."""
    rows = usage_of(graph).rows
    observed = {d for name in graph.observed for d in graph.model.symbols[name].dims}
    index = next(iter(rows & observed), "")
    if len(rows & observed) != 1:
        return "its responses are not over one index of rows"
    reason = _joined(graph, index)
    if reason:
        return reason
    found = placed(graph.model, dataset)
    keys, tables, count, batched = [], set(), 0, True
    for symbol in graph.model.of_kind("data"):
        if index not in symbol.dims:
            continue
        if symbol.dims != (index,):
            return f"`{symbol.name}` has another index next to `{index}`"
        entry = found.ask(symbol.name)
        key = dataset.key(symbol.name)
        if entry is None:
            return None
        chosen = isinstance(dataset.mapping.get(symbol.name, ""), tuple)  # columns of a matrix
        keys.append(key)
        if chosen or key not in dataset.entries or len(entry.shape) != 1:
            return f"`{symbol.name}` is no column of the table"
        tables.add((entry.table, entry.shape))
        count, batched = entry.shape[0], batched and entry.batched
    if len(tables) != 1:
        return f"the data over `{index}` are not the columns of one table"
    dates = undecided(dataset.entries, keys)
    if dates:
        return f"`{dates}` holds dates or times, whose spelling depends on all of them"
    return Table(index, tuple(dict.fromkeys(keys)), count, batched)


def _joined(graph: ModelGraph, index: str) -> str:
    """What joins rows of an index: parameters, latents, reports and sums over it."""
    for symbol in graph.model.symbols.values():
        if symbol.kind in ("latent", "hyper", "report") and index in symbol.dims:
            return f"{symbol.kind} `{symbol.name}` is over `{index}`"
        if symbol.target == index:
            return f"`{symbol.name}` is a map into `{index}`"
        statement = symbol.statement
        if isinstance(statement, ast.Index) and symbol.name == index and statement.definition:
            return f"`{index}` is declared with its members"
    if joins(graph, index):
        return f"rows of `{index}` are joined by a sum or an operator"
    for node in graph.of_kind(*FACTORS):
        factor = node.statement
        if isinstance(factor, ast.Observe) and residual_of(factor) is not None:
            return f"residuals of `{factor.name.id}` are correlated"
        if node.kind != "observe" and factor is not None and _reaches(factor, graph, index):
            return f"a constraint or a potential is over `{index}`"
    return ""


def joins(graph: ModelGraph, index: str) -> bool:
    """Whether members of an index are joined by a sum or an operator in some statement."""
    statements = graph.model.tree.statements
    return any(name == index for s in statements for name in _mentioned(s))


def _reaches(statement: ast.Statement, graph: ModelGraph, index: str) -> bool:
    names = {n for n in _names(statement) if n in graph.model.symbols}
    return any(index in graph.model.symbols[n].dims for n in names)


def _mentioned(statement: ast.Statement) -> Iterator[str]:
    """Index names in expressions: in calls (`sum(x, obs)`), and as slots."""
    for part in fields(statement):
        if part.name not in ("name", "dims", "type"):
            yield from _names(getattr(statement, part.name))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, ast.Name):
        yield value.id
    elif isinstance(value, ast.Indexed):  # `x[obs]` is x row by row
        yield value.base.id
        yield from _names(tuple(s for s in value.slots if not isinstance(s, ast.Name)))
    elif isinstance(value, tuple):
        for item in value:
            yield from _names(item)
    elif is_dataclass(value):
        for part in fields(value):
            yield from _names(getattr(value, part.name))
