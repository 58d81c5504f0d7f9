"""The information that groups of Gaussian measurements promise, and the group that promises most.

Rows C of a predictor, measured with noise of precision P = diag(p): with V = Cov_q[s_C],

    I(y_C; z) = 1/2 log|1 + P^1/2 V P^1/2|   <=   1/2 sum over C of log(1 + p_i V_ii)

(Hadamard), the entropy that q loses, whatever the values are (Seeger, Nickisch, Pohmann and
Schoelkopf 2009). V takes a solve a row. Where the engine iterates and a solve is expensive, the
bound comes first: its variances from draws of q, all rows at once. Groups are then computed from
the highest bound downwards, until no other one can win.

The bound of K draws is a smooth function of mean squares; the jackknife takes away its bias of
order 1/K and gives its standard error, correlations between rows included. A group whose true
bound is more than `SURE` of these above its estimate could be missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from lgmdsl import memory
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.linear import LinearGaussian, Predictor

DRAWS = 32
SURE = 3.0  # standard errors


@dataclass(frozen=True)
class Best:
    """The group of the highest score, the first of equals, its score in nats, and for how many
    groups it was computed."""

    group: int
    score: float
    computed: int


def information(q: Conditioned, predictor: Predictor, precision: Array) -> float:
    """1/2 log|1 + P^1/2 V P^1/2| in nats, by a solve a row.

    `predictor`: of the group's d rows; `precision`: (d,), of the noise. Raises MethodError E505
    where V is larger than the memory budget.
    """
    d, n = predictor.rows, len(q.latent_mean)
    memory.check(
        "the covariance of a group of measurements",
        f"{d:,} rows of {n:,} latents",
        16.0 * d * (d + n),
        help="choose among smaller groups",
    )
    root = np.sqrt(precision)
    _, covariance = q.project(predictor, full=True)
    # Solves to 1e-12 may leave eigenvalues of a part in 1e12 below 0.
    eigenvalues = np.linalg.eigvalsh(root[:, None] * covariance * root)
    return 0.5 * float(np.log1p(np.maximum(eigenvalues, 0.0)).sum())


def best_group(
    q: Conditioned,
    linear: LinearGaussian,
    predictor: Predictor,
    precision: Array,
    groups: Sequence[IntArray],
    exact: bool,
    rng: Generator,
) -> Best:
    """The group of rows that promises most.

    `predictor`, `precision`: of all rows; `exact`: whether the engine solves at once, so that all
    groups are computed; else `rng` draws what the bounds are estimated from.
    """

    def computed(k: int) -> float:
        return information(q, some_rows(predictor, groups[k]), precision[groups[k]])

    if exact:
        scores = [computed(k) for k in range(len(groups))]
        won = int(np.argmax(scores))
        return Best(won, scores[won], len(scores))
    bound, error = bounds(q, linear, predictor, precision, groups, rng)
    highest = bound + SURE * error
    found: dict[int, float] = {}
    for k in np.argsort(-highest, kind="stable"):
        if found and max(found.values()) >= highest[k]:
            break
        found[int(k)] = computed(int(k))
    won = min(found, key=lambda k: (-found[k], k))
    return Best(won, found[won], len(found))


def bounds(
    q: Conditioned,
    linear: LinearGaussian,
    predictor: Predictor,
    precision: Array,
    groups: Sequence[IntArray],
    rng: Generator,
) -> tuple[Array, Array]:
    """1/2 sum log(1 + p_i V_ii) of each group, (G,), from draws of q, and its standard error."""
    draws = np.ascontiguousarray((q.sample(rng, DRAWS) - q.latent_mean).T)
    squares = predictor.times(draws, linear.slices) ** 2
    value, error = np.empty(len(groups)), np.empty(len(groups))
    for k, rows in enumerate(groups):
        own, p = squares[rows], precision[rows]
        total = own.sum(axis=1)
        whole = 0.5 * np.log1p(p * total / DRAWS).sum()
        left = (total[:, None] - own) / (DRAWS - 1)
        without = 0.5 * np.log1p(p[:, None] * np.maximum(left, 0.0)).sum(axis=0)
        value[k] = DRAWS * whole - (DRAWS - 1) * without.mean()
        error[k] = np.sqrt((DRAWS - 1) * np.mean((without - without.mean()) ** 2))
    return value, error
