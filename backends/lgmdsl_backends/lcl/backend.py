"""Decoupled variational Gaussian inference by linearly constrained Lagrangians (LCL).

The ELBO with copies (h, sigma) of the rows' means and sds, tied to q by h = m and sigma^2 = v. Each
step linearises the second constraint at sigma_k, with multipliers a_k = f_m and lambda_k = -2 f_v
there (the paper's (9)), and minimises the dual (11); at its minimum q is (W, b) = (lambda,
a + lambda m). All linear algebra is conditioning by the engine.

The paper minimises by L-BFGS. Newton is cheap too: it takes a few factorisations where L-BFGS takes
hundreds of evaluations, at one factorisation each, on kernels of condition 1e8.

Penalty (18) keeps each problem concave, but the Lagrangian's own curvature has the other sign: the
iteration is linear (rates 0.3 to 0.6 measured), not quadratic, and may fail. (For one Poisson row
the errors in sigma are 7e-2, 3e-2, 1e-2, 6e-3 as printed, and 3e-2, 1e-3, 1e-6, 3e-12 with the sign
changed, where the problems need not have a maximum.) A step that lowers the ELBO is refused and
repeated with more damping: the quartic (20), a larger penalty in sigma, a proximal term in h. Sites
that are not log-concave have as much of these from the first as makes f* concave at sigma_k.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy  # its optimize is imported when first used

from lgmdsl.arrays import Array
from lgmdsl.contract.backend import Backend, BackendSpec, check_least, check_range, option
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import (
    ElboPoint,
    begin,
    comparable,
    elbo_of,
    expected,
    lifted,
    resolved,
)
from lgmdsl.contract.objectives.natural_ascent import profiled, undamped_move
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.stacked import split_like
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.numerics.optimisation.newton import newton_in_box
from lgmdsl.vocabulary.notes import Notes
from lgmdsl_backends.lcl.dual import Dual, DualPoint, Setting, setting_of

ROUNDING = 1e-13
STRONGEST = 1e10  # damping beyond which no step is left
FINER = 0.05  # how closely a dual is minimised, relative to the move of its linearisation
SOLVERS = ("newton", "lbfgs")


@dataclass(frozen=True)
class LclState:
    """A point on the ELBO, its true distance from a fixed point, and the damping to use next."""

    point: ElboPoint | None
    setting: Setting | None = None
    residual: float = math.inf
    damping: float = 0.0
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.elbo


@dataclass(frozen=True)
class LinearlyConstrained(Backend[LclState]):
    """Dual minimisation between linearised constraints (Khan 2014, algorithm 1); needs a proper
    prior.

    `solver`: newton, or lbfgs (L-BFGS-B, the paper's); beyond `largest` rows always lbfgs, as
    newton holds matrices of rows x rows. `memory` is L-BFGS-B's, `evaluations` about its limit
    within one step; `scaled` gives it coordinates of unit curvature, the paper's are plain.
    `penalty` is the share of lambda_k in (18): less lets sigma move further in one step.
    """

    solver: str = option("newton", "of the dual", SOLVERS)
    largest: int = option(3000, "rows from which lbfgs is taken, as newton holds rows x rows")
    memory: int = option(20, "pairs of L-BFGS-B")
    evaluations: int = option(400, "about the most of L-BFGS-B within one step")
    scaled: bool = option(True, "whether L-BFGS-B has coordinates of unit curvature")
    penalty: float = option(
        1.0, "the share of lambda_k in equation 18, from 1e-6 to 1e6: less gives longer steps"
    )
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="lcl",
        needs=Expected,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        only_scalar="its dual decouples predictors one by one",
        max_steps=100,
        paper="Khan 2014, algorithm 1",
        summary="variational Gaussian by its dual (decoupled inference); proper priors",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V), by "
            "minimising its dual in (slope, weight) of each row between linearised constraints",
            support="scalar sites; the prior must be proper",
            advice="the optimum of natural-gradient by another search; for comparison",
            example="lgm fit model.lgm data.npz --method lcl --option solver=lbfgs",
            see_also=("natural-gradient", "opper-archambeau", "coordinate-ascent"),
        ),
    )

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ValueError(f"solver is {' or '.join(SOLVERS)}, not {self.solver!r}")
        check_range("penalty", self.penalty, 1e-6, 1e6)
        check_least("largest", self.largest, 0)
        check_least("memory", self.memory, 1)
        check_least("evaluations", self.evaluations, 1)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> LclState:
        setting = setting_of(problem, self.largest if self.solver == "newton" else 0)
        if isinstance(setting, Failed):
            raise MethodError(_improper(setting.reason))
        point = begin(problem, warm)
        if isinstance(point, Failed):
            return LclState(None, failed=Status.numerical_error, reason=point)
        if warm is None:
            point = _nearer(problem, setting, point)
        return LclState(point, setting, undamped_move(problem, point))

    def step(self, problem: Problem, state: LclState) -> LclState:
        point, setting, damping = state.point, state.setting, state.damping
        assert point is not None and setting is not None
        floor = point.elbo - ROUNDING * (1.0 + abs(point.elbo))
        while damping <= STRONGEST:
            dual = Dual(problem, setting, point, damping, self.penalty)
            tried = self._solved(problem, dual, state.residual)
            if isinstance(tried, ElboPoint) and tried.elbo >= floor and comparable(tried, point):
                lower = 0.1 * damping if damping > 1e-2 else 0.0
                return LclState(tried, setting, undamped_move(problem, tried), lower)
            damping = max(0.5, 8.0 * damping)
        return replace(
            state, failed=Status.stalled, reason="no damping factor gives an ascent step"
        )

    def _solved(self, problem: Problem, dual: Dual, residual: float) -> ElboPoint | Failed:
        """q at the dual's minimum."""
        start = dual.evaluate(dual.x0)
        if start is None:
            return Failed("the dual is not finite at its start")
        # In posterior sds; the next linearisation undoes finer work.
        aim = min(0.1, FINER * residual)
        best = (
            by_newton(dual, start, aim)
            if dual.setting.dense
            else by_lbfgs(dual, start, aim, self.memory, self.evaluations, self.scaled)
        )
        if best is start:
            return Failed("no step lowers the dual")
        shift = split_like(best.a + best.weight * best.mean, dual.like)
        return elbo_of(problem, best.conditioned.with_shift(shift))

    def residual(self, problem: Problem, state: LclState) -> float:
        return state.residual

    def posterior(self, problem: Problem, state: LclState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem, self.spec.guarantee)


def _nearer(problem: Problem, setting: Setting, point: ElboPoint) -> ElboPoint:
    """A start for linearisations, which span few powers of ten in a variance: of this point and
    those with the weights -2 f_v at its mean, for its variances and for the prior's, the best."""
    wide = expected(problem, point.mean, setting.conditioned.variance)
    for weight in (point.target[0], tuple(-2.0 * a.d_variance for a in wide)):
        tried = profiled(problem, lifted(weight), point.mean, point.alpha)
        if isinstance(tried, Failed) or not comparable(tried, point):
            continue
        if tried.elbo > point.elbo or not resolved(point):
            point = tried
    return point


def _improper(reason: str) -> Diagnostic:
    return Diagnostic(
        "E501",
        "method `lcl` cannot run this model",
        details=(f"its dual needs proper priors, and without the data {reason}",),
        help="give flat latents a prior, e.g. normal(sd = 10), or use natural-gradient",
    )


# ---- minimise ----------------------------------------------------------------------------------
# The minimum of the dual over the box: projected Newton, or the paper's L-BFGS.


def by_newton(dual: Dual, start: DualPoint, aim: float) -> DualPoint:
    """Newton until the constraints hold to `aim`, in posterior sds, or no step lowers D."""
    return newton_in_box(
        dual.evaluate, start, dual.box, lambda point, bound: point.gap(bound) <= aim
    )


def by_lbfgs(
    dual: Dual, start: DualPoint, aim: float, memory: int, evaluations: int, scaled: bool
) -> DualPoint:
    """L-BFGS-B until `aim` or for `evaluations`; `scaled` gives it coordinates in which the
    diagonal of the curvature at the start is about 1. The best point seen."""
    scale = _scale(dual, start) if scaled else np.ones_like(start.x)
    best = start

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal best
        point = dual.evaluate(dual.box.clip(x * scale))
        if point is None:
            # Outside the domain: a steep bowl around the best point sends the search back.
            away = x - best.x / scale
            wall = 1.0 + 10.0 * abs(best.value)
            return best.value + wall, 2.0 * wall * away / max(float(away @ away), 1e-300)
        close = point.gap(dual.box.held(point.x, point.gradient)) <= aim
        if close or point.value < best.value:
            best = point
        if close:
            raise _Close
        return point.value, point.gradient * scale

    with suppress(_Close):
        scipy.optimize.minimize(
            objective, start.x / scale, jac=True, method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(dual.box.low / scale, dual.box.high / scale),
            options={"maxcor": memory, "maxfun": evaluations, "maxiter": evaluations,
                     "gtol": 1e-12, "ftol": 1e-15},
        )  # fmt: skip
    return best


def _scale(dual: Dual, start: DualPoint) -> Array:
    square = dual.sigma0**2
    curved_a = dual.setting.variance + 1.0 / start.pairs.hh
    curved_w = 0.5 * square**2 + square / start.pairs.ss
    return np.asarray(1.0 / np.sqrt(np.maximum(np.concatenate([curved_a, curved_w]), 1e-300)))


class _Close(Exception):
    """The constraints hold closely enough for this linearisation."""
