"""The double loop (Nickisch and Seeger 2009, section 2.2; Seeger and Nickisch 2011, algorithm 1):
super-Gaussian bounds on the sites.

Outer: the part of phi that is concave in 1/gamma, log|A|, is bounded by its tangent, whose slopes
are the variances z = Var[s]. Inner: what is left is an estimation problem in the means with
penalties h*(s; z), solved by Newton; the widths follow in closed form. phi falls at every outer
step (any z gives a bound: the next one is extrapolated, and taken where phi falls), and where all
sites are log-concave it is convex (theorem 2): the optimum is the global one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.objectives.super_gaussian import (
    Penalty,
    WidthPoint,
    at_moments,
    bounded,
    residual,
    start,
)
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Bounded, Widths
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.numerics.optimisation.anderson import Anderson
from lgmdsl.vocabulary.notes import Notes

# Earlier outer steps that the next variances are extrapolated from.
MEMORY = 2


@dataclass(frozen=True)
class DoubleLoopState:
    """q at the widths of the last inner loop, and the distance from those it asks for; `tangent`:
    the variances of that loop, `history` what they and q's were at earlier steps, as logarithms."""

    point: WidthPoint | None
    residual: float = math.inf
    tangent: Rows | None = None
    history: Anderson = field(default_factory=lambda: Anderson(MEMORY))
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.bound


@dataclass(frozen=True)
class DoubleLoop(Backend[DoubleLoopState]):
    """Variances outside, means inside."""

    spec: ClassVar[BackendSpec] = BackendSpec(
        name="double-loop",
        needs=Widths,
        additive=True,
        eliminates=True,
        any_variances=True,
        requires=Property.SUPER_GAUSSIAN,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=500,
        paper="Nickisch and Seeger 2009, section 2.2; Seeger and Nickisch 2011, algorithm 1",
        summary="super-Gaussian bounds, variances outside and means inside; a lower bound",
        notes=Notes(
            formula="t(s) = max over widths w of exp(b s - s^2 / (2 w) - h(w) / 2) for each site; "
            "the bound of log p(y) is maximised over all widths, variances in an outer loop and "
            "the mean in an inner one",
            support="super-Gaussian sites: logistic, laplace, student_t, sech2, exp_power, also of "
            "the norm of a group, with one width for each group",
            advice="for sparse models and large designs (images); each step raises the bound; its "
            "bound is looser than that of natural-gradient; the option `variances` says what "
            "drives the outer loop: exact ones, samples, or the Lanczos vectors of the paper",
            example="lgm fit model.lgm data.npz --method double-loop",
            see_also=("coordinate-descent", "natural-gradient", "jaakkola", "variances"),
        ),
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> DoubleLoopState:
        return _state(problem, start(problem, warm))

    def step(self, problem: Problem, state: DoubleLoopState) -> DoubleLoopState:
        assert state.point is not None
        q = state.point.conditioned
        history, candidate = _extrapolated(problem, state)
        if candidate is not None:
            tried = self._inner(problem, q, candidate)
            # A tangent elsewhere is a bound as well, but not one that must have risen.
            if isinstance(tried, WidthPoint) and tried.bound >= state.point.bound:
                following = _state(problem, tried)
                if following.residual < state.residual:
                    return replace(following, tangent=candidate, history=history)
            history = Anderson(MEMORY)
        point = self._inner(problem, q, q.variance)
        if isinstance(point, Failed):
            return replace(state, failed=Status.numerical_error, reason=point)
        return replace(_state(problem, point), tangent=q.variance, history=history)

    def _inner(self, problem: Problem, q: Conditioned, tangent: Rows) -> WidthPoint | Failed:
        """The best mean for these variances from q's own, and q there."""
        alpha = rows.slope_of(q.shift, q.weight, q.mean)
        failed = Failed("")
        # Newton's curvatures may leave q improper far from the optimum; 1/gamma never does.
        for majorised in (False, True):
            penalties = [Penalty(s, majorised) for s in bounded(problem)]
            best = maximise_mean(
                problem.engine, penalties, tangent, q.mean, alpha, leftover=q.leftover
            )
            if not isinstance(best, Failed):
                return at_moments(problem, best.mean, tangent)
            failed = best
        return failed

    def residual(self, problem: Problem, state: DoubleLoopState) -> float:
        """Newton's move of a mean in posterior sds, or the relative change of a weight."""
        return state.residual

    def posterior(self, problem: Problem, state: DoubleLoopState) -> GaussianPosterior:
        assert state.point is not None
        return state.point.posterior(problem)


def _state(problem: Problem, point: WidthPoint | Failed) -> DoubleLoopState:
    if isinstance(point, Failed):
        return DoubleLoopState(None, failed=Status.numerical_error, reason=point)
    return DoubleLoopState(point, residual(problem, point.conditioned))


def _extrapolated(problem: Problem, state: DoubleLoopState) -> tuple[Anderson, Rows | None]:
    """Anderson's candidate for the fixed point tangent -> variance in `_coordinates`; None at
    first, and where these do not exist."""
    assert state.point is not None
    if state.tangent is None:
        return Anderson(MEMORY), None
    sites, mean = bounded(problem), state.point.conditioned.mean
    before = [_coordinates(*pair) for pair in zip(sites, state.tangent, strict=True)]
    after = [
        _coordinates(*pair) for pair in zip(sites, state.point.conditioned.variance, strict=True)
    ]
    now = [x for x in before if x is not None]
    image = [x for x in after if x is not None]
    if len(now) < len(before) or len(image) < len(after):
        return Anderson(MEMORY), None
    history = state.history.seen(np.concatenate(now), np.concatenate(image))
    if len(history.points) < 2:
        return history, None
    ends = np.cumsum([len(x) for x in now])[:-1]
    parts = zip(sites, np.split(history.candidate(), ends), mean, strict=True)
    trial = [_variance(site, part, m) for site, part, m in parts]
    usable = all(bool(np.isfinite(v).all() and (rows.diagonal(v) > 0.0).all()) for v in trial)
    return history, tuple(trial) if usable else None


def _coordinates(site: Bounded, variance: Array) -> Array | None:
    """Coordinates without bounds of variances: logs of (N,), or of the traces of (N, K, K) with one
    width to a site; else the logs of the Cholesky factor's diagonal, and the entries below it in
    units of that of their row, (N K^2,). None where some variance is not positive."""
    if variance.ndim == 1 or site.by_spread:
        spread = rows.spread(variance)
        return np.log(spread) if bool((spread > 0.0).all()) else None
    try:
        factor = np.linalg.cholesky(variance)
    except np.linalg.LinAlgError:
        return None
    each = np.arange(factor.shape[1])
    sd = factor[:, each, each]
    factor = factor / sd[:, :, None]
    factor[:, each, each] = np.log(sd)
    return np.asarray(factor.reshape(-1), dtype=np.float64)


def _variance(site: Bounded, flat: Array, mean: Array) -> Array:
    """The variances of the predictors, of the shape for `mean`, with these coordinates."""
    with np.errstate(over="ignore", invalid="ignore"):
        if mean.ndim == 1 or site.by_spread:
            size = mean.size / max(len(mean), 1)
            return rows.isotropic(np.exp(flat) / size, mean)
        factor = flat.reshape(*mean.shape, mean.shape[1]).copy()
        each = np.arange(mean.shape[1])
        sd = np.exp(factor[:, each, each])
        factor[:, each, each] = 1.0
        factor *= sd[:, :, None]
        return np.asarray(factor @ factor.transpose(0, 2, 1))
