"""Leave-one-out by Pareto-smoothed importance sampling of exact draws.

p(y_i | y_-i) = 1 / E[1 / p(y_i | z, theta)], the weights 1 / p being smoothed (Vehtari, Gelman and
Gabry 2017, Practical Bayesian model evaluation, section 2.1); over hyperparameter points they
reweight the points too. Where k-hat is above 0.7, or twice the Monte Carlo error above MOST_ERROR,
the draws hardly reach what is left without y_i: flagged, and to be drawn again without it
(`Redraw`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import special

from lgmdsl.accuracy.tails import smoothed, threshold
from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.component import Component, only
from lgmdsl.assess.drawn.levels import PosteriorDraws, below, up_to
from lgmdsl.assess.failure import EVEN, Failure
from lgmdsl.assess.mixture import MOST_ERROR, LeftOut, Renew, anew, weights_of
from lgmdsl.assess.mixture import left_out as reweighted

# Draws without a response: at all hyperparameter points together, in proportion to their weights,
# and at each at least.
DRAWS, LEAST = 4000, 400
T = TypeVar("T")


class Redraw(Protocol):
    """So many exact draws of z without some rows of each datum, at a component's hyperparameters:
    (k, n), and how many independent ones they are worth; None where the rest has no posterior, or
    its chains do not agree."""

    def draws(
        self, component: Component, rows: tuple[IntArray, ...], count: int
    ) -> tuple[Array, float] | None: ...

    def each(self, call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]: ...

    @property
    def renew(self) -> Renew | None: ...


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
    chosen = [
        (i, only(draws.components, k, i), float(draws.components[0].row_weights[k][i]))
        for i in map(int, _again(out, redraw, every))
    ]
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
    error = influence.std(axis=0) / np.sqrt(draws.ess)
    out.log_density[places], out.error[places] = value, error
    out.influence[:] += influence @ times
    heavy = ~(shape <= threshold(len(draws))) | doubtful(error * times)
    out.flag[places] = np.where(heavy, Failure.tail, Failure.none)
    out.flag[places[~np.isfinite(value)]] = Failure.not_finite
    return weight


@np.errstate(all="ignore")
def _weighted(level: Array, leaving: Array) -> tuple[Array, Array, Array, Array]:
    """log p(y_i | y_-i), (k,), weights (S, k), k-hat, and what each draw moves the first by,
    (S, k), times S."""
    log_weight, shape = smoothed(-leaving)
    plain = -leaving - special.logsumexp(-leaving, axis=0)
    value, influence = _averaged(log_weight, level)
    # Smoothing takes the largest weights down, and with them what they say of the error.
    rough = _averaged(plain, level)[1]
    influence = np.where(rough.std(axis=0) > influence.std(axis=0), rough, influence)
    return value, np.exp(log_weight), shape, influence


def _averaged(log_weight: Array, level: Array) -> tuple[Array, Array]:
    """The log of a weighted mean of exp(level), and what each draw moves it by, times S."""
    value = np.asarray(special.logsumexp(log_weight + level, axis=0))
    return value, len(level) * np.exp(log_weight) * (np.exp(level - value) - 1.0)


def doubtful(error: Array | float) -> Any:
    """Whether the Monte Carlo error of a log density, times its row's weight, is so large that the
    draws hardly reach what is left without the row."""
    return ~(np.asarray(error) <= 0.5 * MOST_ERROR)


def _again(out: DrawnLoo, redraw: Redraw | None, every: bool) -> IntArray:
    if redraw is None:
        return np.arange(0)
    return np.flatnonzero(every | (out.flag > 0))


@dataclass(frozen=True, eq=False)
class Redrawn:
    """What new draws at each of C hyperparameter points say of the rows that they are without: log
    densities, their errors, log densities to the power of the rows' weights, (C,) each, and P(Y <
    y) and P(Y <= y), (C, 2), empty where they were not asked for. `weight`, (C,): of the points,
    without the rows if these are new (`difference`: that of `Renewal`) and with them if not."""

    logs: Array
    errors: Array
    leaving: Array
    ends: Array
    weight: Array
    difference: float | None = None

    def without(self, weighted: bool, times: float = 1.0) -> tuple[Array, float, float, Failure]:
        """The points' weights without the rows, log p(y_i | y_-i), its error and flag; it counts so
        many `times`."""
        weight, log, error, flag = self._without(weighted)
        if flag is Failure.none and doubtful(error * times):
            flag = Failure.tail
        return weight, log, error, flag

    def _without(self, weighted: bool) -> tuple[Array, float, float, Failure]:
        if self.difference is not None:
            same = weighted or bool(np.all(self.leaving == self.logs))
            difference = self.difference if same else np.nan
            return self.weight, *anew(self.weight, self.logs, self.errors, difference)
        mixed = self._mixed
        error = float(np.sqrt(np.sum((mixed.weight[:, 0] * self.errors) ** 2)))
        log = float(mixed.log_density[0])
        flag = Failure.none if np.isfinite(log) else Failure.not_finite
        return mixed.weight[:, 0], log, error, flag

    @property
    def evenness(self) -> float:
        """`LeftOut`."""
        return float(self._mixed.evenness[0])

    @property
    def _mixed(self) -> LeftOut:
        return reweighted(self.weight, self.logs[:, None], self.leaving[:, None])


def redrawn(
    redraw: Redraw,
    components: Sequence[Component],
    rows: tuple[IntArray, ...],
    weighted: bool,
    transformed: int | None,
) -> Redrawn | None:
    """Draws without some rows at each hyperparameter point, or at new ones where that leaves few of
    them; None where a point has none."""
    found = _at_points(redraw, components, rows, weighted, transformed)
    if found is None or redraw.renew is None or found.evenness >= EVEN:
        return found
    new = redraw.renew(rows)
    if new is None:
        return None
    found = _at_points(redraw, new.components, rows, weighted, transformed)
    return found and replace(found, difference=new.difference)


def _at_points(
    redraw: Redraw,
    components: Sequence[Component],
    rows: tuple[IntArray, ...],
    weighted: bool,
    transformed: int | None,
) -> Redrawn | None:
    logs, errors, ends, leaving = [], [], [], []
    for c in components:
        without = redraw.draws(c, rows, max(math.ceil(c.weight * DRAWS), LEAST))
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
    means = (np.array(logs), np.array(errors), np.array(leaving))
    return Redrawn(*means, np.array(ends), weights_of(components))


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
        weight, *values = found.without(weighted, times)
        out.log_density[place], out.error[place], out.flag[place] = values
        out.refitted[place] = True
        if transformed is not None:
            out.lower[place], out.upper[place] = weight @ found.ends
