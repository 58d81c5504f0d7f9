"""Draws of a mixture of Gaussians over hyperparameter points, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import special

from lgmdsl.accuracy.limits import ENTRIES
from lgmdsl.accuracy.weighted import Weighted
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.assess.estimator import MixturePoint, allotted
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor

# Degrees of freedom of the Student proposal: a finite fourth moment, tails that any Gaussian
# prior times bounded sites lies under.
DF = 5
KEPT = 1 << 25  # entries of all draws, where they are kept for the next pass


def moves(linear: LinearGaussian, x: Array) -> list[Array]:
    """B x of draws x, (k, n): (k, P) for each site block."""
    return [displacement(linear, p, x) for p in linear.predictors]


def displacement(linear: LinearGaussian, predictor: Predictor, x: Array) -> Array:
    """(k, P): the change of an affine functional for changes x, (k, n), of z."""
    return predictor.times(x.T, linear.slices).T


def log_normal_over_student(radius: Array, rank: Array | int) -> Array:
    """log N / t_5 of the same mean and covariance in `rank` dimensions, at these squared
    Mahalanobis distances. t_5 = N(0, u^2 Cov), u^2 = 3 / chi-square_5."""
    d, df = np.asarray(rank, dtype=np.float64), float(DF)
    student = (
        special.gammaln(0.5 * (df + d))
        - special.gammaln(0.5 * df)
        - 0.5 * d * np.log((df - 2.0) * np.pi)
    )
    student = student - 0.5 * (df + d) * np.log1p(radius / (df - 2.0))
    return np.asarray(-0.5 * d * np.log(2.0 * np.pi) - 0.5 * radius - student)


@dataclass(frozen=True, eq=False)
class Proposal(Weighted):
    """Draws z = E z + scale x of a density g, of known x and `draws` = scale, (n,), weighted by
    p(y, z) / g. E_g of q / g is 1, which the estimates make use of."""

    name: str = field(kw_only=True)


def best_proposal(
    log_weights: Array,
    stretched_weights: Array,
    radius: Array,
    stretch: Array,
    rank: Array | int,
    first: BoolArray | None = None,
) -> Proposal:
    """Student t_5 with q's moments, or half of it mixed with half of q (Hesterberg 1995, weighted
    average importance sampling and defensive mixtures), whichever has the larger effective size.

    `own` and `far` are log p(y, z) / q at E z + x and at E z + stretch x, (n,) each, `radius` the
    squared distances of the x. The mixture is stratified: draws that are `first` (by default the
    first half) are from the Student.
    """
    near, wide = (log_normal_over_student(r, rank) for r in (radius, stretch**2 * radius))
    student = Proposal(stretch, stretched_weights + wide, wide, name="student-t")
    if first is None:
        first = np.arange(len(log_weights)) < len(log_weights) // 2
    ratio = np.where(first, wide, near)
    over = -np.logaddexp(np.log(0.5), np.log(0.5) - ratio)
    mixture = Proposal(
        np.where(first, stretch, 1.0),
        np.where(first, stretched_weights, log_weights) + over,
        over,
        name="mixture",
    )
    return mixture if mixture.effective > student.effective else student


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
        self.step = int(np.clip(ENTRIES // max(first.rows, first.size, 1), 1, n))
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
