"""Predictive densities of a mixture over hyperparameters, with and without the data they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.assess.component import Component


def weights_of(components: Sequence[Component]) -> Array:
    """(C,) the components' weights."""
    return np.array([c.weight for c in components])


def log_mean(weight: Array, logs: Array) -> Array:
    """log sum_c w_c exp(logs_c), logs (C, N): the density at y of the mixture."""
    with np.errstate(divide="ignore"):
        density = special.logsumexp(logs + np.log(weight)[:, None], axis=0)
    return np.asarray(density)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """`log_density`, (N,): log p(y_i | y_-i). `weight`, (C, N): the posterior of the
    hyperparameters without y_i. `evenness`, (N,): the effective share of the points that is left
    when they are reweighted to it, 1 where nothing changes."""

    log_density: Array
    weight: Array
    evenness: Array


def left_out(weight: Array, logs: Array, expected: Array | None = None) -> LeftOut:
    """From log p(y_i | y_-i, theta_c), (C, N).

    The hyperparameters' posterior without y_i is w_c / p_c up to a constant, so that 1 / p =
    sum_c w_c / p_c (Held, Schroedle and Rue 2010, Posterior and cross-validatory predictive
    checks, section 3). Of a mean field the factor without y_i is w_c exp(-E log t_i(s, theta_c)),
    with the `expected` log densities (C, N) of y_i under the factor of s without it. Of a row that
    leaves with a weight, `expected` is the log mean of t_i to that power.
    """
    with np.errstate(all="ignore"):
        level = np.log(weight)[:, None] - (logs if expected is None else expected)
        total = special.logsumexp(level, axis=0)
        reweighted = np.exp(level - total)
        ratio = np.where(weight[:, None] > 0.0, reweighted / weight[:, None], 0.0)
        evenness = 1.0 / np.sum(weight[:, None] * ratio**2, axis=0)
        density = -total if expected is None else special.logsumexp(level - total + logs, axis=0)
    return LeftOut(np.asarray(density), reweighted, evenness)
