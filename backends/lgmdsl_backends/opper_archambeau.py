"""The variational Gaussian in N mean coefficients and N log weights, by L-BFGS.

At its optimum Cov_q[z] = (Q + B'WB)^-1 with W diagonal, so 2N unknowns do (Opper and Archambeau
2009). With a reference q0 in canonical form (W0, b0), its predictor means m0 and covariance C0,

    m = m0 + C0 a,   w = exp(omega)
    dELBO/da = C0 (f_m - alpha),   dELBO/domega = 1/2 w (C o C)(-2 f_v - w)

where alpha = b - Wm = alpha0 + a - W0 (m - m0) and C = Cov_q[s] at w. (W0 = 0 is the paper's choice
of a; any other reference spans the same means, and its metric whitens them: L-BFGS runs in the inner
product <a, a'> = a'C0 a', whose gradient is f_m - alpha.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.beginning import begin, lifted
from lgmdsl.contract.elbo import ElboPoint, elbo_at
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import flatten, split, stacked
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.numerics.lbfgs import LBFGS, Evaluated, Iterate

# Log weights leave this range only where the weight no longer matters.
RANGE = 300.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Cov_q[s] of one conditioning: its products, and those of its elementwise square."""

    design: Matrix
    conditioned: Conditioned

    @cached_property
    def _half(self) -> Array:
        """V B', (n, P), where the rows are not more than the latents; else V, (n, n)."""
        rows, size = self.design.shape
        if rows <= size:
            transposed = self.design.T
            dense = transposed if isinstance(transposed, np.ndarray) else transposed.toarray()
            return self.conditioned.solve(np.ascontiguousarray(dense))
        return self.conditioned.solve(np.eye(size))

    @cached_property
    def _square(self) -> Array | None:
        """C o C, (P, P), where it is not larger than V."""
        rows, size = self.design.shape
        return np.asarray(self.design @ self._half) ** 2 if rows <= size else None

    def times(self, x: Array) -> Array:
        """C x."""
        return np.asarray(self.design @ self.conditioned.solve(self.design.T @ x))

    def squared_times(self, x: Array) -> Array:
        """(C o C) x = diag(C diag(x) C)."""
        if self._square is not None:
            return np.asarray(self._square @ x)
        b, v = self.design, self._half
        if isinstance(b, np.ndarray):
            middle = v @ (b.T @ (x[:, None] * b)) @ v
            return np.asarray(np.einsum("ij,ij->i", b @ middle, b))
        middle = v @ (b.T @ b.multiply(x[:, None])).toarray() @ v
        return np.asarray(b.multiply(b @ middle).sum(axis=1)).reshape(-1)


@dataclass(frozen=True, eq=False)
class Reference:
    """q0, flattened over the site blocks, and the metric of the log weights (P,)."""

    spread: Spread
    mean: Array
    weight: Array
    alpha: Array
    metric: Array


@dataclass(frozen=True, eq=False)
class Climbed:
    """A point with what its gradient needed: f_m - alpha, C (f_m - alpha), (C o C)(T - w)."""

    point: ElboPoint
    slope: Array
    mean_gap: Array
    variance_gap: Array


@dataclass(frozen=True, eq=False)
class CoefficientState:
    """Where L-BFGS stands: x is (2, 2P), the unknowns (a, omega) and their image under the metric."""

    reference: Reference | None
    iterate: Iterate[Climbed] | None
    failed: Status | None = None
    reason: str = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.iterate is None else -self.iterate.at.value


