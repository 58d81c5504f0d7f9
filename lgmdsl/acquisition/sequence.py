"""Blocks of inclusions: score, pick, ask, update; re-fit at the end of each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.acquisition.candidates import (
    Block,
    Candidates,
    Here,
    OnWorkers,
    PoolMarginals,
    SharedPool,
    chunks,
)
from lgmdsl.acquisition.pool import Pool
from lgmdsl.acquisition.refit import conditioned, refit
from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract.engine import Rows
from lgmdsl.workers.workers import Workers

Oracle = Callable[[int], float]


@dataclass(frozen=True)
class Query:
    """Inclusion `number` (from 1): the candidate's row, its score and Q(y = 1) when it was chosen,
    and the label (None without an oracle)."""

    number: int
    row: int
    score: float | None
    probability: float
    label: float | None


@dataclass(frozen=True, eq=False)
class BlockEnd:
    """The end of a block after `included` inclusions: the bound on the log evidence, the posterior
    mean, and the weights from which the next block starts."""

    included: int
    log_evidence: float
    latent_mean: Array
    weight: Rows


@dataclass(frozen=True)
class Settings:
    """`steps` inclusions in blocks of `block`, `outer` iterations of each re-fit."""

    score: str
    steps: int
    block: int
    seed: int = 0
    outer: int = 1


def sequence(
    pool: Pool,
    weight: Rows,
    settings: Settings,
    oracle: Oracle | None,
    done: Sequence[Query] = (),
    settled: int = 0,
    workers: Workers | None = None,
) -> Iterator[Query | BlockEnd]:
    """Queries as they are made, each block's followed by its `BlockEnd`; without an oracle queries
    alone, all of one block.

    `weight`: of the sites after the first `settled` of `done`, queries of an earlier run. The rest
    of them are replayed and not yielded: the digits are those of an uninterrupted run. `workers`:
    who score the candidates, where there are several chunks of them.
    """
    order = np.random.default_rng(settings.seed).permutation(pool.candidates.rows)
    size = settings.steps if oracle is None else settings.block
    earlier, waiting = list(done[:settled]), list(done[settled:])
    cases = _cases(earlier if oracle is not None else [])
    problem = pool.with_cases(*cases)
    q = conditioned(problem, weight)
    shared = SharedPool(pool) if workers is not None and len(chunks(pool)) > 1 else None
    while len(earlier) < settings.steps:
        begun, linear = len(earlier), problem.engine.linear
        candidates: Candidates | None = None
        if settings.score != "random" and workers is not None and shared is not None:
            candidates = OnWorkers(workers, shared, Block(*cases, q.weight, _chosen(pool, earlier)))
        elif settings.score != "random":
            candidates = Here(pool, q, linear, _chosen(pool, earlier))
        marginals = PoolMarginals(pool, q, linear, candidates)
        for number in range(len(earlier) + 1, min(len(earlier) + size, settings.steps) + 1):
            if waiting:
                query = waiting.pop(0)
                marginals.join(query.row, query.label)
            else:
                best = _choose(candidates, settings.score, order, earlier)
                if best is None:
                    break  # the rest has negative variances until the next block
                row, score = best
                label = None if oracle is None else oracle(row)
                p = marginals.join(row, label)
                query = Query(number, row, score, p, label)
                yield query
            earlier.append(query)
        if oracle is None or len(earlier) == begun:  # every variance is an estimate below 0
            return
        marginals.repair()
        cases = _cases(earlier)
        problem = pool.with_cases(*cases)
        posterior = refit(problem, *marginals.rows(), settings.outer)
        q = posterior.conditioned
        yield BlockEnd(len(earlier), posterior.bound, q.latent_mean, q.weight)


def _chosen(pool: Pool, earlier: Sequence[Query]) -> BoolArray:
    chosen = np.zeros(pool.candidates.rows, dtype=bool)
    chosen[[query.row for query in earlier]] = True
    return chosen


def _choose(
    candidates: Candidates | None, score: str, order: IntArray, earlier: Sequence[Query]
) -> tuple[int, float | None] | None:
    """A row and its score; None where none can be chosen."""
    if candidates is not None:
        return candidates.best(score)
    known = {query.row for query in earlier}
    row = next((int(i) for i in order if int(i) not in known), None)
    return None if row is None else (row, None)


def _cases(queries: Sequence[Query]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    rows = tuple(query.row for query in queries)
    return rows, tuple(query.label for query in queries if query.label is not None)
