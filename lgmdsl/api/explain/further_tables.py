"""Further tables of a skeleton: those that describe groups of the first table, and graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.api.explain.table_columns import Column, columns_of
from lgmdsl.api.page import several
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.errors import DataError, Diagnostic, listed


@dataclass(frozen=True, eq=False)
class Further:
    """A further table: the name that it was `given`, its `name` in the command that fits the model,
    the column `group` of the first table whose members it describes, the `key` column of their
    labels, and its other columns; or, without a key, a graph of these members."""

    given: str
    name: str
    group: Column
    key: str = ""
    columns: tuple[Column, ...] = ()

    @property
    def graph(self) -> bool:
        return not self.key


def further_tables(
    main: Dataset, columns: Sequence[Column], taken: set[str]
) -> tuple[Further, ...]:
    """The tables that were given with a name, in their order; `taken` gets the names of their
    columns. Raises DataError E305 for one that describes no group of the first table."""
    pool = _groups(main, columns)
    labels = {c.key: _labels(main.entries[c.key]) for c in pool}
    out: list[Further] = []
    for name, entry in main.tables.items():
        table = _further(name, entry, pool, labels)
        if not table.graph:
            assert entry.columns is not None, "tables have columns"
            others = {k: e for k, e in entry.columns.items() if k != table.key}
            described = columns_of(entry.source, others, taken) if others else []
            covariates = tuple(replace(c, map=table.group.name) for c in described)
            taken |= {c.name for c in covariates}
            table = replace(table, columns=covariates)
        same = next((t for t in out if t.name == table.name), None)
        if same is not None:
            message = f"`{same.given}` and `{name}` both describe `{table.name}`"
            raise DataError(Diagnostic("E306", message, help="join them into one table"))
        out.append(table)
    for name, entry in main.entries.items():
        if not entry.table and len(entry.shape) == 2:
            if not pool:
                raise DataError(_unplaced(entry, pool, {}, labels))
            out.append(Further(name, name, pool[0]))
    return tuple(out)


def _groups(main: Dataset, columns: Sequence[Column]) -> list[Column]:
    """The columns that may name the rows of another table: those of groups, then those that differ
    in all rows and those that share a name with a further table, as columns of groups."""
    groups = [c for c in columns if c.kind == "group"]
    shared = {*main.tables, *(k for t in main.tables.values() for k in t.columns or ())}
    for column in columns:
        if column.kind == "left out" or (
            column.kind in ("count", "binary") and column.key in shared
        ):
            levels = len(_labels(main.entries[column.key]))
            if levels > 1 and not column.missing:
                groups.append(replace(column, kind="group", why="", levels=levels))
    return groups


def _further(
    name: str, entry: Entry, pool: Sequence[Column], labels: Mapping[str, set[str]]
) -> Further:
    columns = entry.columns or {}
    called = [c for c in pool if name in (c.key, f"{c.name}_level")]
    for group in called or pool:
        if group.key in columns:
            return Further(name, group.key, group, group.key)
    known = {k: _labels(e) for k, e in columns.items()}
    if len(columns) == 2 and not called:
        for group in pool:
            if all(ends and ends <= labels[group.key] for ends in known.values()):
                return Further(name, name, group)
    for group in called or pool:
        for key, members in known.items():
            if labels[group.key] <= members and len(members) == entry.shape[0]:
                return Further(name, group.key, group, key)
    raise DataError(_unplaced(entry, called or pool, known, labels))


def _unplaced(
    entry: Entry,
    groups: Sequence[Column],
    members: Mapping[str, set[str]],
    labels: Mapping[str, set[str]],
) -> Diagnostic:
    columns = entry.columns or {}
    if not groups:
        message = f"{entry.source} describes groups, and the first table has no column of groups"
        return Diagnostic("E305", message, help="give one table", layout="plain")
    known = listed([f"`{c.key}`" for c in groups], "or")
    details = [f"{entry.source} has: {', '.join([*columns][:20])}"]
    help = f"give its key column the name of the column in the first table: `{groups[0].key}`"
    near = [(len(m & labels[g.key]), g, k, m) for g in groups for k, m in members.items()]
    shared, group, key, held = max(near, key=lambda n: n[0], default=(0, groups[0], "", set()))
    if shared:
        lacking = several(sorted(labels[group.key] - held))
        whole = len(labels[group.key])
        details.insert(
            0, f"`{key}` has {shared} of the {whole} labels of `{group.key}`, not {lacking}"
        )
        help = "add rows for them, or take their rows out of the first table"
    return Diagnostic(
        "E305",
        f"no column of {entry.source} holds the labels of {known}",
        details=tuple(details),
        help=help,
        layout="plain",
    )


def _labels(entry: Entry) -> set[str]:
    try:
        labels = labels_of(entry.loaded)
    except DataError:
        return set()
    return {str(v) for v in np.unique(labels.present).tolist()}
