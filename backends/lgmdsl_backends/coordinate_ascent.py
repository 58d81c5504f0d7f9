"""Coordinate ascent for the variational Gaussian: one row's variance after another, then the mean.

The posterior covariance of the rows is V = (S^-1 + diag w)^-1, S = B K B'. Row k of a sweep has
the cavity precision c = 1/v - w, which leaves w_k out (the paper's Omega_22 - t_22 once B is
absorbed into the prior), and solves

    1/v - c + 2 f_v(m, v) = 0,    w_k = 1/v - c,    V <- V + (v - v_old) V_k V_k' / v_old^2.

A vector site's K rows go together: W solves W = -2 f_V(m, V) with V as W makes it, K x K.

S is never inverted, so it may be singular; flat priors need w > 0 only. After the rows the mean is
maximised at fixed v. A row's equation makes the bound stationary in K_kk = Q_kk + w_k only together
with the other rows' equations: the paper proves no ascent, so a sweep that lowers the bound is cut
back towards its start, and in the last resort replaced by a damped step to w = -2 f_v, which rises.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec, check_range, option
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.joint import row_covariance, some_rows
from lgmdsl.contract.objectives.elbo import ElboPoint, begin, comparable
from lgmdsl.contract.objectives.natural_ascent import profiled, undamped_move
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.rows import CERTAIN
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.numerics.optimisation.newton import solve_variance
from lgmdsl.vocabulary.notes import Notes

# A fall below this fraction of the bound is rounding.
ROUNDING = 1e-13
ROUNDS = 60  # of a vector site's fixed point


@dataclass(frozen=True)
class AscentState:
    """A point on the ELBO and the true distance from its fixed point."""

    point: ElboPoint | None
    residual: float = math.inf
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.elbo


@dataclass(frozen=True)
class CoordinateAscent(Backend[AscentState]):
    """Scalar variance updates by safeguarded Newton (Khan 2012, algorithm 3); a step is a sweep.

    `accuracy`: relative, of each row's variance.
    """

    accuracy: float = option(1e-8, "of each row's variance, relative, from 1e-14 to 0.1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="coordinate-ascent",
        needs=Expected,
        additive=True,
        row_by_row=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=500,
        paper="Khan 2012, algorithm 3",
        summary="variational Gaussian, one row's variance after another; dense in the rows",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V), one "
            "row's variance after another to its fixed point",
            support="every site that natural-gradient takes; memory grows with the square of the "
            "rows",
            advice="the optimum of natural-gradient by another search; for Gaussian processes of "
            "few rows",
            example="lgm fit model.lgm data.npz --method coordinate-ascent --option accuracy=1e-6",
            see_also=("natural-gradient", "coordinate-descent", "lcl"),
        ),
    )

    def __post_init__(self) -> None:
        check_range("accuracy", self.accuracy, 1e-14, 0.1)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> AscentState:
        point = begin(problem, warm)
        if isinstance(point, Failed):
            return AscentState(None, math.inf, Status.numerical_error, point)
        return _state(problem, point)

    def step(self, problem: Problem, state: AscentState) -> AscentState:
        point = state.point
        assert point is not None
        covariance = row_covariance(point.conditioned, problem.engine.linear)
        swept = self._sweep(problem, point, covariance)
        floor = point.elbo - ROUNDING * (1.0 + abs(point.elbo))
        for weight in _trials(point, swept):
            tried = profiled(problem, weight, point.mean, point.alpha)
            if isinstance(tried, Failed) or tried.elbo < floor:
                continue
            if comparable(tried, point):
                return _state(problem, tried)
        return replace(state, failed=Status.stalled, reason="no sweep raises the bound")

    def residual(self, problem: Problem, state: AscentState) -> float:
        """The undamped step's move: of the means in posterior sds, or of a log sd."""
        return state.residual

    def posterior(self, problem: Problem, state: AscentState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem, self.spec.guarantee)

    def _sweep(self, problem: Problem, point: ElboPoint, covariance: Array) -> Rows:
        """The weights after one pass over the rows at fixed means; `covariance` is overwritten."""
        weights, start = tuple(w.copy() for w in point.weight), 0
        least = CERTAIN * float(covariance.diagonal().max(initial=0.0))
        for answer, mean, weight in zip(problem.expecting(), point.mean, weights, strict=True):
            size = 1 if mean.ndim == 1 else mean.shape[1]
            for k in range(len(mean)):
                rows = slice(start, start + size)
                if mean.ndim == 1:
                    weight_at = _weight_of(answer, mean, k)
                    weight[k] = self._row(weight_at, float(weight[k]), covariance, start, least)
                else:
                    weight[k] = self._block(
                        _block_of(answer, mean, k), weight[k], covariance, rows, least
                    )
                start += size
        return weights

    def _row(
        self,
        weight_at: Callable[[float], tuple[float, float]],
        weight: float,
        covariance: Array,
        k: int,
        least: float,
    ) -> float:
        """The new weight of row k."""
        old = float(covariance[k, k])
        if not old > least:  # known exactly: no weight changes it
            return weight_at(max(old, 0.0))[0]
        # Leverage 1 (a flat direction that this row alone fixes) leaves rounding for a cavity.
        cavity = max(1.0 / old - weight, 0.0)
        new = solve_variance(weight_at, cavity, old, self.accuracy)
        share = covariance[k] / old  # its square may be beyond doubles where old^2 is
        covariance += np.multiply.outer(share * (new - old), share)
        return 1.0 / new - cavity

    def _block(
        self,
        weight_at: Callable[[Array], Array],
        weight: Array,
        covariance: Array,
        rows: slice,
        least: float,
    ) -> Array:
        """The new weight, (K, K), of a vector site: W = T(V), V = (I + V_0 (W - W_0))^-1 V_0, by
        steps towards T that are halved when the gap grows. V_0 may be singular."""
        old, unit = covariance[rows, rows].copy(), np.eye(len(weight))
        if not float(old.trace()) > least:
            return weight_at(old)
        new, share, last = weight, 1.0, math.inf
        for _ in range(ROUNDS):
            spread = np.linalg.solve(unit + old @ (new - weight), old)
            target = weight_at(0.5 * (spread + spread.T))
            gap = float(np.abs(target - new).max())
            if gap <= self.accuracy * float(np.abs(target).max()):
                break
            share = 0.5 * share if gap >= last else share
            new, last = new + share * (target - new), gap
        change = new - weight
        half = covariance[rows].copy()
        covariance -= half.T @ np.linalg.solve(unit + change @ old, change) @ half
        return new