@dataclass(frozen=True)
class OpperArchambeau(Backend[CoefficientState]):
    """L-BFGS in (mean coefficients, log weights).

    `refresh`: steps after which the reference is renewed at the point reached (0: never).
    """

    memory: int = 20
    refresh: int = 20
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="opper-archambeau",
        needs=Expected,
        requires=Property.LOG_CONCAVE,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        max_steps=1000,
        paper="Opper and Archambeau 2009",
        summary="variational Gaussian by L-BFGS in mean coefficients and log weights",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> CoefficientState:
        point = begin(problem, warm)
        if isinstance(point, ElboPoint):
            weight = lifted(point.weight)
            if any((w != p).any() for w, p in zip(weight, point.weight, strict=True)):
                moved = zip(point.alpha, weight, point.mean, strict=True)
                point = elbo_at(problem, weight, tuple(a + w * m for a, w, m in moved))
        if isinstance(point, Failed):
            return CoefficientState(None, None, Status.numerical_error, point.reason)
        return self._around(problem, point, stacked(problem.engine.linear))

    def _around(self, problem: Problem, point: ElboPoint, design: Matrix) -> CoefficientState:
        """The state at a point that is its own reference."""
        spread = Spread(design, point.conditioned)
        weight = flatten(point.weight)
        metric = 0.5 * weight * spread.squared_times(weight)
        floor = 1e-12 * max(float(metric.max(initial=0.0)), 1e-300)
        reference = Reference(
            spread, flatten(point.mean), weight, flatten(point.alpha), np.maximum(metric, floor)
        )
        omega = np.log(weight)
        zero = np.zeros_like(omega)
        x = np.array([np.r_[zero, omega], np.r_[zero, reference.metric * omega]])
        return CoefficientState(reference, Iterate(x, _evaluated(reference, spread, point)))

    def step(self, problem: Problem, state: CoefficientState) -> CoefficientState:
        assert state.reference is not None and state.iterate is not None
        solver = LBFGS(self.memory, inner=_inner)
        moved = solver.step(state.iterate, _evaluate(problem, state.reference))
        if moved is None:
            return replace(
                state, failed=Status.stalled, reason="the line search found no ascent"
            )
        if self.refresh and moved.steps >= self.refresh:
            return self._around(problem, moved.at.kept.point, state.reference.spread.design)
        return replace(state, iterate=moved)

    def residual(self, problem: Problem, state: CoefficientState) -> float:
        """The undamped step to (-2 f_v, f_m - 2 f_v m), to first order: how far it moves the means
        (in sds) and the log sds. Both are zero only at the optimum."""
        assert state.iterate is not None
        at = state.iterate.at.kept
        variance = np.maximum(flatten(at.point.variance), 1e-300)
        means = np.abs(at.mean_gap) / np.sqrt(variance)
        spreads = 0.5 * np.abs(at.variance_gap) / variance
        return float(max(means.max(initial=0.0), spreads.max(initial=0.0)))

    def posterior(self, problem: Problem, state: CoefficientState) -> GaussianPosterior:
        assert state.iterate is not None
        point = state.iterate.at.kept.point
        gaussian = all(Property.GAUSSIAN in site.spec.properties for site in problem.sites)
        return GaussianPosterior(
            weight=point.weight,
            shift=point.shift,
            conditioned=point.conditioned,
            log_evidence=point.elbo,
            guarantee=Guarantee.EXACT if gaussian else self.spec.guarantee,
        )


def _inner(u: Array, v: Array) -> float:
    """u'Mv: row 0 holds the vector, row 1 its image under M."""
    return float(u[0] @ v[1])


def _evaluate(
    problem: Problem, reference: Reference
) -> Callable[[Array], Evaluated[Climbed] | None]:
    """-ELBO and its gradient in the metric at (a, omega); None where the weights overflow."""
    predictors = problem.engine.linear.predictors

    def at(x: Array) -> Evaluated[Climbed] | None:
        size = len(reference.mean)
        a, omega, moved = x[0, :size], x[0, size:], x[1, :size]
        if not np.abs(omega).max(initial=0.0) <= RANGE:
            return None
        weight = np.exp(omega)
        shift = reference.alpha + a - reference.weight * moved + weight * (reference.mean + moved)
        point = elbo_at(problem, split(weight, predictors), split(shift, predictors))
        if isinstance(point, Failed):
            return None
        return _evaluated(reference, Spread(reference.spread.design, point.conditioned), point)

    return at


def _evaluated(reference: Reference, spread: Spread, point: ElboPoint) -> Evaluated[Climbed]:
    weight, target = flatten(point.weight), flatten(point.target[0])
    slope = flatten(tuple(a.d_mean for a in point.answers)) - flatten(point.alpha)
    variance_gap = spread.squared_times(target - weight)
    omega = 0.5 * weight * variance_gap
    gradient = np.array([
        np.r_[slope, omega / reference.metric],
        np.r_[reference.spread.times(slope), omega],
    ])  # fmt: skip
    return Evaluated(
        -point.elbo, -gradient, Climbed(point, slope, spread.times(slope), variance_gap)
    )
