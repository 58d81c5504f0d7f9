"""Columns of a table whose rows are not the members that a datum is declared over."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lgmdsl.canonical.grounding.tables.named_tables import Table
from lgmdsl.dataset import Dataset
from lgmdsl.errors import DataError, Diagnostic
from lgmdsl.language.checked import CheckedModel, Symbol
from lgmdsl.remedies import table


def column_of_other_table(
    model: CheckedModel, dataset: Dataset, symbol: Symbol, tables: Sequence[Table]
) -> None:
    """Raise E305 for a column of a table that has a name and is over another index set."""
    wanted = dataset.key(symbol.name)
    other = next((t for t in tables if wanted in t.columns), None)
    if other is None or wanted in dataset.entries or not symbol.dims:
        return
    maps = [s for s in model.of_kind("data") if s.target == other.index]
    map_ = next((s.name for s in maps if s.dims == symbol.dims), None)
    use = f", and use {symbol.name}[{map_}]" if map_ is not None else ""
    raise DataError(
        Diagnostic(
            "E305",
            f"`{wanted}` is in {other.source}, whose rows are those of `{other.index}`, not of "
            f"`{symbol.dims[0]}`",
            symbol.statement.span,
            help=f"declare data {symbol.name}[{other.index}]{use}",
            layout="plain",
        )
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
        raise DataError(
            Diagnostic(
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
        )
