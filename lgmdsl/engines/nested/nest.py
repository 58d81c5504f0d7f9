"""Rows that each touch the latents of one group, and of a border that all groups share.

Of the operators alone: which latents are inner, in groups, which are on the border, and the entries
of B by rows. Entries lie side by side in csr, whose values need not be sorted within a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import AnyArray, Array, IntArray, SparseMatrix
from lgmdsl.contract.linear import LinearGaussian, PriorBlock
from lgmdsl.engines.nested.grouping import DENSEST, WIDEST, grouped, rows_of
from lgmdsl.engines.shared.partition import Partition, touches

MANY = 200_000  # rows from which on their order matters


class Lines(NamedTuple):
    """B as compiled passes read it, row by row.

    `group` (T,): of each site. `sites` (T + 1,): the first row of each, `weight` (T,): where its
    weights begin; both empty where every site has one row. The r inner latents of group g begin at
    `inner_start[g]`, the sparse columns of the border that it touches, `columns`, at
    `column_start[g]`. A group's inner latents and its k columns (the dense ones, then the sparse
    ones) are counted together: its local indices, 0 to r + k. Then the rows: entries from
    `start[i]` on, `latent`: a place among the inner latents, or -1 - a column of the border;
    `local`: the same by local index; and the dense columns, (d, P). `most`: rows of a site, and
    entries of a row with the dense ones, at most.
    """

    group: AnyArray
    sites: AnyArray
    weight: AnyArray
    inner_start: IntArray
    column_start: IntArray
    columns: AnyArray
    start: AnyArray
    latent: AnyArray
    local: AnyArray
    value: Array
    dense: Array
    most: tuple[int, int]


class GroupMatrices(NamedTuple):
    """Matrices of groups one after the other, C-ordered: (r, r) from `square_start[g]`, (r, k) from
    `cross_start[g]`. Of A: D, then L, and C, then T; of V: its entries there."""

    square_start: IntArray
    cross_start: IntArray
    square: Array
    cross: Array


@dataclass(frozen=True, eq=False)
class Nest:
    """A model in groups and a border.

    `inner_blocks`, `border_blocks`: names, the border's dense ones first; `inner`: the latents of
    the groups, group by group, (n_u,); `border`: the others, (p,), in the order of its blocks.
    """

    lines: Lines
    inner_blocks: tuple[str, ...]
    border_blocks: tuple[str, ...]
    inner: IntArray
    border: IntArray

    @property
    def groups(self) -> int:
        """All of them, those without inner latents too."""
        return len(self.lines.inner_start) - 1

    @property
    def dense(self) -> int:
        """Dense columns of the border."""
        return len(self.lines.dense)

    @cached_property
    def plain(self) -> bool:
        """Whether every row is one site with one inner latent, alone in its group, and dense
        columns: the passes of `plain_kernels` take it."""
        lines = self.lines
        rows = len(lines.start) - 1
        return (
            not len(lines.sites)
            and not len(lines.columns)
            and len(lines.latent) == rows == len(lines.group)
            and bool((self.widths <= 1).all())
            and np.array_equal(lines.group, self.group[lines.latent])
        )

    @cached_property
    def by_group(self) -> tuple[Lines, IntArray | None]:
        """The rows as passes read them which fill matrices of groups, and where each of them was,
        None for where it is: many rows in no order are put in that of their groups, whose matrices
        then stay in the cache (a conditioning of 10^6 rows in 10^4 groups takes a fifth less)."""
        lines = self.lines
        rows = len(lines.start) - 1
        if self.plain or len(lines.sites) or rows < MANY or (np.diff(lines.group) >= 0).all():
            return lines, None
        order = np.argsort(lines.group, kind="stable")
        counts = np.diff(lines.start)[order]
        start = _starts(counts)
        entries = np.arange(start[-1]) + np.repeat(lines.start[order] - start[:-1], counts)
        latent, local, value = (x[entries] for x in (lines.latent, lines.local, lines.value))
        made = lines._replace(group=lines.group[order], dense=lines.dense[:, order])
        start = start.astype(lines.start.dtype)
        return made._replace(start=start, latent=latent, local=local, value=value), order

    @cached_property
    def position(self) -> IntArray:
        """(n,) of each latent: its place in `inner`, or -1 - its place in `border`."""
        out = np.empty(len(self.inner) + len(self.border), dtype=np.int64)
        out[self.inner] = np.arange(len(self.inner))
        out[self.border] = -1 - np.arange(len(self.border))
        return out

    @cached_property
    def widths(self) -> IntArray:
        """(G,) inner latents of each group."""
        return np.diff(self.lines.inner_start)

    @cached_property
    def touched(self) -> IntArray:
        """(G,) columns of the border that a group touches."""
        return self.dense + np.diff(self.lines.column_start)

    @cached_property
    def sizes(self) -> IntArray:
        """(G, 2) inner latents of each group and columns that it touches."""
        return np.stack([self.widths, self.touched], axis=1)

    @cached_property
    def square_start(self) -> IntArray:
        """(G + 1,) where the (r, r) matrices of groups begin, in a row."""
        return _starts(self.widths**2)

    @cached_property
    def cross_start(self) -> IntArray:
        """(G + 1,) where their (r, k) matrices begin."""
        return _starts(self.widths * self.touched)

    @cached_property
    def group(self) -> IntArray:
        """(n_u,) of each inner latent."""
        return np.repeat(np.arange(self.groups), self.widths)

    @cached_property
    def pairs(self) -> float:
        """Pairs of entries within rows, all rows together."""
        each = np.diff(self.lines.start).astype(np.float64) + self.dense
        return float(each @ each)

    def joined(self, inner: Array, border: Array) -> Array:
        """(n,) or (n, m) of all latents, in the model's order."""
        out = np.empty((len(self.inner) + len(self.border), *inner.shape[1:]))
        out[self.inner], out[self.border] = inner, border
        return out

    def in_group(self, rows: IntArray, columns: IntArray) -> IntArray:
        """Where pairs of inner latents of the same group stand among the (r, r) matrices."""
        g = self.group[rows]
        first = self.lines.inner_start[g]
        return np.asarray(
            self.square_start[g] + (rows - first) * self.widths[g] + (columns - first)
        )

    @cached_property
    def _keys(self) -> IntArray:
        """Numbers, ascending, for the pairs of a group and a sparse column that it touches."""
        of_column = np.repeat(np.arange(self.groups), np.diff(self.lines.column_start))
        return np.asarray(of_column * len(self.border) + self.dense + self.lines.columns)

    def local(self, group: IntArray, position: IntArray) -> IntArray:
        """The local index in a group of latents by their `position`; -1 where the group (-1: none)
        has not one of them."""
        g, column = np.maximum(group, 0), np.maximum(-1 - position, 0)
        key = g * len(self.border) + column
        found = np.searchsorted(self._keys, key)
        place = self.dense + found - self.lines.column_start[g]
        touched = np.append(self._keys, -1)[found] == key
        place = np.where(column < self.dense, column, np.where(touched, place, -1))
        outer = np.where(place >= 0, self.widths[g] + place, -1)
        first = self.lines.inner_start[g]
        own = np.where(self.group[np.maximum(position, 0)] == g, position - first, -1)
        return np.where(group < 0, -1, np.where(position >= 0, own, outer))


