"""Sequential choice of groups of measurements: score, pick, measure; re-fit at the end of a block.

Between re-fits the weights of all other sites stay, so that a group that joins is conditioned on
exactly; without values it joins where its mean already is, which narrows what it shares with other
groups and leaves the means (the information of Gaussian measurements does not depend on their
values).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from lgmdsl import memory
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.problem import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.errors import NumericalError

MEASURING_SCORES = ("information", "random")


@dataclass(frozen=True, eq=False)
class Measurable:
    """What can be measured: all rows of the response, over the latents of a model.

    `predictor`, `precision` (P,): of all rows and their noise; `response` its position among the
    site blocks; `groups`: the rows of each candidate. `engine` makes the one of the model in which
    some rows, rising, are measured. `shift`: b of rows with these values, of exp(b s - p s^2 / 2).
    `refit`: from a posterior with these rows and values to the one that the method ends in, and how
    it ended.
    """

    predictor: Predictor
    precision: Array
    response: int
    groups: tuple[IntArray, ...]
    engine: Callable[[IntArray], Engine]
    shift: Callable[[IntArray, Array], Array]
    refit: Callable[[IntArray, Array, GaussianPosterior], tuple[GaussianPosterior, Status]]


@dataclass(frozen=True)
class Measured:
    """Choice `number` (from 1): the group, its score in nats (None at random), and for how many
    groups it was computed."""

    number: int
    group: int
    score: float | None
    computed: int


@dataclass(frozen=True, eq=False)
class Refitted:
    """The end of a block after `included` groups, `rows` being measured by then."""

    included: int
    rows: IntArray
    posterior: GaussianPosterior
    status: Status


def measure(
    pool: Measurable,
    posterior: GaussianPosterior,
    rows: IntArray,
    y: Array,
    score: str,
    steps: int,
    block: int,
    seed: int,
    oracle: Array | None,
) -> Iterator[Measured | Refitted]:
    """Groups as they are chosen; each block's followed by its `Refitted`, without an oracle none.

    `posterior`: where `rows`, with the values `y`, are measured. `oracle`: (P,) values of the rows
    of every group. Raises NumericalError E601 where a posterior does not factorise.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(pool.groups))
    left = list(range(len(pool.groups)))
    engine = pool.engine(rows)
    q = posterior.conditioned
    for number in range(1, steps + 1):
        if score == "random":
            choice = Measured(number, int(next(k for k in order if k in left)), None, 0)
        else:
            best = _best(pool, q, engine, left, rng)
            choice = Measured(number, best.group, best.score, best.computed)
        left.remove(choice.group)
        more = pool.groups[choice.group]
        if oracle is None:
            shift = pool.precision[more] * _mean(pool, q, engine, more)
        else:
            shift = pool.shift(more, oracle[more])
        weight, shifts = _joined(pool, q, rows, more, shift)
        place = np.argsort(np.r_[rows, more], kind="stable")
        if oracle is not None:
            y = np.r_[y, oracle[more]][place]
        rows = np.r_[rows, more][place]
        yield choice
        ended = oracle is not None and (number % block == 0 or number == steps)
        if not ended and number == steps:
            return
        engine = pool.engine(rows)
        q = _conditioned(engine, weight, shifts)
        if ended:
            joined = replace(posterior, weight=weight, shift=shifts, conditioned=q)
            posterior, status = pool.refit(rows, y, joined)
            q = posterior.conditioned
            yield Refitted(number, rows, posterior, status)


def _best(
    pool: Measurable, q: Conditioned, engine: Engine, left: Sequence[int], rng: np.random.Generator
) -> Best:
    groups = [pool.groups[k] for k in left]
    best = best_group(q, engine.linear, pool.predictor, pool.precision, groups, engine.exact, rng)
    return replace(best, group=left[best.group])


def _mean(pool: Measurable, q: Conditioned, engine: Engine, rows: IntArray) -> Array:
    """(d,) of rows' predictors under q."""
    return some_rows(pool.predictor, rows).values(q.latent_mean, engine.linear.slices)


def _joined(
    pool: Measurable, q: Conditioned, rows: IntArray, more: IntArray, shift: Array
) -> tuple[Rows, Rows]:
    """Weights and shifts of all sites with those of more rows of the response, in rising order."""
    place = np.argsort(np.r_[rows, more], kind="stable")
    weight, shifts = list(q.weight), list(q.shift)
    k = pool.response
    weight[k] = np.r_[weight[k], pool.precision[more]][place]
    shifts[k] = np.r_[shifts[k], shift][place]
    return tuple(weight), tuple(shifts)


def _conditioned(engine: Engine, weight: Rows, shift: Rows) -> Conditioned:
    q = engine.condition(weight, shift)
    if isinstance(q, Failed):
        raise NumericalError.of(
            "E601",
            "the posterior with the measurements that were chosen does not exist",
            details=(q.reason,),
            help="re-fit after fewer of them, or check the scale of their noise",
        )
    return q


# ---- groups ------------------------------------------------------------------------------------
# The information that groups of Gaussian measurements promise, and the group that promises most.
#
# Rows C of a predictor, measured with noise of precision P = diag(p): with V = Cov_q[s_C],
#
#     I(y_C; z) = 1/2 log|1 + P^1/2 V P^1/2|   <=   1/2 sum over C of log(1 + p_i V_ii)
#
# (Hadamard), the entropy that q loses, whatever the values are (Seeger, Nickisch, Pohmann and
# Schoelkopf 2009). V takes a solve a row. Where the engine iterates and a solve is expensive, the
# bound comes first: its variances from draws of q, all rows at once. Groups are then computed from
# the highest bound downwards, until no other one can win.
#
# The bound of K draws is a smooth function of mean squares; the jackknife takes away its bias of
# order 1/K and gives its standard error, correlations between rows included. A group whose true
# bound is more than `SURE` of these above its estimate could be missed.


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
