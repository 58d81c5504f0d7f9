"""What of its tables goes into a skeleton, under which names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.api.explain.column_roles import LIKELY, RESPONSES, Roles, between_ends, roles_of
from lgmdsl.api.explain.events import EVENT, is_outcome, read_as_binary
from lgmdsl.api.explain.table_columns import Column, columns_of, unused_name
from lgmdsl.api.page import several
from lgmdsl.canonical.grounding.labels import labels_of
from lgmdsl.dataset import Dataset, Entry
from lgmdsl.errors import DataError, Diagnostic, listed, suggestion
from lgmdsl.remedies import either

ROWS = ("obs", "row", "case", "item", "record")
# Covariates that a skeleton takes; the names of the others stand in a comment.
MOST = 20
KINDS = ("number", "count", "binary", "group", "date")


class Chosen:
    """The columns of a skeleton: `roles` of those that are no covariates, the covariates `used`,
    those `spare` because there are many, those with `gaps`, dates of further tables (`walks`),
    those of codes that are taken as groups (`coded`) and of few values that are taken as amounts
    (`amounts`);
    `indices`: the index set of each column of groups or dates, by its name in the model."""

    def __init__(
        self,
        source: str,
        columns: list[Column],
        response: str,
        further: Sequence[Further],
        taken: set[str],
        files: Mapping[str, str],
    ) -> None:
        self.source, self.files = source, files
        self.taken = {*taken}
        self.columns = [_two_labels(c, response) for c in columns]
        self.roles = self._roles(response)
        if self.roles.absent:
            name = self._name("y")
            known = replace(self.roles.response, key=name, name=name)
            self.roles = replace(self.roles, response=known)
        self.response = self.roles.response
        roles = {id(c) for c in (self.response, *self.roles.special)}
        roles |= {id(c) for c in self.roles.outcomes}
        shown = {c.key: c for c in (self.response,)}
        self.columns = [
            shown.get(c.key, c) if id(c) in roles or c.key in shown else _as_groups(c)
            for c in self.columns
        ]
        self.further = tuple(
            replace(t, columns=tuple(_as_groups(c) for c in t.columns)) for t in further
        )
        self.rows = self._name(next((r for r in ROWS if r not in self.taken), ROWS[0]))
        self.indices = {
            c.name: self._name(f"{c.name}_{'level' if c.kind == 'group' else 'time'}")
            for c in self.everything()
            if c.kind in ("group", "date")
        }
        special = {id(c) for c in (self.response, *self.roles.special)}
        special |= {id(c) for c in (self.roles.unfit, *self.roles.outcomes) if c is not None}
        usable = [c for c in self.everything() if id(c) not in special and c.kind in KINDS]
        whole = [c for c in usable if not c.missing]
        needed = {t.group.name for t in self.further}
        whole.sort(key=lambda c: c.name not in needed)
        self.used, self.spare = whole[:MOST], whole[MOST:]
        order = [id(c) for c in self.everything()]
        self.used.sort(key=lambda c: order.index(id(c)))
        self.gaps = [c for c in usable if c.missing]
        self.walks = [c for c in self.used if c.map and c.kind == "date"]
        self.used = [c for c in self.used if c not in self.walks]
        self.coded = [c for c in self.used if c.kind == "group" and c.codes]
        self.amounts = [c for c in self.used if c.kind != "group" and c.few]

    def everything(self) -> list[Column]:
        return [*self.columns, *(c for t in self.further for c in t.columns)]

    @property
    def names(self) -> dict[str, str]:
        """The names that further tables have in the command, by those that they were given."""
        return {t.given: t.name for t in self.further}

    @property
    def mapping(self) -> dict[str, str]:
        """`--map` of the command: columns that the model calls otherwise."""
        declared = [*self.roles.special, *self.used]
        declared += [] if self.roles.absent else [self.response]
        out = {c.name: self._key(c) for c in declared if c.name != self._key(c)}
        for table in self.further:
            if table.key and table.key not in (table.group.key, table.group.name):
                out[self.indices[table.group.name]] = table.key
        return out

    def _key(self, column: Column) -> str:
        """The key of a column, of further tables with the table's name where it is ambiguous."""
        if column.map and column.name != column.key:
            table = next(t for t in self.further if column in t.columns)
            return f"{table.name}.{column.key}"
        return column.source

    def _name(self, name: str) -> str:
        name = unused_name(name, self.taken)
        self.taken.add(name)
        return name

    def _roles(self, wanted: str) -> Roles:
        candidates = [c for c in self.columns if c.kind in ("number", "count", "binary")]
        known = {c.key: c for c in self.columns}
        if not wanted:
            bounded = between_ends(self.columns)
            if bounded is not None:
                return bounded
        if wanted and wanted not in known:
            help = suggestion(wanted, known, f"it has: {', '.join(list(known)[:20])}")
            message = f"{self.source} has no column `{wanted}`"
            raise DataError.of("E305", message, help=help)
        if wanted and known[wanted] not in candidates:
            column = known[wanted]
            reason = _why(column)
            raise DataError.of(
                "E305",
                f"`{wanted}` cannot be the response of a skeleton: {reason}",
                help=f"{'change it in the table' if column.why else 'code it as 0 and 1'}, or "
                f"name a column of numbers{_example(candidates)}",
            )
        if not candidates:
            raise DataError.of(
                "E305",
                f"{self.source} has no column that may be a response",
                details=tuple(f"`{c.key}`: {_why(c)}" for c in self.columns[:MOST]),
                help="a response is a column of numbers, not all of them the same",
            )
        return roles_of(candidates, self.columns, wanted)

    def command(self) -> str:
        words = ["lgm", "fit", self.files.get("model", "model.lgm")]
        words.append(self.files.get("", self.source))
        for table in self.further:
            words += ["--data", f"{table.name}={self.files.get(table.given, f'{table.given}.csv')}"]
        for name, key in self.mapping.items():
            words += ["--map", f"{name}={key}"]
        return shlex.join(words)


def _example(candidates: Sequence[Column]) -> str:
    """How another response is named."""
    return (
        f": {either(f'--response {candidates[0].key}', f'response={candidates[0].key!r}')}"
        if candidates
        else ""
    )


def _two_labels(column: Column, wanted: str) -> Column:
    """A column of two labels as 0 and 1, where it may be a response or an event."""
    called, asked = column.called, column.key == wanted
    named = called.casefold() in RESPONSES or EVENT.search(called) or LIKELY.search(called)
    return read_as_binary(column, asked) if named or asked or is_outcome(column) else column


def _as_groups(column: Column) -> Column:
    """A column of codes as one of groups."""
    return replace(column, kind="group") if column.codes else column


def _why(column: Column) -> str:
    return column.why or ("it holds dates" if column.kind == "date" else "it holds labels")


# ---- further tables ----------------------------------------------------------------------------


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
            raise DataError.of("E306", message, help="join them into one table")
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
