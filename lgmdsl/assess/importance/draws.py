"""Draws of a mixture of Gaussians over hyperparameter points, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.assess.estimator import MixturePoint, allotted
from lgmdsl.contract.engine import Conditioned

# Entries of one dense temporary, and of all draws where they are kept for the next pass.
CHUNK, KEPT = 1 << 21, 1 << 25


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some draws z = E z + x of one part: their places among all, x (k, n) and its squared
    Mahalanobis distances (k,)."""

    where: slice
    part: int
    x: Array
    radius: Array


class DrawChunks:
    """n draws of a mixture, part by part in proportion to the shares; the same each time.

    `counts`: of each part, `part`: that of each draw, (n,); `surplus`: log of how much rarer than
    its share a draw's part is, which weights make good (n,).
    """

    def __init__(self, parts: Sequence[MixturePoint], n: int, seed: int) -> None:
        self.parts, self.n, self.seed = parts, n, seed
        first = parts[0].linear
        self.step = int(np.clip(CHUNK // max(first.rows, first.size, 1), 1, n))
        self.keep = n * first.size <= KEPT
        self.stored: dict[int, Chunk] = {}
        self.ranks = np.zeros(len(parts))
        self.counts = allotted([p.share for p in parts], n)
        self.part = np.repeat(np.arange(len(parts)), self.counts)
        shares = np.array([p.share for p in parts])
        drawn = self.counts > 0
        shares = np.where(drawn, shares / shares[drawn].sum(), 0.0)
        self.surplus = np.log((shares * n / np.maximum(self.counts, 1))[self.part])

    @cached_property
    def first(self) -> BoolArray:
        """(n,) whether a draw is in the first half of those of its part."""
        ends = np.cumsum(self.counts)
        place = np.arange(self.n) - (ends - self.counts)[self.part]
        return np.asarray(place < self.counts[self.part] // 2)

    @property
    def rank(self) -> Array:
        """(n,) the rank of Cov z in the part of each draw, once all are drawn."""
        return self.ranks[self.part]

    def __iter__(self) -> Iterator[Chunk]:
        for k in range(len(self.parts)):
            yield from self.of(k)

    def starts(self, k: int) -> range:
        """The numbers of the draws with which the chunks of a part begin."""
        end = int(self.counts[: k + 1].sum())
        return range(end - int(self.counts[k]), end, self.step)

    def of(self, k: int) -> Iterator[Chunk]:
        """Chunks of one part's draws."""
        q = None
        for start in self.starts(k):
            if q is None and start not in self.stored:
                q = self.parts[k].condition()
            yield self.at(k, start, q)

    def at(self, k: int, start: int, q: Conditioned | None) -> Chunk:
        """The chunk of part k that begins with draw `start`; `q`: the part's Gaussian, which a
        chunk that is kept does without."""
        chunk = self.stored.get(start)
        if chunk is None:
            assert q is not None
            stop = min(start + self.step, int(self.counts[: k + 1].sum()))
            chunk = self._drawn(start, stop, k, q)
            if self.keep:
                self.stored[start] = chunk
        return chunk

    def _drawn(self, start: int, stop: int, k: int, q: Conditioned) -> Chunk:
        drawn = q.draw(np.random.default_rng([self.seed, start]), stop - start)
        self.ranks[k] = drawn.rank
        return Chunk(slice(start, stop), k, drawn.z - q.latent_mean, drawn.radius)
