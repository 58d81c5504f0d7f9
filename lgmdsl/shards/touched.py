"""The shared latents that each group touches, where these are few among many: a map of regions, of
which a group has rows in some.

What a group says about beta is then of m shared latents at most, and all groups together of the
pairs that some group touches both of: entries on a sparse pattern, in place of p x p.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.engines.shared.partition import touches

NUMBERS = 1 << 22  # of a product that are held at once
# Up to so many shared latents, and where a group touches more than half of them, all are taken for
# every group's.
FEW = 32


@dataclass(frozen=True, eq=False)
class Touched:
    """The shared latents that each of g groups touches: `local`, (g, m), ascending, then p where
    they are fewer; `slots`, (G, c), where those of each place stand in it; `codes`, (N,), i p + j
    of each pair i <= j that a group touches, ascending; `spots`, (g, m, m): where the pairs of
    `local` are among them, N where there is none."""

    size: int
    local: IntArray
    slots: IntArray
    codes: IntArray
    spots: IntArray

    @classmethod
    def of(cls, columns: IntArray, group: IntArray, count: int, size: int) -> Touched | None:
        """What each of `count` groups touches, from the shared latents of each place, (G, c), and
        its group, (G,); `size`: p. None where all shared latents are taken for every group's."""
        if size <= FEW or not columns.size:
            return None
        every = np.repeat(group, columns.shape[1])
        known = touches(every, columns.reshape(-1), count, size)
        each = np.diff(known.starts)
        width = int(each.max())
        if width > size // 2:
            return None
        local = np.full((count, width), size, dtype=np.int64)
        local[np.arange(width) < each[:, None]] = known.columns
        slots = known.place.reshape(columns.shape)
        codes = _codes(local, size)
        return cls(size, local, slots, codes, _spots(local, codes, size))

    @property
    def width(self) -> int:
        """m."""
        return int(self.local.shape[1])

    @property
    def nbytes(self) -> int:
        return int(sum(x.nbytes for x in (self.local, self.slots, self.codes, self.spots)))

    def squares(self, group: IntArray, w: Array, mixed: Array) -> Array:
        """(N,): see `SplitPlaces.squares`."""
        out = np.zeros(len(self.codes) + 1)
        c = self.slots.shape[1]
        for i in range(c):
            row = self.slots[:, i]
            for j in range(c):
                self._add(out, self.spots[group, row, self.slots[:, j]], w[:, i, j])
            for k in range(self.width):
                self._add(out, self.spots[group, row, k], mixed[:, i, k])
        low, high = np.divmod(self.codes, self.size)
        return np.where(low == high, out[:-1], 0.5 * out[:-1])

    def _add(self, out: Array, where: IntArray, x: Array) -> None:
        out += np.bincount(where, np.ascontiguousarray(x), len(out))

    def at_places(self, group: IntArray, covariance: Array) -> Array:
        """(G, c, c)."""
        known = np.append(covariance, 0.0)
        slots = self.slots
        return np.asarray(
            known[self.spots[group[:, None, None], slots[:, :, None], slots[:, None]]]
        )

    def along(self, group_of: IntArray, moved: Array, covariance: Array) -> Array:
        """(n, m)."""
        known, out = np.append(covariance, 0.0), np.empty_like(moved)
        step = max(1, NUMBERS // self.width**2)
        for start in range(0, len(moved), step):
            part = slice(start, start + step)
            inner = known[self.spots[group_of[part]]]
            out[part] = np.einsum("nk,nkm->nm", moved[part], inner)
        return out

    def pulled(self, group_of: IntArray, moved: Array, x: Array) -> Array:
        """(p,)."""
        where = self.local[group_of].reshape(-1)
        sums = np.bincount(where, (moved * x[:, None]).reshape(-1), self.size + 1)
        return np.asarray(sums[:-1], dtype=np.float64)

    def times(self, group: IntArray, x: Array, beta: Array) -> Array:
        """(G, r)."""
        at = np.append(beta, 0.0)[self.local][group]
        return np.asarray(np.einsum("grm,gm->gr", x, at))

    def times_roots(self, group: IntArray, x: Array, covariance: Array) -> Iterator[Array]:
        """(G, r) each, m of them."""
        roots, known = np.empty(self.spots.shape), np.append(covariance, 0.0)
        step = max(1, NUMBERS // self.width**2)
        for start in range(0, len(roots), step):
            part = slice(start, start + step)
            values, vectors = np.linalg.eigh(known[self.spots[part]])
            kept = values > 1e-14 * np.maximum(values[:, -1:], 0.0)
            lengths = np.sqrt(np.where(kept, values, 0.0))
            roots[part] = vectors * lengths[:, None, :]
        for k in range(self.width):
            yield np.einsum("grm,gm->gr", x, roots[:, :, k][group])


def _codes(local: IntArray, size: int) -> IntArray:
    """i p + j of all pairs i <= j that some group touches, ascending."""
    low, high = np.triu_indices(local.shape[1])
    step = max(1, NUMBERS // len(low))
    known = np.zeros(0, dtype=np.int64)
    for start in range(0, len(local), step):
        part = local[start : start + step]
        i, j = part[:, low], part[:, high]
        known = np.union1d(known, (i * size + j)[(i < size) & (j < size)])
    return known


def _spots(local: IntArray, codes: IntArray, size: int) -> IntArray:
    count, width = local.shape
    out = np.full((count, width, width), len(codes), dtype=np.int64)
    step = max(1, NUMBERS // width**2)
    for start in range(0, count, step):
        part = local[start : start + step]
        low = np.minimum(part[:, :, None], part[:, None, :])
        high = np.maximum(part[:, :, None], part[:, None, :])
        there = high < size
        out[start : start + step][there] = np.searchsorted(codes, (low * size + high)[there])
    return out
