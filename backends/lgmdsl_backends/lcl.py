"""Decoupled variational Gaussian inference by linearly constrained Lagrangians (LCL).

The ELBO with copies (h, sigma) of the rows' means and sds, tied to q by h = m and
sigma^2 = v. Each step linearises the second constraint at sigma_k and minimises the dual

    D(a, lambda) = -1/2 log|I + S diag(lambda)| + 1/2 a'Sa + s0'a + sum f*(a, lambda),
    f* = max over (h, sigma) of  f(h, sigma^2) - a h + lambda sigma_k (2 sigma - sigma_k) / 2
                                 - lambda_k (sigma - sigma_k)^2 / 2  - damping

by L-BFGS-B in the box where f* is finite: a (minus the paper's alpha) between the limits of f_m,
lambda > 0 where the site is log-concave. The gradient is m - h and (2 sigma_k sigma - sigma_k^2 -
v) / 2. q is (W, b) = (lambda, a + lambda m). All linear algebra is conditioning by the engine.

Penalty (18) keeps each problem concave, but the Lagrangian's own curvature has the other sign: the
iteration is linear (rates 0.3 to 0.5 measured), not quadratic, and may fail. A step that lowers the
ELBO is refused and repeated with more damping: the quartic (20), a larger penalty in sigma, and a
proximal term in h, without which f* is infinite for sites that are not log-concave.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy import optimize

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.elbo import ElboPoint, elbo_at, expected
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.fixed_point import profiled, undamped_move
from lgmdsl.contract.joint import some_rows, stacked, unstacked
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.numerics.pair_newton import Moments, Pairs, Terms, maximise_pairs

ROUNDING = 1e-13
FAR = 1e4  # where sites are still finite: f_m there stands for its limit
HUGE = 1e12  # slopes beyond this have no limit
STRONGEST = 1e10  # damping beyond which no step is left


@dataclass(frozen=True)
class LclState:
    """A point on the ELBO, its true distance from a fixed point, and the damping to use next."""

    point: ElboPoint | None
    residual: float = math.inf
    damping: float = 0.0
    failed: Status | None = None
    reason: str = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.elbo


@dataclass(frozen=True)
class LinearlyConstrained(Backend[LclState]):
    """Dual minimisation between linearised constraints (Khan 2014, algorithm 1); needs a proper
    prior. `memory` is L-BFGS-B's, `evaluations` its limit within one step."""

    memory: int = 20
    evaluations: int = 400
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="lcl",
        needs=Expected,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        max_steps=100,
        paper="Khan 2014, algorithm 1",
        summary="variational Gaussian by its dual (decoupled inference); proper priors",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> LclState:
        concave = all(Property.LOG_CONCAVE in s.spec.properties for s in problem.sites)
        damping = 0.0 if concave else 1.0
        prior = _prior(problem)
        if isinstance(prior, Failed):
            reason = f"the dual needs a proper prior: {prior.reason}"
            return LclState(None, failed=Status.numerical_error, reason=reason)
        if warm is not None:
            point = elbo_at(problem, warm.weight, warm.shift)
            if isinstance(point, ElboPoint):
                return _state(problem, point, damping)
        s = problem.engine.prior_mean
        answers = expected(problem, s, tuple(np.ones_like(x) for x in s))
        weight = tuple(np.abs(2.0 * a.d_variance) for a in answers)
        found = profiled(problem, weight, s, tuple(np.zeros_like(x) for x in s))
        if isinstance(found, Failed):
            return LclState(None, failed=Status.numerical_error, reason=found.reason)
        return _state(problem, found, damping)

    def step(self, problem: Problem, state: LclState) -> LclState:
        point, damping = state.point, state.damping
        assert point is not None
        floor = point.elbo - ROUNDING * (1.0 + abs(point.elbo))
        while damping <= STRONGEST:
            dual = Dual(problem, point, damping)
            a, weight = dual.minimise(self.memory, self.evaluations, state.residual)
            mean = dual.mean(a)
            shift = unstacked(a + weight * mean, point.mean)
            tried = elbo_at(problem, unstacked(weight, point.mean), shift)
            if isinstance(tried, ElboPoint) and tried.elbo >= floor and dual.moved:
                return _state(problem, tried, 0.1 * damping if damping > 1e-2 else 0.0)
            damping = max(0.5, 8.0 * damping)
        return replace(state, failed=Status.stalled, reason="no damping lets a step rise")

    def residual(self, problem: Problem, state: LclState) -> float:
        return state.residual

    def posterior(self, problem: Problem, state: LclState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem, self.spec.guarantee)


