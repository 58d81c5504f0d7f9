"""The variational Gaussian in N mean coefficients and N weights, by L-BFGS.

At its optimum Cov_q[z] = (Q + B'WB)^-1 with W diagonal, so 2N unknowns do (Opper and Archambeau
2009). With a reference q0 in canonical form (W0, b0), its predictor means m0 and covariance C0,

    m = m0 + C0 a,   w = w0 exp(omega)
    dELBO/da = C0 (f_m - alpha),   dELBO/domega = 1/2 w (C o C)(-2 f_v - w)

for sites that are log-concave, whose weights -2 f_v are positive. Those of others may be negative
(Student's t in its tails): there the unknowns are the weights themselves, in units u,

    w = w0 + u omega,   dELBO/domega = 1/2 u (C o C)(-2 f_v - w)

and a step after which Q + B'WB is not positive definite is cut. Here C = Cov_q[s] at w and
alpha = b - Wm = alpha0 + a - W0 (m - m0). W0 = 0 is the paper's choice of a; any other reference
spans the same means, and its metric whitens them: L-BFGS runs in the inner product
<a, a'> = a'C0 a', whose gradient is f_m - alpha.

Not whitened, it is the papers' own form (Khan 2012, equations 3.49 to 3.51): q0 is the prior, so
m = s0 + Sa with S = BKB', w = exp(omega) or omega, and L-BFGS runs in the plain inner product of
(a, omega).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, BoolArray, Matrix
from lgmdsl.contract.backend import Backend, BackendSpec, check_least, option
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.objectives.elbo import ElboPoint, begin, elbo_at, lifted, resolved
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.rows import uncertain
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import StackedPredictors, flatten, split
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, Evaluated, Iterate
from lgmdsl.vocabulary.notes import Notes

# How far log weights, and weights in their units, may leave those of the reference; and log weights
# zero, where the prior is the reference.
RANGE = 5.0
WIDE = 80.0
SHARE = 0.1  # of 1/variance, the least unit of a weight that may be negative


@dataclass(frozen=True, eq=False)
class Spread:
    """Cov_q[s] of one conditioning, C: its products, and those of its elementwise square."""

    design: Matrix
    conditioned: Conditioned

    @cached_property
    def _half(self) -> Array:
        """V B', (n, P), where the rows are not more than the latents; else V, (n, n)."""
        size = self.design.shape[1]
        if not self._wide:
            return self.conditioned.solve(np.eye(size))
        b = self.design if isinstance(self.design, np.ndarray) else self.design.toarray()
        return self.conditioned.solve(np.array(b.T, order="C"))

    @property
    def _wide(self) -> bool:
        return bool(self.design.shape[0] <= self.design.shape[1])

    @cached_property
    def _square(self) -> Array:
        """C o C, (P, P)."""
        return np.asarray(self.design @ self._half) ** 2

    def times(self, x: Array) -> Array:
        """C x."""
        pulled = self.design.T @ x
        return np.asarray(self.design @ self.conditioned.solve(np.asarray(pulled)))

    def squared_times(self, x: Array) -> Array:
        """(C o C) x = diag(C diag(x) C)."""
        if self._wide:
            return np.asarray(self._square @ x)
        b, v = self.design, self._half
        if isinstance(b, np.ndarray):
            middle = v @ (b.T @ (x[:, None] * b)) @ v
            return np.asarray(np.einsum("ij,ij->i", b @ middle, b))
        scaled = sp.csr_array(sp.diags_array(x) @ b)
        middle = v @ np.asarray(b.T @ (scaled @ np.eye(b.shape[1]))) @ v
        rows = sp.csr_array(b.multiply(b @ middle))
        return np.asarray(rows @ np.ones(rows.shape[1]))


@dataclass(frozen=True, eq=False)
class Reference:
    """q0, flattened over the site blocks. `signed`, (P,): where omega is a weight and no logarithm
    of one. `unit`, (P,): the weights at omega = 0, or what those are measured in. `metric`, (P,):
    that of omega, the row sums of 1/2 U (C0 o C0) U, which bound its curvature from above."""

    spread: Spread
    mean: Array
    weight: Array
    alpha: Array
    unit: Array
    metric: Array
    signed: BoolArray

    @classmethod
    def at(cls, point: ElboPoint, design: Matrix, signed: BoolArray) -> Reference:
        """The reference at a point of the ELBO."""
        spread = Spread(design, point.conditioned)
        weight = flatten(point.weight)
        # A weight of 1/variance halves a variance.
        variance, moving = flatten(point.variance), np.concatenate(uncertain(point.variance))
        least = SHARE / np.where(moving, variance, variance.max(initial=1e-300))
        unit = np.where(signed, np.maximum(np.abs(weight), least), weight)
        metric = 0.5 * unit * spread.squared_times(unit)
        floor = 1e-12 * max(float(metric.max(initial=0.0)), 1e-300)
        return cls(
            spread,
            flatten(point.mean),
            weight,
            flatten(point.alpha),
            unit,
            np.maximum(metric, floor),
            signed,
        )

    @classmethod
    def prior(cls, problem: Problem, design: Matrix, signed: BoolArray) -> Reference | Failed:
        """The prior as q0, with the plain metric; Failed where it is improper."""
        nothing = tuple(np.zeros_like(m) for m in problem.engine.prior_mean)
        q = problem.engine.condition(nothing, nothing)
        if isinstance(q, Failed):
            return q
        mean = flatten(q.mean)
        zero, one = np.zeros_like(mean), np.ones_like(mean)
        return cls(Spread(design, q), mean, zero, zero, one, one, signed)

    def weights(self, omega: Array) -> Array:
        """w, (P,)."""
        with np.errstate(over="ignore"):
            positive = self.unit * np.exp(np.where(self.signed, 0.0, omega))
        return np.where(self.signed, self.weight + self.unit * omega, positive)

    def rates(self, weight: Array) -> Array:
        """dw/domega, (P,)."""
        return np.where(self.signed, self.unit, weight)


