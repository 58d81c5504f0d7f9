"""categorical.stick: P(y = k | s) = sigma(s_k) prod_{j < k} sigma(-s_j), one s_j for each cut.

The last class is the product alone. Classes that are not available are passed over: their cuts have
no part, the others keep their probability of being taken once they are reached, and the last class
on offer takes what is left. A vector site as the model writes it; the compiler makes one
bernoulli.logit site of each cut that y has reached, so this family never reaches a back end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.classes import Classes, ClassMoments, Pieces, Split
from lgmdsl.contract.questions import Tilted, TiltedAnswer
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.expectations.log_sum_exp import Rule, level, rule
from lgmdsl.numerics.stable import softplus
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator

# Up to two cuts averages take a lattice, of three where no sd is above NARROW; else quasi-random
# points: errors of probabilities are 5e-5 at sds of 1, 5e-4 at 4. The same points for every class
# keep the sum over classes at 1.
POINTS = 4096
NARROW = {1: np.inf, 2: np.inf, 3: 2.0}
_ENTRIES_PER_PASS = 1 << 22


@dataclass(frozen=True, eq=False)
class CategoricalStick(Site, Tilted, Classes, Split):
    """The classes in order, each taken with a logistic probability once the earlier ones are not.
    s is (N, L) for L + 1 classes; `available`, (N, L + 1), is 0 for what cannot be chosen."""

    y: Array
    available: Array
    into: ClassVar[str] = "bernoulli.logit"
    spec: ClassVar[SiteSpec] = SiteSpec(
        "categorical.stick",
        signature=declared("family", "categorical"),
        takes=("available",),
        wide=("available",),
        headed=True,
        properties=Property.LOG_CONCAVE | Property.BOUNDED,
        vector=True,
        link="logit",
        rewrite="stick breaking to a logistic site for each cut up to the class",
    )

    @classmethod
    def split(cls, values: Mapping[str, Array], size: int) -> Pieces:
        """A logistic site at each open cut j <= y, 1 where j = y."""
        reached, taken = reached_and_taken(values["y"], size)
        reached = reached & _open(np.asarray(values["available"] != 0.0))
        return Pieces(reached, taken.astype(np.float64), {})

    @staticmethod
    def pieces(y: Array, size: int) -> tuple[BoolArray, Array]:
        """A logistic site at each open cut j <= y, 1 where j = y; all classes are available."""
        reached, taken = reached_and_taken(y, size)
        return reached, taken.astype(np.float64)

    @cached_property
    def offered(self) -> BoolArray:
        """Which classes can be chosen, (N, L + 1)."""
        return np.asarray(self.available != 0.0)

    @cached_property
    def open(self) -> BoolArray:
        """At which cuts there is a choice, (N, L): the class is on offer, and a later one."""
        return _open(self.offered)

    @cached_property
    def last(self) -> BoolArray:
        """The last class on offer, (N, L + 1)."""
        choice = np.concatenate([self.open, np.zeros((len(self), 1), dtype=np.bool_)], axis=1)
        return np.asarray(self.offered & ~choice)

    def log_density(self, s: Array) -> Array:
        """l, (..., N) for s (..., N, L): minus infinity for a class that is not on offer, or after
        the L + 1 there are."""
        size = s.shape[-1]
        reached, taken = reached_and_taken(self.y, size)
        cost = softplus(np.where(taken, -s, s))
        value = -np.where(reached & self.open, cost, 0.0).sum(axis=-1)
        code = np.clip(self.y, 0, size).astype(np.int64)
        possible = (self.y == code) & self.offered[np.arange(len(self)), code]
        return np.where(possible, value, -np.inf)

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        return {}

    def sample(self, s: Array, rng: Generator) -> Array:
        taken = self.open & (rng.random(s.shape) < special.expit(s))
        none = np.zeros((*s.shape[:-1], 1), dtype=np.bool_)
        both = np.concatenate([taken, none], axis=-1) | self.last
        return np.asarray(np.argmax(both, axis=-1), dtype=np.float64)

    def tilted(self, mean: Array, variance: Array, power: float = 1.0) -> TiltedAnswer:
        """Mass, mean (N, L) and covariance (N, L, L) of N(mean, variance) t^power, to 1e-5 up to
        two cuts at sds to 5, beyond to about 5e-4 at sds to 4."""
        n, size = mean.shape
        mass, centre, spread = np.empty(n), np.empty((n, size)), np.empty((n, size, size))
        for rows, away, weight in _scattered(variance):
            log = power * self.take(rows).log_density(mean[rows] + away)
            top = log.max(axis=0)
            share = np.exp(log - top) * weight[:, None]
            total = share.sum(axis=0)
            mass[rows] = top + np.log(total)
            share /= total
            shift = np.einsum("pn,pni->ni", share, away)
            centre[rows] = mean[rows] + shift
            spread[rows] = np.einsum("pn,pni,pnj->nij", share, away - shift, away - shift)
        return TiltedAnswer(mass, centre, spread)

    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        return ClassMoments.of_one_trial(self.predictive(mean, variance))

    def predictive(self, mean: Array, variance: Array) -> Array:
        """E[P(y = k | s)], s ~ N(mean, variance), of all classes, (N, L + 1); as `tilted`."""
        n, size = mean.shape
        out = np.empty((n, size + 1))
        for rows, away, weight in _scattered(variance):
            s, choice = mean[rows] + away, self.open[rows]
            remaining = np.cumprod(np.where(choice, special.expit(-s), 1.0), axis=-1)
            before = np.concatenate([np.ones((*s.shape[:-1], 1)), remaining], axis=-1)
            taken = np.where(choice, special.expit(s), 0.0)
            last = np.broadcast_to(self.last[rows].astype(np.float64), before.shape)
            share = np.concatenate([taken, np.zeros((*s.shape[:-1], 1))], axis=-1) + last
            out[rows] = np.einsum("p,pnk->nk", weight, before * share)
        return out


def _open(offered: BoolArray) -> BoolArray:
    """Which of the classes on offer, (N, L + 1), have a later one on offer, (N, L)."""
    later = np.cumsum(offered[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(offered[:, :-1] & (later[:, 1:] > 0))


def _scattered(variance: Array) -> Iterator[tuple[IntArray, Array, Array]]:
    """Some rows at a time, points of N(0, variance) for them, (P, n, L), and weights, (P,)."""
    size = variance.shape[-1]
    values, vectors = np.linalg.eigh(variance)
    sds = np.sqrt(np.maximum(values, 0.0))
    root = vectors * sds[:, None, :]
    narrow = NARROW.get(size, 0.0)
    levels = np.array(
        [level(sd, size) if sd <= narrow else -1 for sd in sds.max(axis=1, initial=0)]
    )
    for one in np.unique(levels):
        rows, (points, weight) = np.flatnonzero(levels == one), _rule(size, int(one))
        pieces = max(1, len(rows) * len(points) * size // _ENTRIES_PER_PASS)
        for chunk in np.array_split(rows, pieces):
            yield chunk, np.einsum("nij,pj->pni", root[chunk], points), weight


@cache
def _rule(size: int, lattice: int) -> Rule:
    """Points, (P, L), of standard normals and weights, (P,): a lattice, or none where it is -1."""
    if lattice >= 0:
        return rule(size, lattice, 0)
    from scipy.stats import qmc  # slow to import

    net = qmc.Sobol(size, scramble=True, rng=0).random(POINTS)
    points = special.ndtri(np.clip(net, 1e-12, 1.0 - 1e-12))
    return np.asarray(points - points.mean(axis=0)), np.full(POINTS, 1.0 / POINTS)


# ---- cuts --------------------------------------------------------------------------------------
# Classes that are reached one cut after the other: class k is where cut k is taken, once all the
# cuts before it have been passed.


def reached_and_taken(classes: Array, size: int) -> tuple[BoolArray, BoolArray]:
    """Which of `size` cuts each of the classes (N,), counted from 0, has reached, and whether it
    was taken there: (N, size) both. The last class has reached all of them and taken none."""
    code, cut = np.asarray(classes)[:, None], np.arange(size)
    return cut <= code, cut == code
