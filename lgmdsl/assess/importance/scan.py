"""The first pass of an audit: weights of q's draws, and exact draws where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import Array
from lgmdsl.assess.importance.bridge import bridged
from lgmdsl.assess.importance.draws import Chunk, DrawChunks, Part
from lgmdsl.assess.importance.moments import Functional
from lgmdsl.assess.importance.pareto import k_hat
from lgmdsl.assess.importance.quantiles import mixed_normals
from lgmdsl.assess.importance.weights import (
    DF,
    Proposal,
    best_proposal,
    displacement,
    moves,
)
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.operators.explicit import Dense

# More latents than this, and k-hat is also asked along single directions.
MANY = 20
# So many predictors, those whose sites depart most from q's, are followed.
FOLLOWED = 3

PROJECTION = "a random projection"
EXACT = "exact sampler"


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


class Scan:
    """The first pass: weights of q's draws, moments of predictors, single directions; and where
    there is a sampler its draws and the evidence of each part by bridge sampling."""

    def __init__(self, chunks: DrawChunks, sampler: Sampler | None) -> None:
        self.chunks, n, seed = chunks, chunks.n, chunks.seed
        self.log_weights, self.stretched, self.radius = np.empty(n), np.empty(n), np.empty(n)
        self.stretch = np.sqrt((DF - 2.0) / np.random.default_rng([seed, n, DF]).chisquare(DF, n))
        self.moments: list[tuple[Rows, Rows]] = []
        self.along: list[tuple[Array, Array]] = []
        self.direction: Array | None = None
        self.follow: FollowedDirections | None = None
        self.exact: dict[int, Array] = {}
        self.sampled = sampler is not None
        self.point_evidence = np.zeros(len(chunks.parts))
        self.point_errors, self.point_sizes = (np.zeros(len(chunks.parts)) for _ in range(2))
        self.r_hat = 1.0
        for k in range(len(chunks.parts)):
            self._part(k, sampler)

    def _part(self, k: int, sampler: Sampler | None) -> None:
        part = self.chunks.parts[k]
        q = part.condition()
        ratio = DensityRatio(part.sites, q)
        self.moments.append((q.mean, tuple(rows.diagonal(v) for v in q.variance)))
        if self.direction is None:
            self.direction = direction(part.linear, q, self.chunks.seed)
        self.along.append(along(part.linear, q, self.direction))
        if self.follow is None and part.linear.size > MANY:
            self.follow = FollowedDirections(ratio, self.direction)
        for chunk in self.chunks.of(k, q):
            where = chunk.where
            bx = moves(part.linear, chunk.x)
            self.log_weights[where] = ratio(bx) - part.level
            self.radius[where] = chunk.radius
            stretched = [b * self.stretch[where, None] for b in bx]
            self.stretched[where] = ratio(stretched) - part.level
            if self.follow is not None:
                self.follow.add(chunk.x, bx)
        if sampler is not None:
            self._sampled(k, q, ratio, sampler)

    def _sampled(self, k: int, q: Conditioned, ratio: DensityRatio, sampler: Sampler) -> None:
        chunks, part, count = self.chunks, self.chunks.parts[k], int(self.chunks.counts[k])
        if not count:
            return
        own = self.log_weights[chunks.part == k]
        drawn = sampler(part, q, count, chunks.seed + k)
        if drawn is None:
            self.r_hat = np.inf
            self.exact[k] = np.zeros((count, part.linear.size))
            return
        self.exact[k] = drawn.x
        self.r_hat = max(self.r_hat, drawn.r_hat)
        level = np.concatenate(
            [ratio(moves(part.linear, drawn.x[i : i + chunks.step]))
             for i in range(0, count, chunks.step)]
        ) - part.level  # fmt: skip
        effective = min(drawn.effective, float(count))
        self.point_evidence[k], self.point_errors[k] = bridged(own, level, effective)
        self.point_sizes[k] = effective

    def proposal(self) -> tuple[Proposal, Iterable[Chunk], float]:
        """The proposal, its draws (to be scaled by its `scale`), and their effective size."""
        chunks = self.chunks
        if not self.sampled:
            weights = self.log_weights, self.stretched
            made = best_proposal(*weights, self.radius, self.stretch, chunks.rank, chunks.first)
            over = {n: getattr(made, n) + chunks.surplus for n in ("log_weight", "log_own")}
            made = replace(made, **over)
            return made, chunks, made.effective
        weight = chunks.surplus + self.point_evidence[chunks.part]
        exact = Proposal(EXACT, np.ones(chunks.n), weight, np.full(chunks.n, -np.inf))
        return exact, self._exact_chunks(), self._exact_size()

    def _exact_chunks(self) -> tuple[Chunk, ...]:
        ends = np.cumsum(self.chunks.counts)
        return tuple(
            Chunk(slice(ends[k] - len(x), ends[k]), k, x, np.zeros(len(x)))
            for k, x in self.exact.items()
        )

    def _posterior_shares(self) -> Array:
        """Of the parts that were drawn from, corrected by their evidences."""
        shares: Array = np.array([p.share for p in self.chunks.parts])
        shares = shares * (self.chunks.counts > 0)
        top = float(np.max(self.point_evidence, initial=-np.inf, where=shares > 0))
        if not np.isfinite(top):
            return np.asarray(shares / shares.sum())
        weights = shares * np.exp(self.point_evidence - top)
        return np.asarray(weights / weights.sum())

    def _exact_size(self) -> float:
        weights = self._posterior_shares()
        used = weights > 0
        return float(1.0 / np.sum(weights[used] ** 2 / np.maximum(self.point_sizes[used], 1e-300)))

    @property
    def evidence_error(self) -> float:
        """Standard error of the log evidence, of exact draws."""
        return float(np.sqrt(np.sum((self._posterior_shares() * self.point_errors) ** 2)))

    def k_hats(self, own_size: float) -> dict[str, float]:
        """Along single directions, where there are many latents."""
        return {} if self.follow is None else self.follow.k_hats(self.log_weights, own_size)

    def predictors(self) -> Iterator[Functional]:
        """The predictors of each site block."""
        for number in range(len(self.chunks.parts[0].linear.predictors)):
            means = [m[number].reshape(-1) for m, _ in self.moments]
            variances = [v[number].reshape(-1) for _, v in self.moments]
            maps = [
                partial(displacement, p.linear, p.linear.predictors[number])
                for p in self.chunks.parts
            ]
            yield self._mixed(f"predictors {number}", means, variances, maps)

    def projection(self) -> Functional:
        """A random direction of all latents, each in units of its sd."""
        assert self.direction is not None
        row = self.direction
        means, variances = [m for m, _ in self.along], [v for _, v in self.along]
        maps = [lambda x: np.asarray(x @ row[:, None])] * len(means)
        return self._mixed(PROJECTION, means, variances, maps)

    def _mixed(
        self,
        name: str,
        means: Sequence[Array],
        variances: Sequence[Array],
        maps: Sequence[Callable[[Array], Array]],
    ) -> Functional:
        """A functional that is affine in z at every part, of these moments under q there."""
        shares = np.array([p.share for p in self.chunks.parts])
        shares = shares / shares.sum()
        mean = shares @ np.array(means)
        within = shares @ np.maximum(np.array(variances), 0.0)
        variance = within + shares @ (np.array(means) - mean) ** 2
        of_part = tuple(
            partial(_moved, make, m - mean) for make, m in zip(maps, means, strict=True)
        )
        sds = np.sqrt(np.maximum(np.array(variances), 0.0))
        points = mixed_normals(shares, np.array(means), sds)
        sd = np.sqrt(variance)
        return Functional(name, mean, sd, of_part[0], of_part=of_part, quantiles=points)


def _moved(make: Callable[[Array], Array], shift: Array, x: Array) -> Array:
    return make(x) + shift


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

    def __init__(self, ratio: DensityRatio, direction: Array) -> None:
        self.ratio, self.direction = ratio, direction
        self.places: list[tuple[int, int]] | None = None
        self.distances: list[Array] = []

    def add(self, x: Array, bx: Sequence[Array]) -> None:
        """The next draws, and their predictors."""
        if self.places is None:
            self.places = self._widest(bx)
        chosen = [bx[block][:, row] for block, row in self.places]
        self.distances.append(np.column_stack([x @ self.direction, *chosen]))

    def _widest(self, bx: Sequence[Array]) -> list[tuple[int, int]]:
        spreads: list[tuple[float, int, int]] = []
        for block, term in enumerate(self.ratio.terms(bx)):
            with np.errstate(all="ignore"):
                spread = np.nan_to_num(term.std(axis=0), nan=np.inf)
            event = self.ratio.mean[block].shape[-1] if self.ratio.mean[block].ndim > 1 else 1
            top = np.argsort(-spread, kind="stable")[:FOLLOWED]
            spreads += [(float(spread[i]), block, int(i) * event) for i in top]
        spreads.sort(key=lambda f: -f[0])
        return [(block, row) for _, block, row in spreads[:FOLLOWED]]

    def k_hats(self, log_weights: Array, effective: float) -> dict[str, float]:
        """k-hat of weight times distance along each direction, the worst of the predictors."""
        with np.errstate(divide="ignore"):
            distance = np.log(np.abs(np.concatenate(self.distances)))
        if np.ptp(log_weights) <= 1e-6:
            return {PROJECTION: -np.inf, "predictors": -np.inf}
        each = [k_hat(log_weights + d, effective) for d in distance.T]
        return {PROJECTION: each[0], "predictors": max(each[1:], default=-np.inf)}
