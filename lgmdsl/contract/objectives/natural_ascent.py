"""Natural-gradient ascent on the ELBO, which back ends share that differ in what q is kept to.

Two phases, each of whose accepted steps raises the ELBO (Khan and Lin 2017):

A. undamped (w, b) <- (-2 f_v, f_m + w m), while the gain shrinks by three or more at each step;
B. profiled: condition at w for the variances v; maximise over the mean at fixed v by Newton; then
   T = -2 f_v, and log w moves to Anderson's candidate for the map log w -> log T, or to
   (1 - r) log w + r log T with r halved until the ELBO rises. Where a weight is not positive, or a
   site vector-valued, the same is done in w.

In the last resort (w, b) moves to (w, b) + r (target - (w, b)), an ascent direction of the ELBO.

Of Gaussian sites the target is the optimum, wherever it is asked for: where the step to it gains
nothing, what is left is rounding, and nothing else is tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend
from lgmdsl.contract.engine import Failed, Leftover, Rows
from lgmdsl.contract.objectives.elbo import (
    LEGIBLE,
    ElboPoint,
    Standing,
    begin,
    blur,
    comparable,
    decrement,
    distance,
    elbo_at,
    elbo_of,
    mismatch,
)
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.stacked import flatten, split_like
from lgmdsl.contract.status import Status
from lgmdsl.numerics.optimisation.anderson import Anderson

# Damping below this is no step.
SHORTEST = 1e-10
# A rise smaller than this fraction of the ELBO is rounding.
ROUNDING = 1e-13
# So is a fall that its terms' cancellation can make, up to LEGIBLE nats or this fraction.
HELD = 5e-10
# An undamped step from weights this far from their target is not worth its factorisation.
FAR = 100.0
# A first point with so small a residual is at its optimum already, for the driver by the loosest
# tolerance of all.
SETTLED = 1e-5
# Tolerances of the profiled mean, in posterior sds: far from the optimum, and close to it.
LOOSEST, CLOSEST = 1e-2, 1e-9


@dataclass(frozen=True)
class NaturalState:
    """A point on the ELBO, the true residual there, and the phase's bookkeeping."""

    point: ElboPoint | None
    residual: float = math.inf
    undamped: bool = True
    gain: float = math.inf
    history: Anderson = field(default_factory=Anderson)
    logs: bool = True  # the history's coordinates: log w, or w
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.elbo


class NaturalAscent(Backend[NaturalState]):
    """Steps of a back end on the ELBO; `memory`: how many past steps Anderson's candidate combines,
    an option of it."""

    memory: int

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> NaturalState:
        point = begin(problem, warm)
        if isinstance(point, Failed):
            return NaturalState(None, failed=Status.numerical_error, reason=point)
        residual = _residual(problem, point)
        if residual < SETTLED:
            # The predictors do not move (a prior of variance 0, say), but b does: gradients in
            # hyperparameters rest on it.
            following = elbo_at(problem, *point.target, near=point.conditioned)
            floor = point.elbo - HELD * max(1.0, abs(point.elbo))
            if isinstance(following, ElboPoint) and following.elbo >= floor:
                return self._at(problem, following)
        return NaturalState(point, residual, history=Anderson(self.memory))

    def step(self, problem: Problem, state: NaturalState) -> NaturalState:
        point = state.point
        assert point is not None
        exact, away = problem.gaussian, mismatch(point)
        if exact or (state.undamped and away < FAR):
            following = elbo_at(problem, *point.target)
            certain = exact and away > CLOSEST  # whatever is known of the digits of either bound
            if isinstance(following, ElboPoint) and (certain or better(problem, following, point)):
                gain = following.elbo - point.elbo
                accepted = self._at(problem, following)
                return replace(accepted, undamped=gain * 3.0 <= state.gain, gain=gain)
        if exact:
            return replace(state, failed=Status.stalled, reason="rounding hides the rest")
        logs = _positive(point)
        history = state.history if logs == state.logs else Anderson(self.memory)
        tried, history = self._accelerated(problem, point, history, logs)
        if tried is None:
            tried = self._damped(problem, point)
        if tried is None:
            return replace(state, failed=Status.stalled, reason="no step raises the bound")
        return replace(self._at(problem, tried), undamped=False, history=history, logs=logs)

    def residual(self, problem: Problem, state: NaturalState) -> float:
        return state.residual

    def posterior(self, problem: Problem, state: NaturalState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem, self.spec.guarantee)

    # ---- steps ---------------------------------------------------------------------------------

    def _at(self, problem: Problem, point: ElboPoint) -> NaturalState:
        return NaturalState(point, _residual(problem, point), history=Anderson(self.memory))

    def _accelerated(
        self, problem: Problem, point: ElboPoint, history: Anderson, logs: bool
    ) -> tuple[ElboPoint | None, Anderson]:
        """Phase B: Anderson's candidate, else a damped step in log w (or in w), each with its best
        mean."""
        now, image = _flat(point.weight, logs), _flat(point.target[0], logs)
        history = history.seen(now, image)
        # A better mean than the weights deserve would be thrown away with them.
        close = min(LOOSEST, max(CLOSEST, 0.03 * mismatch(point) ** 2))
        for trial in (history.candidate(), *_between(now, image)):
            weight = _shaped(trial, point.weight, logs)
            if weight is None:
                continue
            tried = profiled(
                problem, weight, point.mean, point.alpha, close, point.conditioned.leftover
            )
            if isinstance(tried, ElboPoint) and better(problem, tried, point):
                return tried, history
        return None, Anderson(self.memory)

    def _damped(self, problem: Problem, point: ElboPoint) -> ElboPoint | None:
        """(w, b) moved towards its target by the largest r = 1, 1/2, ... that raises the ELBO."""
        weight, shift = point.target
        r = 1.0
        while r > SHORTEST:
            tried = elbo_at(
                problem,
                rows.interpolate(point.weight, weight, r),
                rows.interpolate(point.shift, shift, r),
            )
            if isinstance(tried, ElboPoint) and better(problem, tried, point):
                return tried
            r *= 0.5
        return None


