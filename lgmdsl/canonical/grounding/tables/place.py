"""Tables of their own and matrices of columns: where each datum stands, by what the model declares.

A table that has a name is over the index set of that name, over the one that the map of that name
leads to, or over the one that its key column is called by. Its rows are matched by the labels of
the key column, never by position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.canonical.grounding.errors import absent
from lgmdsl.canonical.grounding.model import GroundedModel
from lgmdsl.canonical.grounding.tables.matrices import (
    as_before,
    example,
    matrix_of,
    one_column,
    selected,
)
from lgmdsl.canonical.grounding.tables.named_tables import NamedTable, table_of, words_for
from lgmdsl.canonical.grounding.values import RULES
from lgmdsl.dataset import Dataset, Entry, Loaded
from lgmdsl.dataset.codings import Coding, Design, Term
from lgmdsl.dataset.dataset import Selection
from lgmdsl.dataset.tables import side_by_side
from lgmdsl.errors import NOWHERE, DataError, Diagnostic, listed, nearest
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.remedies import either, key, table


def placed(model: CheckedModel, dataset: Dataset, fitted: GroundedModel | None = None) -> Dataset:
    """Find the entry of every datum that is a column of a named table, or a matrix of columns.

    The selections of what is `fitted` hold for names that have none of their own here, where these
    data have the columns or do not have the name itself; and its levels hold for all matrices.
    Raises DataError: E305 for a table without a key column and for columns that are not there, E306
    for a datum that stands in two places, and what `matrix_of` raises.
    """
    if dataset.placements is not None:
        return dataset
    if fitted is not None and (dataset.entries or dataset.tables):  # none: the rows of the fit
        known = {n: s for n, s in fitted.mapping.items() if n not in dataset.mapping}
        earlier = {n: s for n, s in known.items() if _as_fitted(n, s, dataset)}
        dataset = replace(dataset, mapping={**earlier, **dataset.mapping})
    designs = {} if fitted is None else fitted.designs
    terms = {name: design.terms for name, design in designs.items()}
    return _Placing(model, dataset, terms, fitted is not None).run()


def _as_fitted(name: str, selection: Selection, dataset: Dataset) -> bool:
    """Whether a fit's selection of a name holds for new data: they have its columns, or lack the
    name."""
    if name not in dataset.entries and name not in dataset.tables:
        return True
    columns = {c for table in dataset.tables.values() for c in table.columns or ()}
    known = {*dataset.keys, *columns}
    chosen = selected(name, selection, known)
    if chosen is None:
        return isinstance(selection, str) and selection in known
    return {column for term in chosen for column in term.columns} <= known


@dataclass
class _Placing:
    model: CheckedModel
    dataset: Dataset
    known: Mapping[str, tuple[Term, ...]]
    again: bool = False  # whether these are new data for a fit
    tables: list[NamedTable] = field(default_factory=list)
    placements: dict[str, Entry] = field(default_factory=dict)
    designs: dict[str, Design] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)

    def run(self) -> Dataset:
        for step in (self._tables, self._labels, self._data):
            step()
            if self.problems:
                raise DataError(self.problems)
        used = {entry.table for entry in self.placements.values()}
        idle = [t.name for t in self.tables if not used & {c.table for c in t.columns.values()}]
        return replace(
            self.dataset, placements=self.placements, designs=self.designs, idle=tuple(idle)
        )

    def _tables(self) -> None:
        for name, entry in self.dataset.entries.items():
            symbol = self.model.symbols.get(name)
            if (
                entry.refusal is not None
                and symbol is not None
                and symbol.kind in ("index", "data")
            ):
                self.problems += entry.refusal.placed(symbol.statement.span)
        for name, entry in self.dataset.tables.items():
            assert entry.columns is not None, "tables have columns"
            symbol = self.model.symbols.get(name)
            try:
                if symbol is not None and symbol.kind == "data" and len(symbol.dims) == 2:
                    self._matrix(symbol, entry)
                else:
                    self.tables.append(table_of(self.model, self.dataset, name, entry))
            except DataError as error:
                span = NOWHERE if symbol is None else symbol.statement.span
                self.problems += error.placed(span)

    def _labels(self) -> None:
        """The labels of index sets that have a table."""
        for known in self.tables:
            if known.index is None or known.key is None or known.index in self.placements:
                continue
            self.placements[known.index] = known.columns[known.key]

    def _matrix(self, symbol: Symbol, entry: Entry) -> None:
        """A table that is a matrix itself: a graph as pairs, or all columns but that of labels."""
        assert entry.columns is not None, "tables have columns"
        columns, name = dict(entry.columns), symbol.name
        if symbol.type == "graph":
            selection = self.dataset.mapping.get(name)
            chosen = None if selection is None else selected(name, selection, columns)
            if chosen is not None:
                ends = [c for term in chosen for c in term.columns]
                self.placements[name] = pairs(symbol, entry.source, columns, ends)
            elif entry.labels[0] is None:
                self.placements[name] = graph_table(symbol, entry.source, columns)
            return
        words = words_for(self.model, self.dataset, symbol.dims[0])
        first = next((w for w in words if w in columns), None)
        if first is None and name not in self.dataset.mapping:
            return  # the matrix as it is
        labels = None if first is None else columns[first].loaded
        table = NamedTable(name, entry.source, columns, symbol.dims[0], first)
        chosen = self._chosen(symbol, columns)
        if chosen is None:
            chosen = tuple(Term((Coding(c),)) for c in columns if c != first)
        self._select(symbol, table, chosen, labels)

    def _chosen(self, symbol: Symbol, columns: Collection[str]) -> tuple[Term, ...] | None:
        selection = self.dataset.mapping.get(symbol.name)
        return None if selection is None else selected(symbol.name, selection, columns)

    def _data(self) -> None:
        for symbol in self.model.of_kind("data"):
            if symbol.name in self.placements:
                continue
            try:
                self._place(symbol)
            except DataError as error:
                self.problems += error.placed(symbol.statement.span)

    def _place(self, symbol: Symbol) -> None:
        tables = [*self._over(symbol), *(t for t in self.tables if t.index is None)]
        loose = self.dataset.entries
        everything = {*loose, *(c for t in tables for c in t.columns)}
        chosen = self._chosen(symbol, everything)
        name, wanted = symbol.name, self.dataset.key(symbol.name)
        sources = {entry.source for entry in loose.values()}
        source = sources.pop() if len(sources) == 1 else self.dataset.name
        main = NamedTable("", source, loose)
        if chosen is None and name in self.dataset.mapping and len(symbol.dims) == 2:
            column = next((t.columns[wanted] for t in (*tables, main) if wanted in t.columns), None)
            if column is not None and column.table and len(column.shape) == 1:
                chosen = (Term((Coding(wanted),)),)
        if chosen is not None:
            columns = list(dict.fromkeys(c for term in chosen for c in term.columns))
            holders = [t for t in (*tables, main) if {*columns} <= {*t.columns}]
            if not holders and self.again and len(symbol.dims) == 1:
                return  # said where it is needed: new rows need not tell events
            if not holders:
                self.problems.append(self._lacking(symbol, columns, (*tables, main)))
                return
            table = self._only(symbol, wanted, holders)
            if symbol.type == "graph":
                self.placements[name] = pairs(symbol, table.source, table.columns, columns)
                return
            self._select(symbol, table, chosen, self._row_labels(symbol, table, columns))
            return
        qualified = [
            (t, wanted.removeprefix(f"{t.name}."))
            for t in self.tables
            if wanted.startswith(f"{t.name}.") and wanted.removeprefix(f"{t.name}.") in t.columns
        ]
        if qualified and wanted not in loose:
            self.placements[name] = qualified[0][0].column(qualified[0][1])
            return
        holders = [t for t in tables if wanted in t.columns]
        if not holders:
            column_of_other_table(self.model, self.dataset, symbol, self.tables)
            column_of_rows(self.model, self.dataset, symbol, {*self.placements}, self.again)
            labels = self._labels_of_rows(symbol, loose.get(wanted))
            if labels is not None:
                self.placements[name] = replace(loose[wanted], labels=(labels,), weak=False)
            return
        if wanted in loose:
            if not self._clash(holders[0], loose[wanted]):
                self.placements[name] = self._only(symbol, wanted, holders).column(wanted)
                return
            holders = [main, *holders]
        self.placements[name] = self._only(symbol, wanted, holders).column(wanted)

    def _labels_of_rows(self, symbol: Symbol, entry: Entry | None) -> Loaded | None:
        """The labels of a column's rows where its own table names the members of an index set that
        another table names too."""
        first = symbol.dims[0] if symbol.dims else ""
        if entry is None or not entry.table or first not in self.placements:
            return None
        words = words_for(self.model, self.dataset, first)
        taken = {self.dataset.key(s.name) for s in self.model.of_kind("data")}
        columns = self.dataset.entries
        word = next((w for w in words if w in columns and w not in taken), None)
        same = word is not None and columns[word].table == entry.table
        return columns[word].loaded if word is not None and same else None

    def _over(self, symbol: Symbol) -> list[NamedTable]:
        return [t for t in self.tables if t.index is not None and t.index in symbol.dims[:1]]

    @staticmethod
    def _clash(table: NamedTable, entry: Entry) -> bool:
        """Whether an entry outside the tables may as well be the one that is meant."""
        rows = next(iter(table.columns.values())).shape
        return table.index is None or entry.shape[:1] == rows

    def _only(self, symbol: Symbol, wanted: str, holders: Sequence[NamedTable]) -> NamedTable:
        if len(holders) == 1:
            return holders[0]
        named = next((t for t in holders if t.name), holders[0])
        raise DataError.of(
            "E306",
            f"`{wanted}` is in {listed([f'`{t.name or t.source}`' for t in holders])}",
            symbol.statement.span,
            help=f"say which: {key(symbol.name, f'{named.name}.{wanted}')}, or rename one",
            layout="plain",
        )

    def _row_labels(
        self, symbol: Symbol, table: NamedTable, columns: Sequence[str]
    ) -> Loaded | None:
        """The labels of the rows of a matrix of columns."""
        if table.key is not None:
            return table.labels
        first = table.columns[columns[0]]
        known = self._labels_of_rows(symbol, first)
        if known is not None:
            return known
        return first.labels[0] if first.labels else None

    def _select(
        self, symbol: Symbol, table: NamedTable, chosen: tuple[Term, ...], rows: Loaded | None
    ) -> None:
        alone = len(symbol.dims) == 1 and len(chosen) == 1 and not chosen[0].plain
        if len(symbol.dims) != 2 and not alone:
            columns = ", ".join(f"`{c}`" for term in chosen for c in term.columns)
            raise DataError.of(
                "E301",
                f"columns {columns} make a matrix, and `{symbol.name}` is none",
                symbol.statement.span,
                help=f"declare it over two indices: data {symbol.name}[{symbol.dims[0]}, feat]"
                if symbol.dims
                else "give one column",
                layout="plain",
            )
        same = as_before(symbol.name, chosen, self.known.get(symbol.name, ()))
        entry, design = matrix_of(
            symbol.name, table.source, same, table.columns, symbol.type in RULES, rows
        )
        self.placements[symbol.name] = one_column(entry, design) if alone else entry
        self.designs[symbol.name] = design

    def _lacking(
        self, symbol: Symbol, columns: Sequence[str], tables: Sequence[NamedTable]
    ) -> Diagnostic:
        most = max(tables, key=lambda t: len({*columns} & {*t.columns}))
        lacking = [c for c in columns if c not in most.columns]
        close = nearest(lacking[0], most.columns)
        source = most.source if most.columns else self.dataset.name
        return Diagnostic(
            "E305",
            f"`{symbol.name}` wants the column `{lacking[0]}`, which {source} does not have",
            symbol.statement.span,
            details=(f"{source} has: {', '.join([*most.columns][:20])}",),
            help=f"did you mean `{close}`?"
            if close
            else either("correct --map", "correct mapping"),
            layout="plain",
        )


# ---- graph tables ------------------------------------------------------------------------------
# A graph as a table: two columns, the ends of each edge, or an adjacency matrix with a header.


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
    raise DataError.of(
        "E301",
        f"the graph `{symbol.name}` wants two columns, the ends of each edge",
        symbol.statement.span,
        details=(f"{source} has: {', '.join(names[:20])}",),
        help=f"name them: {example(symbol.name, (names * 2)[:2])}",
        layout="plain",
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


# ---- of rows -----------------------------------------------------------------------------------


def column_of_other_table(
    model: CheckedModel, dataset: Dataset, symbol: Symbol, tables: Sequence[NamedTable]
) -> None:
    """Raise E305 for a column of a table that has a name and is over another index set."""
    wanted = dataset.key(symbol.name)
    other = next((t for t in tables if wanted in t.columns), None)
    if other is None or wanted in dataset.entries or not symbol.dims:
        return
    maps = [s for s in model.of_kind("data") if s.target == other.index]
    map_ = next((s.name for s in maps if s.dims == symbol.dims), None)
    use = f", and use {symbol.name}[{map_}]" if map_ is not None else ""
    raise DataError.of(
        "E305",
        f"`{wanted}` is in {other.source}, whose rows are those of `{other.index}`, not of "
        f"`{symbol.dims[0]}`",
        symbol.statement.span,
        help=f"declare data {symbol.name}[{other.index}]{use}",
        layout="plain",
    )


def column_of_rows(
    model: CheckedModel,
    dataset: Dataset,
    symbol: Symbol,
    placed: Collection[str],
    again: bool,
) -> None:
    """Raise E301 for a column of the table whose rows a map leads from, and a datum over the index
    set that the map leads to; `again`: in new data for a fit."""
    entry = dataset.entries.get(dataset.key(symbol.name))
    if entry is None or not entry.table or len(symbol.dims) != 1:
        return
    member = symbol.dims[0]
    columns = {k for k, e in dataset.entries.items() if e.table == entry.table}
    if {dataset.key(member), member} & columns or member in placed:
        return
    for other in model.of_kind("data"):
        label = dataset.key(other.name)
        if other.target != member or len(other.dims) != 1 or other.dims[0] == member:
            continue
        if label not in columns or other.name in placed:
            continue
        declare = "" if again else f", or declare {symbol.name}[{other.dims[0]}]"
        raise DataError.of(
            "E301",
            f"`{entry.name}` is in {entry.source}, whose rows are those of `{other.dims[0]}`, "
            f"not of `{member}`",
            symbol.statement.span,
            details=(
                f"declared {symbol.name}[{member}]; `{label}` says which `{member}` a row is",
            ),
            help=f"give a table of its own, {table(other.name)}, with the columns `{label}` "
            f"and `{entry.name}`{declare}",
            layout="plain",
        )
