"""Named entries of a source, and batches of the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lgmdsl.dataset.codings import Design
from lgmdsl.dataset.entries import Entry
from lgmdsl.errors import nearest

# What `--map NAME=...` gives: a key of the source, or the columns of a matrix.
Selection = str | tuple[str, ...]
# A mapping as users write it: columns also as lists.
Keys = Mapping[str, str | Sequence[str]]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Named raw entries of a source, and `--map`'s new names for them.

    `entries` go by their keys in the source, `tables` (files and frames that have a name) by their
    names, which may be keys too. `mapping` leads from a name of the model to a key, or
    to the columns of a matrix. `ask` finds the entry for a name of the model. `placements` are
    entries found by those who know the model: columns of tables over an index, matrices of columns
    (`canonical.grounding.tables`); None before that. `designs`: how these matrices are made;
    `idle`: the tables of which nothing was placed.
    Raises nothing by itself.
    """

    name: str
    entries: Mapping[str, Entry]
    mapping: Mapping[str, Selection] = field(default_factory=dict)
    assemblies: Callable[[Dataset, str, bool], Entry | None] | None = None
    placements: Mapping[str, Entry] | None = None
    designs: Mapping[str, Design] = field(default_factory=dict)
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

    def batches(
        self, size: int, keys: Collection[str] | None = None, rows: str = ""
    ) -> Iterator[Batch]:
        """The rows of a table, `size` at a time, of the columns `keys` (all by default). From a
        .parquet file no more than a batch is held. `rows`: the key of labels of the rows, which are
        counted where there are none.

        Raises DataError E306 for columns of several tables, or that cannot be read."""
        from lgmdsl.dataset.batches import batches

        wanted = self.entries if keys is None else keys
        for numbers, entries in batches(self.name, self.entries, size, wanted, rows):
            yield Batch(numbers.start, numbers.stop, replace(self, entries=entries))

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


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows `first` to `stop` of a table: `dataset` has its columns over these, and all else as it
    is."""

    first: int
    stop: int
    dataset: Dataset
