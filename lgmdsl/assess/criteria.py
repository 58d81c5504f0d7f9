"""Information criteria from the Gaussian marginals: DIC and WAIC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.assess.averages import log_density, log_moments
from lgmdsl.assess.component import Component
from lgmdsl.assess.mixture import log_mean, weights_of
from lgmdsl.contract.engine import Rows


@dataclass(frozen=True, eq=False)
class Deviances:
    """-2 log p(y_i | s_i) of each response, times its weight, one array for each observed datum:
    its posterior mean, and its value at the posterior mean of the predictors."""

    mean: Rows
    at_mean: Rows


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
    times the weight of the row, as of so many rows."""

    lppd: Rows
    effective: Rows


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
