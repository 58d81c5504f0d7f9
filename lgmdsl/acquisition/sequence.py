"""Blocks of inclusions: score, pick, ask, update; re-fit at the end of each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.acquisition.marginals import PoolMarginals
from lgmdsl.acquisition.pool import Pool
from lgmdsl.acquisition.refit import conditioned, refit
from lgmdsl.acquisition.scores import best
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Rows
from lgmdsl.contract.linear import LinearGaussian

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
) -> Iterator[Query | BlockEnd]:
    """Queries as they are made, each block's followed by its `BlockEnd`; without an oracle queries
    alone, all of one block.

    `weight`: of the sites after the first `settled` of `done`, queries of an earlier run. The rest
    of them are replayed and not yielded: the digits are those of an uninterrupted run.
    """
    order = np.random.default_rng(settings.seed).permutation(pool.candidates.rows)
    size = settings.steps if oracle is None else settings.block
    earlier, waiting = list(done[:settled]), list(done[settled:])
    problem = pool.with_cases(*_cases(earlier if oracle is not None else []))
    q = conditioned(problem, weight)
    while len(earlier) < settings.steps:
        marginals = _marginals(pool, q, problem.engine.linear, settings, earlier)
        if not marginals.open.any():
            return  # every variance is an estimate below 0
        for number in range(len(earlier) + 1, min(len(earlier) + size, settings.steps) + 1):
            if waiting:
                query = waiting.pop(0)
                marginals.join(query.row, query.label)
            else:
                if not marginals.open.any():
                    break  # the rest has negative variances until the next block
                row, score = _choose(marginals, settings.score, order)
                label = None if oracle is None else oracle(row)
                p = marginals.join(row, label)
                query = Query(number, row, score, p, label)
                yield query
            earlier.append(query)
        if oracle is None:
            return
        marginals.repair()
        problem = pool.with_cases(*_cases(earlier))
        posterior = refit(problem, *marginals.rows(), settings.outer)
        q = posterior.conditioned
        yield BlockEnd(len(earlier), posterior.bound, q.latent_mean, q.weight)


def _marginals(
    pool: Pool,
    q: Conditioned,
    linear: LinearGaussian,
    settings: Settings,
    earlier: Sequence[Query],
) -> PoolMarginals:
    chosen = np.zeros(pool.candidates.rows, dtype=bool)
    chosen[[query.row for query in earlier]] = True
    return PoolMarginals(pool, q, linear, chosen, follow=settings.score != "random")


def _choose(marginals: PoolMarginals, score: str, order: IntArray) -> tuple[int, float | None]:
    if score == "random":
        return int(next(i for i in order if marginals.open[i])), None
    able = np.flatnonzero(marginals.open)
    won, value = best(
        score,
        marginals.pool.make,
        marginals.candidate_mean[able],
        marginals.candidate_variance[able],
    )
    return int(able[won]), value


def _cases(queries: Sequence[Query]) -> tuple[list[int], list[float]]:
    rows = [query.row for query in queries]
    return rows, [query.label for query in queries if query.label is not None]
