"""Which latents of a place belong to its group, and where the shared ones stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.blocks.latents import LatentBlock
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.canonical.queries.plates import members_of
from lgmdsl.contract.linear import Predictor
from lgmdsl.shards.refusals import apart
from lgmdsl.shards.touched import Touched
from lgmdsl.streams.model import Gather
from lgmdsl.streams.multipliers import ONE


@dataclass(frozen=True, eq=False)
class SplitPlaces:
    """G places of K latents, r of them of the place's group and c shared by all groups.

    `own`, (r,), and `others`, (c,): the entries of a place (what else there is, is `ones`: 1);
    `columns`, (G, c): where the shared
    ones stand among all p of them; `inner`: the predictors z of the r, as of vector sites.
    `group`, (G,): the group of a place, and `group_of`, (n,), of each of the groups' latents;
    `touched`: the shared latents of each group, m at most, None where all are taken for all
    groups' (m = p).
    """

    own: IntArray
    others: IntArray
    ones: IntArray
    columns: IntArray
    inner: Predictor
    size: int
    group: IntArray
    group_of: IntArray
    touched: Touched | None

    @property
    def count(self) -> int:
        """G."""
        return len(self.columns)

    @property
    def codes(self) -> IntArray | None:
        """The pairs of shared latents that informations and covariances are of; None: all."""
        return None if self.touched is None else self.touched.codes

    @property
    def width(self) -> int:
        """m."""
        return self.size if self.touched is None else self.touched.width

    @property
    def slots(self) -> IntArray:
        """(G, c): where the shared latents stand among the m of the place's group."""
        return self.columns if self.touched is None else self.touched.slots

    @property
    def entries(self) -> int:
        """K."""
        return len(self.own) + len(self.others) + len(self.ones)

    def at(self, beta: Array) -> Array:
        """(G, K): the places at beta, (p,), with 0 for the groups' latents."""
        out = self.along_shared(beta)
        out[:, self.ones] = 1.0
        return out

    def along_shared(self, move: Array) -> Array:
        """(G, K): how the places move with the shared latents, (p,), where the groups' stay."""
        out = np.zeros((self.count, self.entries))
        out[:, self.others] = self.shared(move)
        return out

    def shared(self, beta: Array) -> Array:
        """(G, c): the shared latents of each place out of beta, (p,)."""
        return np.asarray(beta[self.columns])

    def gathered(self, x: Array) -> Array:
        """(p,): sums over the places of x, (G, c), in the places' order."""
        sums = np.bincount(self.columns.reshape(-1), x.reshape(-1), self.size)
        return np.asarray(sums, dtype=np.float64)

    def spread(self, x: Array) -> Array:
        """(G, r, m): x, (G, r, c), at the shared latents that its last axis is of."""
        count, rows, c = x.shape
        out = np.zeros((count, rows, self.width))
        at, slots = np.arange(count), self.slots
        for j in range(c):
            out[at, :, slots[:, j]] += x[:, :, j]
        return out

    def squares(self, w: Array, mixed: Array) -> Array:
        """Sums over the places of w, (G, c, c), and of `mixed`, (G, c, m), whose last axis is over
        the shared latents of the place's group, made symmetric: (p, p), or entries of it where
        groups touch some (`Touched.codes`)."""
        if self.touched is not None:
            return self.touched.squares(self.group, w, mixed)
        p, c = self.size, self.columns.shape[1]
        out = np.zeros(p * p)
        for i in range(c):
            for j in range(c):
                where = self.columns[:, i] * p + self.columns[:, j]
                out += np.bincount(where, np.ascontiguousarray(w[:, i, j]), p * p)
        more = np.empty((p, p))
        where = self.columns.reshape(-1)
        for k in range(p):
            more[:, k] = np.bincount(where, np.ascontiguousarray(mixed[:, :, k]).reshape(-1), p)
        whole = out.reshape(p, p) + more
        return 0.5 * (whole + whole.T)

    def at_places(self, covariance: Array) -> Array:
        """(G, c, c): entries of a covariance of beta, (p, p) or as `squares` has them."""
        if self.touched is not None:
            return self.touched.at_places(self.group, covariance)
        columns = self.columns
        return np.asarray(covariance[columns[:, :, None], columns[:, None, :]])

    def along(self, moved: Array, covariance: Array) -> Array:
        """(n, m): MV of M = `moved`, (n, m), over the shared latents of each latent's group."""
        if self.touched is not None:
            return self.touched.along(self.group_of, moved, covariance)
        return np.asarray(moved @ covariance)

    def pulled(self, moved: Array, x: Array) -> Array:
        """(p,): M'x of x, (n,)."""
        if self.touched is not None:
            return self.touched.pulled(self.group_of, moved, x)
        return np.asarray(x @ moved)

    def times(self, x: Array, beta: Array) -> Array:
        """(G, r): x, (G, r, m), times beta, (p,)."""
        if self.touched is not None:
            return self.touched.times(self.group, x, beta)
        return np.asarray(x @ beta)

    def times_roots(self, x: Array, covariance: Array) -> Iterator[Array]:
        """(G, r) each: x, (G, r, m), times the columns of a root of a covariance of beta; of each
        group's own root, where groups touch some shared latents."""
        if self.touched is not None:
            yield from self.touched.times_roots(self.group, x, covariance)
            return
        values, vectors = np.linalg.eigh(covariance)
        kept = values > 1e-14 * max(float(values[-1]), 0.0)
        for root in (vectors[:, kept] * np.sqrt(values[kept])).T:
            yield x @ root


