"""Sums over rows of weight times the moments of pairs of latents, for each pair of hypers.

    total[place of (e, f)] += sum_r w_r value_e value_f E[u_e u_f]   over pairs e, f of a row

`PairGrid` where rows are a table, as of persons and items: the latents depend on the person alone
and the hypers on the item, and the sum is a product of two matrices. `PairTable` for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, IntArray

FILLED = 0.2  # the least share of a table's cells that are rows


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of entries before their moments and places have numbers: latents (first <= second) and
    hypers (first <= second), each (2, ...)."""

    latents: tuple[IntArray, IntArray]
    hypers: tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class PairTable:
    """For each pair its row, the product of its two values, the positions of its moment and of its
    place, (Q,) each."""

    row: IntArray
    value: Array
    moment: IntArray
    place: IntArray

    def add(self, total: Array, weight: Array, moments: Array) -> None:
        """Add to `total`, (places,), for weights (N,) and all moments. Sites of vectors, whose
        weights are matrices, have no pairs."""
        if not len(self.row):
            return
        shares = weight[self.row] * self.value * moments[self.moment]
        total += np.bincount(self.place, shares, len(total))


@dataclass(frozen=True, eq=False)
class PairGrid:
    """`cell`: (N,) where each row stands in the table (persons, items), flat; `moment` (persons,
    Q) and `place` (items, Q) of the pairs."""

    cell: IntArray
    moment: IntArray
    place: IntArray

    def add(self, total: Array, weight: Array, moments: Array) -> None:
        """As `PairTable.add`."""
        persons, items = len(self.moment), len(self.place)
        table = np.bincount(self.cell, weight, persons * items).reshape(persons, items)
        shares = table.T @ moments[self.moment]
        total += np.bincount(self.place.reshape(-1), shares.reshape(-1), len(total))


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of rows: `cell` (N,); the pairs' latents (persons, Q) and hypers (items, Q)."""

    cell: IntArray
    pairs: Pairs

    def numbered(self, moment: IntArray, place: IntArray) -> PairGrid:
        """With the positions of the pairs' moments and places, flat."""
        like = self.pairs.latents[0].shape, self.pairs.hypers[0].shape
        return PairGrid(self.cell, moment.reshape(like[0]), place.reshape(like[1]))


@dataclass(frozen=True, eq=False)
class Table:
    """Pairs of every row by themselves."""

    row: IntArray
    value: Array
    pairs: Pairs

    def numbered(self, moment: IntArray, place: IntArray) -> PairTable:
        """With the positions of the pairs' moments and places."""
        return PairTable(self.row, self.value, moment, place)


def pairs_of(row: IntArray, column: IntArray, hyper: IntArray, value: Array) -> Grid | Table:
    """All pairs of entries that share a row: H's upper triangle, the latents' in order."""
    order = np.lexsort((hyper, row))
    row, column, hyper, value = row[order], column[order], hyper[order], value[order]
    return _grid(row, column, hyper, value) or _table(row, column, hyper, value)


def _grid(row: IntArray, column: IntArray, hyper: IntArray, value: Array) -> Grid | None:
    rows = int(row[-1]) + 1 if len(row) else 0
    width = len(row) // max(rows, 1)
    if not rows or rows * width != len(row) or (value != 1.0).any():
        return None
    if (row != np.repeat(np.arange(rows), width)).any():
        return None
    columns, hypers = column.reshape(rows, width), hyper.reshape(rows, width)
    if (np.diff(hypers, axis=1) <= 0).any():
        return None
    persons, items = _alike(columns), _alike(hypers)
    if persons is None or items is None:
        return None
    (known, person), (known_items, item) = persons, items
    if rows < FILLED * len(known) * len(known_items):
        return None
    left, right = np.triu_indices(width)
    a, b = columns[known][:, left], columns[known][:, right]
    latents = np.minimum(a, b), np.maximum(a, b)
    pairs = Pairs(latents, (hypers[known_items][:, left], hypers[known_items][:, right]))
    return Grid(person * len(known_items) + item, pairs)


def _alike(keys: IntArray) -> tuple[IntArray, IntArray] | None:
    """The first row of each different one, and which of those each row is; by a random linear code
    of the rows, None in the unlikely case that two share one."""
    codes = np.random.default_rng(0).integers(1, 1 << 62, keys.shape[1], dtype=np.int64) | 1
    with np.errstate(over="ignore"):
        code = (keys * codes).sum(axis=1)
    _, first, which = np.unique(code, return_index=True, return_inverse=True)
    if (keys != keys[first][which]).any():
        return None
    return first, which


def _table(row: IntArray, column: IntArray, hyper: IntArray, value: Array) -> Table:
    """With entries of one hyper and another in both orders of the latents."""
    count = np.bincount(row, minlength=1) if len(row) else np.zeros(1, dtype=np.int64)
    within = np.repeat(count, count)  # partners of every entry, itself included
    begins = np.repeat(np.cumsum(count) - count, count)
    left = np.repeat(np.arange(len(row)), within)
    right = np.arange(len(left)) - np.repeat(np.cumsum(within) - within, within)
    right = right + begins[left]
    kept = hyper[left] <= hyper[right]
    left, right = left[kept], right[kept]
    latents = np.minimum(column[left], column[right]), np.maximum(column[left], column[right])
    return Table(row[left], value[left] * value[right], Pairs(latents, (hyper[left], hyper[right])))
