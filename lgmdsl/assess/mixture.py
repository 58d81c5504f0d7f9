"""Predictive densities of a mixture over hyperparameters, with and without the data they are of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.failure import LEAST_EVEN, Failure

# Monte Carlo error from which on the difference of log evidences is nearer.
MOST_ERROR = 0.1


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
    when they are reweighted to it, 1 where nothing changes. Points end where the posterior with y_i
    does: by quadrature of models of two scales the log density is off by up to 0.04 at an evenness
    of 0.5, by 0.1 at 0.2, and by nats where it is below 0.02."""

    log_density: Array
    weight: Array
    evenness: Array


@dataclass(frozen=True, eq=False)
class Renewal:
    """A fit without some rows that integrates over the hyperparameters anew: its components, over
    all rows, and log p(y) of the fit of all rows less that of this one."""

    components: tuple[Component, ...]
    difference: float


# Of the rows of each datum that it is without; None where the others determine no posterior.
Renew: TypeAlias = Callable[[tuple[IntArray, ...]], Renewal | None]


T = TypeVar("T")


class Without(NamedTuple):
    """The joint mean (P,) and covariance (P, P) of the predictors of rows that a fit is without;
    `off`: whether the posterior is too far from these for a Gaussian to stand for it."""

    mean: Array
    covariance: Array
    off: bool


class Refit(Protocol):
    """Fits without some rows of each datum, at a component's hyperparameters, and many of them:
    moments of the rows' predictors (None where the rest has no posterior); `draws`: so many exact
    draws of z, (k, n), and how many independent ones they are worth (None too where chains do not
    agree); `renew`: as that of `RefitWithout`."""

    @property
    def renew(self) -> Renew | None: ...

    def __call__(self, component: Component, rows: tuple[IntArray, ...]) -> Without | None: ...

    def draws(
        self, component: Component, rows: tuple[IntArray, ...], count: int
    ) -> tuple[Array, float] | None: ...

    def each(self, call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]: ...


def anew(
    weight: Array, logs: Array, errors: Array, difference: float
) -> tuple[float, float, Failure]:
    """log p(y_i | y_-i), its Monte Carlo error and flag, from log p(y_i | y_-i, theta_c), (C,), at
    points of a posterior without y_i of weights (C,). Where few of these points, or few draws at
    them, explain y_i, as the tails do where it is extreme, it is the difference of the log
    evidences."""
    log = float(log_mean(weight, logs[:, None])[0])
    share = weight * np.exp(logs - log)
    error = float(np.sqrt(np.sum((share * errors) ** 2)))
    reached = error <= MOST_ERROR and LEAST_EVEN * np.sum(share**2 / weight) <= 1.0
    if np.isfinite(difference) and not reached:
        log, error = difference, 0.0
    return log, error, Failure.none if np.isfinite(log) else Failure.not_finite


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
