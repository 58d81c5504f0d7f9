"""The variational Gaussian in its mean and the Cholesky factor of its covariance, by L-BFGS.

A reference q0 in canonical form (W0, b0) whitens the latents: z = z0 + R x, RR' = Cov_q0[z] (a
pivoted root: covariances are singular), s = s0 + A x with A = BR. Then with q(x) = N(h, LL')

    ELBO = log Z0 + sum f(m, v) + 1/2 w0 (m^2 + v) - b0 m - KL(N(h, LL') || N(0, 1))
    m = s0 + A h,   v_i = |L'a_i|^2

which is concave in (h, L) for log-concave sites (Challis and Barber 2013, section 3.2). It costs no
factorisation, but n^2/2 unknowns and 4 P n^2 flops an evaluation; the engine's covariance stands in
for the prior's, so improper priors and constraints are nothing special.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.beginning import begin
from lgmdsl.contract.elbo import ElboPoint, elbo_at, expected
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.stacked import flatten, split, stacked
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.numerics.cholesky import pivoted_root
from lgmdsl.numerics.lbfgs import LBFGS, Evaluated, Iterate


@dataclass(frozen=True, eq=False)
class Whitened:
    """The latents seen from the reference: s = origin + A x; and a second whitening
    x = centre + turn x', in which L-BFGS runs."""

    reference: ElboPoint
    origin: Array
    design: Array
    centre: Array
    turn: Array

    @property
    def rank(self) -> int:
        return int(self.design.shape[1])


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and variances of the predictors at a point, and the sites' answers there."""

    mean: Rows
    variance: Rows
    answers: tuple[ExpectedAnswer, ...]


@dataclass(frozen=True, eq=False)
class CholeskyState:
    """Where L-BFGS stands: x holds h, then the lower triangle of L by rows."""

    whitened: Whitened | None
    iterate: Iterate[Moments]
    failed: Status | None = None
    reason: str = ""

    @property
    def objective(self) -> float:
        return -self.iterate.at.value


@dataclass(frozen=True)
class Cholesky(Backend[CholeskyState]):
    """L-BFGS in (mean, Cholesky factor) of all latents; for models of few latents.

    `memory`: pairs of L-BFGS. `refresh`: steps after which the coordinates are whitened anew.
    `largest`: latents at most.
    """

    memory: int = 20
    refresh: int = 20
    largest: int = 2000
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="cholesky",
        needs=Expected,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=1000,
        paper="Challis and Barber 2013",
        summary="variational Gaussian by L-BFGS in the mean and Cholesky factor; few latents",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> CholeskyState:
        size = problem.engine.linear.size
        if size > self.largest:
            raise MethodError(_too_large(size, self.largest))
        point = begin(problem, warm)
        if isinstance(point, Failed):
            return _nowhere(point.reason)
        return self._standing(problem, _whiten(problem, point))

    def step(self, problem: Problem, state: CholeskyState) -> CholeskyState:
        assert state.whitened is not None
        solver = LBFGS(self.memory)
        moved = solver.step(state.iterate, _evaluate(problem, state.whitened))
        if moved is None and state.iterate.steps:
            state = self._turned(problem, state.whitened, state.iterate)
            if state.failed is not None or state.whitened is None:
                return state
            moved = solver.step(state.iterate, _evaluate(problem, state.whitened))
        if moved is None:
            return replace(state, failed=Status.stalled, reason="no step raises the bound")
        if moved.steps >= self.refresh:
            assert state.whitened is not None
            return self._turned(problem, state.whitened, moved)
        return replace(state, iterate=moved)

    def _turned(
        self, problem: Problem, white: Whitened, iterate: Iterate[Moments]
    ) -> CholeskyState:
        """The same point, L-BFGS starting anew in the coordinates where it is N(0, 1)."""
        h, factor = _unpack(iterate.x, white.rank, np.tril_indices(white.rank))
        white = replace(white, centre=white.centre + white.turn @ h, turn=white.turn @ factor)
        return self._standing(problem, white, iterate.evaluations)

    def _standing(self, problem: Problem, white: Whitened, evaluations: int = 0) -> CholeskyState:
        """The state at x' = 0, L' = 1."""
        x = _pack(np.zeros(white.rank), np.eye(white.rank))
        at = _evaluate(problem, white)(x)
        if at is None:
            return _nowhere("the bound is not finite at the start")
        return CholeskyState(white, Iterate(x, at, evaluations=evaluations + 1))

    def residual(self, problem: Problem, state: CholeskyState) -> float:
        """How far means (in sds) and log sds are from those of (-2 f_v, f_m - 2 f_v m)."""
        at = state.iterate.at.kept
        following = problem.engine.condition(*_target(at))
        if isinstance(following, Failed):
            return math.inf
        return _apart(at, following)

    def posterior(self, problem: Problem, state: CholeskyState) -> GaussianPosterior:
        """The canonical Gaussian that shares (m, V) at the optimum, with its own bound; before
        that, the reference where its bound is the better one."""
        assert state.whitened is not None
        at = state.iterate.at.kept
        point = elbo_at(problem, *_target(at))
        if isinstance(point, Failed) or point.elbo < state.whitened.reference.elbo:
            point = state.whitened.reference
        return point.posterior(problem, self.spec.guarantee)


