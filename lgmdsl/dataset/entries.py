"""The raw form every source is read into: entries by name, expanded only when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lgmdsl.arrays import AnyArray, BoolArray
from lgmdsl.errors import nearest


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
    for each axis its labels, or None; `weak` says that they are only a frame's default 0..n-1.
    `table` marks columns, which share one row axis.
    """

    name: str
    source: str
    shape: tuple[int, ...]
    loader: Callable[[], Loaded] = field(repr=False)
    dims: tuple[str, ...] = ()
    labels: tuple[Loaded | None, ...] = ()
    weak: bool = False
    table: bool = False

    @cached_property
    def loaded(self) -> Loaded:
        """The array itself; raises E306 where it cannot be had."""
        return self.loader()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Named raw entries of a source, and `--map`'s new names for them.

    `entries` go by their keys in the source. `mapping` leads from a name of the model to a key.
    `ask` finds the entry for a name of the model. Raises nothing by itself.
    """

    name: str
    entries: Mapping[str, Entry]
    mapping: Mapping[str, str] = field(default_factory=dict)
    assemblies: Callable[[Dataset, str, bool], Entry | None] | None = None

    def key(self, name: str) -> str:
        """The key under which the source holds a name of the model."""
        return self.mapping.get(name, name)

    def ask(self, name: str) -> Entry | None:
        """The entry for a name of the model, or None.

        A key may also be the prefix of a sparse matrix' four arrays: `X` finds `X.data`,
        `X.indices`, `X.indptr`, `X.shape`; `--map X=t_` finds `t_data` ...; `--map X=.` (or
        `X=`) finds plain `data` ... .
        """
        key = self.key(name)
        if key in self.entries:
            return self.entries[key]
        if self.assemblies is not None:
            return self.assemblies(self, key, name in self.mapping)
        return None

    @property
    def keys(self) -> tuple[str, ...]:
        """What the source has, in its own order."""
        return tuple(self.entries)

    @property
    def tabular(self) -> bool:
        """Whether it is one table, whose columns share their rows."""
        return bool(self.entries) and all(entry.table for entry in self.entries.values())

    def suggestion(self, name: str) -> str | None:
        """The key that was most likely meant for a name that is not there."""
        wanted = self.key(name)
        same = [key for key in self.entries if key.lower() == wanted.lower()]
        return same[0] if same else nearest(wanted, self.entries)
