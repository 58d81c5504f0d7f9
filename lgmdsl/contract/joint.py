"""What all predictor rows of a problem have together, single rows of what answers for them, and
sites that stand for the rows that share their latents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.engine import Conditioned, Engine, Rows
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.questions import (
    Bounded,
    BoundedAnswer,
    Expected,
    ExpectedAnswer,
    ExpectedSlopes,
    Pointwise,
    Widths,
)
from lgmdsl.contract.rows import inner, times
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.contract.stacked import StackedPredictors
from lgmdsl.numerics.cholesky import pivoted_root


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


# Of the rows' properties, those that their sums have.
KEPT = Property.LOG_CONCAVE | Property.GAUSSIAN | Property.BOUNDED | Property.LIMITED


class SumsOfRows(Site, Pointwise, Expected, ExpectedSlopes, Bounded):
    """G vector sites with K predictors each, whose log densities, and answers, are sums over rows,
    L_g(z) = sum_i l_i(a_i'z + c_i). Means of z are (G, K), variances (G, K, K)."""

    @staticmethod
    def spec_of(family: type[Site], sums: str, slopes: tuple[str, ...] = ()) -> SiteSpec:
        """Specification of the sites that rows of a `family` make by their `sums`; `slopes`: what
        these come in, () for the family's parameters."""
        known = family.spec
        return SiteSpec(
            f"{known.name} by {sums}",
            properties=known.properties & KEPT,
            observed=known.observed,
            vector=True,
            shared=slopes or tuple(known.parameters),
            summary=known.summary,
        )

    @abstractmethod
    def by(self, answer: Callable[[Site], object]) -> Self:
        """These sites, whose rows answer through what `answer` makes of them."""

    @abstractmethod
    def unit_weights(self) -> Array:
        """(G, K, K) sums of u_i^2 a_i a_i', u_i a power of 2 with u_i a_i about of size one."""

    @abstractmethod
    def along(self, s: Array, directions: Array, lengths: Array) -> Array:
        """(D, T) sums of l over all rows at z = s + t d: directions, (D, G, K); lengths, (D, T)."""

    @abstractmethod
    def row_sites(self) -> RowSites:
        """Gaussian sites of the rows that say nothing: weights and shifts of 0."""

    @abstractmethod
    def working_sums(
        self, mean: Array, variance: Array, prior: Array | None
    ) -> tuple[float, float, float]:
        """Sums over the rows of the precision of what `working_sd` is the sd of, and of its
        first two powers times that."""

    def working_sd(self, mean: Array, variance: Array, prior: Array | None = None) -> float:
        """The sd of the rows' working residuals; with the prior's means that of the working
        response about its mean, beyond what the prior says. 0 where there is none."""
        total, first, second = self.working_sums(mean, variance, prior)
        if not total > 0.0 or not np.isfinite(second):
            return 0.0
        centre = 0.0 if prior is None else first / total
        return float(np.sqrt(max(second / total - centre * centre, 0.0)))

    @abstractmethod
    def averaged_slopes(self, question: type, mean: Array, variance: Array) -> dict[str, Array]:
        """Slopes in parameters, or in hyperparameters, of what rows answer to a question about
        q(z): `Expected`, or `Widths` for the best bound."""

    def expected_slopes(self, mean: Array, variance: Array) -> dict[str, Array]:
        return self.averaged_slopes(Expected, mean, variance)

    def width_slopes(self, s: Array, z: Array) -> dict[str, Array]:
        return self.averaged_slopes(Widths, s, z)

    def check_first(self, second: bool) -> None:
        """Raise TypeError where second derivatives of expectations are wanted."""
        if second:
            raise TypeError(f"{self.spec.name}: no second derivatives of expectations")

    def bound_of(
        self, s: Array, penalty: Array, level: Array, slope: Array, bend: Array, weight: Array
    ) -> BoundedAnswer:
        """The bound of these penalties, with their slopes and curvatures, at z = s; `level`: less
        1/2 tr W z, W the weights, (G, K, K)."""
        pull = times(weight, s)
        h = 2.0 * level + inner(pull - 2.0 * slope, s)
        return BoundedAnswer(penalty, slope, bend, weight, pull - slope, h)


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
