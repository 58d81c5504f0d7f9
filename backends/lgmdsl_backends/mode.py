"""The mode of the joint density (maximum a posteriori), kinked sites included.

Newton with Armijo on sum l(s) - 1/2 (s - s0)'alpha, points being pairs (s, alpha) as in Laplace.

A site with a kink, t(s) = e^{beta s} e^{g(s^2)}, is rounded off: e^{g(z + s^2)}, the double loop's
inner problem for a variance z, and z goes to 0 by hundreds. A row that the kink holds at s = 0 has
no limit of a curvature; Newton then follows the slope p = s / gamma as an unknown of its own,

    p = s / gamma(z + s^2)   linearised to   dp = [1/gamma - 4 s (p gamma) g''] ds + ...

(Chan, Golub and Mulet 1999, for total variation), and p is the row's beta - alpha at hand. With a
Laplace potential the end is the sparse mode: s = 0 to rounding where |p| is below its rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise, SuperGaussian
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status

NOTE = (
    "the mode alone: no log evidence, and its sds (of the curvature at the mode, none at a kink) "
    "are not the posterior's"
)
# sqrt(z) in units of the site's scale, first and last, and its factor from one step to the next.
WIDEST, NARROWEST, FACTOR = 1.0, 1e-6, 0.1
# sqrt(z) is never less than this part of a predictor's prior mean, or its slope is rounding.
ROUNDING = 1e-10
# Rows within so many sqrt(z) of a kink are held by it, with an sd of so many units of the scale.
HELD, STIFF = 1e3, 3e-5
SUFFICIENT, SHORTEST, LIMIT = 1e-4, 1e-20, 100
ROUGH, FINE = 1e-4, 1e-8  # Newton's decrement at the end of a step, before the last z and at it


@dataclass(frozen=True)
class Local:
    """One block at s: log density (rounded off where kinked), slope, and weight for Newton's step
    with one that surely lets q exist."""

    value: Array
    slope: Array
    weight: Array
    safe: Array


@dataclass(frozen=True)
class ModeState:
    """A point (s, alpha), the log joint density there but for the prior's constant, sqrt(z), and
    the Gaussian with the curvature there."""

    s: Rows
    alpha: Rows
    objective: float
    width: float
    conditioned: Conditioned | None = None
    residual: float = math.inf
    failed: Status | None = None
    reason: str = ""


@dataclass(frozen=True)
class Mode(Backend[ModeState]):
    """The maximum a posteriori estimate, for comparison."""

    spec: ClassVar[BackendSpec] = BackendSpec(
        name="map",
        needs=Pointwise,
        guarantee=Guarantee.APPROXIMATE,
        evidence=False,
        max_steps=100,
        paper="Seeger and Nickisch 2011 (inner loop, z to 0)",
        summary="the mode, kinks included; no evidence, and sds that are not the posterior's",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> ModeState:
        lost = [s.spec.name for s in problem.sites if _kinked(s) and not _rounds(s)]
        if lost:
            reason = f"{lost[0]} has a kink, and no g by which it could be rounded off"
            return ModeState((), (), -math.inf, 0.0, None, math.inf, Status.numerical_error, reason)
        s = problem.engine.prior_mean
        alpha: Rows = tuple(np.zeros_like(x) for x in s)
        if warm is not None:
            moved = problem.engine.condition(warm.weight, warm.shift)
            if not isinstance(moved, Failed):
                s, alpha = moved.mean, rows.slope_of(moved.shift, moved.weight, moved.mean)
        width = WIDEST if any(_kinked(x) for x in problem.sites) else NARROWEST
        return _at(problem, s, alpha, width)

    def step(self, problem: Problem, state: ModeState) -> ModeState:
        last = state.width <= NARROWEST
        found = _climb(problem, state, FINE if last else ROUGH)
        if isinstance(found, Failed):
            return replace(state, failed=Status.numerical_error, reason=found.reason)
        s, alpha, left = found
        if last and left > FINE and left > 0.5 * state.residual:
            return replace(state, failed=Status.stalled, reason="no step raises the density")
        width = max(FACTOR * state.width, NARROWEST)
        return _at(problem, s, alpha, width, left if last else math.inf)

    def residual(self, problem: Problem, state: ModeState) -> float:
        """Newton's decrement, which bounds the next move of every mean in sds; inf before the last
        z."""
        return state.residual

    def posterior(self, problem: Problem, state: ModeState) -> GaussianPosterior:
        q = state.conditioned
        assert q is not None, "the driver keeps the last state that has a posterior"
        exact = problem.gaussian
        evidence = q.log_normaliser + rows.total(tuple(
            l + 0.5 * rows.quadratic(w, x) - rows.inner(b, x)
            for l, w, b, x in zip(
                problem.log_density(q.mean), q.weight, q.shift, q.mean, strict=True
            )
        ))  # fmt: skip
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q,
            log_evidence=evidence if exact else math.nan,
            guarantee=Guarantee.EXACT if exact else self.spec.guarantee,
            notes=() if exact else (NOTE,),
        )


def _kinked(site: object) -> bool:
    return Property.KINKED in site.spec.properties  # type: ignore[attr-defined]


def _rounds(site: object) -> bool:
    return isinstance(site, SuperGaussian)


def _at(problem: Problem, s: Rows, alpha: Rows, width: float, left: float = math.inf) -> ModeState:
    q = _gaussian_at(problem, s, alpha, width)
    if isinstance(q, Failed):
        return ModeState(s, alpha, -math.inf, width, None, left, Status.numerical_error, q.reason)
    # What the kinks hold is at them in q, and near them in s; the prior's part to second order.
    at = q.mean if left < math.inf else s
    energy = _energy(problem.log_density(at), problem, s, alpha) - sum(
        float(np.sum((m - x) * a)) for m, x, a in zip(at, s, alpha, strict=True)
    )
    return ModeState(s, alpha, energy, width, q, left)


def _energy(values: Sequence[Array], problem: Problem, s: Rows, alpha: Rows) -> float:
    prior = sum(
        float(np.sum((x - x0) * a))
        for x, x0, a in zip(s, problem.engine.prior_mean, alpha, strict=True)
    )
    value = rows.total(tuple(values)) - 0.5 * prior
    return value if math.isfinite(value) else -math.inf


def _squared_width(problem: Problem, width: float) -> Rows:
    """z of each row of kinked blocks, zeros elsewhere."""
    found = []
    for site, s0 in zip(problem.sites, problem.engine.prior_mean, strict=True):
        declared = site.landmark() if _kinked(site) else None
        scale = np.ones_like(s0) if declared is None else declared[1] + np.zeros_like(s0)
        root = np.maximum(width * scale, ROUNDING * np.abs(s0))
        found.append(root**2 if _kinked(site) else np.zeros_like(s0))
    return tuple(found)


def _locals(problem: Problem, s: Rows, alpha: Rows, z: Rows) -> tuple[Local, ...]:
    out = []
    for site, answer, x, a, square in zip(problem.sites, problem.answers, s, alpha, z, strict=True):
        if not _kinked(site):
            assert isinstance(answer, Pointwise)
            p = answer.pointwise(x)
            out.append(Local(p.value, p.slope, -p.curvature, rows.absolute(p.curvature)))
            continue
        assert isinstance(site, SuperGaussian)
        found, second = site.widths(x, square), site.g(square + x * x)[2]
        inverse = 1.0 / found.width
        reach = np.sqrt(square + x * x)
        pull = np.clip((site.beta - a) * found.width, -reach, reach)
        weight = inverse - 4.0 * x * pull * second
        out.append(Local(
            -found.penalty, -found.slope, np.where(weight >= 0.0, weight, inverse), inverse
        ))  # fmt: skip
    return tuple(out)


def _climb(
    problem: Problem, state: ModeState, tolerance: float
) -> tuple[Rows, Rows, float] | Failed:
    """Newton to the mode at this z: (s, alpha, the decrement left)."""
    z = _squared_width(problem, state.width)
    s, alpha, dual = state.s, state.alpha, state.alpha
    here = _locals(problem, s, dual, z)
    energy = _energy([l.value for l in here], problem, s, alpha)
    left = math.inf
    for _ in range(LIMIT):
        q = _conditioned(problem, here, s)
        if isinstance(q, Failed):
            return q
        ahead, ahead_alpha = q.mean, rows.slope_of(q.shift, q.weight, q.mean)
        squared = sum(
            float(np.sum((t - x) * (l.slope - a)))
            for t, x, l, a in zip(ahead, s, here, alpha, strict=True)
        )
        left = math.sqrt(abs(squared))
        if left <= tolerance:
            break
        slack, step = 1e-13 * (1.0 + abs(energy)), 1.0
        while step >= SHORTEST:
            moved = rows.interpolate(s, ahead, step)
            moved_alpha = rows.interpolate(alpha, ahead_alpha, step)
            tried = _locals(problem, moved, ahead_alpha, z)
            reached = _energy([l.value for l in tried], problem, moved, moved_alpha)
            if reached >= energy + SUFFICIENT * step * squared - slack:
                break
            step *= 0.5
        else:
            break
        s, alpha, here, energy = moved, moved_alpha, tried, reached
    return s, alpha, left


def _conditioned(problem: Problem, here: Sequence[Local], s: Rows) -> Conditioned | Failed:
    slope = tuple(l.slope for l in here)
    weight = tuple(l.weight for l in here)
    q = problem.engine.condition(weight, rows.shift_of(slope, weight, s))
    if isinstance(q, Failed):
        weight = tuple(l.safe for l in here)
        q = problem.engine.condition(weight, rows.shift_of(slope, weight, s))
    return q


def _gaussian_at(problem: Problem, s: Rows, alpha: Rows, width: float) -> Conditioned | Failed:
    """The Gaussian with the curvature at the mode. A row held by a kink has a weight that lets it
    move no more; off the kink a site that has no curvature gives none, unless q would not exist."""
    z = _squared_width(problem, width)
    here = _locals(problem, s, alpha, z)
    curved, slopes, safe = [], [], []
    for site, answer, x, a, square, l in zip(
        problem.sites, problem.answers, s, alpha, z, here, strict=True
    ):
        assert isinstance(answer, Pointwise)
        if not _kinked(site):
            curved.append(l.weight)
            slopes.append(l.slope)
            safe.append(l.safe)
            continue
        p = answer.pointwise(x)
        held = x * x <= HELD**2 * square
        # With the slope there as the shift the mean is 0 whatever the weight is.
        stiff = NARROWEST**2 / (STIFF**2 * square)
        curved.append(np.where(held, stiff, -p.curvature))
        slopes.append(np.where(held, a - stiff * x, p.slope))
        safe.append(np.where(held, stiff, l.safe))
    for weight in (tuple(curved), tuple(safe)):
        q = problem.engine.condition(weight, rows.shift_of(tuple(slopes), weight, s))
        if not isinstance(q, Failed):
            break
    return q