@dataclass(frozen=True, eq=False)
class Climbed:
    """A point, and what the undamped step to T = -2 f_v moves there to first order: the means by
    C (f_m - alpha), the variances by -(C o C)(T - w)."""

    point: ElboPoint
    mean_gap: Array
    variance_gap: Array


@dataclass(frozen=True, eq=False)
class CoefficientState:
    """Where L-BFGS stands: x is (2, 2P), (a, omega) and their image under the metric; or (a, omega)
    alone, (2P,), where nothing is whitened."""

    reference: Reference | None
    iterate: Iterate[Climbed] | None
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.iterate is None else -self.iterate.at.value


@dataclass(frozen=True)
class OpperArchambeau(Backend[CoefficientState]):
    """L-BFGS in (mean coefficients, log weights or weights).

    `memory`: pairs of L-BFGS. `refresh`: steps after which the reference is renewed at the point
    reached. `whitened`: false for the papers' parametrisation, which is slow to converge and needs
    a proper prior.
    """

    memory: int = option(20, "pairs of L-BFGS, at least 1")
    refresh: int = option(10, "steps after which the reference is renewed, at least 1")
    whitened: bool = option(
        True, "false for the papers' parametrisation: slow to converge, needs a proper prior"
    )
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="opper-archambeau",
        needs=Expected,
        additive=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        only_scalar="it has one weight for each predictor",
        max_steps=1000,
        paper="Opper and Archambeau 2009",
        summary="variational Gaussian by L-BFGS in mean coefficients and weights",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V) "
            "with V = (Q + B' diag(w) B)^-1, in the coefficients of the mean and log w (w itself, "
            "which may be negative, where a site is not log-concave)",
            support="scalar sites with an expectation of log t",
            advice="the optimum of natural-gradient by another search; for comparison",
            example="lgm fit model.lgm data.npz --method opper-archambeau --option memory=10",
            see_also=("natural-gradient", "cholesky", "lcl"),
        ),
    )

    def __post_init__(self) -> None:
        check_least("memory", self.memory, 1)
        check_least("refresh", self.refresh, 1)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> CoefficientState:
        point = begin(problem, warm)
        if isinstance(point, ElboPoint):
            weight = lifted(point.weight)
            if any((w != p).any() for w, p in zip(weight, point.weight, strict=True)):
                parts = zip(point.alpha, weight, point.mean, strict=True)
                point = elbo_at(problem, weight, tuple(a + w * m for a, w, m in parts))
        if isinstance(point, Failed):
            return CoefficientState(None, None, Status.numerical_error, point)
        design, signed = StackedPredictors(problem.engine.linear).matrix(), _signed(problem)
        if not self.whitened:
            return _plain(problem, point, design, signed)
        return self._around(point, design, signed)

    def _around(
        self, point: ElboPoint, design: Matrix, signed: BoolArray, evaluations: int = 1
    ) -> CoefficientState:
        """The state at a point that is its own reference."""
        reference = Reference.at(point, design, signed)
        x = np.zeros((2, 2 * len(reference.mean)))
        evaluated = _evaluated(reference, reference.spread, point)
        return CoefficientState(reference, Iterate(x, evaluated, evaluations=evaluations))

    def step(self, problem: Problem, state: CoefficientState) -> CoefficientState:
        assert state.reference is not None and state.iterate is not None
        if not self.whitened:
            following = LBFGS(self.memory).step(
                state.iterate, _evaluate_plain(problem, state.reference)
            )
            return _stalled(state) if following is None else replace(state, iterate=following)
        solver, design = LBFGS(self.memory, inner=_inner), state.reference.spread.design
        following = solver.step(state.iterate, _evaluate(problem, state.reference))
        if following is None and state.iterate.steps:
            signed = state.reference.signed
            evaluations = state.iterate.evaluations
            fresh = self._around(state.iterate.at.kept.point, design, signed, evaluations)
            assert fresh.reference is not None and fresh.iterate is not None
            following = solver.step(fresh.iterate, _evaluate(problem, fresh.reference))
            state = fresh
        if following is None:
            return _stalled(state)
        if following.steps >= self.refresh:
            assert state.reference is not None
            signed = state.reference.signed
            return self._around(following.at.kept.point, design, signed, following.evaluations)
        return replace(state, iterate=following)

    def residual(self, problem: Problem, state: CoefficientState) -> float:
        """The undamped step to (-2 f_v, f_m - 2 f_v m), to first order: how far it moves the means
        (in sds) and the log sds. Both are zero only at the optimum."""
        assert state.iterate is not None
        climbed = state.iterate.at.kept
        moving = np.concatenate(uncertain(climbed.point.variance))
        variance = flatten(climbed.point.variance)[moving]
        means = np.abs(climbed.mean_gap[moving]) / np.sqrt(variance)
        spreads = 0.5 * np.abs(climbed.variance_gap[moving]) / variance
        return float(max(means.max(initial=0.0), spreads.max(initial=0.0)))

    def posterior(self, problem: Problem, state: CoefficientState) -> GaussianPosterior:
        assert state.iterate is not None
        point = state.iterate.at.kept.point
        return point.posterior(problem, self.spec.guarantee)


