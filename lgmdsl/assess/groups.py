"""Leave-group-out predictive densities: all responses of a group left out together.

The joint cavity takes the Gaussian sites of the group's rows off their joint marginal under q;
log p(y_G | y_-G) is then a joint predictive density (`joint`). With a refit, the mean and the
covariance of the group's predictors are those of a fit without the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sl

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.averages import expected_log
from lgmdsl.assess.component import Component, factored, of_each
from lgmdsl.assess.drawn.left_out import redrawn
from lgmdsl.assess.failure import EVEN, Failure, judged
from lgmdsl.assess.influence import group_influence
from lgmdsl.assess.joint import JointDensity, joint_density
from lgmdsl.assess.loo import Moments, Refit, gaussian, refitted
from lgmdsl.assess.mixture import anew, left_out, weights_of
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.rows import cavity
from lgmdsl.contract.site import Site
from lgmdsl.contract.stacked import stack

# Rows of each datum that belong to one group.
Group = tuple[IntArray, ...]


@dataclass(frozen=True, eq=False)
class GroupDensities:
    """`log_density`, (G,): log p(y_G | y_-G), NaN where there is none; `error`: the standard error
    of its integral; `flag`, (G,): `Failure`; `refitted`, (G,): whose value is from a refit."""

    log_density: Array
    error: Array
    flag: IntArray
    refitted: BoolArray


def groups_out(
    components: Sequence[Component],
    groups: Sequence[Group],
    n: int,
    seed: int,
    refit: Refit | None = None,
    every: bool = False,
) -> GroupDensities:
    """Leave out every group; `n` quasi-random points for each that is not Gaussian. `refit` and
    `every` as in `loo`."""
    exact = gaussian(components)
    values: list[_Value | None] = [None] * len(groups)
    again = np.full(len(groups), refit is not None and every)
    if not again.any():  # no cavity of what is fitted again in any case
        found = [_left_out(components, g, n, seed, exact) for g in groups]
        values = [*found]
        if refit is not None:
            again = np.array([v.flag > 0 for v in found], dtype=np.bool_)
    if refit is not None:
        chosen = [int(k) for k in np.flatnonzero(again)]
        without = refitted(refit, components, [groups[k] for k in chosen])
        uneven, off = list[int](), list[int]()
        for place, k in enumerate(chosen):
            moments = [m[place] for m in without]
            if any(m is not None and m.off for m in moments):
                off.append(k)
                continue
            value = _left_out(components, groups[k], n, seed, exact, moments)
            values[k] = value
            if refit.renew is not None and not value.evenness >= EVEN:
                uneven.append(k)
        new = refit.each(_renewed, [(components[0], groups[k], n, seed) for k in uneven])
        for k, value in zip(uneven, new, strict=True):
            values[k] = value
        drawn = refit.each(redrawn, [(components, groups[k], True, None) for k in off])
        for k, by_draws in zip(off, drawn, strict=True):
            values[k] = NONE if by_draws is None else _Value(*by_draws.without(True)[1:])
    whole = [v for v in values if v is not None]
    return GroupDensities(
        np.array([v.log for v in whole]),
        np.array([v.error for v in whole]),
        np.array([v.flag for v in whole], dtype=np.int64),
        again,
    )


@dataclass(frozen=True)
class _Value:
    log: float
    error: float
    flag: int
    evenness: float = 1.0


NONE = _Value(np.nan, np.nan, int(Failure.improper))


def _renewed(refit: Refit, component: Component, group: Group, n: int, seed: int) -> _Value:
    """By a fit without the group that has new hyperparameter points; the group's sites at an old
    one say where its density is."""
    assert refit.renew is not None
    new = refit.renew(group)
    if new is None:
        return NONE
    found = []
    for c in new.components:
        moments = c.conditioned.project(joined(c, group), full=True)
        found.append(_density(c, group, _refitted(component, group, *moments), n, seed))
    logs, errors = (np.array([getattr(d, name) for d in found]) for name in ("log", "error"))
    log, error, flag = anew(weights_of(new.components), logs, errors, new.difference)
    return _Value(log, error, int(flag))


def _left_out(
    components: Sequence[Component],
    group: Group,
    n: int,
    seed: int,
    exact: bool,
    moments: Sequence[Moments] | None = None,
) -> _Value:
    """`moments`: of fits without the group at each component, where it is fitted again."""
    removed: list[_Removed | None]
    if moments is None:
        removed = of_each(components, lambda c: _removed(c, group))
    else:
        pairs = zip(components, moments, strict=True)
        removed = [
            None if m is None else _refitted(c, group, m.mean, m.covariance) for c, m in pairs
        ]
    sound = all(r is not None for r in removed)
    if not sound:
        return NONE
    logs, errors, expected = [], [], []
    for c, without in zip(components, removed, strict=True):
        assert without is not None
        density = _density(c, group, without, n, seed)
        logs.append(density.log)
        errors.append(density.error)
        if factored(components):
            taken = _taken(c, group)
            expected.append(_expected(taken, without.mean, without.covariance, c, group))
    moved_by = np.array(expected)[:, None] if expected else None
    mixed = left_out(weights_of(components), np.array(logs)[:, None], moved_by)
    error = float(np.sqrt(np.sum((mixed.weight[:, 0] * np.array(errors)) ** 2)))
    influence = 0.0
    if not exact and moments is None:
        top = int(np.argmax([c.weight for c in components]))
        without = removed[top]
        assert without is not None
        influence = group_influence(components[top], group, without.predictor, without.pull)
    flag = judged(mixed.log_density, np.array([True]), mixed.evenness, np.array([influence]))
    return _Value(float(mixed.log_density[0]), error, int(flag[0]), float(mixed.evenness[0]))


def _taken(c: Component, group: Group) -> list[tuple[Site, tuple[int, ...]]]:
    """The sites of a group, and the shapes of their predictors."""
    pairs = ((s.take(r), m[r].shape) for s, m, r in zip(c.sites, c.mean, group, strict=True))
    return [(s, shape) for s, shape in pairs if shape[0]]


def _density(c: Component, group: Group, without: _Removed, n: int, seed: int) -> JointDensity:
    # Rows leave with their weights: one of weight 2 is two rows of the group.
    leaving = [c.removed(k, r) for k, r in enumerate(group) if len(r)]
    shapes = [shape for _, shape in _taken(c, group)]
    parts = (without.mean, without.covariance, without.weight, without.shift)
    return joint_density(leaving, shapes, *parts, n, seed)


def _expected(
    taken: Sequence[tuple[Site, tuple[int, ...]]],
    mean: Array,
    covariance: Array,
    component: Component,
    group: Group,
) -> float:
    """The sum of weight E l over the sites of shapes (N,) or (N, K), for predictors of that joint
    mean and covariance."""
    total, start = 0.0, 0
    times = [w[r] for w, r in zip(component.row_weights, group, strict=True) if len(r)]
    for (site, shape), weight in zip(taken, times, strict=True):
        rows = start + np.arange(int(np.prod(shape))).reshape(shape)
        spread = covariance[rows, rows]
        if len(shape) > 1:
            spread = covariance[rows[:, :, None], rows[:, None, :]]
        total += float(weight @ expected_log(site, mean[rows], spread))
        start += rows.size
    return total


@dataclass(frozen=True, eq=False)
class _Removed:
    """The predictors of a group without its sites, and W and b of the sites; Cov(z, s) pull is the
    change of E z without them."""

    mean: Array
    covariance: Array
    weight: Array
    shift: Array
    predictor: Predictor
    pull: Array


def _refitted(component: Component, group: Group, mean: Array, covariance: Array) -> _Removed:
    weight, shift = own_sites(component, group)
    return _Removed(mean, covariance, weight, shift, joined(component, group), 0.0 * shift)


def _removed(component: Component, group: Group) -> _Removed | None:
    weight, shift = own_sites(component, group)
    predictor = joined(component, group)
    mean, covariance = component.conditioned.project(predictor, full=True)
    without = cavity(mean[None], covariance[None], weight[None], shift[None])
    if not without.sound[0]:
        return None
    pull = np.linalg.solve(np.eye(len(mean)) - weight @ covariance, weight @ mean - shift)
    return _Removed(
        without.mean[0],
        without.variance[0],
        weight,
        shift,
        predictor,
        np.asarray(pull, dtype=np.float64),
    )


def own_sites(component: Component, group: Group) -> tuple[Array, Array]:
    """W (P, P) and b (P,) of the Gaussian sites of a group."""
    blocks, shifts = [], []
    for w, b, sites in zip(component.site_weight, component.site_shift, group, strict=True):
        blocks += [np.diag(w[sites])] if w.ndim == 1 else list(w[sites])
        shifts.append(b[sites].reshape(-1))
    return np.asarray(sl.block_diag(*blocks)), np.concatenate([np.zeros(0), *shifts])


def joined(component: Component, group: Group) -> Predictor:
    """The predictors of a group's rows, of all data, as one."""
    parts = [component.rows(k, sites) for k, sites in enumerate(group) if len(sites)]
    return replace(stack(parts), event=0)
