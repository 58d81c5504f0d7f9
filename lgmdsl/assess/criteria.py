"""Information criteria, DIC and WAIC, from Gaussian marginals or from exact draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.assess.averages import log_density, log_moments
from lgmdsl.assess.component import Component
from lgmdsl.assess.drawn.levels import PosteriorDraws
from lgmdsl.assess.mixture import log_mean, weights_of
from lgmdsl.contract.engine import Rows


@dataclass(frozen=True, eq=False)
class Deviances:
    """-2 log p(y_i | s_i) of each response, times its weight, one array for each observed datum:
    its posterior mean, and its value at the posterior mean of the predictors; `error`: the Monte
    Carlo error of the DIC."""

    mean: Rows
    at_mean: Rows
    error: float = 0.0


def deviances(components: Sequence[Component], points: Sequence[Component]) -> Deviances:
    """The deviances behind DIC (Spiegelhalter et al. 2002).

    As in R-INLA, the plug-in deviance is at the posterior mean of the predictors, averaged over the
    hyperparameters, and at the hyperparameters of the one of `points` with the largest weight.
    """
    top = max(points, key=lambda c: c.weight)
    mean, at_mean = [], []
    for k, site in enumerate(top.sites):
        centre = sum(c.weight * c.mean[k] for c in components)
        rows = top.row_weights[k]
        mean.append(rows * sum(-2.0 * c.weight * moments(c, k)[0] for c in components))
        at_mean.append(-2.0 * rows * site.log_density(np.asarray(centre)))
    return Deviances(tuple(map(np.asarray, mean)), tuple(at_mean))


@dataclass(frozen=True, eq=False)
class WaicTerms:
    """`lppd`: log posterior mean of p(y_i | s_i); `effective`: posterior variance of its log; both
    times the weight of the row, as of so many rows; `error`: the Monte Carlo error of the elpd."""

    lppd: Rows
    effective: Rows
    error: float = 0.0


def waic_terms(components: Sequence[Component]) -> WaicTerms:
    """The parts of WAIC (Watanabe 2010; p_WAIC2 of Gelman, Hwang and Vehtari 2014)."""
    weight = weights_of(components)
    lppd, effective = [], []
    for k in range(len(components[0].sites)):
        rows = components[0].row_weights[k]
        lppd.append(rows * log_mean(weight, np.stack([density(c, k) for c in components])))
        pairs = [moments(c, k) for c in components]
        first, within = (np.stack([m[j] for m in pairs]) for j in (0, 1))
        centre = weight @ first
        effective.append(rows * (weight @ (within + (first - centre) ** 2)))
    return WaicTerms(tuple(lppd), tuple(effective))


def moments(component: Component, block: int) -> tuple[Array, Array]:
    """Mean and variance of the log densities of one datum under q."""
    c = component
    return log_moments(c.sites[block], c.mean[block], c.variance[block])


def density(component: Component, block: int) -> Array:
    """log E_q[p(y | s)] of one datum."""
    c = component
    return log_density(c.sites[block], c.mean[block], c.variance[block])


def standard_error(pointwise: Rows) -> float:
    """sqrt(N Var), of a sum over N responses (Vehtari, Gelman and Gabry 2017, eq. 5)."""
    flat = np.concatenate([np.zeros(0), *pointwise])
    return float(np.sqrt(len(flat) * flat.var(ddof=1))) if len(flat) > 1 else float("nan")


def drawn_deviances(draws: PosteriorDraws) -> Deviances:
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
    return Deviances(tuple(mean), tuple(map(np.asarray, at_mean)), draws.error(influence))


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


def drawn_waic_terms(draws: PosteriorDraws) -> WaicTerms:
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
    return WaicTerms(tuple(lppd), tuple(effective), draws.error(influence))


def stacked(log_density: Array) -> Array:
    """The weights w (K,) on the simplex that maximise sum_i log sum_k w_k exp(l_ik), for log
    densities l (N, K) of each response under each model, the response left out.

    Concave; at the maximum the mean of p_ik / sum_j w_j p_ij is 1 for models of weight, and at most
    1 for the others (Yao, Vehtari, Simpson and Gelman 2018, section 3).
    """
    from scipy import optimize

    relative = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    count = relative.shape[1]
    start = np.full(count, 1.0 / count)
    for _ in range(50):  # EM, which is monotone, then Newton-like steps
        start = start * np.mean(relative / (relative @ start)[:, None], axis=0)

    def negative(w: Array) -> float:
        return -float(np.mean(np.log(np.maximum(relative @ w, 1e-300))))

    def slope(w: Array) -> Array:
        mixed = np.maximum(relative @ w, 1e-300)
        return np.asarray(-np.mean(relative / mixed[:, None], axis=0))

    result = optimize.minimize(
        negative,
        start,
        jac=slope,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * count,
        constraints=optimize.LinearConstraint(np.ones((1, count)), 1.0, 1.0),
        options={"ftol": 1e-12, "maxiter": 500},
    )
    better = np.clip(result.x, 0.0, None)
    better /= better.sum()
    return np.asarray(better if negative(better) <= negative(start) else start)