def _starts(sizes: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def nest_of(linear: LinearGaussian) -> Nest | str:
    """The model in groups and a border, or why it has none."""
    found = grouped(linear)
    if isinstance(found, str):
        return found
    latents, sites = found
    inner_blocks = tuple(
        b.name for b in linear.blocks if (latents.group[linear.slices[b.name]] >= 0).any()
    )
    border = [b for b in linear.blocks if b.name not in inner_blocks]
    if not border:
        return "there is no border: every latent belongs to a group"
    full = [b for b in border if _is_full(linear, b)]
    border = [*full, *(b for b in border if b not in full)]
    if sum(b.size for b in full) > DENSEST:
        return f"the border has more than {DENSEST} dense columns"
    if latents.width > WIDEST:
        return f"a group has more than {WIDEST} latents"
    thin = tuple(b.name for b in border if b not in full)
    entries = _entries(linear, (*inner_blocks, *thin))
    lines = _lines(linear, latents, sites.group, entries, _dense(linear, full))
    return Nest(
        lines,
        inner_blocks,
        tuple(b.name for b in border),
        latents.order,
        np.concatenate([linear.starts[b.name] + np.arange(b.size) for b in border]),
    )


def _is_full(linear: LinearGaussian, block: PriorBlock) -> bool:
    """Whether columns are held dense: where half of the entries are there, or any operator is."""
    operators = [p.columns[block.name] for p in linear.predictors if block.name in p.columns]
    if any(not o.is_sparse for o in operators):
        return True
    cells = sum(float(o.shape[0]) * o.shape[1] for o in operators)
    return bool(cells) and sum(o.entries for o in operators) >= 0.5 * cells


def _entries(linear: LinearGaussian, names: tuple[str, ...]) -> SparseMatrix:
    """(P, m) csr of some blocks side by side, stored zeros kept."""
    sizes = {b.name: b.size for b in linear.blocks}
    stacked = []
    for p in linear.predictors:
        parts = [
            rows_of(p.columns[n]) if n in p.columns else sp.csr_array((p.rows, sizes[n]))
            for n in names
        ]
        whole = parts[0] if len(parts) == 1 else sp.hstack(parts, format="csr") if parts else None
        stacked.append(sp.csr_array((p.rows, 0)) if whole is None else sp.csr_array(whole))
    if len(stacked) == 1:
        return stacked[0]
    if not stacked:
        return sp.csr_array((0, sum(sizes[n] for n in names)))
    return sp.csr_array(sp.vstack(stacked, format="csr"))


def _dense(linear: LinearGaussian, blocks: list[PriorBlock]) -> Array:
    """(d, P) of some blocks side by side."""
    out = np.zeros((sum(b.size for b in blocks), linear.rows))
    first = 0
    for p in linear.predictors:
        start = 0
        for b in blocks:
            if b.name in p.columns:
                out[start : start + b.size, first : first + p.rows] = p.columns[b.name].dense().T
            start += b.size
        first += p.rows
    return out


def _lines(
    linear: LinearGaussian,
    latents: Partition,
    of_site: IntArray,
    entries: SparseMatrix,
    dense: Array,
) -> Lines:
    """`entries`: B at the inner latents, and at the border's sparse columns after them."""
    sites = _site_starts(linear)
    inside = latents.group >= 0
    place = latents.place[inside].astype(np.int32)
    position = latents.starts[latents.group[inside]].astype(np.int32) + place
    outer = np.flatnonzero(entries.indices >= len(place))
    thin = np.diff(np.searchsorted(outer, entries.indptr))
    per_site = thin if sites is None else np.add.reduceat(thin, sites[:-1])
    # Sites without a group: those that touch dense columns alone are one, each other one its own.
    outside = of_site < 0
    alone = outside & (per_site > 0)
    of_site, groups = of_site.copy(), latents.count
    of_site[alone] = groups + np.arange(int(alone.sum()))
    groups += int(alone.sum())
    if (outside & ~alone).any():
        of_site[outside & ~alone] = groups
        groups += 1
    widths = np.zeros(groups, dtype=np.int64)
    widths[: latents.count] = latents.sizes
    of_row = of_site if sites is None else np.repeat(of_site, np.diff(sites))
    column = entries.indices[outer].astype(np.int64) - len(place)
    group = np.repeat(of_row, thin)
    touched = touches(group, column, groups, entries.shape[1] - len(place))
    indices = np.minimum(entries.indices, len(place) - 1) if len(outer) else entries.indices
    latent, local = position[indices], place[indices]
    latent[outer] = -1 - len(dense) - column
    local[outer] = widths[group] + len(dense) + touched.place
    none = np.zeros(0, dtype=np.int64)
    return Lines(
        group=of_site.astype(np.int32),
        sites=none if sites is None else sites,
        weight=none if sites is None else _starts(np.diff(sites) ** 2)[:-1],
        inner_start=_starts(widths),
        column_start=touched.starts,
        columns=touched.columns.astype(np.int32),
        start=entries.indptr.astype(np.int32, copy=False),
        latent=latent,
        local=local,
        value=np.asarray(entries.data, dtype=np.float64),
        dense=dense,
        most=(
            1 if sites is None else int(np.diff(sites).max(initial=1)),
            int(np.diff(entries.indptr).max(initial=0)) + len(dense),
        ),
    )


def _site_starts(linear: LinearGaussian) -> IntArray | None:
    """(T + 1,) the first row of each site; None where each has one row."""
    if all(p.event <= 1 for p in linear.predictors):
        return None
    sizes = [np.full(p.rows // max(p.event, 1), max(p.event, 1)) for p in linear.predictors]
    return _starts(np.concatenate(sizes))
