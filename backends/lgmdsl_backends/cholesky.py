"""The variational Gaussian in its mean and the Cholesky factor of its covariance, by L-BFGS.

A reference q0 in canonical form (W0, b0) whitens the latents: z = z0 + R x, RR' = Cov_q0[z] (a
pivoted root: covariances are singular), s = s0 + A x with A = BR. Then with q(x) = N(h, LL')

    ELBO = log Z0 + sum f(m, v) + 1/2 w0 (m^2 + v) - b0 m - KL(N(h, LL') || N(0, 1))
    m = s0 + A h,   v_i = |L'a_i|^2

which is concave in (h, L) for log-concave sites (Challis and Barber 2013, section 3.2). It costs no
factorisation, but n^2/2 unknowns and 4 P n^2 flops an evaluation; the engine's covariance stands in
for the prior's, so improper priors and constraints are nothing special.

Not whitened, it is the papers' own form: L-BFGS runs in h = E z - mu and L of z itself. The KL then
holds tr K^-1 LL' + h'K^-1 h: a prior covariance that cannot be inverted has no such form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array, Matrix
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec, check_least, option
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.joint import latent_root
from lgmdsl.contract.objectives.elbo import ElboPoint, begin, elbo_at, expected, target_of
from lgmdsl.contract.objectives.natural_ascent import undamped_move
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.stacked import StackedPredictors, cut, flatten, split
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, MethodError
from lgmdsl.numerics.cholesky import cholesky, symmetrise
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, Evaluated, Iterate
from lgmdsl.vocabulary.notes import Notes

# Reciprocal condition numbers below this leave no digits of an inverse.
SINGULAR = 1e-14


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates x of the latents, s = origin + A x, in which q0 has precision P (None: 1); its
    weight, shift and log normaliser (plus log|P| / 2). L-BFGS runs in x, or in x' with x = c + Tx'
    where there is a `turn` (c, T). `reference`: a point to fall back on."""

    reference: ElboPoint
    origin: Array
    design: Matrix
    weight: Rows
    shift: Rows
    constant: float
    precision: Array | None = None
    turn: tuple[Array, Array] | None = None

    @property
    def rank(self) -> int:
        return int(self.design.shape[1])

    def seen(self, x: Array) -> tuple[Array, Array]:
        """(h, L) at L-BFGS's coordinates."""
        h, factor = _unpack(x, self.rank)
        if self.turn is None:
            return h, factor
        centre, turn = self.turn
        return centre + turn @ h, turn @ factor


@dataclass(frozen=True, eq=False)
class PredictorMoments:
    """Means and variances of the predictors at a point, and the sites' answers there."""

    mean: Rows
    variance: Rows
    answers: tuple[ExpectedAnswer, ...]

    @property
    def target(self) -> tuple[Rows, Rows]:
        """(-2 f_v, f_m - 2 f_v m)."""
        return target_of(self.answers, self.mean)


@dataclass(frozen=True, eq=False)
class CholeskyState:
    """Where L-BFGS stands: x holds h, then the lower triangle of L by rows."""

    frame: Frame | None
    iterate: Iterate[PredictorMoments]
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -self.iterate.at.value