def _block_of(answer: Expected, mean: Array, k: int) -> Callable[[Array], Array]:
    """V -> T = -2 f_V(m, V) of one vector site."""
    alone = some_rows(answer, np.array([k]), len(mean))
    centre = mean[k : k + 1]

    def weight(variance: Array) -> Array:
        return np.asarray(-2.0 * alone(centre, variance[None]).d_variance[0])

    return weight


def _weight_of(answer: Expected, mean: Array, k: int) -> Callable[[float], tuple[float, float]]:
    alone = some_rows(answer, np.array([k]), len(mean))
    centre = mean[k : k + 1]

    def weight(v: float) -> tuple[float, float]:
        expected = alone(centre, np.array([v]))
        bend = expected.d_variance2
        return -2.0 * expected.d_variance.item(), 0.0 if bend is None else -2.0 * bend.item()

    return weight


def _trials(point: ElboPoint, swept: Rows) -> Iterator[Rows]:
    """The sweep, parts of it, then ever shorter natural-gradient steps (an ascent direction)."""
    for share in (1.0, 0.5, 0.25):
        yield rows.interpolate(point.weight, swept, share)
    target = point.target[0]
    for share in 0.5 ** np.arange(0, 30):
        yield rows.interpolate(point.weight, target, float(share))


def _state(problem: Problem, point: ElboPoint) -> AscentState:
    return AscentState(point, undamped_move(problem, point))
