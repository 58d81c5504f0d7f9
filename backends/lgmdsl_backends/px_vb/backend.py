"""Parameter-expanded variational Bayes (Qi and Jaakkola 2007).

Sites with auxiliary variables are Gaussian given them, and q(z) q(auxiliaries) is updated factor by
factor. Where the two are strongly coupled that creeps; the expansion moves them together along one
parameter, and keeps the limit (`expansion`). The bound is mean-field: looser than the variational
Gaussian's, q(z) too narrow, since it cannot follow the auxiliaries.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.backend import Backend, BackendSpec, Round, option
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Augmented
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.vocabulary.notes import Notes
from lgmdsl_backends.px_vb.bound import (
    Gaussian,
    Point,
    anchored,
    answers_at,
    at,
    bound_after,
    conditioned_on,
    expanded,
    nearer,
    pulls,
    stepped,
    update,
)
from lgmdsl_backends.px_vb.scaling import scaled

# A bound that is lower by less than this fraction is not lower, but rounded.
ROUNDING = 1e-12
# Newton's move is measured once the own moves are below so many sds (no tolerance is larger), and
# again where they have become so many times smaller.
NEAR, ANEW = 0.1, 3.0
# Ratios of successive moves that estimate the rate, and the largest distinguishable from 1.
RECENT, SLOWEST = 3, 1.0 - 1e-6
AUXILIARIES = ("each", "joint", "separate")
# The stages of a step.
EXPANDED, SKIPPED = "expanded", "expansion skipped"
MEAN_FIELD = "mean field between latents and auxiliary variables: the sds are too small"


@dataclass(frozen=True, eq=False)
class PxState:
    """A point, and the one that a round leads to, with or without the expansion (its `stage`).

    `anchor`: q(z) with nothing of what can be stretched, for the next expansion. `move`: of that
    round; `rates`: of moves to the ones before, latest last; `farther`: how many times as far as
    the move the limit was where that was last measured, at a move of `measured`. `expanded`,
    `skipped`: how many expansions were made, and how many were not for lowering the bound. `share`:
    of Newton's step for the precisions of mixtures.
    """

    point: Point | None
    following: Point | None = None
    ahead: str = ""
    anchor: Gaussian | None = None
    move: float = math.inf
    rates: tuple[float, ...] = ()
    farther: float = 1.0
    measured: float = math.inf
    expanded: int = 0
    skipped: int = 0
    share: float = 1.0
    stage: str = ""
    failed: Status | None = None
    reason: str | Failed = ""

    @property
    def objective(self) -> float:
        return -math.inf if self.point is None else self.point.bound


@dataclass(frozen=True)
class ParameterExpanded(Backend[PxState]):
    """Mean-field variational Bayes by data augmentation.

    `expand`: whether each round has an expansion; without, it is plain variational Bayes.
    `auxiliaries`: how mixtures of Gaussians (the weights of automatic relevance determination) are
    expanded: `each` precision by its own Newton step, or as in the paper: `joint`, all weights with
    all precisions by the best c, or `separate`, by r and s.
    """

    expand: bool = option(True, "whether each round has an expansion; without, plain VB")
    auxiliaries: str = option(
        "each", "how the precisions of mixtures of Gaussians are expanded", AUXILIARIES
    )
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="px-vb",
        needs=Augmented,
        additive=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        vector=False,
        max_steps=20_000,
        paper="Qi and Jaakkola 2007",
        summary="mean field by data augmentation, expanded; a lower bound with too small sds",
        notes=Notes(
            formula="maximise the bound over q(z) q(a), a the auxiliary variables that make the "
            "sites Gaussian; each round rescales z and a together",
            support="scalar sites with an augmentation: probit, student_t and Gaussian ones",
            advice="for comparison with published variational Bayes, and for hyper vb; sds are too "
            "small, since q(z) and q(a) are independent",
            example="lgm fit model.lgm data.npz --method px-vb --option expand=false",
            see_also=("natural-gradient", "vb", "ep"),
        ),
    )

    def __post_init__(self) -> None:
        if self.auxiliaries not in AUXILIARIES:
            raise ValueError(f"auxiliaries is one of {', '.join(AUXILIARIES)}")

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> PxState:
        q = _beginning(problem, warm)
        if isinstance(q, Failed):
            return PxState(None, failed=Status.numerical_error, reason=q)
        return self._ahead(problem, PxState(None), at(problem, q))

    def step(self, problem: Problem, state: PxState) -> PxState:
        assert state.following is not None
        return self._ahead(problem, state, state.following)

    def residual(self, problem: Problem, state: PxState) -> float:
        """The next move, times how many times as far the limit is: by Newton's move with the
        bound's own curvature, or by the rate of the moves."""
        rate = min(max(state.rates, default=0.0), SLOWEST)
        return state.move * max(state.farther, 1.0 / (1.0 - rate))

    def posterior(self, problem: Problem, state: PxState) -> GaussianPosterior:
        assert state.point is not None
        if problem.gaussian:
            return state.point.posterior(problem, ())
        if not self.expand:
            return state.point.posterior(problem, (MEAN_FIELD,))
        note = f"{state.expanded} expansions"
        if state.skipped:
            note += f", {state.skipped} skipped that would have lowered the bound"
        return state.point.posterior(problem, (MEAN_FIELD, note))

    def rounds(self) -> Mapping[str, Round]:
        """One round with the expansion and one without: the own one first."""
        both = {
            "expanded": replace(self, expand=True)._turned,
            "plain": replace(self, expand=False)._turned,
        }
        return dict(sorted(both.items(), reverse=not self.expand))

    def _turned(self, problem: Problem, weight: Rows, shift: Rows) -> tuple[Rows, Rows] | Failed:
        """(W, b) after a round from there."""
        q = conditioned_on(problem, weight, shift)
        if isinstance(q, Failed):
            return q
        point = at(problem, q)
        plain = update(problem, point)
        if isinstance(plain, Failed):
            return plain
        _, better = self._expanded(point, plain, None)
        following = plain if better is None else better
        return following.weight, following.shift

    def _ahead(self, problem: Problem, before: PxState, point: Point) -> PxState:
        """The state at a point that follows another one's, with the round that follows it."""
        following, ahead, anchor = self._accelerated(problem, before, point)
        share = before.share
        if ahead:
            share = min(1.0, 2.0 * share) if ahead == EXPANDED else 0.5 * share
        if following is None:
            plain = update(problem, point)
            if isinstance(plain, Failed):
                return replace(before, failed=Status.numerical_error, reason=plain)
            anchor, better = self._expanded(point, plain, anchor)
            if better is not None:
                following, ahead = at(problem, better), EXPANDED
                if _lower(following.bound, bound_after(point, plain)):
                    following, ahead = None, SKIPPED
            if following is None:
                following = at(problem, plain)
        length = move(point.q, following.q)
        rates = before.rates
        if math.isfinite(before.move) and before.move > 0.0:
            rates = (*rates[1 - RECENT :], length / before.move)
        farther, measured = before.farther, before.measured
        if 0.0 < length < NEAR and length * ANEW <= measured:
            far = newton_move(problem, point) / length
            farther, measured = max(1.0, far) if math.isfinite(far) else 1.0, length
        return PxState(
            point=point,
            following=following,
            ahead=ahead,
            anchor=anchor,
            move=length,
            rates=rates,
            farther=farther,
            measured=measured,
            expanded=before.expanded + (before.ahead == EXPANDED),
            skipped=before.skipped + (before.ahead == SKIPPED),
            share=share,
            stage=before.ahead,
        )

    def _accelerated(
        self, problem: Problem, before: PxState, point: Point
    ) -> tuple[Point | None, str, Gaussian | None]:
        """The point that a round with mixtures' auxiliaries moved leads to; stage, anchor."""
        anchor = before.anchor
        if not self.expand:
            return None, "", anchor
        if self.auxiliaries == "each":
            candidate, refused = stepped(problem, point, before.share), ""
        else:
            candidate = scaled(self.auxiliaries, problem, before.point, point)
            refused = "" if self.auxiliaries == "joint" else SKIPPED
        if candidate is None:
            return None, refused, anchor
        plain = update(problem, candidate)
        if isinstance(plain, Failed):
            return None, SKIPPED, anchor
        anchor, better = self._expanded(candidate, plain, anchor)
        following = at(problem, plain if better is None else better)
        if _lower(following.bound, candidate.bound):
            return None, SKIPPED, anchor
        if self.auxiliaries == "each" and not nearer(problem, following, point):
            return None, SKIPPED, anchor
        return following, EXPANDED, anchor

    def _expanded(
        self, point: Point, plain: Gaussian, known: Gaussian | None
    ) -> tuple[Gaussian | None, Gaussian | None]:
        """The anchor of the expansion that follows the plain update, and q(z) expanded; None where
        nothing can be."""
        pull = pulls(point.answers) if self.expand else None
        if pull is None:
            return known, None
        anchor = anchored(plain, pull, known)
        if isinstance(anchor, Failed):
            return known, None
        return anchor, expanded(point.answers, pull, plain, anchor)


