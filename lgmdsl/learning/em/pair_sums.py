"""Sums over rows of weight times the moments of pairs of latents, for each pair of hypers.

    total[place of (e, f)] += sum_r w_r value_e value_f E[u_e u_f]

over pairs e, f of a row; for sites of vectors, whose weights are matrices, over e of predictor a
and f of predictor b of a site, with w_r the entry (a, b), a <= b. `PairGrid` where rows are a
table, as of persons and items: the latents depend on the person alone and the hypers on the item,
and the sum is a product of two matrices, the table of weights sparse where few cells are rows.
`PairTable` for anything else.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, IntArray

FILLED = 0.2  # the least share of a table's cells that are rows where it is held as a dense one
SAVED = 2.0  # rows a person and item: below, a table is as long as its rows


@dataclass(frozen=True, eq=False)
class Entered:
    """What stands in the predictors of rows, (E,) each: row, latent, hyper, and its factor."""

    row: IntArray
    column: IntArray
    hyper: IntArray
    value: Array

    def taken(self, which: BoolArray | IntArray) -> Entered:
        """Some of the entries."""
        return Entered(self.row[which], self.column[which], self.hyper[which], self.value[which])

    @property
    def ordered(self) -> Entered:
        """By row, and by hyper within."""
        return self.taken(np.lexsort((self.hyper, self.row)))


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
        """Add to `total`, (places,), for weights (N,) and all moments."""
        if not len(self.row):
            return
        shares = weight[self.row] * self.value * moments[self.moment]
        total += np.bincount(self.place, shares, len(total))


@dataclass(frozen=True, eq=False)
class PairGrid:
    """`person`, `item`: (N,) where each row stands in the table (persons, items); `moment`
    (persons, Q) and `place` (items, Q) of the pairs. A table that is not `FILLED` is sparse."""

    person: IntArray
    item: IntArray
    moment: IntArray
    place: IntArray

    def add(self, total: Array, weight: Array, moments: Array) -> None:
        """Add to `total`, (places,), for weights (N,) and all moments."""
        persons, items = len(self.moment), len(self.place)
        if len(self.person) >= FILLED * persons * items:
            cell = self.person * items + self.item
            table = np.bincount(cell, weight, persons * items).reshape(persons, items)
            shares = np.asarray(table.T @ moments[self.moment])
        else:
            by_item = sp.csr_array((weight, (self.item, self.person)), shape=(items, persons))
            shares = np.asarray(by_item @ moments[self.moment])
        total += np.bincount(self.place.reshape(-1), shares.reshape(-1), len(total))


@dataclass(frozen=True, eq=False)
class Grid:
    """A table of rows: `person`, `item` (N,); the pairs' latents (persons, Q) and hypers (items,
    Q)."""

    person: IntArray
    item: IntArray
    pairs: Pairs

    def numbered(self, moment: IntArray, place: IntArray) -> PairGrid:
        """With the positions of the pairs' moments and places, flat."""
        like = self.pairs.latents[0].shape, self.pairs.hypers[0].shape
        places = place.reshape(like[1])
        return PairGrid(self.person, self.item, moment.reshape(like[0]), places)


@dataclass(frozen=True, eq=False)
class Table:
    """Pairs of every row by themselves."""

    row: IntArray
    value: Array
    pairs: Pairs

    def numbered(self, moment: IntArray, place: IntArray) -> PairTable:
        """With the positions of the pairs' moments and places."""
        return PairTable(self.row, self.value, moment, place)


def pairs_of(entered: Entered) -> Grid | Table:
    """All pairs of entries that share a row: H's upper triangle, the latents' in order."""
    ordered = entered.ordered
    return _grid(ordered, ordered, True) or _table(ordered, ordered, True)


def cross_pairs_of(left: Entered, right: Entered) -> Grid | Table:
    """All pairs of an entry of one predictor and one of another at the same row, as `pairs_of`: a
    pair of entries of one hyper counts on both sides of the diagonal, and so twice."""
    left, right = left.ordered, right.ordered
    return _grid(left, right, False) or _table(left, right, False)


def _grid(left: Entered, right: Entered, same: bool) -> Grid | None:
    rows = int(left.row[-1]) + 1 if len(left.row) else 0
    one, other = _regular(left, rows), _regular(right, rows)
    if one is None or other is None:
        return None
    columns, hypers = (np.hstack(pair) for pair in zip(one, other, strict=True))
    if not same and (one[1][:, :, None] == other[1][:, None, :]).any():
        return None
    persons, items = _alike(columns), _alike(hypers)
    if persons is None or items is None:
        return None
    (known, person), (known_items, item) = persons, items
    sizes = len(known), len(known_items)
    if rows < min(SAVED * sum(sizes), FILLED * sizes[0] * sizes[1]):
        return None
    width, second = one[0].shape[1], other[0].shape[1]
    a, b = np.triu_indices(width) if same else np.indices((width, second)).reshape(2, -1)
    b = b + width  # the second half of the columns
    columns, hypers = columns[known], hypers[known_items]
    return Grid(
        person,
        item,
        Pairs(_in_order(columns[:, a], columns[:, b]), _in_order(hypers[:, a], hypers[:, b])),
    )


def _regular(entered: Entered, rows: int) -> tuple[IntArray, IntArray] | None:
    """Columns and hypers, (rows, width) each, where every row has as many and values are 1."""
    width = len(entered.row) // max(rows, 1)
    if not rows or rows * width != len(entered.row) or (entered.value != 1.0).any():
        return None
    if (entered.row != np.repeat(np.arange(rows), width)).any():
        return None
    columns, hypers = entered.column.reshape(rows, width), entered.hyper.reshape(rows, width)
    return None if (np.diff(hypers, axis=1) <= 0).any() else (columns, hypers)


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


def _table(left: Entered, right: Entered, same: bool) -> Table:
    """With entries of one hyper and another in both orders of the latents."""
    rows = int(max(left.row.max(initial=-1), right.row.max(initial=-1))) + 1
    count = np.bincount(right.row, minlength=rows)
    within = count[left.row]  # partners of every entry
    a = np.repeat(np.arange(len(left.row)), within)
    b = np.arange(len(a)) - np.repeat(np.cumsum(within) - within, within)
    b = b + np.repeat((np.cumsum(count) - count)[left.row], within)
    if same:
        kept = left.hyper[a] <= right.hyper[b]
    else:  # once for each side of the diagonal
        twice = np.flatnonzero(left.hyper[a] == right.hyper[b])
        kept = np.r_[np.arange(len(a)), twice]
    a, b = a[kept], b[kept]
    pairs = Pairs(
        _in_order(left.column[a], right.column[b]), _in_order(left.hyper[a], right.hyper[b])
    )
    return Table(left.row[a], left.value[a] * right.value[b], pairs)


def _in_order(a: IntArray, b: IntArray) -> tuple[IntArray, IntArray]:
    return np.minimum(a, b), np.maximum(a, b)
