"""The candidates of a design, chunk by chunk: their marginals, updated as cases join, and the best
of their scores; here or on workers.

A chunk is a run of rows, the same whoever computes it. A worker conditions once a block, and keeps
its chunks from one inclusion to the next: it is sent d, the pull and the shrinkage of each case
that joined, and answers with the best of a chunk. One that has lost them starts from the block's
beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from lgmdsl.acquisition.pool import Pool, between, row, sliceable, times
from lgmdsl.acquisition.refit import conditioned
from lgmdsl.acquisition.scores import best, include, probability
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import SuperGaussian
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers

ROWS_PER_CHUNK = 4096  # rows: some 9 ms of scores by information


@dataclass(frozen=True, eq=False)
class Move:
    """What a case that joins does: s_J moves by `pull` w and its variance by -`shrink` w^2, w = BJ
    d; `number`: its row, which cannot be chosen again."""

    number: int
    d: Array
    pull: float
    shrink: float


class BestCandidate(NamedTuple):
    """The row with the highest score, the first of equals, and the score."""

    row: int
    score: float


class Candidates(Protocol):
    """Candidates of a block of inclusions: they follow cases that join, and give the best."""

    def join(self, move: Move) -> None:
        """A case has joined."""
        ...

    def best(self, kind: str) -> BestCandidate | None:
        """The best by a score; None where none can be chosen."""
        ...


def chunks(pool: Pool) -> tuple[slice, ...]:
    """The rows of each chunk: all in one where operators have no rows to take."""
    count = pool.candidates.rows
    step = ROWS_PER_CHUNK if sliceable(pool.candidates) else max(count, 1)
    return tuple(slice(k, min(k + step, count)) for k in range(0, count, step))


class Chunk:
    """`mean`, `variance`: of the candidates in `rows`; `open`: those that can be chosen. Variances
    that are estimates may become negative: such candidates are left out until the next block."""

    def __init__(
        self, pool: Pool, q: Conditioned, linear: LinearGaussian, rows: slice, chosen: BoolArray
    ) -> None:
        self.rows, self.linear, self.make = rows, linear, pool.make
        self.predictor = between(pool.candidates, rows)
        self.mean, self.variance = q.project(self.predictor)
        self.open = ~chosen[rows] & (self.variance >= 0.0)
        self.joined = 0

    def join(self, move: Move) -> None:
        """A case has joined."""
        w = times(self.predictor, move.d, self.linear)
        self.mean = self.mean + move.pull * w
        self.variance = self.variance - move.shrink * w * w
        self.open &= self.variance >= 0.0
        if self.rows.start <= move.number < self.rows.stop:
            self.open[move.number - self.rows.start] = False
        self.joined += 1

    def best(self, kind: str) -> BestCandidate | None:
        """The best of the chunk; None where none can be chosen."""
        able = np.flatnonzero(self.open)
        if not able.size:
            return None
        won, score = best(kind, self.make, self.mean[able], self.variance[able])
        return BestCandidate(self.rows.start + int(able[won]), score)


class Here:
    """Candidates in this process."""

    def __init__(
        self, pool: Pool, q: Conditioned, linear: LinearGaussian, chosen: BoolArray
    ) -> None:
        self.chunks = [Chunk(pool, q, linear, rows, chosen) for rows in chunks(pool)]

    def join(self, move: Move) -> None:
        """`Candidates`."""
        for chunk in self.chunks:
            chunk.join(move)

    def best(self, kind: str) -> BestCandidate | None:
        """`Candidates`."""
        return _highest([chunk.best(kind) for chunk in self.chunks])


@dataclass(frozen=True, eq=False)
class Block:
    """The beginning of a block: the cases that have joined the model, by rows and labels, the
    weights of all sites, and the candidates that cannot be chosen."""

    cases: tuple[int, ...]
    labels: tuple[float, ...]
    weight: Rows
    chosen: BoolArray


@dataclass(frozen=True, eq=False)
class SharedPool:
    """A pool as it goes to workers; what follows from the last block is kept there."""

    pool: Pool
    _last: list[tuple[Block, Callable[[slice], Chunk], dict[int, Chunk]]] = field(
        default_factory=list, repr=False
    )

    def __getstate__(self) -> dict[str, Any]:
        return {"pool": self.pool, "_last": []}

    def chunk(self, block: Block, start: int, joined: int) -> Chunk:
        """A chunk of a block, to which up to `joined` cases have joined."""
        last = self._last[0] if self._last else None
        if last is None or last[0] is not block:
            problem = self.pool.with_cases(block.cases, block.labels)
            q = conditioned(problem, block.weight)
            make = partial(Chunk, self.pool, q, problem.engine.linear)
            last = block, partial(make, chosen=block.chosen), {}
            self._last[:] = [last]
        _, made, known = last
        chunk = known.get(start)
        if chunk is None or chunk.joined > joined:
            rows = next(r for r in chunks(self.pool) if r.start == start)
            chunk = known[start] = made(rows)
        return chunk


class OnWorkers:
    """Candidates on workers."""

    def __init__(self, workers: Workers, shared: SharedPool, block: Block) -> None:
        self.workers, self.shared, self.block = workers, shared, block
        self.moves: list[Move] = []

    def join(self, move: Move) -> None:
        """`Candidates`."""
        self.moves.append(move)

    def best(self, kind: str) -> BestCandidate | None:
        """`Candidates`."""
        bundle = self.workers.bundle
        bundles = (bundle(self.shared), bundle(self.block), *map(bundle, self.moves))
        tasks = [
            Task(
                f"the scores of candidates {rows.start:,} to {rows.stop - 1:,}",
                scored,
                (kind, rows.start),
                bundles,
            )
            for rows in chunks(self.shared.pool)
        ]
        return _highest(self.workers.results(tasks))


def scored(shared: SharedPool, block: Block, *more: Any) -> BestCandidate | None:
    """In a worker: the best of a chunk. `more`: the moves since the block's beginning, the score
    and where the chunk begins."""
    *moves, kind, start = more
    chunk = shared.chunk(block, start, len(moves))
    for move in moves[chunk.joined :]:
        chunk.join(move)
    return chunk.best(kind)


def _highest(found: Sequence[BestCandidate | None]) -> BestCandidate | None:
    """The best of all chunks, the first of equals."""
    known = [b for b in found if b is not None]
    return max(known, key=lambda b: (b.score, -b.row), default=None)


# ---- marginals ---------------------------------------------------------------------------------
# Marginals of all model and candidate sites, updated while cases join (section 3).
#
# With d = A^-1 b, rho = b'd, w = BJ d and kappa = 1 + rho / gamma, a site of width gamma and shift
# beta on s = b'u + c changes
#
#     Var[s_J] by -w^2 / (rho + gamma),   E[s_J] by w (beta - mu / gamma) / kappa,
#     u* by d (beta - mu / gamma) / kappa,   log|A| by log kappa,
#
# and A'^-1 b' = A^-1 b' - d (d'b') / (rho + gamma): later solves need the block's first factor and
# the d of those that joined since. An inclusion costs one solve and one product with the rows.
#
# Variances that are estimates may become negative in these updates. Such candidates are left out
# until the next block (`candidates`); those of model sites are recomputed from one solve each
# (`repair`).


class PoolMarginals:
    """The state within a block of inclusions, from the posterior at its start.

    `mean`, `variance`, `weight`, `shift`: of the model's sites by block, the cases that joined at
    the end of the response's. `latent_mean`: u*. `log_det`: log|A| less its value at the start.
    `candidates`: those that can be chosen, where they are followed.
    """

    def __init__(
        self,
        pool: Pool,
        q: Conditioned,
        linear: LinearGaussian,
        candidates: Candidates | None = None,
    ) -> None:
        self.pool, self.linear, self.conditioned = pool, linear, q
        self.mean, self.variance = list(q.mean), list(q.variance)
        self.weight, self.shift = list(q.weight), list(q.shift)
        self.latent_mean, self.log_det = q.latent_mean.copy(), 0.0
        self.candidates = candidates
        self.spread: list[Array] = []  # d of each case that joined
        self.joined: list[Array] = []  # their b
        self.shrink: list[float] = []  # 1 / (rho + gamma)

    def solve(self, rhs: Array) -> Array:
        """A^-1 rhs, (n,), with all that joined."""
        out = self.conditioned.solve(rhs)
        for d, shrink in zip(self.spread, self.shrink, strict=True):
            out = out - d * (shrink * float(d @ rhs))
        return out

    def marginal(self, number: int) -> tuple[Array, float, float]:
        """d = A^-1 b, and mean and variance of a candidate's predictor by that solve."""
        b = row(self.pool.candidates, number, self.linear)
        d = self.solve(b)
        mean = float(b @ self.latent_mean) + float(self.pool.candidates.offset[number])
        return d, mean, max(float(b @ d), 0.0)

    def join(self, number: int, label: float | None) -> float:
        """Include a candidate with its label; the probability that it had of being 1.

        Without a label the site's weight is its expectation over labels, and the mean stays: its
        own expectation over a label that Q itself predicts is where it is.
        """
        d, mean, variance = self.marginal(number)
        m, v = np.array([mean]), np.array([variance])
        p = float(probability(self.pool.make, m, v)[0])
        weights, pulls, betas = [], [], []
        for y in (0.0, 1.0) if label is None else (label,):
            site = cast(SuperGaussian, self.pool.make(np.array([y])))
            inclusion = include(site, m, v)
            weights.append(float(inclusion.weight[0]))
            betas.append(float(site.beta[0]))
            pulls.append((betas[-1] - mean * weights[-1]) / float(inclusion.kappa[0]))
        share = [1.0 - p, p] if label is None else [1.0]
        weight = float(np.dot(share, weights))
        kappa = 1.0 + variance * weight
        self._move(Move(number, d, 0.0 if label is None else pulls[0], weight / kappa))
        self.log_det += float(np.log(kappa))
        if label is not None:
            self._append(number, weight, betas[0], mean + variance * pulls[0], variance / kappa)
        return p

    def repair(self) -> int:
        """Solve for the variances of model sites that are negative; how many there were."""
        repaired = 0
        for k, variance in enumerate(self.variance):
            for j in np.flatnonzero(variance < 0.0):
                b = self._model_row(k, int(j))
                variance[j] = max(float(b @ self.solve(b)), 0.0)
                repaired += 1
        return repaired

    def rows(self) -> tuple[Rows, Rows, Rows, Rows]:
        """mean, variance, weight and shift of the model's sites by block."""
        return tuple(self.mean), tuple(self.variance), tuple(self.weight), tuple(self.shift)

    def _move(self, move: Move) -> None:
        """The rank-one updates: s moves by pull w, its variance by -shrink w^2."""
        d, pull, shrink = move.d, move.pull, move.shrink
        for k, predictor in enumerate(self.linear.predictors):
            w = times(predictor, d, self.linear)
            if k == self.pool.response:
                w = np.r_[w, [b @ d for b in self.joined]]
            self.mean[k] = self.mean[k] + pull * w
            self.variance[k] = self.variance[k] - shrink * w * w
        if self.candidates is not None:
            self.candidates.join(move)
        self.latent_mean = self.latent_mean + pull * d
        self.spread.append(d)
        self.shrink.append(shrink)

    def _append(self, number: int, *of_site: float) -> None:
        k = self.pool.response
        parts = (self.weight, self.shift, self.mean, self.variance)
        for part, value in zip(parts, of_site, strict=True):
            part[k] = np.r_[part[k], value]
        self.joined.append(row(self.pool.candidates, number, self.linear))

    def _model_row(self, k: int, j: int) -> Array:
        predictor = self.linear.predictors[k]
        if j < predictor.rows:
            return row(predictor, j, self.linear)
        return self.joined[j - predictor.rows]
