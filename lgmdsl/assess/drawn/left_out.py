"""Leave-one-out by Pareto-smoothed importance sampling of exact draws.

p(y_i | y_-i) = 1 / E[1 / p(y_i | z, theta)], the weights 1 / p being smoothed (Vehtari, Gelman and
Gabry 2017, Practical Bayesian model evaluation, section 2.1); over hyperparameter points they
reweight the points too. Where k-hat is above 0.7 the draws hardly reach what is left without y_i:
flagged, and to be drawn again without it (`Redraw`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.drawn.levels import PosteriorDraws, below, up_to
from lgmdsl.assess.failure import Failure
from lgmdsl.assess.importance.pareto import threshold
from lgmdsl.assess.importance.smoothing import smoothed
from lgmdsl.assess.mixture import left_out as reweighted
from lgmdsl.assess.mixture import weights_of

T = TypeVar("T")


class Redraw(Protocol):
    """Exact draws of z without some rows of each datum, at a component's hyperparameters: (k, n),
    and how many independent ones they are worth; None where the rest has no posterior, or its
    chains do not agree."""

    def draws(
        self, component: Component, rows: tuple[IntArray, ...]
    ) -> tuple[Array, float] | None: ...

    def each(self, call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]: ...


@dataclass(frozen=True, eq=False)
class DrawnLoo:
    """One datum's responses left out one at a time, or groups of them.

    `log_density`, (N,): log p(y_i | y_-i), with its Monte Carlo standard `error`; `flag`:
    `Failure`; `refitted`: whose value is of draws without them; `lower`, `upper`: P(Y < y_i) and
    P(Y <= y_i) without y_i, empty where they were not asked for. `influence`, (S,): how far each
    draw moves the sum of the log densities that are not refitted, times the number of draws.
    """

    log_density: Array
    error: Array
    flag: IntArray
    refitted: BoolArray
    influence: Array
    lower: Array
    upper: Array


def loo(
    draws: PosteriorDraws,
    transforms: bool = False,
    redraw: Redraw | None = None,
    every: bool = False,
) -> tuple[DrawnLoo, ...]:
    """Leave out every response. `redraw` and `every`: as the refits of `assess/loo`."""
    return tuple(
        _one_by_one(draws, k, transforms, redraw, every)
        for k in range(len(draws.components[0].sites))
    )


def groups_out(
    draws: PosteriorDraws,
    groups: Sequence[tuple[IntArray, ...]],
    redraw: Redraw | None = None,
    every: bool = False,
) -> DrawnLoo:
    """Leave out every group of rows of each datum."""
    out = _blank(draws, len(groups), False)
    for g, rows in enumerate(groups):
        level = leaving = draws.joint_level(rows, weighted=True)[:, None]
        _estimate(draws, out, np.array([g]), level, leaving, np.ones(1))
    chosen = [(int(g), groups[g], 1.0) for g in _again(out, redraw, every)]
    if redraw is not None:
        _drawn_again(draws, out, chosen, redraw, True)
    return out


def _one_by_one(
    draws: PosteriorDraws, k: int, transforms: bool, redraw: Redraw | None, every: bool
) -> DrawnLoo:
    count = len(draws.components[0].sites[k])
    rows, out = np.arange(count), _blank(draws, count, transforms)
    for places, level in draws.levels(k, rows):
        times = draws.components[0].row_weights[k][rows[places]]
        weight = _estimate(draws, out, places, level, level * times, times)
        if transforms:
            for target, of in ((out.lower, below), (out.upper, up_to)):
                for some, values in draws.each(k, rows[places], of):
                    target[places[some]] = np.sum(weight[:, some] * values, axis=0)
    none = [np.arange(0)] * len(draws.components[0].sites)
    chosen = []
    for i in map(int, _again(out, redraw, every)):
        only = (*none[:k], np.array([i]), *none[k + 1 :])
        chosen.append((i, only, float(draws.components[0].row_weights[k][i])))
    if redraw is not None:
        _drawn_again(draws, out, chosen, redraw, False, k if transforms else None)
    return out


def _blank(draws: PosteriorDraws, count: int, transforms: bool) -> DrawnLoo:
    nothing = [np.full(count, np.nan) for _ in range(2)]
    ends = [np.full(count if transforms else 0, np.nan) for _ in range(2)]
    flag, refitted = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    return DrawnLoo(nothing[0], nothing[1], flag, refitted, np.zeros(len(draws)), *ends)


def _estimate(
    draws: PosteriorDraws,
    out: DrawnLoo,
    places: IntArray,
    level: Array,
    leaving: Array,
    times: Array,
) -> Array:
    """Fill in what the draws say of some responses, whose log densities are `level` (S, k) and
    leave the posterior as `leaving`; each counts `times`, (k,), in the sum. The weights of the
    draws (S, k)."""
    value, weight, shape, influence = _weighted(level, leaving)
    out.log_density[places] = value
    out.error[places] = influence.std(axis=0) / np.sqrt(draws.ess)
    out.influence[:] += influence @ times
    heavy = ~(shape <= threshold(len(draws)))
    out.flag[places] = np.where(heavy, Failure.tail, Failure.none)
    out.flag[places[~np.isfinite(value)]] = Failure.not_finite
    return weight


@np.errstate(all="ignore")
def _weighted(level: Array, leaving: Array) -> tuple[Array, Array, Array, Array]:
    """log p(y_i | y_-i), (k,), weights (S, k), k-hat, and what each draw moves the first by,
    (S, k), times S."""
    log_weight, shape = smoothed(-leaving)
    value = special.logsumexp(log_weight + level, axis=0)
    weight = np.exp(log_weight)
    return np.asarray(value), weight, shape, len(level) * weight * (np.exp(level - value) - 1.0)


def _again(out: DrawnLoo, redraw: Redraw | None, every: bool) -> IntArray:
    if redraw is None:
        return np.arange(0)
    return np.flatnonzero(every | (out.flag > 0))


@dataclass(frozen=True, eq=False)
class Redrawn:
    """What new draws at each of C hyperparameter points say of the rows that they are without: log
    densities, their errors, log densities to the power of the rows' weights, (C,) each, and P(Y <
    y) and P(Y <= y), (C, 2), empty where they were not asked for."""

    logs: Array
    errors: Array
    leaving: Array
    ends: Array


def redrawn(
    redraw: Redraw,
    components: Sequence[Component],
    rows: tuple[IntArray, ...],
    weighted: bool,
    transformed: int | None,
) -> Redrawn | None:
    """Draws without some rows at each hyperparameter point; None where a point has none."""
    logs, errors, ends, leaving = [], [], [], []
    for c in components:
        without = redraw.draws(c, rows)
        if without is None:
            return None
        z, ess = without
        alone = PosteriorDraws((c,), np.zeros(len(z), np.int64), z.__getitem__, ess)
        level = alone.joint_level(rows, weighted)
        logs.append(float(special.logsumexp(level) - np.log(len(level))))
        errors.append(alone.error(np.exp(level - logs[-1])))
        power = alone.joint_level(rows, weighted=True)
        leaving.append(float(special.logsumexp(power) - np.log(len(power))))
        if transformed is not None:
            pairs = [alone.each(transformed, rows[transformed], of) for of in (below, up_to)]
            ends.append([float(values.mean()) for pair in pairs for _, values in pair])
    return Redrawn(np.array(logs), np.array(errors), np.array(leaving), np.array(ends))


def _drawn_again(
    draws: PosteriorDraws,
    out: DrawnLoo,
    chosen: Sequence[tuple[int, tuple[IntArray, ...], float]],
    redraw: Redraw,
    weighted: bool,
    transformed: int | None = None,
) -> None:
    """Replace values by those of draws without their rows at each hyperparameter point; of
    densities to the power of the rows' weights where it is `weighted`. `chosen`: places, their
    rows, and how often each counts."""
    wanted = [(draws.components, rows, weighted, transformed) for _, rows, _ in chosen]
    for (place, rows, times), found in zip(chosen, redraw.each(redrawn, wanted), strict=True):
        if found is None:
            out.log_density[place], out.error[place] = np.nan, np.nan
            out.flag[place] = Failure.improper
            continue
        both = (draws.joint_level(rows, power)[:, None] for power in (weighted, True))
        out.influence[:] -= times * _weighted(*both)[3][:, 0]
        mixed = reweighted(
            weights_of(draws.components), found.logs[:, None], found.leaving[:, None]
        )
        weight = mixed.weight[:, 0]
        out.log_density[place] = mixed.log_density[0]
        out.error[place] = float(np.sqrt(np.sum((weight * found.errors) ** 2)))
        out.flag[place] = (
            Failure.none if np.isfinite(out.log_density[place]) else Failure.not_finite
        )
        out.refitted[place] = True
        if transformed is not None:
            out.lower[place], out.upper[place] = weight @ found.ends
