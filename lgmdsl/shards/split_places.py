"""Which latents of a place belong to its group, and where the shared ones stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.linear import Predictor
from lgmdsl.streams.model import Gather

NUMBERS = 1 << 22  # of a product that are held at once


@dataclass(frozen=True, eq=False)
class SplitPlaces:
    """G places of K latents, r of them of the place's group and c shared by all groups.

    `own`, (r,), and `others`, (c,): the entries of a place; `columns`, (G, c): where the shared
    ones stand among all p of them; `inner`: the predictors z of the r, as of vector sites.
    """

    own: IntArray
    others: IntArray
    columns: IntArray
    inner: Predictor
    size: int

    @property
    def count(self) -> int:
        """G."""
        return len(self.columns)

    def shared(self, beta: Array) -> Array:
        """(G, c), or (G, c, k): the shared latents of each place out of beta, (p,) or (p, k)."""
        return np.asarray(beta[self.columns])

    def gathered(self, x: Array) -> Array:
        """(p,) or (p, k): sums over the places of x, (G, c) or (G, c, k), in the places' order."""
        if x.ndim == 2:
            sums = np.bincount(self.columns.reshape(-1), x.reshape(-1), self.size)
            return np.asarray(sums, dtype=np.float64)
        out = np.empty((self.size, x.shape[2]))
        where = self.columns.reshape(-1)
        for k in range(x.shape[2]):
            out[:, k] = np.bincount(where, np.ascontiguousarray(x[:, :, k]).reshape(-1), self.size)
        return out

    def squares(self, w: Array) -> Array:
        """(p, p): sums over the places of w, (G, c, c)."""
        p, c = self.size, self.columns.shape[1]
        out = np.zeros(p * p)
        for i in range(c):
            for j in range(c):
                where = self.columns[:, i] * p + self.columns[:, j]
                out += np.bincount(where, np.ascontiguousarray(w[:, i, j]), p * p)
        return out.reshape(p, p)

    def spread(self, x: Array) -> Array:
        """(G, r, p): x, (G, r, c), at the shared latents that its last axis is of."""
        count, rows, c = x.shape
        out = np.zeros((count, rows, self.size))
        at = np.arange(count)
        for j in range(c):
            out[at, :, self.columns[:, j]] += x[:, :, j]
        return out


def split_places(
    gather: Gather, inner: tuple[str, ...], starts: Mapping[str, int], sizes: Mapping[str, int]
) -> SplitPlaces:
    """`inner`: names of the groups' latents; `starts`: where the others stand among the shared
    ones; `sizes` of all."""
    of_group = np.array([name in inner for name in gather.latents])
    own, others = np.flatnonzero(of_group), np.flatnonzero(~of_group)
    columns = np.stack(
        [starts[gather.latents[k]] + gather.touched[:, k] for k in others]
        or [np.zeros(0, dtype=np.int64)],
        axis=1,
    )
    if not len(others):
        columns = np.zeros((gather.places, 0), dtype=np.int64)
    names = tuple(gather.latents[k] for k in own)
    part = replace(gather, latents=names, touched=np.ascontiguousarray(gather.touched[:, own]))
    predictor = part.predictor(sizes)
    total = sum(sizes[name] for name in starts)
    return SplitPlaces(own, others, columns.astype(np.int64), predictor, total)