def groups_of(latents: Sequence[LatentBlock], inner: tuple[str, ...], index: str) -> IntArray:
    """(n,): the group, a member of `index`, of each entry of the latents `inner`."""
    return np.concatenate([members_of(b, index) for b in latents if b.name in inner])


def groups_of_places(
    model: CanonicalModel, gather: Gather, inner: tuple[str, ...], index: str, block: int
) -> IntArray:
    """(G,) the group of each place. Raises E501 where a row touches the latents of two groups."""
    group: IntArray | None = None
    for k, name in enumerate(gather.latents):
        if name not in inner:
            continue
        places = members_of(model.latent(name), index, gather.touched[:, k])
        if group is not None and not np.array_equal(group, places):
            raise apart(model.blocks[block], index)
        group = places
    assert group is not None, "a predictor has latents of the groups"
    return group


def split_places(
    gather: Gather,
    inner: tuple[str, ...],
    starts: Mapping[str, int],
    sizes: Mapping[str, int],
    group: IntArray,
    group_of: IntArray,
) -> SplitPlaces:
    """`inner`: names of the groups' latents; `starts`: where the others stand among the shared
    ones; `sizes` of all; `group` and `group_of`: as of `SplitPlaces`."""
    of_group = np.array([name in inner for name in gather.latents])
    one = np.array([name == ONE for name in gather.latents])
    own, others, ones = (np.flatnonzero(x) for x in (of_group, ~(of_group | one), one))
    columns = np.stack(
        [starts[gather.latents[k]] + gather.touched[:, k] for k in others]
        or [np.zeros(0, dtype=np.int64)],
        axis=1,
    )
    if not len(others):
        columns = np.zeros((gather.places, 0), dtype=np.int64)
    columns = columns.astype(np.int64)
    names = tuple(gather.latents[k] for k in own)
    part = replace(gather, latents=names, touched=np.ascontiguousarray(gather.touched[:, own]))
    predictor = part.predictor(sizes)
    total = sum(sizes[name] for name in starts)
    count = int(max(group.max(initial=-1), group_of.max(initial=-1))) + 1
    some = Touched.of(columns, group, count, total)
    return SplitPlaces(own, others, ones, columns, predictor, total, group, group_of, some)
