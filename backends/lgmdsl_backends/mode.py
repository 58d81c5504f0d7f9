"""The mode of the joint density (maximum a posteriori), kinked sites included.

Newton with Armijo on sum l(s) - 1/2 (s - s0)'alpha, points being pairs (s, alpha) as in Laplace.

A site with a kink, t(s) = e^{beta s} e^{g(s^2)}, is rounded off: e^{g(z + s^2)}, the double loop's
inner problem for a variance z, and z goes to 0 by hundreds. A row that the kink holds at s = 0 has
no limit of a curvature; Newton then follows the slope p = s / gamma as an unknown of its own,

    p = s / gamma(z + s^2)   linearised to   dp = [1/gamma - 4 s (p gamma) g''] ds + ...

(Chan, Golub and Mulet 1999, for total variation), and p is the row's beta - alpha at hand. With a
Laplace potential the end is the sparse mode: s = 0 to rounding where |p| is below its rate. Sites
of the norm of a group, s (K), have dp = [I/gamma - 2 g'' (s (p gamma)' + (p gamma) s')] ds, with
|p gamma| at most sqrt(z + |s|^2), and whole groups at 0.
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
from lgmdsl.contract.objectives import support
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise, SuperGaussian
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also

NOTE = (
    "the mode alone: no log evidence, and its sds (of the curvature at the mode, none at a kink) "
    "are not the posterior's"
)
# sqrt(z) in units of the site's scale, first and last, and its factor from one step to the next.
WIDEST, NARROWEST, FACTOR = 1.0, 1e-6, 0.1
# A scale wide against the posterior makes z wide as well: it keeps shrinking, at most to LEAST,
# while the rows it holds are not OPTIMAL; a block NEAR optimal next to another waits for that one.
LEAST, OPTIMAL, NEAR = 1e-14, 1e-6, 1e-3
# What holds a row at a kink, as an sd in units of the scale.
STIFF = 3e-5
HOLDS = "rows are fixed at a kink that is too weak to fix them, or released by one that is not"
SUFFICIENT, SHORTEST, LIMIT = 1e-4, 1e-20, 100
ROUGH, FINE = 1e-4, 1e-8  # Newton's decrement at the end of a step, before the last z and at it


@dataclass(frozen=True)
class Local:
    """One block at s: log density (rounded off where kinked), slope, and weight for Newton's step
    with one for which q certainly exists."""

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
    width: Widths
    conditioned: Conditioned | None = None
    decrement: float = math.inf
    optimality: Widths = (0.0,)
    failed: Status | None = None
    reason: str | Failed = ""


@dataclass(frozen=True)
class Mode(Backend[ModeState]):
    """The maximum a posteriori estimate, for comparison."""

    spec: ClassVar[BackendSpec] = BackendSpec(
        name="map",
        needs=Pointwise,
        additive=True,
        eliminates=True,
        guarantee=Guarantee.APPROXIMATE,
        evidence=False,
        ranks=True,
        max_steps=100,
        paper="Seeger and Nickisch 2011 (inner loop, z to 0)",
        summary="the mode, kinks included; no evidence, and sds that are not the posterior's",
        notes=Notes(
            formula="z* = argmax log p(y | z) + log p(z), kinks by a smoothing that shrinks to 0",
            support="every site, also those with a kink (laplace, exp_power)",
            advice="penalised maximum likelihood (lasso, ridge, total variation); it has no "
            "evidence, so hyperparameters must be pinned",
            example="lgm fit pinned.lgm data.npz --method map",
            see_also=("laplace", "double-loop", "potential"),
            also_called=also("Stan", "optimize optimizing"),
        ),
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> ModeState:
        lost = [s.spec.name for s in problem.sites if kinked(s) and not rounds(s)]
        if lost:
            reason = f"{lost[0]} has a kink, and declares no g with which to smooth it"
            return ModeState((), (), -math.inf, (), failed=Status.numerical_error, reason=reason)
        s = problem.engine.prior_mean
        alpha: Rows = tuple(np.zeros_like(x) for x in s)
        if warm is not None:
            warmed = problem.engine.condition(warm.weight, warm.shift)
            if not isinstance(warmed, Failed):
                s, alpha = warmed.mean, rows.slope_of(warmed.shift, warmed.weight, warmed.mean)
        if not support.possible(problem, s):
            point = support.within(problem, s)
            if point is None:
                failed = Status.numerical_error
                return ModeState((), (), -math.inf, (), failed=failed, reason=support.OUTSIDE)
            s, alpha = point
        width = tuple(WIDEST if kinked(x) else NARROWEST for x in problem.sites)
        state = _state_at(problem, s, alpha, width)
        # A weight of 1 / scale^2 may be lost against the others; a narrower kink weighs more.
        while state.failed is not None and not _last(width):
            width = _narrower(width)
            narrower = _state_at(problem, s, alpha, width)
            state = state if narrower.failed is not None else narrower
        return state

    def step(self, problem: Problem, state: ModeState) -> ModeState:
        last = _last(state.width)
        climbed = _climb(problem, state, FINE if last else ROUGH)
        if isinstance(climbed, Failed):
            return replace(state, failed=Status.numerical_error, reason=climbed)
        s, alpha, decrement = climbed
        if not last:
            return _state_at(problem, s, alpha, _narrower(state.width))
        following = _state_at(problem, s, alpha, state.width, decrement)
        if following.failed is not None:
            return following
        worst = max(following.optimality)
        width = tuple(
            FACTOR * w if x > max(OPTIMAL, NEAR * worst) and w > LEAST else w
            for w, x in zip(following.width, following.optimality, strict=True)
        )
        if width != following.width:
            return replace(following, width=width)
        if decrement > FINE and decrement > 0.5 * state.decrement:
            return replace(state, failed=Status.stalled, reason="no step raises the density")
        if worst > OPTIMAL and worst > 0.5 * max(state.optimality):
            return replace(following, failed=Status.stalled, reason=HOLDS)
        return following

    def residual(self, problem: Problem, state: ModeState) -> float:
        """Newton's decrement, which bounds the next move of every mean in sds, or how far the rows
        with kinks are from optimal, if that is more; inf before the last z."""
        return max(state.decrement, *state.optimality)

    def posterior(self, problem: Problem, state: ModeState) -> GaussianPosterior:
        q = state.conditioned
        assert q is not None, "the driver keeps the last state that has a posterior"
        exact, evidence = problem.gaussian, math.nan
        if exact:
            answers = problem.pointwise(q.mean)
            left = (a.eliminated for a in answers if a.eliminated is not None)
            evidence = q.centred + rows.total((*(a.value for a in answers), *left))
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q,
            log_evidence=evidence,
            guarantee=Guarantee.EXACT if exact else self.spec.guarantee,
            notes=() if exact else (NOTE,),
        )


def _last(width: Widths) -> bool:
    return max(width) <= NARROWEST


def _narrower(width: Widths) -> Widths:
    return tuple(max(FACTOR * w, NARROWEST) for w in width)


def _state_at(
    problem: Problem, s: Rows, alpha: Rows, width: Widths, decrement: float = math.inf
) -> ModeState:
    q = _gaussian_at(problem, s, alpha, width)
    if isinstance(q, Failed):
        return ModeState(s, alpha, -math.inf, width, failed=Status.numerical_error, reason=q)
    # What the kinks hold is at them in q, and near them in s; the prior's part to second order.
    centre = q.mean if decrement < math.inf else s
    energy = _energy(problem.log_density(centre), problem, s, alpha) - sum(
        float(np.sum((m - x) * a)) for m, x, a in zip(centre, s, alpha, strict=True)
    )
    optimality = (
        distance_from_optimum(problem, q, s, width) if decrement < math.inf else (math.inf,)
    )
    return ModeState(s, alpha, energy, width, q, decrement, optimality)


def _energy(values: Sequence[Array], problem: Problem, s: Rows, alpha: Rows) -> float:
    prior = sum(
        float(np.sum((x - x0) * a))
        for x, x0, a in zip(s, problem.engine.prior_mean, alpha, strict=True)
    )
    value = rows.total(tuple(values)) - 0.5 * prior
    return value if math.isfinite(value) else -math.inf


def _locals(problem: Problem, s: Rows, alpha: Rows, z: Rows) -> tuple[Local, ...]:
    out = []
    for site, answer, x, a, square in zip(problem.sites, problem.answers, s, alpha, z, strict=True):
        if not kinked(site):
            assert isinstance(answer, Pointwise)
            p = answer.pointwise(x)
            out.append(Local(p.value, p.slope, -p.curvature, rows.absolute(p.curvature)))
            continue
        assert isinstance(site, SuperGaussian)
        if x.ndim > 1:
            out.append(_local_norm(site, x, a, square))
            continue
        bound, second = site.widths(x, square), site.g(square + x * x)[2]
        inverse = 1.0 / bound.width
        reach = np.sqrt(square + x * x)
        pull = np.clip((site.beta - a) * bound.width, -reach, reach)
        weight = inverse - 4.0 * x * pull * second
        out.append(
            Local(-bound.penalty, -bound.slope, np.where(weight >= 0.0, weight, inverse), inverse)
        )
    return tuple(out)


def _local_norm(site: SuperGaussian, x: Array, a: Array, square: Array) -> Local:
    """l (rounded off at kinks), its slope and weights of sites of a norm, x and a (N, K)."""
    length = square + rows.inner(x, x)
    bound = site.widths(x, rows.isotropic(square / x.shape[1], x))
    pull = -a * bound.width[:, None]
    over = np.sqrt(np.maximum(rows.inner(pull, pull) / length, 1.0))
    outer = x[:, :, None] * (pull / over[:, None])[:, None, :]
    bend = (2.0 * site.g(length)[2])[:, None, None] * (outer + outer.transpose(0, 2, 1))
    weight = bound.weight - bend
    sound = rows.per_site(rows.smallest(weight) >= 0.0, weight)
    return Local(-bound.penalty, -bound.slope, np.where(sound, weight, bound.weight), bound.weight)


def _climb(
    problem: Problem, state: ModeState, tolerance: float
) -> tuple[Rows, Rows, float] | Failed:
    """Newton to the mode at this z: (s, alpha, the decrement left)."""
    z = squared_width(problem, state.width)
    s, alpha, dual = state.s, state.alpha, state.alpha
    local = _locals(problem, s, dual, z)
    energy = _energy([l.value for l in local], problem, s, alpha)
    decrement = math.inf
    for _ in range(LIMIT):
        q = _conditioned(problem, local, s)
        if isinstance(q, Failed):
            return q
        ahead, ahead_alpha = q.mean, rows.slope_of(q.shift, q.weight, q.mean)
        squared = sum(
            float(np.sum((t - x) * (l.slope - a)))
            for t, x, l, a in zip(ahead, s, local, alpha, strict=True)
        )
        decrement = math.sqrt(abs(squared))
        if decrement <= tolerance:
            break
        slack, step = 1e-13 * (1.0 + abs(energy)), 1.0
        while step >= SHORTEST:
            candidate = rows.interpolate(s, ahead, step)
            candidate_alpha = rows.interpolate(alpha, ahead_alpha, step)
            tried = _locals(problem, candidate, ahead_alpha, z)
            reached = _energy([l.value for l in tried], problem, candidate, candidate_alpha)
            if reached >= energy + SUFFICIENT * step * squared - slack:
                break
            step *= 0.5
        else:
            break
        s, alpha, local, energy = candidate, candidate_alpha, tried, reached
    return s, alpha, decrement


def _conditioned(problem: Problem, local: Sequence[Local], s: Rows) -> Conditioned | Failed:
    slope = tuple(l.slope for l in local)
    weight = tuple(l.weight for l in local)
    q = problem.engine.condition(weight, rows.shift_of(slope, weight, s))
    if isinstance(q, Failed):
        weight = tuple(l.safe for l in local)
        q = problem.engine.condition(weight, rows.shift_of(slope, weight, s))
    return q


def _gaussian_at(problem: Problem, s: Rows, alpha: Rows, width: Widths) -> Conditioned | Failed:
    """The Gaussian with the curvature at the mode. A row held by a kink has a weight that lets it
    move no more; off the kink a site that has no curvature gives none, unless q would not exist."""
    z = squared_width(problem, width)
    local = _locals(problem, s, alpha, z)
    curved, slopes, safe = [], [], []
    for site, answer, x, a, square, l in zip(
        problem.sites, problem.answers, s, alpha, z, local, strict=True
    ):
        assert isinstance(answer, Pointwise)
        if not kinked(site):
            curved.append(l.weight)
            slopes.append(l.slope)
            safe.append(l.safe)
            continue
        p = answer.pointwise(x)
        at_kink = held_rows(x, square)
        # With the slope there as the shift the mean is 0 whatever the weight is.
        stiff = rows.isotropic(NARROWEST**2 / (STIFF**2 * square), x)
        held, each = rows.per_site(at_kink, stiff), rows.per_site(at_kink, x)
        curved.append(np.where(held, stiff, -p.curvature))
        slopes.append(np.where(each, a - rows.times(stiff, x), p.slope))
        safe.append(np.where(held, stiff, l.safe))
    for weight in (tuple(curved), tuple(safe)):
        q = problem.engine.condition(weight, rows.shift_of(tuple(slopes), weight, s))
        if not isinstance(q, Failed):
            break
    return q


# ---- kinks -------------------------------------------------------------------------------------
# Sites with a kink, rounded off by a variance z for each row: how wide, which rows the kink holds,
# and whether it is strong enough to hold them.


# sqrt(z) is never less than this part of a predictor's prior mean, or its slope is rounding.
ROUNDING = 1e-10
# Rows within so many sqrt(z) of a kink are held by it.
HELD = 1e3
Widths = tuple[float, ...]  # sqrt(z) of each block, in units of the scales of its sites


def kinked(site: Site) -> bool:
    """Whether its log density has a kink."""
    return Property.KINKED in site.spec.properties


def rounds(site: Site) -> bool:
    """Whether it has a g by which the kink can be rounded off."""
    return isinstance(site, SuperGaussian)


def squared_width(problem: Problem, width: Widths) -> Rows:
    """z of each site of kinked blocks, (N,), zeros elsewhere."""
    squares = []
    for site, s0, part in zip(problem.sites, problem.engine.prior_mean, width, strict=True):
        declared = site.landmark() if kinked(site) else None
        scale = np.ones(len(s0)) if declared is None else declared[1] + np.zeros(len(s0))
        root = np.maximum(part * scale, ROUNDING * _length(s0))
        squares.append(root**2 if kinked(site) else np.zeros(len(s0)))
    return tuple(squares)


def _length(s: Array) -> Array:
    """|s| of each site, (N,), of vector sites the norm."""
    return np.abs(s) if s.ndim == 1 else np.sqrt(rows.inner(s, s))


def held_rows(x: Array, square: Array) -> Array:
    """Which sites of a block at x, (N,) or (N, K), a kink rounded off by z = `square` holds."""
    return np.asarray(rows.inner(x, x) <= HELD**2 * square)


def distance_from_optimum(problem: Problem, q: Conditioned, s: Rows, width: Widths) -> Widths:
    """How far the sites of each block with a kink are from optimal at q, of means m, slopes alpha,
    relative: in one fixed at the kink, |alpha - beta| is at most the site's own slope next to 0,
    and m is 0; else alpha is the site's slope at m. Of vector sites these are norms."""
    residuals = []
    z = squared_width(problem, width)
    pairs = zip(q.mean, rows.slope_of(q.shift, q.weight, q.mean), strict=True)
    for site, answer, x, square, (m, alpha) in zip(
        problem.sites, problem.answers, s, z, pairs, strict=True
    ):
        if not kinked(site) or not m.size:
            residuals.append(0.0)
            continue
        assert isinstance(answer, Pointwise) and isinstance(site, SuperGaussian)
        root, beta = np.sqrt(square), rows.per_site(site.beta, m)
        along = rows.per_site(root, m) * np.eye(1, m[0].size).reshape(m.shape[1:])
        sides = [answer.pointwise(r * along).slope - beta for r in (HELD, 1.0, -1.0, -HELD)]
        limit = np.max([_length(side) for side in sides], axis=0)
        over = np.maximum(_length(alpha - beta) / limit - 1.0, _length(m) / root)
        off = _length(answer.pointwise(m).slope - alpha) / limit
        worst = float(np.max(np.where(held_rows(x, square), over, off)))
        residuals.append(worst if math.isfinite(worst) else math.inf)
    return tuple(residuals)