def _lower(bound: float, least: float) -> bool:
    return not bound >= least - ROUNDING * max(1.0, abs(least))


def _beginning(problem: Problem, warm: GaussianPosterior | None) -> Gaussian | Failed:
    """q(z) of an earlier posterior, or at its best for the auxiliaries at the prior mean with
    variances of 1."""
    if warm is not None:
        q = conditioned_on(problem, warm.weight, warm.shift)
        if isinstance(q, Gaussian) and math.isfinite(at(problem, q).bound):
            return q
    mean = problem.engine.prior_mean
    answers = answers_at(problem, mean, tuple(np.ones_like(m) for m in mean))
    return conditioned_on(
        problem, tuple(a.precision for a in answers), tuple(a.shift for a in answers)
    )


# ---- distance ----------------------------------------------------------------------------------
# How far the limit is: variational Bayes may creep, so its own steps say little.


# The relative step of the differences that give the bound's curvature in a predictor's mean.
STEP = 1e-5
# Weights that say next to nothing are measured against the variance.
SLIGHT = 1e-4


def move(q: Gaussian, following: Gaussian) -> float:
    """From q to the following one: the largest move of any mean, in sds, with the relative change
    of a weight."""
    most, squared = 0.0, 0.0
    pairs = zip(
        q.weight,
        following.weight,
        following.shift,
        q.alpha,
        q.mean,
        following.mean,
        q.variance,
        strict=True,
    )
    for w, other, shift, alpha, m, then, v in pairs:
        squared += float((shift - other * m - alpha) @ (then - m))
        if other is not w and w.size:
            scale = np.maximum(np.abs(other), SLIGHT / np.maximum(v, 1e-300))
            most = max(most, float((np.abs(other - w) / scale).max()))
    return max(math.sqrt(abs(squared)), most)


