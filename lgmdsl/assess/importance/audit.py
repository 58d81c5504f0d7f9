"""The audit of a Gaussian posterior: its distance from the exact one, and corrected moments.

Two passes over n draws of q, made again from the seed where they are too many to keep. First the
importance weights of q's own draws, for k-hat, and of the draws stretched to a Student t_5; then
corrected moments of every functional under the better of two heavier-tailed proposals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.importance.moments import Corrected, Evidence, Functional, Moments
from lgmdsl.assess.importance.pareto import effective_size, k_hat
from lgmdsl.assess.importance.weights import (
    DF,
    DensityRatio,
    Proposal,
    best_proposal,
    displacement,
    moves,
)
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.site import Site
from lgmdsl.operators.explicit import Dense

# More latents than this, and k-hat is also asked along single directions.
MANY = 20
# So many predictors, those whose sites depart most from q's, are followed.
FOLLOWED = 3
# Entries of one dense temporary, and of all draws where they are kept for the second pass.
CHUNK, KEPT = 1 << 21, 1 << 25

PROJECTION = "a random projection"


@dataclass(frozen=True, eq=False)
class Findings:
    """Diagnostics and corrected moments from the draws.

    `k_hat`: of the weights of q's own draws, all latents together; `along`: of weight times the
    distance from q's mean along single directions, where there are many latents. `own_size`: the
    effective size of q's own draws. `effective`: that of the `proposal` behind all that follows.
    `corrected`: by name, flat.
    """

    draws: int
    k_hat: float
    along: Mapping[str, float]
    own_size: float
    proposal: str
    effective: float
    log_evidence: float
    log_evidence_se: float
    functionals: tuple[Functional, ...]
    corrected: Mapping[str, Corrected]


class DrawChunks:
    """n draws x = z - E z with their squared distances, in chunks; the same each time."""

    def __init__(self, q: Conditioned, linear: LinearGaussian, n: int, seed: int) -> None:
        self.q, self.n, self.seed = q, n, seed
        widest = max(linear.rows, linear.size, 1)
        self.step = int(np.clip(CHUNK // widest, 1, n))
        self.keep = n * linear.size <= KEPT
        self.stored: dict[int, tuple[Array, Array]] = {}
        self.rank = 0

    def __iter__(self) -> Iterator[tuple[slice, Array, Array]]:
        for start in range(0, self.n, self.step):
            where = slice(start, min(start + self.step, self.n))
            x, radius = self.stored.get(start) or self._drawn(start, where.stop - start)
            if self.keep:
                self.stored[start] = x, radius
            yield where, x, radius

    def _drawn(self, start: int, size: int) -> tuple[Array, Array]:
        drawn = self.q.draw(np.random.default_rng([self.seed, start]), size)
        self.rank = drawn.rank
        return drawn.z - self.q.latent_mean, drawn.radius


def audit(
    sites: Sequence[Site],
    linear: LinearGaussian,
    q: Conditioned,
    functionals: Sequence[Functional],
    n: int,
    seed: int,
) -> Findings:
    """Audit q, the posterior of `linear` with Gaussian sites, against the true `sites`.

    `functionals` are corrected, and so are the sites' predictors and one random projection of all
    latents, which are judged too: a bias spread thinly over many latents adds up there.
    Raises NumericalError E601 where the posterior cannot be drawn from.
    """
    ratio, chunks = DensityRatio(sites, q), DrawChunks(q, linear, n, seed)
    every = (*functionals, *predictors(linear, q), projection(linear, q, seed))
    follow = FollowedDirections(ratio, every[-1]) if linear.size > MANY else None
    radius, log_weights, stretched_weights = np.empty(n), np.empty(n), np.empty(n)
    stretch = np.sqrt((DF - 2.0) / np.random.default_rng([seed, n, DF]).chisquare(DF, n))
    for where, x, distance in chunks:
        bx = moves(linear, x)
        log_weights[where], radius[where] = ratio(bx), distance
        stretched_weights[where] = ratio([b * stretch[where, None] for b in bx])
        if follow is not None:
            follow.add(x, bx)
    own_size = effective_size(log_weights)
    proposal = best_proposal(log_weights, stretched_weights, radius, stretch, chunks.rank)
    evidence = Evidence(proposal)
    return Findings(
        draws=n,
        k_hat=k_hat(log_weights, own_size),
        along={} if follow is None else follow.k_hats(log_weights, own_size),
        own_size=own_size,
        proposal=proposal.name,
        effective=proposal.effective,
        log_evidence=evidence.log,
        log_evidence_se=evidence.error,
        functionals=every,
        corrected=_corrected(every, chunks, proposal, evidence),
    )


def _corrected(
    functionals: Sequence[Functional], chunks: DrawChunks, proposal: Proposal, evidence: Evidence
) -> dict[str, Corrected]:
    sums = [Moments(f) for f in functionals]
    for where, x, _ in chunks:
        stretched = x * proposal.scale[where, None]
        for total in sums:
            total.add(stretched, evidence.columns[where])
    return {f.name: t.corrected(evidence) for f, t in zip(functionals, sums, strict=True)}


def predictors(linear: LinearGaussian, q: Conditioned) -> Iterator[Functional]:
    """The predictors of each site block."""
    pairs = zip(linear.predictors, q.mean, q.variance, strict=True)
    for number, (predictor, mean, variance) in enumerate(pairs):
        flat = variance if variance.ndim == 1 else np.einsum("nii->ni", variance).reshape(-1)
        sd = np.sqrt(np.maximum(flat, 0.0))
        yield Functional(
            f"predictors {number}", mean.reshape(-1), sd, partial(displacement, linear, predictor)
        )


def projection(linear: LinearGaussian, q: Conditioned, seed: int) -> Functional:
    """A random direction of all latents, each in units of its sd."""
    sd = np.sqrt(np.maximum(q.latent_variance, 0.0))
    normal = np.random.default_rng([seed, 1]).standard_normal(linear.size)
    row = np.divide(normal, sd, out=np.zeros_like(sd), where=sd > 1e-12 * sd.max(initial=0.0))
    columns = {b.name: Dense(row[None, linear.slices[b.name]]) for b in linear.blocks}
    mean, variance = q.project(Predictor(columns, np.zeros(1)))
    sd = np.sqrt(np.maximum(variance, 0.0))
    return Functional(PROJECTION, mean, sd, lambda x: np.asarray(x @ row[:, None]))


class FollowedDirections:
    """Single directions, drawn along with q: the random projection, and the predictors whose
    sites' own contributions to the log weights vary most (in the first chunk of draws)."""

    def __init__(self, ratio: DensityRatio, projected: Functional) -> None:
        self.ratio, self.projected = ratio, projected
        self.places: list[tuple[int, int]] | None = None
        self.distances: list[Array] = []

    def add(self, x: Array, bx: Sequence[Array]) -> None:
        """The next draws, and their predictors."""
        if self.places is None:
            self.places = self._widest(bx)
        chosen = [bx[block][:, row] for block, row in self.places]
        self.distances.append(np.column_stack([self.projected.deviations(x)[:, 0], *chosen]))

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