def _signed(problem: Problem) -> BoolArray:
    """(P,) the rows whose weights may be negative."""
    rows = zip(problem.sites, problem.engine.prior_mean, strict=True)
    blocks = [np.full(len(m), Property.LOG_CONCAVE not in s.spec.properties) for s, m in rows]
    return np.concatenate([np.zeros(0, dtype=np.bool_), *blocks])


def _plain(
    problem: Problem, point: ElboPoint, design: Matrix, signed: BoolArray
) -> CoefficientState:
    """The state at a point in the papers' coordinates."""
    reference = Reference.prior(problem, design, signed)
    if isinstance(reference, Failed):
        reason = f"without whitening it needs a proper prior: {reference.reason}"
        return CoefficientState(None, None, Status.numerical_error, reason)
    weight = flatten(point.weight)
    x = np.r_[flatten(point.alpha), np.where(signed, weight, np.log(np.abs(weight)))]
    evaluated = _evaluated(reference, Spread(design, point.conditioned), point)
    return CoefficientState(
        reference, Iterate(x, replace(evaluated, gradient=evaluated.gradient[1]))
    )


def _stalled(state: CoefficientState) -> CoefficientState:
    return replace(state, failed=Status.stalled, reason="no step raises the bound")


def _inner(u: Array, v: Array) -> float:
    """u'Mv: row 0 holds the vector, row 1 its image under M."""
    return float(u[0] @ v[1])


def _evaluate(
    problem: Problem, reference: Reference, reach: float = RANGE
) -> Callable[[Array], Evaluated[Climbed] | None]:
    """-ELBO and its gradient in the metric at (a, omega); None where the weights overflow."""
    predictors = problem.engine.linear.predictors

    def evaluate(x: Array) -> Evaluated[Climbed] | None:
        size = len(reference.mean)
        a, omega, change = x[0, :size], x[0, size:], x[1, :size]
        bounded = omega if reach == RANGE else omega[~reference.signed]
        if not np.abs(bounded).max(initial=0.0) <= reach:
            return None
        weight = reference.weights(omega)
        shift = reference.alpha + a - reference.weight * change + weight * (reference.mean + change)
        point = elbo_at(problem, split(weight, predictors), split(shift, predictors))
        if isinstance(point, Failed) or not resolved(point):
            return None
        return _evaluated(reference, Spread(reference.spread.design, point.conditioned), point)

    return evaluate


def _evaluate_plain(
    problem: Problem, reference: Reference
) -> Callable[[Array], Evaluated[Climbed] | None]:
    """-ELBO and its plain gradient at (a, omega)."""
    inner = _evaluate(problem, reference, WIDE)

    def evaluate(x: Array) -> Evaluated[Climbed] | None:
        a, omega = np.split(x, 2)
        evaluated = inner(np.array([x, np.r_[reference.spread.times(a), omega]]))
        return None if evaluated is None else replace(evaluated, gradient=evaluated.gradient[1])

    return evaluate


def _evaluated(reference: Reference, spread: Spread, point: ElboPoint) -> Evaluated[Climbed]:
    weight, target = flatten(point.weight), flatten(point.target[0])
    slope = flatten(tuple(a.d_mean for a in point.answers)) - flatten(point.alpha)
    variance_gap = spread.squared_times(target - weight)
    omega = 0.5 * reference.rates(weight) * variance_gap
    gradient = np.array(
        [
            np.r_[slope, omega / reference.metric],
            np.r_[reference.spread.times(slope), omega],
        ]
    )
    # Next to weights of 1e77 solves have no digits, and say that nothing moves.
    variance, mean_gap = flatten(point.variance), spread.times(slope)
    mean_gap = np.where(mean_gap == 0.0, variance * slope, mean_gap)
    lost = variance_gap == 0.0
    variance_gap = np.where(lost, variance * (variance * (target - weight)), variance_gap)
    return Evaluated(-point.elbo, -gradient, Climbed(point, mean_gap, variance_gap))
