"""Members in groups: latents that neither a row nor a prior joins, the rows that touch them, and
what belongs to no group because all share it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import Predictor


@dataclass(frozen=True, eq=False)
class Partition:
    """`group`, (n,): of each member, -1 for those of none (shared latents, rows of these alone);
    `count`: groups."""

    group: IntArray
    count: int

    @cached_property
    def sizes(self) -> IntArray:
        """(G,) members of each group."""
        return np.bincount(self.group[self.group >= 0], minlength=self.count)

    @cached_property
    def starts(self) -> IntArray:
        """(G + 1,) where groups begin in `order`."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @cached_property
    def order(self) -> IntArray:
        """Members group by group, in order within each; those of none are left out."""
        every = np.argsort(self.group, kind="stable")
        return every[len(every) - int(self.starts[-1]) :]

    @cached_property
    def shared(self) -> IntArray:
        """Members that belong to no group."""
        return np.flatnonzero(self.group < 0)

    @cached_property
    def place(self) -> IntArray:
        """(n,) the rank of each member in its group; -1 for those of none."""
        out = np.full(len(self.group), -1)
        group = self.group[self.order]
        out[self.order] = np.arange(len(group)) - self.starts[group]
        return out

    @property
    def width(self) -> int:
        """M, members of the largest group."""
        return int(self.sizes.max(initial=0))

    @cached_property
    def table(self) -> IntArray:
        """(G, M) members of each group, n where it has fewer."""
        out = np.full((self.count, self.width), len(self.group))
        out[self.group[self.order], self.place[self.order]] = self.order
        return out

    @cached_property
    def at(self) -> IntArray:
        """(n,) where each member stands in (G, M), flat; a negative number for those of none."""
        return self.group * self.width + self.place

    @cached_property
    def regular(self) -> bool:
        """Whether members are those of the groups in order, all groups alike."""
        return 0 < self.table.size == len(self.group) and bool((np.diff(self.order) == 1).all())

    def padded(self, x: Array) -> Array:
        """(n, ...) to (G, M, ...), zero where a group is smaller."""
        if self.regular:
            return x.reshape(self.count, -1, *x.shape[1:])
        return np.asarray(np.concatenate([x, np.zeros((1, *x.shape[1:]))])[self.table])

    def flat(self, x: Array) -> Array:
        """(G, M, ...) to (n, ...), zero for members of no group."""
        flat = x.reshape(-1, *x.shape[2:])
        if self.regular:
            return flat
        out = np.asarray(flat[self.at]) if len(flat) else np.zeros((len(self.at), *x.shape[2:]))
        out[self.shared] = 0.0
        return out


def components(ends: tuple[IntArray, IntArray], size: int) -> IntArray:
    """(size,) the connected component of each node of a graph, by the ends of its edges."""
    edges = np.ones(len(ends[0]), dtype=np.int8), ends
    joined = sp.coo_array(edges, shape=(size, size)).tocsr()
    return np.asarray(connected_components(joined, directed=False)[1], dtype=np.int64)


def partition(
    entries: tuple[IntArray, IntArray],
    sites: int,
    latents: int,
    prior: tuple[IntArray, IntArray] | None = None,
) -> tuple[Partition, Partition]:
    """Latents, and sites, in the groups that neither a site nor the prior joins. `entries`: the
    site and the latent of each entry of B; `prior`: pairs of latents that the prior joins."""
    none = np.zeros(0, dtype=np.int64)
    i, j = prior or (none, none)
    ends = np.concatenate([entries[0], i + sites]), np.concatenate([entries[1], j]) + sites
    labels = components(ends, sites + latents)
    groups, group = np.unique(labels[sites:], return_inverse=True)
    known = np.full(sites + latents, -1)
    known[groups] = np.arange(len(groups))
    return Partition(group, len(groups)), Partition(known[labels[:sites]], len(groups))


class Touches(NamedTuple):
    """Shared members that groups touch: `columns`, those of group g from `starts[g]` on, ascending;
    `place`: where each pair that was asked about stands among those of its group."""

    starts: IntArray
    columns: IntArray
    place: IntArray


def touches(group: IntArray, column: IntArray, groups: int, size: int) -> Touches:
    """What pairs of a group and a shared member, of `size`, say that each of `groups` touches."""
    keys, place = np.unique(group * size + column, return_inverse=True)
    of_key, columns = np.divmod(keys, max(size, 1))
    counts = np.bincount(of_key, minlength=groups)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Touches(starts, columns, np.asarray(place.reshape(-1) - starts[group]))


def site_of_rows(predictors: tuple[Predictor, ...]) -> IntArray:
    """(P,) the site of each predictor row."""
    out, first = [], 0
    for p in predictors:
        step = max(p.event, 1)
        out.append(first + np.arange(p.rows) // step)
        first += p.rows // step
    return np.concatenate(out) if out else np.zeros(0, dtype=np.int64)
