"""The raw form every source is read into: entries, expanded only when asked for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from lgmdsl.arrays import AnyArray, BoolArray, IntArray
from lgmdsl.errors import DataError

_tables = itertools.count()


@dataclass(frozen=True, eq=False)
class Loaded:
    """An expanded entry: a dense array of kind b, i, u, f or U, or a csr matrix.

    `missing` marks entries that the source itself calls missing (a mask, NA, None, an empty csv
    field); NaN in a float array and empty strings need no mark. `levels` are those of an ordered
    categorical, in their order and with those that no entry has; None for anything else.
    `written`: the fields of a column of a text file, tuples of several columns, for labels.
    """

    values: Any  # numpy array, or scipy csr_array
    missing: BoolArray | None = None
    levels: AnyArray | None = None
    written: Sequence[Any] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.values.shape)

    def rows(self, where: IntArray | slice | tuple[slice, ...]) -> Loaded:
        """Some of the entries, by an index of their array."""
        missing = None if self.missing is None else self.missing[where]
        written = None if self.written is None else np.array(self.written)[where].tolist()
        return replace(self, values=self.values[where], missing=missing, written=written)


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
