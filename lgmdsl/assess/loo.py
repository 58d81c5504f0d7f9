"""Leave-one-out predictive densities from cavities, or from fits without the responses.

At fixed hyperparameters p(y_i | y_-i) = int N(s; cavity) t_i(s) ds, the cavity being q's marginal
without the site's own Gaussian: exact where all sites are Gaussian, else as good as the other
sites' Gaussians stay without y_i. A refit moves them too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.averages import expected_log, log_density
from lgmdsl.assess.cavity import Cavity, cavity
from lgmdsl.assess.component import Component, factored, of_each, of_each_once
from lgmdsl.assess.failure import judged
from lgmdsl.assess.influence import influences
from lgmdsl.assess.mixture import left_out, weights_of
from lgmdsl.contract.site import Property

# The joint mean (P,) and covariance (P, P) of the predictors of rows left out, by a fit without
# them; None where the rest has no posterior.
Moments: TypeAlias = "tuple[Array, Array] | None"
T = TypeVar("T")


class Refit(Protocol):
    """Fits without some rows of each datum, at a component's hyperparameters, and many of them."""

    def __call__(self, component: Component, rows: tuple[IntArray, ...]) -> Moments: ...

    def each(self, call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]: ...


def refitted(
    refit: Refit, components: Sequence[Component], groups: Sequence[tuple[IntArray, ...]]
) -> list[list[Moments]]:
    """For each component the moments of groups of rows that are left out, one group at a time."""
    pairs = [(c, rows) for c in of_each_once(components) for rows in groups]
    found = iter(refit.each(moments, pairs))
    return of_each(components, lambda _: [next(found) for _ in groups])


def moments(refit: Refit, component: Component, rows: tuple[IntArray, ...]) -> Moments:
    """One of them."""
    return refit(component, rows)


@dataclass(frozen=True, eq=False)
class LooBlock:
    """One datum's responses left out one at a time.

    `log_density`, (N,): log p(y_i | y_-i), NaN where there is none; `flag`, (N,): `Failure`;
    `refitted`, (N,): whose value is from a fit without them. `cavities`: of each component, and
    `weight`, (C, N): the components' weights without y_i.
    """

    log_density: Array
    flag: IntArray
    refitted: BoolArray
    cavities: tuple[Cavity, ...]
    weight: Array


def loo(
    components: Sequence[Component], refit: Refit | None = None, every: bool = False
) -> tuple[LooBlock, ...]:
    """Leave out every response. With `refit`, those that are flagged, or `every` one, are left out
    of new fits at each component's theta."""
    exact, blocks = gaussian(components), []
    for k in range(len(components[0].sites)):
        removed = of_each(components, partial(_cavity, block=k))
        top = max(range(len(components)), key=lambda j: components[j].weight)
        influence = np.zeros(len(removed[0].mean))
        if not exact:
            influence = influences(components[top], k, removed[top])
        block = _block(components, k, removed, influence, np.zeros(len(influence), dtype=np.bool_))
        if refit is not None:
            pick = np.asarray(every | (block.flag > 0))
            places = np.flatnonzero(pick)
            none = [np.arange(0)] * len(components[0].sites)
            groups = [(*none[:k], np.array([i]), *none[k + 1 :]) for i in places]
            found = refitted(refit, components, groups)
            again = [_refitted(c, k, places, m) for c, m in zip(components, found, strict=True)]
            block = _block(components, k, again, np.where(pick, 0.0, influence), pick)
        blocks.append(block)
    return tuple(blocks)


def gaussian(components: Sequence[Component]) -> bool:
    """Whether every site of the posterior is Gaussian, so that removing one moves no other.
    (A potential that is not makes cavities of the other sites approximate too.)"""
    c = components[0]
    return len(c.conditioned.weight) == len(c.sites) and all(
        Property.GAUSSIAN in s.spec.properties for s in c.sites
    )


def _cavity(c: Component, block: int) -> Cavity:
    return cavity(c.mean[block], c.variance[block], c.site_weight[block], c.site_shift[block])


def _block(
    components: Sequence[Component],
    k: int,
    cavities: Sequence[Cavity],
    influence: Array,
    refitted: BoolArray,
) -> LooBlock:
    sound = np.logical_and.reduce([c.sound for c in cavities])
    rows = np.flatnonzero(sound)
    logs = np.full((len(components), len(sound)), np.nan)
    weighted = not bool(np.all(components[0].row_weights[k] == 1.0))
    expected = logs.copy() if factored(components) or weighted else None
    for row, (c, removed) in enumerate(zip(components, cavities, strict=True)):
        moments = removed.mean[rows], removed.variance[rows]
        logs[row, rows] = log_density(c.sites[k].take(rows), *moments)
        if factored(components) and expected is not None:
            expected[row, rows] = c.row_weights[k][rows] * expected_log(
                c.sites[k].take(rows), *moments
            )
        elif expected is not None:  # the row leaves with its weight
            expected[row, rows] = log_density(c.removed(k, rows), *moments)
    mixed = left_out(weights_of(components), logs, expected)
    flag = judged(mixed.log_density, sound, mixed.evenness, influence)
    return LooBlock(mixed.log_density, flag, refitted, tuple(cavities), mixed.weight)


def _refitted(component: Component, block: int, rows: IntArray, found: Sequence[Moments]) -> Cavity:
    """The cavities with those of some rows from fits without them."""
    old = _cavity(component, block)
    mean, variance, sound = old.mean.copy(), old.variance.copy(), old.sound.copy()
    for row, moments in zip(rows, found, strict=True):
        sound[row] = moments is not None
        mean[row], variance[row] = np.nan, np.nan
        if moments is not None:
            mean[row] = moments[0] if mean.ndim > 1 else moments[0][0]
            variance[row] = moments[1] if mean.ndim > 1 else moments[1][0, 0]
    return Cavity(mean, variance, old.remaining, sound)
