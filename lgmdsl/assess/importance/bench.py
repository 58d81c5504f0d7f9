"""What an audit computes part by part and chunk by chunk, each independently of the others: here,
or on workers that have the same bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.accuracy.tails import k_hat
from lgmdsl.arrays import Array
from lgmdsl.assess.elsewhere import Elsewhere
from lgmdsl.assess.importance.draws import DrawChunks, Part
from lgmdsl.assess.importance.moments import Functional, Sums, sums_of
from lgmdsl.assess.importance.weights import DF, displacement, moves
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.operators.explicit import Dense

# So many predictors, those whose sites depart most from q's, are followed.
FOLLOWED = 3
PROJECTION = "a random projection"

Places: TypeAlias = tuple[tuple[int, int], ...]  # site block and row
# More latents than this, and k-hat is also asked along single directions.
MANY = 20


def direction(linear: LinearGaussian, q: Conditioned, seed: int) -> Array:
    """(n,) a random direction of all latents, each in units of its sd."""
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    normal = np.random.default_rng([seed, 1]).standard_normal(linear.size)
    return np.divide(normal, sd, out=np.zeros_like(sd), where=sd > 1e-12 * sd.max(initial=0.0))


def along(linear: LinearGaussian, q: Conditioned, row: Array) -> tuple[Array, Array]:
    """Mean and variance of z along a direction under q, (1,) each."""
    columns = {b.name: Dense(row[None, linear.slices[b.name]]) for b in linear.blocks}
    return q.project(Predictor(columns, np.zeros(1)))


class FollowedDirections:
    """Single directions, drawn along with q: the random projection, and the predictors whose
    sites' own contributions to the log weights vary most (in the first chunk of draws)."""

    def __init__(self, ratio: DensityRatio, direction: Array, places: Places | None = None) -> None:
        self.ratio, self.direction = ratio, direction
        self.places = places
        self.distances: list[Array] = []

    def add(self, x: Array, bx: Sequence[Array]) -> None:
        """The next draws, and their predictors."""
        self.distances.append(self.distances_of(x, bx))

    def distances_of(self, x: Array, bx: Sequence[Array]) -> Array:
        """(k, f) moves of draws (k, n) along each direction; the first ones say which."""
        if self.places is None:
            self.places = self._widest(bx)
        chosen = [bx[block][:, row] for block, row in self.places]
        return np.column_stack([x @ self.direction, *chosen])

    def _widest(self, bx: Sequence[Array]) -> Places:
        spreads: list[tuple[float, int, int]] = []
        for block, term in enumerate(self.ratio.terms(bx)):
            with np.errstate(all="ignore"):
                spread = np.nan_to_num(term.std(axis=0), nan=np.inf)
            event = self.ratio.mean[block].shape[-1] if self.ratio.mean[block].ndim > 1 else 1
            top = np.argsort(-spread, kind="stable")[:FOLLOWED]
            spreads += [(float(spread[i]), block, int(i) * event) for i in top]
        spreads.sort(key=lambda f: -f[0])
        return tuple((block, row) for _, block, row in spreads[:FOLLOWED])


def k_hats(distances: Sequence[Array], log_weights: Array, effective: float) -> dict[str, float]:
    """k-hat of weight times distance along each direction, the worst of the predictors.
    `distances`: of all draws, chunk by chunk."""
    with np.errstate(divide="ignore"):
        distance = np.log(np.abs(np.concatenate(distances)))
    if np.ptp(log_weights) <= 1e-6:
        return {PROJECTION: -np.inf, "predictors": -np.inf}
    each = [k_hat(log_weights + d, effective) for d in distance.T]
    return {PROJECTION: each[0], "predictors": max(each[1:], default=-np.inf)}


@dataclass(frozen=True, eq=False)
class ExactPoint:
    """Exact draws of p(z | y, theta_k) of one part as moves from q's mean, (k, n): as many as were
    allotted to it, which are worth `effective` independent ones, and their `r_hat`."""

    x: Array
    effective: float
    r_hat: float


class Sampler(Protocol):
    """Makes exact draws of a part: `count` of them, None where that cannot be had."""

    def __call__(self, part: Part, q: Conditioned, count: int, seed: int) -> ExactPoint | None: ...


class Described(NamedTuple):
    """A part's moments of the predictors, by site block, and of z along the projection."""

    mean: Rows
    variance: Rows
    along: tuple[Array, Array]


class Looked(NamedTuple):
    """The draws of a chunk, (k,) each: their log weights, those of the stretched draws, squared
    Mahalanobis distances; `rank` of Cov z; `distances`, (k, f), along the followed directions,
    whose `places` come from the first chunk."""

    where: slice
    log_weight: Array
    stretched: Array
    radius: Array
    rank: float
    distances: Array | None
    places: Places | None


class Sampled(NamedTuple):
    """A part's exact draws, and their log weights under q."""

    draws: ExactPoint
    log_weight: Array


@dataclass(frozen=True, eq=False)
class Movement:
    """How a functional moves with z, from its `name` and its `mean` under q; or, of a site block's
    predictors by its `number` (-1: of the projection), by its means at the parts less that mean."""

    name: str
    mean: Array
    number: int | None = None
    shifts: tuple[Array, ...] = ()


