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
    `written`: what stands in a text file, or the digits of numbers that 64 bits do not hold, for
    labels: a text for each entry, tuples of several columns (anything that numpy makes an array
    of). `kept`: whether labels are these texts, as seen by a whole column (`settled`).
    """

    values: Any  # numpy array, or scipy csr_array
    missing: BoolArray | None = None
    levels: AnyArray | None = None
    written: Sequence[Any] | AnyArray | None = None
    kept: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(n) for n in self.values.shape)

    def rows(self, where: IntArray | slice | tuple[slice, ...]) -> Loaded:
        """Some of the entries, by an index of their array."""
        missing = None if self.missing is None else self.missing[where]
        written = None if self.written is None else np.asarray(self.written)[where].tolist()
        return replace(self, values=self.values[where], missing=missing, written=written)

    @property
    def absent(self) -> BoolArray:
        """Which entries are missing, by the mask, as NaN or as empty text."""
        kind = self.values.dtype.kind
        gone = np.zeros(self.values.shape, dtype=np.bool_)
        if kind in "fU":
            gone = np.isnan(self.values) if kind == "f" else self.values == ""
        return gone if self.missing is None else gone | self.missing

    @property
    def texts(self) -> AnyArray:
        """The entries as they are written; those that are missing have any text."""
        if self.written is None:
            return texts_of(self.values)
        return np.char.strip(np.asarray(self.written).astype(np.str_))

    def settled(self) -> Loaded:
        """With `written` only where labels are these texts (`kept`): all write back to numbers
        else, whole ones with or without a decimal 0, or to truth values in one spelling. So
        `01234`, `1.10`, `1e2` and more digits than a number holds stay what they are."""
        if self.written is None or self.kept:
            return self
        absent, kind = self.absent, self.values.dtype.kind
        present, values = self.texts[~absent], self.values[~absent]
        if kind == "U":
            faithful = True
        elif kind == "b":
            faithful = np.unique(present).size <= np.unique(values).size
        else:
            names = texts_of(values)
            faithful = bool((names == present).all()) or all(
                text == repr(float(text)) and text.removesuffix(".0") == name
                for text, name in zip(present.tolist(), names.tolist(), strict=True)
            )
        return replace(self, written=None) if faithful else replace(self, kept=True)


def texts_of(values: AnyArray) -> AnyArray:
    """Numbers as labels are written: whole ones by their digits, others by the fewest digits that
    give back the same number of their precision; text as it is."""
    if values.dtype.kind != "f":
        return np.asarray((values + 0 if values.dtype.kind == "b" else values).astype(np.str_))
    flat: list[Any] = values.reshape(-1).tolist()
    if values.dtype.itemsize < 8:
        flat = [float(str(v)) for v in values.reshape(-1)]
    texts = [repr(v + 0.0).removesuffix(".0") for v in flat]
    return np.array(texts, dtype=np.str_).reshape(values.shape)


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
