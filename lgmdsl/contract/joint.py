"""What all predictor rows of a problem have together, single rows of what answers for them, and
sites that stand for the rows that share their latents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Engine, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.numerics.cholesky import pivoted_root

if TYPE_CHECKING:
    from lgmdsl.contract.site import Site


def row_covariance(q: Conditioned, linear: LinearGaussian) -> Array:
    """(P, P) covariance of all predictor rows under q."""
    return q.project(StackedPredictors(linear).predictor(), full=True)[1]


def latent_root(q: Conditioned, size: int) -> Array:
    """(n, r) R with RR' = Cov_q[z], of rank r; that of the correlations, whatever their scales.
    Rows of latents that are held fixed are 0: what rounding leaves of them has no correlations."""
    covariance = q.solve(np.eye(size))
    moving = (q.latent_variance > 0.0) & (covariance.diagonal() > 0.0)
    sd = np.sqrt(np.where(moving, covariance.diagonal(), 0.0))
    scale = np.where(moving, sd, np.inf)
    covariance = (covariance + covariance.T) / (2.0 * np.outer(scale, scale))
    return np.asarray(sd[:, None] * pivoted_root(covariance))


def newton_move(engine: Engine, q: Conditioned, gaps: Rows) -> float:
    """sqrt(g'Cov(z)g) with g = B' gaps, for shifts that are `gaps` off: how far Newton with q's own
    curvature would move any mean at most, in posterior sds. Costs one solve."""
    return float(np.sqrt(abs(q.squared_length(engine.pulled_back(gaps)))))


@runtime_checkable
class Divisible(Protocol):
    """An answer that can be asked about some of its rows alone: every site, and lifts that say so
    with a method `take`."""

    def take(self, rows: IntArray) -> Any: ...


def some_rows(
    answer: Expected, where: IntArray, size: int, second: bool = True
) -> Callable[[Array, Array], ExpectedAnswer]:
    """(mean, variance) -> the answer of rows `where` of `size`, `second`: with its second
    derivatives.

    What is not `Divisible` is evaluated over all its rows, which costs more.
    """
    if len(where) == size:
        return lambda mean, variance: answer.expected(mean, variance, second)
    if isinstance(answer, Divisible):
        few: Expected = answer.take(where)
        return lambda mean, variance: few.expected(mean, variance, second)

    def among_all(mean: Array, variance: Array) -> ExpectedAnswer:
        every_mean = np.zeros((size, *mean.shape[1:]))
        each = np.ones(()) if mean.ndim == 1 else np.eye(mean.shape[1])
        every_variance = np.array(np.broadcast_to(each, (size, *each.shape)))
        every_mean[where], every_variance[where] = mean, variance
        a = answer.expected(every_mean, every_variance, second)
        more = (a.d_mean_variance, a.d_variance2, a.d_mean2)
        return ExpectedAnswer(
            a.value[where],
            a.d_mean[where],
            a.d_variance[where],
            *(None if x is None else x[where] for x in more),
        )

    return among_all


class SumsOfRows(ABC):
    """G vector sites with K predictors each, whose log densities are sums over rows,
    L_g(z) = sum_i l_i(a_i'z + c_i)."""

    @abstractmethod
    def by(self, answer: Callable[[Site], object]) -> Self:
        """These sites, whose rows answer through what `answer` makes of them."""

    @abstractmethod
    def unit_weights(self) -> Array:
        """(G, K, K) sums of u_i^2 a_i a_i', u_i a power of 2 with u_i a_i about of size one."""

    @abstractmethod
    def working_sd(self, mean: Array, variance: Array, prior: Array | None = None) -> float:
        """The sd of the rows' working residuals at means (G, K) and variances (G, K, K) of z; with
        the prior's means, (G, K), that of the working response about its mean, beyond what the
        prior says. 0 where there is none."""

    @abstractmethod
    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        """(D, T) sums of l over all rows at z = s + t d: s, (G, K); directions, (D, G, K); lengths,
        (D, T)."""

    @abstractmethod
    def row_sites(self) -> RowSites:
        """Gaussian sites of the rows that say nothing: weights and shifts of 0."""


@dataclass(frozen=True, slots=True)
class RowUpdate:
    """What a visit makes of rows: summands of a value, gaps of slopes in their predictors, and the
    weights and shifts of the Gaussian sites that they ask for. All (n,), or of vector sites
    (n,), (n, K), (n, K, K) and (n, K)."""

    value: Array
    gap: Array
    weight: Array
    shift: Array


# (weights, shifts, means, variances, answers) of some rows -> what to make of them; None: no visit
# of any row counts.
Visit = Callable[[Array, Array, Array, Array, Any], RowUpdate | None]
# The same -> means and variances at which the rows' slopes in their parameters are averaged.
Cavity = Callable[[Array, Array, Array, Array], tuple[Array, Array]]


class RowSites(ABC):
    """Gaussian sites of single rows, exp(-w s^2 / 2 + b s), of a block of sums, and their sums as
    sites of the latents: `weight`, (G, K, K), and `shift`, (G, K)."""

    weight: Array
    shift: Array

    @abstractmethod
    def visited(self, mean: Array, variance: Array, visit: Visit) -> VisitedRows | None:
        """Every row once, at means (G, K) and variances (G, K, K) of the latents."""

    @abstractmethod
    def slopes(
        self, mean: Array, variance: Array, cavity: Cavity, power: float
    ) -> dict[str, Array]:
        """Averages of dl/dparameter over the rows' tilted densities (`TiltedSlopes`), as the
        block's slopes in its parameters."""


@dataclass(frozen=True, eq=False)
class VisitedRows:
    """After a visit: the summed value, the gaps as slopes in the latents, (G, K), and the sites a
    `share` of the way from the ones visited to those that they asked for. `inside`: whether rows
    were matched where they lie, and not by the visit, which then has seen none of them."""

    value: float
    gap: Array
    towards: Callable[[float], RowSites]
    inside: bool = False