def newton_move(problem: Problem, point: Point) -> float:
    """How far Newton with the bound's own curvature would move any mean at most, in sds of q; nan
    where that curvature is no positive matrix. Costs a factorisation.

    With U = -d(shift - precision m)/dm, x = (Q + B'UB)^-1 B'g, g = shift - precision m - alpha:
    the length is x'(Q + B'WB)x = g'Bx + (Bx)'(W - U)Bx.
    """
    q = point.q
    step = tuple(STEP * (1.0 + np.abs(m)) for m in q.mean)
    beyond = answers_at(
        problem, tuple(m + h for m, h in zip(q.mean, step, strict=True)), q.variance
    )
    slopes = [a.shift - a.precision * m for a, m in zip(point.answers, q.mean, strict=True)]
    differences = zip(slopes, beyond, q.mean, step, strict=True)
    bent = tuple(-(a.shift - a.precision * (m + h) - g) / h for g, a, m, h in differences)
    gap = tuple(g - a for g, a in zip(slopes, q.alpha, strict=True))
    still = problem.engine.condition(bent, tuple(np.zeros_like(m) for m in q.mean))
    if isinstance(still, Failed):
        return math.nan
    end = still.with_shift(gap)
    if isinstance(end, Failed):
        return math.nan
    squared = 0.0
    for g, u, w, a, b in zip(gap, bent, q.weight, still.mean, end.mean, strict=True):
        squared += rows.total((g * (b - a) + (w - u) * (b - a) ** 2,))
    return math.sqrt(abs(squared))