@dataclass(frozen=True)
class Cholesky(Backend[CholeskyState]):
    """L-BFGS in (mean, Cholesky factor) of all latents; for models of few latents.

    `memory`: pairs of L-BFGS. `refresh`: steps after which the coordinates are whitened again.
    `largest`: latents at most. `whitened`: false for the papers' parametrisation, which is slow to
    converge and inverts the prior covariance.
    """

    memory: int = option(20, "pairs of L-BFGS, at least 1")
    refresh: int = option(20, "steps after which the coordinates are whitened again, at least 1")
    largest: int = option(2000, "latents at most; more are refused")
    whitened: bool = option(
        True,
        "false for the papers' parametrisation: slow, and inverts the prior covariance",
    )
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="cholesky",
        needs=Expected,
        additive=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=1000,
        paper="Challis and Barber 2013",
        summary="variational Gaussian by L-BFGS in the mean and Cholesky factor; few latents",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V), in "
            "m and the Cholesky factor of V",
            support="every site that natural-gradient takes; at most `largest` latents",
            advice="the optimum of natural-gradient by another search; memory grows with the "
            "square of the latents",
            example="lgm fit model.lgm data.npz --method cholesky --option refresh=30",
            see_also=("natural-gradient", "opper-archambeau", "coordinate-ascent"),
        ),
    )

    def __post_init__(self) -> None:
        check_least("memory", self.memory, 1)
        check_least("refresh", self.refresh, 1)
        check_least("largest", self.largest, 0)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> CholeskyState:
        size = problem.engine.linear.size
        if size > self.largest:
            raise MethodError(_too_large(size, self.largest))
        point = begin(problem, warm)
        if isinstance(point, Failed):
            return _nowhere(point)
        if self.whitened:
            return _centred(problem, _whiten(problem, point))
        return _plain(problem, point)

    def step(self, problem: Problem, state: CholeskyState) -> CholeskyState:
        assert state.frame is not None
        solver = LBFGS(self.memory)
        following = solver.step(state.iterate, _evaluate(problem, state.frame))
        if following is None and self.whitened and state.iterate.steps:
            state = _turned(problem, state.frame, state.iterate)
            if state.failed is not None or state.frame is None:
                return state
            following = solver.step(state.iterate, _evaluate(problem, state.frame))
        if following is None:
            return replace(state, failed=Status.stalled, reason="no step raises the bound")
        if self.whitened and following.steps >= self.refresh:
            assert state.frame is not None
            return _turned(problem, state.frame, following)
        return replace(state, iterate=following)

    def residual(self, problem: Problem, state: CholeskyState) -> float:
        """How far means (in sds) and log sds are from those of (-2 f_v, f_m - 2 f_v m)."""
        return undamped_move(problem, state.iterate.at.kept)

    def posterior(self, problem: Problem, state: CholeskyState) -> GaussianPosterior:
        """The canonical Gaussian that shares (m, V) at the optimum, with its own bound; before
        that, the reference where its bound is the better one."""
        assert state.frame is not None
        point = elbo_at(problem, *state.iterate.at.kept.target)
        if isinstance(point, Failed) or point.elbo < state.frame.reference.elbo:
            point = state.frame.reference
        return point.posterior(problem, self.spec.guarantee)


def _whiten(problem: Problem, point: ElboPoint) -> Frame:
    """A = B R with RR' = Cov_q0[z]; the root is that of the correlations, whatever their scales."""
    linear = problem.engine.linear
    root = latent_root(point.conditioned, linear.size)
    design = np.asarray(StackedPredictors(linear).matrix() @ root)
    rank = design.shape[1]
    return Frame(
        point,
        flatten(point.mean),
        design,
        point.weight,
        point.shift,
        point.conditioned.log_normaliser,
        turn=(np.zeros(rank), np.eye(rank)),
    )


def _plain(problem: Problem, point: ElboPoint) -> CholeskyState:
    """The state at a point in the papers' coordinates: q0 is the prior, A = B and P = K^-1."""
    linear = problem.engine.linear
    nothing = tuple(np.zeros_like(m) for m in point.mean)
    prior = problem.engine.condition(tuple(np.zeros_like(w) for w in point.weight), nothing)
    if isinstance(prior, Failed):
        return _nowhere(f"without whitening it needs a proper prior: {prior.reason}")
    one = np.eye(linear.size)
    covariance = prior.solve(one)
    norm = float(np.abs(covariance).sum(axis=0).max(initial=0.0))
    of_prior = cholesky(symmetrise(covariance.copy()))
    of_point = cholesky(symmetrise(np.array(point.conditioned.solve(one))))
    if of_prior is None or of_point is None or of_prior.reciprocal_condition(norm) < SINGULAR:
        return _nowhere("without whitening it inverts the prior covariance, which is singular")
    frame = Frame(
        point,
        flatten(prior.mean),
        StackedPredictors(linear).matrix(),
        prior.weight,
        nothing,
        -of_prior.half_log_det,
        of_prior.inverse(),
    )
    h = point.conditioned.latent_mean - prior.latent_mean
    return _standing(problem, frame, _pack(h, of_point.lower))