def _whiten(problem: Problem, point: ElboPoint) -> Whitened:
    """A = B R with RR' = Cov_q0[z]; the root is that of the correlations, whatever their scales."""
    linear = problem.engine.linear
    covariance = point.conditioned.solve(np.eye(linear.size))
    sd = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    scale = np.where(sd > 0.0, sd, 1.0)
    covariance = (covariance + covariance.T) / (2.0 * np.outer(scale, scale))
    root = scale[:, None] * pivoted_root(covariance)
    design = np.asarray(stacked(linear) @ root)
    rank = design.shape[1]
    return Whitened(point, flatten(point.mean), design, np.zeros(rank), np.eye(rank))


def _evaluate(problem: Problem, white: Whitened) -> Callable[[Array], Evaluated[Moments] | None]:
    """-ELBO and its gradient; None where a diagonal entry of L is not positive."""
    point, design, rank = white.reference, white.design, white.rank
    predictors = problem.engine.linear.predictors
    lower = np.tril_indices(rank)
    constant = point.conditioned.log_normaliser

    def at(x: Array) -> Evaluated[Moments] | None:
        h, factor = _unpack(x, rank, lower)
        h, factor = white.centre + white.turn @ h, white.turn @ factor
        diagonal = factor.diagonal()
        if not (diagonal > 0.0).all():
            return None
        spread = design @ factor
        mean = split(white.origin + design @ h, predictors)
        variance = tuple(_gram(part, m) for part, m in zip(_cut(spread, mean), mean, strict=True))
        answers = expected(problem, mean, variance)
        gain = sum(
            float(np.sum(a.value))
            + float(np.sum(0.5 * rows.quadratic(w, m) + 0.5 * rows.trace(w, v) - rows.inner(b, m)))
            for a, w, b, m, v in zip(
                answers, point.weight, point.shift, mean, variance, strict=True
            )
        )
        divergence = 0.5 * (h @ h + np.vdot(factor, factor) - rank) - np.log(diagonal).sum()
        slope, curve = [], []
        for a, w, b, m, part in zip(
            answers, point.weight, point.shift, mean, _cut(spread, mean), strict=True
        ):
            slope.append(a.d_mean + rows.times(w, m) - b)
            curve.append(_curved(a.d_variance + 0.5 * w, part, m))
        d_factor = 2.0 * (design.T @ np.concatenate(curve)) - factor
        d_factor[np.diag_indices(rank)] += 1.0 / diagonal
        d_mean = design.T @ flatten(tuple(slope)) - h
        gradient = np.concatenate(
            [white.turn.T @ d_mean, (white.turn.T @ np.tril(d_factor))[lower]]
        )
        value = constant + gain - float(divergence)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        return Evaluated(-value, -gradient, Moments(mean, variance, answers))

    return at


def _pack(h: Array, factor: Array) -> Array:
    return np.concatenate([h, factor[np.tril_indices(len(h))]])


def _unpack(x: Array, rank: int, lower: tuple[IntArray, IntArray]) -> tuple[Array, Array]:
    factor = np.zeros((rank, rank))
    factor[lower] = x[rank:]
    return x[:rank], factor


def _cut(spread: Array, mean: Rows) -> list[Array]:
    """The rows of each site block."""
    return np.split(spread, np.cumsum([m.size for m in mean])[:-1])


def _gram(part: Array, mean: Array) -> Array:
    """Variances of one block from rows of A L: (N,), or (N, K, K)."""
    if mean.ndim == 1:
        return np.asarray(np.einsum("ij,ij->i", part, part))
    sites = part.reshape(*mean.shape, -1)
    return np.asarray(np.einsum("nir,njr->nij", sites, sites))


def _curved(curvature: Array, part: Array, mean: Array) -> Array:
    """F_v A L for one block."""
    if mean.ndim == 1:
        return np.asarray(curvature[:, None] * part)
    sites = part.reshape(*mean.shape, -1)
    return np.asarray(np.einsum("nij,njr->nir", curvature, sites).reshape(part.shape))


def _target(at: Moments) -> tuple[Rows, Rows]:
    """(-2 f_v, f_m - 2 f_v m)."""
    weight = tuple(-2.0 * a.d_variance for a in at.answers)
    shift = tuple(
        a.d_mean + rows.times(w, m) for a, w, m in zip(at.answers, weight, at.mean, strict=True)
    )
    return weight, shift


def _apart(at: Moments, following: Conditioned) -> float:
    worst = 0.0
    for m, v, m2, v2 in zip(at.mean, at.variance, following.mean, following.variance, strict=True):
        if m.size:
            now, then = _diagonal(v), _diagonal(v2)
            floor = 1e-300
            sd = np.sqrt(np.maximum(now, floor))
            ratio = np.abs(np.log(np.maximum(then, floor) / np.maximum(now, floor)))
            worst = max(worst, float((np.abs(m2 - m) / sd).max()), 0.5 * float(ratio.max()))
    return worst


def _diagonal(variance: Array) -> Array:
    return variance if variance.ndim == 1 else np.asarray(np.einsum("nii->ni", variance))


def _nowhere(reason: str) -> CholeskyState:
    """A state without a usable point."""
    empty = np.zeros(0)
    at = Evaluated(math.inf, empty, Moments((), (), ()))
    return CholeskyState(None, Iterate(empty, at), Status.numerical_error, reason)


def _too_large(size: int, largest: int) -> Diagnostic:
    return Diagnostic(
        "E501",
        "method `cholesky` cannot run this model",
        details=(f"it has {size} latents, and the method holds {size}^2 / 2 unknowns",),
        help=f"use natural-gradient, or raise the option `largest` (now {largest})",
    )
