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

from lgmdsl.acquisition.groups import Best, best_group
from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.engine import Conditioned, Engine, Failed, Rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.errors import Diagnostic, NumericalError

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
        raise NumericalError(
            Diagnostic(
                "E601",
                "the posterior with the measurements that were chosen does not exist",
                details=(q.reason,),
                help="re-fit after fewer of them, or check the scale of their noise",
            )
        )
    return q
