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
from typing import Any, NamedTuple, Protocol

import numpy as np

from lgmdsl.acquisition.pool import Pool
from lgmdsl.acquisition.refit import conditioned
from lgmdsl.acquisition.rows import between, sliceable, times
from lgmdsl.acquisition.scores import best
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.workers.task import Task
from lgmdsl.workers.workers import Workers

CHUNK = 4096  # rows: some 9 ms of scores by information


@dataclass(frozen=True, eq=False)
class Move:
    """What a case that joins does: s_J moves by `pull` w and its variance by -`shrink` w^2, w = BJ
    d; `number`: its row, which cannot be chosen again."""

    number: int
    d: Array
    pull: float
    shrink: float


class Best(NamedTuple):
    """The row with the highest score, the first of equals, and the score."""

    row: int
    score: float


class Candidates(Protocol):
    """Candidates of a block of inclusions: they follow cases that join, and give the best."""

    def join(self, move: Move) -> None:
        """A case has joined."""
        ...

    def best(self, kind: str) -> Best | None:
        """The best by a score; None where none can be chosen."""
        ...


def chunks(pool: Pool) -> tuple[slice, ...]:
    """The rows of each chunk: all in one where operators have no rows to take."""
    count = pool.candidates.rows
    step = CHUNK if sliceable(pool.candidates) else max(count, 1)
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

    def best(self, kind: str) -> Best | None:
        """The best of the chunk; None where none can be chosen."""
        able = np.flatnonzero(self.open)
        if not able.size:
            return None
        won, score = best(kind, self.make, self.mean[able], self.variance[able])
        return Best(self.rows.start + int(able[won]), score)


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

    def best(self, kind: str) -> Best | None:
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

    def best(self, kind: str) -> Best | None:
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


def scored(shared: SharedPool, block: Block, *more: Any) -> Best | None:
    """In a worker: the best of a chunk. `more`: the moves since the block's beginning, the score
    and where the chunk begins."""
    *moves, kind, start = more
    chunk = shared.chunk(block, start, len(moves))
    for move in moves[chunk.joined :]:
        chunk.join(move)
    return chunk.best(kind)


def _highest(found: Sequence[Best | None]) -> Best | None:
    """The best of all chunks, the first of equals."""
    known = [b for b in found if b is not None]
    return max(known, key=lambda b: (b.score, -b.row), default=None)
