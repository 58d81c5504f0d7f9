"""The raw form every source is read into: entries by name, expanded only when asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.dataset.codings import Coding
from lgmdsl.errors import DataError, nearest

_tables = itertools.count()

# What `--map NAME=...` gives: a key of the source, or the columns of a matrix.
Selection = str | tuple[str, ...]
# A mapping as users write it: columns also as lists.
Keys = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, eq=False)
class Loaded:
    """An expanded entry: a dense array of kind b, i, u, f or U, or a csr matrix.

    `missing` marks entries that the source itself calls missing (a mask, NA, None, an empty csv
    field); NaN in a float array and empty strings need no mark. `levels` are those of an ordered
    categorical, in their order and with those that no entry has; None for anything else.
    """

    values: Any  # numpy array, or scipy csr_array
    missing: BoolArray | None = None
    levels: AnyArray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.values.shape)


@dataclass(frozen=True, eq=False)
class Entry:
    """A named array of a source.

    `dims` are axis names where the source knows them (netCDF, xarray), else empty. `labels` holds
    for each axis its labels, or None; `weak` says that those of the rows are only a frame's default
    0..n-1. `table` marks columns, which share the row axis of one table, by what identifies that
    table; it is empty for anything else. `columns` are those of an entry that is a table
    of its own (a frame in a dict, a file that has a name). `refusal`: why a table cannot be read.
    `batched`: whether `table` is a path whose rows can be read by batches (`batches`).
    """

    name: str
    source: str
    shape: tuple[int, ...]
    loader: Callable[[], Loaded] = field(repr=False)
    dims: tuple[str, ...] = ()
    labels: tuple[Loaded | None, ...] = ()
    weak: bool = False
    table: str = ""
    columns: Mapping[str, Entry] | None = field(default=None, repr=False)
    refusal: DataError | None = None
    batched: bool = False

    @cached_property
    def loaded(self) -> Loaded:
        """The array itself; raises E306 where it cannot be had."""
        return self.loader()


def a_table() -> str:
    """What identifies one more table in memory."""
    return f"table {next(_tables)}"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Named raw entries of a source, and `--map`'s new names for them.

    `entries` go by their keys in the source, `tables` (files and frames that have a name) by their
    names, which may be keys too. `mapping` leads from a name of the model to a key, or
    to the columns of a matrix. `ask` finds the entry for a name of the model. `placements` are
    entries found by those who know the model: columns of tables over an index, matrices of columns
    (`canonical.grounding.tables`); None before that. `codings`: the columns of these matrices;
    `idle`: the tables of which nothing was placed.
    Raises nothing by itself.
    """

    name: str
    entries: Mapping[str, Entry]
    mapping: Mapping[str, Selection] = field(default_factory=dict)
    assemblies: Callable[[Dataset, str, bool], Entry | None] | None = None
    placements: Mapping[str, Entry] | None = None
    codings: Mapping[str, tuple[Coding, ...]] = field(default_factory=dict)
    tables: Mapping[str, Entry] = field(default_factory=dict)
    idle: tuple[str, ...] = ()

    def key(self, name: str) -> str:
        """The key under which the source holds a name of the model; of a matrix its columns."""
        selection = self.mapping.get(name, name)
        return selection if isinstance(selection, str) else ", ".join(selection)

    def ask(self, name: str) -> Entry | None:
        """The entry for a name of the model, or None.

        A key may also be the prefix of a sparse matrix' four arrays: `X` finds `X.data`,
        `X.indices`, `X.indptr`, `X.shape`; `--map X=t_` finds `t_data` ...; `--map X=.` (or
        `X=`) finds plain `data` ... .
        """
        if self.placements is not None and name in self.placements:
            return self.placements[name]
        key = self.key(name)
        if key in self.entries:
            return self.entries[key]
        if name in self.tables:
            return self.tables[name]
        if self.assemblies is not None:
            return self.assemblies(self, key, name in self.mapping)
        return None

    def labels(self, index: str) -> Entry | None:
        """The entry with the labels of an index set, or None."""
        placed = (self.placements or {}).get(index)
        return self.entries.get(self.key(index)) if placed is None else placed

    @property
    def keys(self) -> tuple[str, ...]:
        """What the source has, in its own order; columns of its tables as `people.age`."""
        columns = (f"{n}.{c}" for n, table in self.tables.items() for c in table.columns or ())
        return (*self.entries, *columns)

    @property
    def tabular(self) -> bool:
        """Whether it is one table, whose columns share their rows."""
        return bool(self.entries) and all(entry.table for entry in self.entries.values())

    def suggestion(self, name: str) -> str | None:
        """The key that was most likely meant for a name that is not there."""
        wanted = self.key(name)
        same = [key for key in self.keys if key.lower() == wanted.lower()]
        return same[0] if same else nearest(wanted, self.keys)