def _residual(problem: Problem, point: ElboPoint) -> float:
    return max(decrement(problem, point), mismatch(point))


def better(problem: Problem, tried: ElboPoint, point: ElboPoint) -> bool:
    """Whether the bound rose, or held to its rounding while the residual fell: the bound is
    quadratic in what is left, so its digits end before those of the weights and means do."""
    if not comparable(tried, point):
        return False
    size = max(1.0, abs(point.elbo))
    slack = max(ROUNDING * size, min(blur(tried), max(HELD * size, LEGIBLE)))
    errors = None if problem.engine.exact else tried.conditioned.errors
    if errors is not None:  # their chance, which is the same in both, hides as much
        slack = max(slack, errors.log_normaliser)
    if tried.elbo > point.elbo + slack:
        return True
    if tried.elbo < point.elbo - slack:
        return False
    return _residual(problem, tried) < 0.99 * _residual(problem, point)


def _positive(point: ElboPoint) -> bool:
    """Whether log w coordinates exist at the point and its target."""
    return all(
        w.ndim == 1 and bool((w > 0).all()) and bool((t > 0).all())
        for w, t in zip(point.weight, point.target[0], strict=True)
    )


def _flat(weight: Rows, logs: bool) -> Array:
    """All weights in one vector, or their logarithms."""
    return np.log(flatten(weight)) if logs else flatten(weight)


def _shaped(flat: Array, like: Rows, logs: bool) -> Rows | None:
    """The weights that `_flat` was made of; None where they cannot be numbers."""
    if not np.isfinite(flat).all() or (logs and np.abs(flat).max(initial=0.0) > 600.0):
        return None
    return split_like(np.exp(flat) if logs else flat, like)


def _between(now: Array, image: Array) -> tuple[Array, ...]:
    return tuple((1.0 - r) * now + r * image for r in 0.5 ** np.arange(0, 12))


# ---- fixed point -------------------------------------------------------------------------------
# What back ends share that look for the ELBO's fixed point: W = -2 f_v with the best mean.


def profiled(
    problem: Problem,
    weight: Rows,
    mean: Rows,
    alpha: Rows,
    tolerance: float = 1e-7,
    leftover: Leftover | None = None,
) -> ElboPoint | Failed:
    """q with weights w and the best mean for its variances, sought from (mean, alpha), with what an
    iterative solution lacks there."""
    spread = problem.engine.condition(weight, tuple(np.zeros_like(m) for m in mean))
    if isinstance(spread, Failed):
        return spread
    best = maximise_mean(
        problem.engine,
        problem.expecting(),
        spread.variance,
        mean,
        alpha,
        tolerance,
        leftover=leftover,
    )
    if isinstance(best, Failed):
        return best
    return elbo_of(problem, spread.with_shift(rows.shift_of(best.alpha, weight, best.mean)))


def undamped_move(problem: Problem, point: Standing) -> float:
    """How far the undamped step to (W, b) = target moves predictors that are not certain: the
    largest move of a mean in posterior sds or of a log sd. Zero exactly at a fixed point; inf where
    it fails."""
    following = problem.engine.condition(*point.target)
    if isinstance(following, Failed):
        return math.inf
    gaps = []
    parts = zip(following.variance, point.variance, rows.uncertain(point.variance), strict=True)
    for new, old, moving in parts:
        ratio = np.maximum(rows.diagonal(new)[moving], 1e-300) / rows.diagonal(old)[moving]
        gaps.append(0.5 * np.abs(np.log(ratio)).max(initial=0.0))
    return max(distance(point, following), *map(float, gaps), 0.0)
