"""What of its tables goes into a skeleton, under which names."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lgmdsl.api.explain.column_roles import LIKELY, RESPONSES, Roles, between_ends, roles_of
from lgmdsl.api.explain.events import EVENT, is_outcome, read_as_binary
from lgmdsl.api.explain.further_tables import Further
from lgmdsl.api.explain.table_columns import Column, unused_name
from lgmdsl.errors import DataError, Diagnostic, suggestion
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
            raise DataError(Diagnostic("E305", message, help=help))
        if wanted and known[wanted] not in candidates:
            column = known[wanted]
            reason = _why(column)
            raise DataError(
                Diagnostic(
                    "E305",
                    f"`{wanted}` cannot be the response of a skeleton: {reason}",
                    help=f"{'change it in the table' if column.why else 'code it as 0 and 1'}, or "
                    f"name a column of numbers{_example(candidates)}",
                )
            )
        if not candidates:
            raise DataError(
                Diagnostic(
                    "E305",
                    f"{self.source} has no column that may be a response",
                    details=tuple(f"`{c.key}`: {_why(c)}" for c in self.columns[:MOST]),
                    help="a response is a column of numbers, not all of them the same",
                )
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