def _turned(problem: Problem, frame: Frame, iterate: Iterate[PredictorMoments]) -> CholeskyState:
    """The state at the same point, L-BFGS restarted in the coordinates where it is N(0, 1)."""
    return _centred(problem, replace(frame, turn=frame.seen(iterate.x)), iterate.evaluations)


def _centred(problem: Problem, frame: Frame, evaluations: int = 0) -> CholeskyState:
    """The state at h = 0, L = 1 in the coordinates of L-BFGS."""
    return _standing(problem, frame, _pack(np.zeros(frame.rank), np.eye(frame.rank)), evaluations)


def _standing(problem: Problem, frame: Frame, x: Array, evaluations: int = 0) -> CholeskyState:
    evaluated = _evaluate(problem, frame)(x)
    if evaluated is None:
        return _nowhere("the bound is not finite at the start")
    return CholeskyState(frame, Iterate(x, evaluated, evaluations=evaluations + 1))


def _evaluate(
    problem: Problem, frame: Frame
) -> Callable[[Array], Evaluated[PredictorMoments] | None]:
    """-ELBO and its gradient; None where a diagonal entry of L is not positive."""
    design, rank, precision = frame.design, frame.rank, frame.precision
    predictors = problem.engine.linear.predictors
    lower = np.tril_indices(rank)

    def at(x: Array) -> Evaluated[PredictorMoments] | None:
        h, factor = frame.seen(x)
        diagonal = factor.diagonal()
        if not (diagonal > 0.0).all():
            return None
        spread = np.asarray(design @ factor)
        mean = split(frame.origin + design @ h, predictors)
        variance = tuple(map(rows.gram, cut(spread, predictors), mean))
        answers = expected(problem, mean, variance)
        gain, slope, curve = 0.0, [], []
        for a, w, b, m, v, part in zip(
            answers, frame.weight, frame.shift, mean, variance, cut(spread, predictors), strict=True
        ):
            gain += float(np.sum(a.value)) + float(
                np.sum(0.5 * rows.quadratic(w, m) + 0.5 * rows.trace(w, v) - rows.inner(b, m))
            )
            slope.append(a.d_mean + rows.times(w, m) - b)
            curve.append(rows.times_rows(a.d_variance + 0.5 * w, part))
        ph, pl = (h, factor) if precision is None else (precision @ h, precision @ factor)
        divergence = 0.5 * (h @ ph + np.vdot(factor, pl) - rank) - np.log(diagonal).sum()
        d_factor = 2.0 * np.asarray(design.T @ np.concatenate(curve)) - pl
        d_factor[np.diag_indices(rank)] += 1.0 / diagonal
        d_mean = design.T @ flatten(tuple(slope)) - ph
        if frame.turn is not None:
            turn = frame.turn[1]
            d_mean, d_factor = turn.T @ d_mean, turn.T @ np.tril(d_factor)
        gradient = np.concatenate([d_mean, d_factor[lower]])
        value = frame.constant + gain - float(divergence)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return None
        return Evaluated(-value, -gradient, PredictorMoments(mean, variance, answers))

    return at


def _pack(h: Array, factor: Array) -> Array:
    return np.concatenate([h, factor[np.tril_indices(len(h))]])


def _unpack(x: Array, rank: int) -> tuple[Array, Array]:
    factor = np.zeros((rank, rank))
    factor[np.tril_indices(rank)] = x[rank:]
    return x[:rank], factor


def _nowhere(reason: str | Failed) -> CholeskyState:
    """A state without a usable point."""
    empty = np.zeros(0)
    evaluated = Evaluated(math.inf, empty, PredictorMoments((), (), ()))
    return CholeskyState(None, Iterate(empty, evaluated), Status.numerical_error, reason)


def _too_large(size: int, largest: int) -> Diagnostic:
    return Diagnostic(
        "E501",
        "method `cholesky` cannot run this model",
        details=(f"it has {size} latents, and the method has {size}^2 / 2 unknowns",),
        help=f"use natural-gradient, or raise the option `largest` (now {largest})",
    )
