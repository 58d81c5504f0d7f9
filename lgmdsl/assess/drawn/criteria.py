"""DIC and WAIC of exact draws (the quantities of `assess/criteria`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.assess.criteria import Deviances, WaicTerms
from lgmdsl.assess.drawn.levels import PosteriorDraws


@dataclass(frozen=True, eq=False)
class DrawnDeviances(Deviances):
    """`error`: the Monte Carlo error of the DIC."""

    error: float


@dataclass(frozen=True, eq=False)
class DrawnWaic(WaicTerms):
    """`error`: the Monte Carlo error of the elpd."""

    error: float


def deviances(draws: PosteriorDraws) -> DrawnDeviances:
    """The deviances behind DIC: at the draws, and at the mean of the predictors over them."""
    top = max(draws.components, key=lambda c: c.weight)
    mean, at_mean, influence = [], [], np.zeros(len(draws))
    for k, site in enumerate(top.sites):
        rows = np.arange(len(site))
        local = np.empty(len(rows))
        for places, level in draws.levels(k, rows):
            level = level * top.row_weights[k][places]
            local[places] = -2.0 * level.mean(axis=0)
            influence += -4.0 * level.sum(axis=1)  # DIC is twice the mean deviance less another
        mean.append(local)
        at_mean.append(-2.0 * top.row_weights[k] * site.log_density(_centre(draws, k)))
    return DrawnDeviances(tuple(mean), tuple(map(np.asarray, at_mean)), draws.error(influence))


def _centre(draws: PosteriorDraws, block: int) -> Array:
    """The posterior mean of the predictors: of the draws' mean at each point."""
    total: Array | None = None
    for k in np.unique(draws.point):
        c, places = draws.components[k], np.flatnonzero(draws.point == k)
        mean = draws.z(places).mean(axis=0)
        part = c.predictors[block].values(mean, c.slices).reshape(c.mean[block].shape)
        part = part * (len(places) / len(draws))
        total = part if total is None else total + part
    assert total is not None
    return total


def waic_terms(draws: PosteriorDraws) -> DrawnWaic:
    """The parts of WAIC, means and variances over the draws."""
    lppd, effective, influence = [], [], np.zeros(len(draws))
    for k, site in enumerate(draws.components[0].sites):
        rows, times = np.arange(len(site)), draws.components[0].row_weights[k]
        inside, spread = np.empty(len(rows)), np.empty(len(rows))
        for places, level in draws.levels(k, rows):
            inside[places] = special.logsumexp(level, axis=0) - np.log(len(draws))
            away = (level - level.mean(axis=0)) ** 2
            spread[places] = away.mean(axis=0)
            share = np.exp(level - inside[places]) - away
            influence += share @ times[places]
        lppd.append(times * inside)
        effective.append(times * spread)
    return DrawnWaic(tuple(lppd), tuple(effective), draws.error(influence))