class Dual:
    """The dual (11) at one linearisation: value and gradient in (a, lambda)."""

    def __init__(self, problem: Problem, point: ElboPoint, damping: float) -> None:
        prior = _prior(problem)
        assert not isinstance(prior, Failed)
        self.problem, self.prior, self.like = problem, prior, point.mean
        self.rows = stacked(problem.engine.linear)
        self.s0 = np.concatenate(problem.engine.prior_mean)
        self.h, variance = np.concatenate(point.mean), np.concatenate(point.variance)
        tiny = 1e-12 * max(1e-300, float(variance.max(initial=0.0)))
        self.sigma0 = np.sqrt(np.maximum(variance, tiny))
        self.sigma, self.h0 = self.sigma0, self.h
        self.a = np.concatenate(point.alpha)
        self.weight = np.concatenate(point.weight)
        target = np.concatenate(point.target[0])
        size = np.maximum(np.abs(target), np.abs(self.weight))
        size = np.maximum(size, 1e-6 / np.maximum(np.concatenate(prior.variance), tiny))
        self.penalty = np.maximum(self.weight, 1e-3 * size) + damping * size
        self.proximal = damping * size
        self.quartic = damping * size / self.sigma0**2
        self.best, self.moved = (math.inf, self.a, self.weight), False
        self.size = size

    def mean(self, a: Array) -> Array:
        """m = s0 + S a."""
        linear = self.problem.engine.linear
        where, rhs = linear.slices, np.zeros(linear.size)
        for name, operator in self.rows.columns.items():
            rhs[where[name]] = operator.rmatvec(a)
        z = self.prior.solve(rhs)
        moved = np.zeros(len(a))
        for name, operator in self.rows.columns.items():
            moved += operator.matvec(z[where[name]])
        return self.s0 + moved

    def conjugate(self, a: Array, weight: Array) -> Pairs:
        """The maximisers of (12) with its damping, started where the last call ended."""
        terms = Terms(
            a, weight * self.sigma0, self.penalty, self.proximal, self.quartic, self.h0,
            self.sigma0,
        )  # fmt: skip
        found, at = [], 0
        for answer, like in zip(self.problem.expecting(), self.like, strict=True):
            here = np.arange(at, at + len(like))
            found.append(
                maximise_pairs(
                    _moments(answer, len(like)), terms.take(here), self.h[here], self.sigma[here]
                )
            )
            at += len(like)
        pairs = Pairs.joined(found)
        finite = np.isfinite(pairs.value)
        self.h = np.where(finite, pairs.h, self.h)
        self.sigma = np.where(finite, pairs.sigma, self.sigma)
        return pairs

    def __call__(self, a: Array, weight: Array) -> tuple[float, Array, Array]:
        """D, dD/da, dD/dlambda. ArithmeticError where D is not finite."""
        parts = unstacked(weight, self.like)
        s0 = self.problem.engine.prior_mean
        shift = tuple(rows.times(w, s) for w, s in zip(parts, s0, strict=True))
        q = self.problem.engine.condition(parts, shift)
        if isinstance(q, Failed):
            raise ArithmeticError(q.reason)
        mean, variance = self.mean(a), np.concatenate(q.variance)
        pairs = self.conjugate(a, weight)
        value = q.log_normaliser - 0.5 * float(self.s0 @ (weight * self.s0))
        value += 0.5 * float(a @ (mean + self.s0))
        value += float(np.sum(pairs.value - 0.5 * weight * self.sigma0**2))
        slack = 2.0 * self.sigma0 * pairs.sigma - self.sigma0**2
        if not math.isfinite(value):
            raise ArithmeticError("the dual is not finite")
        return value, mean - pairs.h, 0.5 * (slack - variance)

    def box(self) -> tuple[Array, Array, Array, Array]:
        """Bounds of a and lambda: where f* is finite."""
        low, high, least = [], [], []
        for site, answer, like in zip(
            self.problem.sites, self.problem.expecting(), self.like, strict=True
        ):
            one = np.ones(len(like))
            if Property.LOG_CONCAVE in site.spec.properties:
                up = answer.expected(-FAR * one, one).d_mean
                down = answer.expected(FAR * one, one).d_mean
                high.append(np.where(np.abs(up) < HUGE, up, np.inf))
                low.append(np.where(np.abs(down) < HUGE, down, -np.inf))
                least.append(1e-12 * one)
            else:  # the proximal term keeps f* finite for every a
                high.append(np.inf * one)
                low.append(-np.inf * one)
                least.append(-np.inf * one)
        lower, upper = np.concatenate(low), np.concatenate(high)
        inside = 1e-13 * np.where(np.isfinite(upper - lower), upper - lower, 1.0)
        return (
            np.minimum(lower + inside, self.a),
            np.maximum(upper - inside, self.a),
            np.minimum(np.concatenate(least) * self.size, self.weight),
            np.full(len(lower), np.inf),
        )

    def minimise(self, memory: int, evaluations: int, residual: float) -> tuple[Array, Array]:
        """L-BFGS-B in coordinates scaled by the dual's diagonal curvature; the best point seen."""
        n = len(self.a)
        start = self.conjugate(self.a, self.weight)
        spread = np.concatenate(self.prior.variance) + 1.0 / start.bend_h
        scale_a = 1.0 / np.sqrt(np.maximum(spread, 1e-300))
        square = self.sigma0**2
        scale_w = 1.0 / np.sqrt(0.5 * square**2 + square / start.bend_sigma)
        # In posterior sds; the next linearisation undoes finer work.
        aim = min(0.1, max(0.05 * residual, 1e-9))
        low_a, high_a, low_w, high_w = self.box()
        scale = np.concatenate([scale_a, scale_w])
        bounds = optimize.Bounds(
            np.concatenate([low_a, low_w]) / scale, np.concatenate([high_a, high_w]) / scale
        )

        def objective(x: Array) -> tuple[float, Array]:
            a, weight = x[:n] * scale_a, x[n:] * scale_w
            try:
                value, by_a, by_w = self(a, weight)
            except ArithmeticError:
                # Outside the domain: a steep bowl around the best point sends the search back.
                away = x - np.concatenate([self.best[1], self.best[2]]) / scale
                wall = 1.0 + 10.0 * abs(self.best[0])
                return self.best[0] + wall, 2.0 * wall * away / max(float(away @ away), 1e-300)
            gap = float(np.max(np.abs(by_a) / self.sigma0, initial=0.0))
            gap = max(gap, float(np.max(np.abs(by_w) / square, initial=0.0)))
            self.moved |= math.isfinite(self.best[0]) and value < self.best[0]
            if value < self.best[0] or gap <= aim:
                self.best = (value, a, weight)
            if gap <= aim:
                raise _Close
            return value, np.concatenate([by_a * scale_a, by_w * scale_w])

        with suppress(_Close):
            optimize.minimize(
                objective, np.concatenate([self.a, self.weight]) / scale, jac=True,
                method="L-BFGS-B", bounds=bounds,
                options={"maxcor": memory, "maxfun": evaluations, "maxiter": evaluations,
                         "gtol": 1e-12, "ftol": 1e-15},
            )  # fmt: skip
        return self.best[1], self.best[2]


class _Close(Exception):
    """The dual's constraints hold closely enough for this linearisation."""


def _prior(problem: Problem) -> Conditioned | Failed:
    """The prior of the rows, as an engine's answer to no sites at all."""
    nothing = tuple(np.zeros_like(s) for s in problem.engine.prior_mean)
    return problem.engine.condition(nothing, nothing)


def _moments(answer: Expected, size: int) -> Moments:
    def moments(where: IntArray, h: Array, v: Array) -> tuple[Array, Array, Array, Array, Array]:
        a = some_rows(answer, where, size)(h, v)
        assert a.d_mean_variance is not None and a.d_variance2 is not None
        parts = (a.value, a.d_mean, a.d_variance, a.d_mean_variance, a.d_variance2)
        value, f_m, f_v, f_mv, f_vv = (np.array(p, dtype=np.float64) for p in parts)
        return value, f_m, f_v, f_mv, f_vv

    return moments


def _state(problem: Problem, point: ElboPoint, damping: float) -> LclState:
    return LclState(point, undamped_move(problem, point), damping)
