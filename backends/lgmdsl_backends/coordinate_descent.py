"""Coordinate descent on phi: one width at a time (Jaakkola 1997, Girolami 2001), the baseline that
the double loop replaces (Nickisch and Seeger 2009, section 2.2).

With the rest of q fixed, phi is a function of one gamma alone. Let E[s] = m, Var[s] = v,
r = 1/v - w (the precision without the site) and t = m/v, which no change of w moves. Along x, with
w = -2g'(x),

    phi(x) = -x w - 2g(x) + log(r + w) - t^2 / (r + w) + const,    phi'(x) = 2g''(x) (x - X(x)),
    X(x) = V + (V t)^2,  V = 1 / (r + w)

so the minimum is where x = X(x); X rises with x, and x <- X(x) alone is the double loop's own step.

The covariance is carried along by rank-one updates: of the latents where they are fewer than the
rows, else of the rows. Rows go in groups, the updates within a group on its own small covariance,
and the large one takes them all at once. Each sweep begins from a fresh factorisation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, cast

import numpy as np

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.backend import Backend, BackendSpec, check_least, check_range, option
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.joint import Divisible, row_covariance
from lgmdsl.contract.objectives.super_gaussian import (
    WidthPoint,
    at_moments,
    residual,
    start,
    super_gaussian,
)
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import SuperGaussian
from lgmdsl.contract.rows import CERTAIN
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import StackedPredictors, flatten, split_like
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.vocabulary.notes import Notes

LIMIT = 100  # evaluations of g for one width


@dataclass(frozen=True)
class DescentState:
    """A point on the bound, the distance from its optimum, and the sites one by one."""

    point: WidthPoint | None
    residual: float = math.inf
    failed: Status | None = None
    reason: str | Failed = ""
    single: tuple[SuperGaussian, ...] = field(default=(), repr=False)

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.bound


@dataclass(frozen=True)
class CoordinateDescent(Backend[DescentState]):
    """One width after another, each to its minimum; a step is a sweep over all rows.

    `accuracy`: relative, of each row's E[s]^2 + Var[s]. `group`: rows between two updates of the
    large covariance; it changes the cost, not the result.
    """

    accuracy: float = option(1e-9, "of each row's E[s]^2 + Var[s], relative, from 1e-14 to 0.1")
    group: int = option(
        64, "rows between two updates of the large covariance; changes the cost, not the result"
    )
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="coordinate-descent",
        needs=SuperGaussian,
        additive=True,
        row_by_row=True,
        requires=Property.SUPER_GAUSSIAN,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        only_scalar="its bounds are widths of one predictor each",
        max_steps=500,
        paper="Jaakkola 1997; Girolami 2001",
        summary="double-loop's bound, one width at a time; dense in the latents or in the rows",
        notes=Notes(
            formula="t(s) = max over widths w of exp(b s - s^2 / (2 w) - h(w) / 2) for each site; "
            "the bound of log p(y) is maximised over all widths, one width after another",
            support="scalar super-Gaussian sites; memory grows with the square of the latents or "
            "rows",
            advice="the optimum of double-loop by another search; for comparison",
            example="lgm fit model.lgm data.npz --method coordinate-descent --option group=32",
            see_also=("double-loop", "jaakkola"),
        ),
    )

    def __post_init__(self) -> None:
        check_range("accuracy", self.accuracy, 1e-14, 0.1)
        check_least("group", self.group, 1)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> DescentState:
        sites = super_gaussian(problem)
        sizes = [len(m) for m in problem.engine.prior_mean]
        single = tuple(
            cast(Divisible, site).take(np.array([k]))
            for site, size in zip(sites, sizes, strict=True)
            for k in range(size)
        )
        return replace(_state(problem, start(problem, warm)), single=single)

    def step(self, problem: Problem, state: DescentState) -> DescentState:
        assert state.point is not None
        q = state.point.conditioned
        squares = self._sweep(problem, q, state.single)
        still = tuple(np.zeros_like(m) for m in q.mean)
        reached = _state(problem, at_moments(problem, still, split_like(squares, q.mean)))
        return replace(reached, single=state.single)

    def residual(self, problem: Problem, state: DescentState) -> float:
        """Newton's move of a mean in posterior sds, or the relative change of a weight."""
        return state.residual

    def posterior(self, problem: Problem, state: DescentState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem)

    def _sweep(self, problem: Problem, q: Conditioned, single: tuple[SuperGaussian, ...]) -> Array:
        """(P,) x of every row after one pass: its width is that of -1/(2 g'(x))."""
        linear = problem.engine.linear
        weight = flatten(q.weight)
        x = np.empty_like(weight)
        few = linear.size < linear.rows
        if few:
            operator: Matrix | None = StackedPredictors(linear).matrix()
            covariance, mean = q.solve(np.eye(linear.size)), q.latent_mean.copy()
            offset = np.concatenate([p.offset for p in linear.predictors])
        else:
            operator, covariance, mean = None, row_covariance(q, linear), flatten(q.mean).copy()
        top = max(float(v.max(initial=0.0)) for v in q.variance)
        for begin in range(0, linear.rows, self.group):
            group_rows = slice(begin, begin + self.group)
            if operator is None:
                reach, block_mean = covariance[:, group_rows].copy(), mean[group_rows].copy()
                block = reach[group_rows].copy()
            else:
                part = operator[group_rows]
                reach = np.asarray((part @ covariance).T)
                block, block_mean = np.asarray(part @ reach), part @ mean + offset[group_rows]
            before, change = block.copy(), np.zeros(len(block))
            for i in range(len(block)):
                k, v, m = begin + i, float(block[i, i]), float(block_mean[i])
                if not v > CERTAIN * top:
                    x[k] = m * m + max(v, 0.0)
                    continue
                x[k], new = self._minimum(single[k], v, m, float(weight[k]))
                change[i] = new - weight[k]
                share = change[i] / (1.0 + change[i] * v)
                column = block[:, i].copy()
                block_mean -= (share * m) * column
                block -= np.multiply.outer(share * column, column)
            # V - T D (I + C D)^-1 T', the shifts staying as they are.
            mean -= reach @ (change * block_mean)
            inner = np.linalg.solve(np.eye(len(block)) + before * change, reach.T)
            covariance -= (reach * change) @ inner
        return x

    def _minimum(self, site: SuperGaussian, v: float, m: float, w: float) -> tuple[float, float]:
        """(x, weight) where one row's phi is lowest: safeguarded Newton on x - X(x)."""
        rest, t = max(1.0 / v - w, 0.0), m / v

        def evaluate(x: float) -> tuple[float, float, float, float]:
            """Weight, X - x, its slope, phi."""
            value, first, second = (float(part[0]) for part in site.g(np.array([x])))
            weight = -2.0 * first
            spread = 1.0 / (rest + weight)
            square = spread + (spread * t) ** 2
            bend = 2.0 * second * spread * (spread + 2.0 * (spread * t) ** 2) - 1.0
            phi = -x * weight - 2.0 * value - math.log(spread) - spread * t * t
            return weight, square - x, bend, phi

        x = first = v + m * m
        low, high = 0.0, math.inf
        start = now = evaluate(x)
        for _ in range(LIMIT):
            if abs(now[1]) <= self.accuracy * x:
                break
            low, high = (x, high) if now[1] > 0.0 else (low, x)
            step = -now[1] / now[2] if now[2] < 0.0 else now[1]
            x = x + step if low < x + step < high else x + now[1]
            now = evaluate(x)
        # Newton may have passed one minimum for another that is higher; the first x never is.
        return (first, start[0]) if now[3] > start[3] else (x, now[0])


def _state(problem: Problem, point: WidthPoint | Failed) -> DescentState:
    if isinstance(point, Failed):
        return DescentState(None, math.inf, Status.numerical_error, point)
    return DescentState(point, residual(problem, point.conditioned))