class Bench:
    """The draws of a mixture, with what is computed from them. `named`: functionals by their names
    and means; of each other its movement alone is known."""

    def __init__(
        self,
        chunks: DrawChunks,
        sampler: Sampler | None,
        named: Callable[[str, Array], Functional],
    ) -> None:
        self.chunks, self.sampler, self.named = chunks, sampler, named
        n, seed = chunks.n, chunks.seed
        self.stretch = np.sqrt((DF - 2.0) / np.random.default_rng([seed, n, DF]).chisquare(DF, n))
        self._last: tuple[int, Conditioned, DensityRatio] | None = None
        self._functionals: tuple[object, tuple[Functional, ...]] | None = None

    def at(self, k: int) -> tuple[Conditioned, DensityRatio]:
        """A part's Gaussian, and the density over it; those of the last part are kept."""
        last = self._last
        if last is None or last[0] != k:
            part = self.chunks.parts[k]
            q = part.condition()
            self._last = last = k, q, DensityRatio(part.sites, q)
        return last[1], last[2]

    def functionals(
        self, movements: Sequence[Movement], direction: Array
    ) -> tuple[Functional, ...]:
        """Functionals of some movements, made once."""
        known = self._functionals
        if known is None or known[0] is not movements:
            made = tuple(self._functional(m, direction) for m in movements)
            self._functionals = known = movements, made
        return known[1]

    def maps(self, number: int, direction: Array) -> tuple[Callable[[Array], Array], ...]:
        """Moves of z to those of a site block's predictors (-1: of the projection), by part."""
        if number < 0:
            return (lambda x: np.asarray(x @ direction[:, None]),) * len(self.chunks.parts)
        return tuple(
            partial(displacement, p.linear, p.linear.predictors[number]) for p in self.chunks.parts
        )

    def of_part(self, movement: Movement, direction: Array) -> tuple[Callable[[Array], Array], ...]:
        """Moves of z to deviations from the mean of a mixture, by part."""
        assert movement.number is not None
        maps = self.maps(movement.number, direction)
        return tuple(partial(_moved, m, s) for m, s in zip(maps, movement.shifts, strict=True))

    def _functional(self, movement: Movement, direction: Array) -> Functional:
        if movement.number is None:
            return self.named(movement.name, movement.mean)
        of_part = self.of_part(movement, direction)
        mean = movement.mean
        return Functional(movement.name, mean, mean, of_part[0], of_part=of_part)


def _moved(make: Callable[[Array], Array], shift: Array, x: Array) -> Array:
    return make(x) + shift


def here(bench: Bench) -> Elsewhere:
    """`Elsewhere` in this process."""

    def each(
        call: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], common: tuple[Any, ...] = ()
    ) -> Iterator[Any]:
        return (call(bench, *common, *some) for some in arguments)

    return each


def step(
    bench: Bench, direction: Array, places: Places | None, call: Callable[..., Any], *where: int
) -> Described | Looked | Sampled | None:
    """One of the three below."""
    answer: Described | Looked | Sampled | None = call(bench, direction, places, *where)
    return answer


def described(bench: Bench, direction: Array, _: Places | None, k: int) -> Described:
    """The moments of part k."""
    q, _ratio = bench.at(k)
    variance = tuple(rows.diagonal(v) for v in q.variance)
    return Described(q.mean, variance, along(bench.chunks.parts[k].linear, q, direction))


def looked(bench: Bench, direction: Array, places: Places | None, k: int, start: int) -> Looked:
    """The draws of part k that begin with number `start`. Without `places` those of its own draws
    are followed."""
    chunks, part = bench.chunks, bench.chunks.parts[k]
    q, ratio = bench.at(k)
    chunk = chunks.at(k, start, q)
    bx = moves(part.linear, chunk.x)
    weight = ratio(bx) - part.level
    stretched = ratio([b * bench.stretch[chunk.where, None] for b in bx]) - part.level
    distances = None
    if chunks.parts[0].linear.size > MANY:
        follow = FollowedDirections(bench.at(0)[1] if places is None else ratio, direction, places)
        distances, places = follow.distances_of(chunk.x, bx), follow.places
    rank = float(chunks.ranks[k])
    return Looked(chunk.where, weight, stretched, chunk.radius, rank, distances, places)


def sampled(bench: Bench, _: Array, _places: Places | None, k: int) -> Sampled | None:
    """Exact draws of part k; None where there are none to be had."""
    chunks, part = bench.chunks, bench.chunks.parts[k]
    q, ratio = bench.at(k)
    assert bench.sampler is not None
    count = int(chunks.counts[k])
    drawn = bench.sampler(part, q, count, chunks.seed + k)
    if drawn is None:
        return None
    pieces = (drawn.x[i : i + chunks.step] for i in range(0, count, chunks.step))
    level = np.concatenate([ratio(moves(part.linear, x)) for x in pieces])
    return Sampled(drawn, level - part.level)


def summed(
    bench: Bench,
    movements: Sequence[Movement],
    direction: Array,
    scale: Array,
    columns: Array,
    k: int,
    start: int,
) -> list[Sums]:
    """What the draws of part k from number `start` on, times their `scale`, add to the moments of
    functionals; `columns`: of `Evidence`, (n, 5)."""
    q = None if start in bench.chunks.stored else bench.at(k)[0]
    chunk = bench.chunks.at(k, start, q)
    x = chunk.x * scale[chunk.where, None]
    of = bench.functionals(movements, direction)
    return [sums_of(f, x, columns[chunk.where], k, chunk.where) for f in of]
