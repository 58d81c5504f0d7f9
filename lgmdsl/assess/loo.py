"""Leave-one-out predictive densities from cavities, or from fits without the responses.

At fixed hyperparameters p(y_i | y_-i) = int N(s; cavity) t_i(s) ds, the cavity being q's marginal
without the site's own Gaussian: exact where all sites are Gaussian, else as good as the other
sites' Gaussians stay without y_i. A refit moves them too. Points of the hyperparameters are
reweighted by 1 / p(y_i | y_-i, theta), which new ones replace where that leaves few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.averages import expected_log, log_density
from lgmdsl.assess.component import Component, factored, of_each, of_each_once, only
from lgmdsl.assess.drawn.left_out import redrawn
from lgmdsl.assess.failure import EVEN, Failure, judged
from lgmdsl.assess.influence import influences
from lgmdsl.assess.mixture import Renew, anew, left_out, weights_of
from lgmdsl.contract.rows import Cavity, cavity
from lgmdsl.contract.site import Property, Site


class Without(NamedTuple):
    """The joint mean (P,) and covariance (P, P) of the predictors of rows that a fit is without;
    `off`: whether the posterior is too far from these for a Gaussian to stand for it."""

    mean: Array
    covariance: Array
    off: bool


Moments: TypeAlias = "Without | None"  # None where the rest has no posterior
T = TypeVar("T")


class Refit(Protocol):
    """Fits without some rows of each datum, at a component's hyperparameters, and many of them;
    `renew`: as that of `RefitWithout`."""

    @property
    def renew(self) -> Renew | None: ...

    def __call__(self, component: Component, rows: tuple[IntArray, ...]) -> Moments: ...

    def draws(
        self, component: Component, rows: tuple[IntArray, ...], count: int
    ) -> tuple[Array, float] | None: ...

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
class Alone:
    """A response in a fit without it: the weights (C,) of that fit's hyperparameter points, and at
    each the site, of one row, and its predictor's mean and variance; `difference`: `Renewal`, NaN
    where it is that of a weighted row."""

    weight: Array
    sites: tuple[Site, ...]
    moments: tuple[tuple[Array, Array], ...]
    difference: float

    def each(self, of: Callable[[Site, Array, Array], Any]) -> Array:
        """`of` at each point, (C, ...)."""
        values = [of(site, *m) for site, m in zip(self.sites, self.moments, strict=True)]
        return np.array(values)[..., 0]


def alone(refit: Refit, component: Component, rows: tuple[IntArray, ...]) -> Alone | None:
    """One response, by a fit that has new hyperparameter points."""
    assert refit.renew is not None
    new = refit.renew(rows)
    if new is None:
        return None
    points = new.components
    ((k, row),) = ((k, some) for k, some in enumerate(rows) if len(some))
    moments = tuple((c.mean[k][row], c.variance[k][row]) for c in points)
    sites = tuple(c.sites[k].take(row) for c in points)
    difference = new.difference if component.row_weights[k][row] == 1.0 else np.nan
    return Alone(weights_of(points), sites, moments, difference)


@dataclass(frozen=True, eq=False)
class LooBlock:
    """One datum's responses left out one at a time.

    `log_density`, (N,): log p(y_i | y_-i), NaN where there is none; `flag`, (N,): `Failure`;
    `refitted`, (N,): whose value is from a fit without them. `cavities`: of each component, and
    `weight`, (C, N): the components' weights without y_i. `evenness`: `LeftOut`. `renewed`: by
    row, those that are of a fit with new hyperparameter points, which cavities are not. `error`,
    (N,): Monte Carlo errors of rows that are of draws, since no Gaussian is near, and `ends` their
    P(Y < y) and P(Y <= y), where these were asked for.
    """

    log_density: Array
    flag: IntArray
    refitted: BoolArray
    cavities: tuple[Cavity, ...]
    weight: Array
    evenness: Array
    renewed: Mapping[int, Alone] = field(default_factory=dict)
    error: Array = field(default_factory=lambda: np.zeros(0))
    ends: Mapping[int, Array] = field(default_factory=dict)

    def by_draws(
        self,
        refit: Refit,
        components: Sequence[Component],
        k: int,
        rows: Sequence[int],
        transforms: bool,
    ) -> LooBlock:
        """The block of datum k with those of some rows that draws without them give."""
        transformed = k if transforms else None
        wanted = [(components, only(components, k, i), False, transformed) for i in rows]
        log, flag, error = self.log_density.copy(), self.flag.copy(), self.error.copy()
        ends: dict[int, Array] = {}
        for i, found in zip(rows, refit.each(redrawn, wanted), strict=True):
            if found is None:
                log[i], flag[i] = np.nan, Failure.improper
                continue
            times = float(components[0].row_weights[k][i])
            weight, log[i], error[i], flag[i] = found.without(False, times)
            if transforms:
                ends[i] = weight @ found.ends
        return replace(self, log_density=log, flag=flag, error=error, ends=ends)

    def renew(
        self, refit: Refit, components: Sequence[Component], k: int, but: Sequence[int] = ()
    ) -> LooBlock:
        """The block of datum k with new hyperparameter points for those that are fitted again and
        leave few of the old ones, all `but` some."""
        if refit.renew is None:
            return self
        rows = np.flatnonzero(self.refitted & np.logical_not(self.evenness >= EVEN))
        rows = np.setdiff1d(rows, but)
        wanted = [(components[0], only(components, k, i)) for i in rows.tolist()]
        found = dict(zip(rows.tolist(), refit.each(alone, wanted), strict=True))
        log, flag = self.log_density.copy(), self.flag.copy()
        log[rows], flag[rows] = np.nan, Failure.improper
        renewed = {i: new for i, new in found.items() if new is not None}
        for i, new in renewed.items():
            logs = new.each(log_density)
            log[i], _, flag[i] = anew(new.weight, logs, np.zeros_like(logs), new.difference)
        return replace(self, log_density=log, flag=flag, renewed=renewed)


def loo(
    components: Sequence[Component],
    refit: Refit | None = None,
    every: bool = False,
    transforms: bool = False,
) -> tuple[LooBlock, ...]:
    """Leave out every response. With `refit`, those that are flagged, or `every` one, are left out
    of new fits at each component's theta; where a Gaussian is off there, of exact draws of these,
    which give `transforms` where they are asked for."""
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
            found = refitted(refit, components, [only(components, k, i) for i in places.tolist()])
            again = [_refitted(c, k, places, m) for c, m in zip(components, found, strict=True)]
            block = _block(components, k, again, np.where(pick, 0.0, influence), pick)
            off = [i for i, m in zip(places.tolist(), zip(*found, strict=True), strict=True)
                   if any(one is not None and one.off for one in m)]  # fmt: skip
            block = block.renew(refit, components, k, off)
            block = block.by_draws(refit, components, k, off, transforms)
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
    parts = (tuple(cavities), mixed.weight, mixed.evenness)
    return LooBlock(mixed.log_density, flag, refitted, *parts, error=np.zeros(len(sound)))


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
