"""The variational Gaussian's objective, which five back ends share.

    ELBO(q) = sum f(m, v) - KL(q || p),   f(m, v) = E_{N(m,v)}[l(s)]

For q in canonical form (W, b), the KL follows from the normaliser:

    ELBO = log_normaliser(W, b) + sum f + 1/2 tr W (m m' + V) - b'm

At its optimum W = -2 f_v and b = f_m + W m (Opper and Archambeau 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import EPSILON, Conditioned, Failed, Rows
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.objectives.profile import maximise_mean
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import ExpectedAnswer, ExpectedSlopes
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import Diagnostic, MethodError


class Standing(Protocol):
    """Where a q stands, whatever its parametrisation."""

    @property
    def mean(self) -> Rows: ...

    @property
    def variance(self) -> Rows: ...

    @property
    def target(self) -> tuple[Rows, Rows]:
        """(-2 f_v, f_m - 2 f_v m) there."""


@dataclass(frozen=True)
class ElboPoint:
    """q in canonical form, its moments at the predictors, the sites' answers there, the ELBO."""

    conditioned: Conditioned
    mean: Rows
    variance: Rows
    answers: tuple[ExpectedAnswer, ...]
    elbo: float

    @property
    def weight(self) -> Rows:
        return self.conditioned.weight

    @property
    def shift(self) -> Rows:
        return self.conditioned.shift

    @property
    def target(self) -> tuple[Rows, Rows]:
        """(-2 f_v, f_m - 2 f_v m): what (W, b) are at the optimum."""
        return target_of(self.answers, self.mean)

    @property
    def alpha(self) -> Rows:
        """b - W m: dlog_normaliser/dc. At the optimum it equals f_m."""
        return rows.slope_of(self.shift, self.weight, self.mean)

    def posterior(self, problem: Problem, claim: Guarantee) -> GaussianPosterior:
        """What a back end hands back of this point: exact where all sites are Gaussian and q may be
        any Gaussian, else what the back end claims."""
        confinement = self.conditioned.confinement
        guarantee = Guarantee.EXACT if problem.gaussian and confinement is None else claim
        return GaussianPosterior(
            self.weight,
            self.shift,
            self.conditioned,
            self.elbo,
            guarantee,
            () if confinement is None else (confinement.note,),
            slopes=lambda: expected_slopes(problem, self.mean, self.variance),
        )


def expected(problem: Problem, mean: Rows, variance: Rows) -> tuple[ExpectedAnswer, ...]:
    """The Expected answers of all blocks."""
    return tuple(
        site.expected(m, v) for site, m, v in zip(problem.expecting(), mean, variance, strict=True)
    )


def expected_slopes(
    problem: Problem, mean: Rows, variance: Rows
) -> tuple[Mapping[str, Array], ...]:
    """df/dparameter of each site block, f being what the answers give: at the ELBO's optimum its
    slope in the parameters. Raises MethodError E501 where nobody knows it."""
    slopes: list[Mapping[str, Array]] = []
    sites = zip(problem.sites, problem.answers, mean, variance, strict=True)
    for k, (site, answer, m, v) in enumerate(sites):
        if isinstance(answer, ExpectedSlopes):
            slopes.append(answer.expected_slopes(m, v))
        elif not site.parameter_slopes(m):
            slopes.append({})
        elif answer is site and problem.lift is not None:  # f is the expectation itself
            lifted = cast("tuple[ExpectedSlopes, ...]", problem.lift(ExpectedSlopes))
            slopes.append(lifted[k].expected_slopes(m, v))
        else:
            raise MethodError(_unknown_slope(site, answer))
    return tuple(slopes)


def _unknown_slope(site: Site, answer: object) -> Diagnostic:
    return Diagnostic(
        "E501",
        f"the bound that answers for `{site.spec.name}` does not give its slope in "
        f"{' and '.join(site.spec.parameters)}",
        help=f"{type(answer).__name__} needs a method `expected_slopes`; or fit without the bound",
    )


def target_of(answers: tuple[ExpectedAnswer, ...], mean: Rows) -> tuple[Rows, Rows]:
    """(-2 f_v, f_m - 2 f_v m) from the sites' answers at these means."""
    weight = tuple(-2.0 * a.d_variance for a in answers)
    return weight, rows.shift_of(tuple(a.d_mean for a in answers), weight, mean)


def elbo_at(
    problem: Problem, weight: Rows, shift: Rows, near: Conditioned | None = None
) -> ElboPoint | Failed:
    """Condition on (W, b) and evaluate the ELBO there; Failed where q does not exist. Where `near`
    has the same weights, its factorisation and variances are taken."""
    if near is not None and all(map(np.array_equal, near.weight, weight)):
        return elbo_of(problem, near.with_shift(shift))
    return elbo_of(problem, problem.engine.condition(weight, shift))


def elbo_of(problem: Problem, conditioned: Conditioned | Failed) -> ElboPoint | Failed:
    """The ELBO of a q that is conditioned already."""
    if isinstance(conditioned, Failed):
        return conditioned
    mean, variance = conditioned.mean, conditioned.variance
    answers = expected(problem, mean, variance)
    gain = sum(
        float(np.sum(a.value)) + 0.5 * float(np.sum(rows.trace(w, v)))
        for a, w, v in zip(answers, conditioned.weight, variance, strict=True)
    )
    elbo = conditioned.centred + gain
    if not np.isfinite(elbo):
        return Failed("the bound is not finite")
    return ElboPoint(conditioned, mean, variance, answers, elbo)


def decrement(problem: Problem, point: ElboPoint) -> float:
    """`newton_move` of f_m - alpha, the ELBO's slope in the mean of s."""
    gaps = tuple(a.d_mean - alpha for a, alpha in zip(point.answers, point.alpha, strict=True))
    return newton_move(problem.engine, point.conditioned, gaps)


def distance(point: Standing, following: Conditioned) -> float:
    """How far the means of uncertain predictors move, in posterior sds, from a point to the
    conditioning on its target: zero exactly at a stationary point of the ELBO."""
    gaps = [
        np.abs(new - old)[moving] / np.sqrt(rows.diagonal(v)[moving])
        for new, old, v, moving in zip(
            following.mean,
            point.mean,
            point.variance,
            rows.uncertain(point.variance),
            strict=True,
        )
    ]
    return max((float(g.max(initial=0.0)) for g in gaps), default=0.0)


def mismatch(point: ElboPoint) -> float:
    """`weight_mismatch` of a point's weights from their target -2 f_v."""
    return weight_mismatch(point.weight, point.target[0], point.variance)


def weight_mismatch(weight: Rows, target: Rows, variance: Rows) -> float:
    """max over sites of |w - T| / max(|T|, 1e-4 / v), for weights w, targets T and variances v of
    the predictors.

    It bounds the relative change of every posterior variance on moving to T; a site that says next
    to nothing (T v below 1e-4) is measured against the variance instead of its own weight.
    """
    worst = 0.0
    for w, t, v in zip(weight, target, variance, strict=True):
        if w.size:
            size, spread = np.abs(t), np.maximum(rows.diagonal(v), 1e-300)
            if w.ndim > 1:
                size = size.max(axis=(1, 2), keepdims=True)
                spread = spread.max(axis=1)[:, None, None]
            scale = np.maximum(size, 1e-4 / spread)
            worst = max(worst, float((np.abs(w - t) / scale).max()))
    return worst


# ---- elbo start --------------------------------------------------------------------------------
# A first point on the ELBO for the back ends that then climb it by a general optimiser.


# Weights below this fraction of the largest are lifted: a flat site has no log weight.
LEAST = 1e-10
# The relative error to which the terms of an ELBO may cancel.
RESOLVED = 1e-10
# A rise by so many times what may be lost is one.
CERTAIN = 100.0
# How many times more than before may be lost where neither is resolved.
WORSE = 10.0
# What may be lost, in nats, for an ELBO to be one.
LEGIBLE = 1e-2
# Nats a row below the evidence that a posterior to start from had: its sites do not suit here.
FALLEN = 100.0


def begin(problem: Problem, warm: GaussianPosterior | None = None) -> ElboPoint | Failed:
    """The point of an earlier posterior, or one with positive weights at the best mean for them.

    Weights are |2 f_v| at the prior mean with unit variances, and again at the best mean for the
    variances they give; the better point of the two is taken. Where weights of 1 are better than
    that (a wide prior on a log variance: f overflows at its variance) they take their place.

    An earlier posterior may be of other hyperparameters, at which its weights leave variances so
    wide that f is e^300 (a Poisson rate), and Newton comes down from there by e a step: far below
    its own evidence it is held against the other start, and the better of the two taken.
    """
    known = _of_earlier(problem, warm)
    if known is None:
        return _own(problem)
    assert warm is not None
    count = sum(len(m) for m in problem.engine.prior_mean)
    if known.elbo >= warm.log_evidence - FALLEN * max(count, 1):
        return known
    own = _own(problem)
    return own if isinstance(own, ElboPoint) and own.elbo > known.elbo else known


def _of_earlier(problem: Problem, warm: GaussianPosterior | None) -> ElboPoint | None:
    """The point of an earlier posterior; None where its ELBO is not known to any digit."""
    point = None if warm is None else elbo_at(problem, warm.weight, warm.shift)
    if isinstance(point, ElboPoint) and (resolved(point) or blur(point) < LEGIBLE):
        return point
    return None


def _own(problem: Problem) -> ElboPoint | Failed:
    """The start without an earlier posterior."""
    unit = tuple(_unit(m) for m in problem.engine.prior_mean)
    answers = expected(problem, problem.engine.prior_mean, unit)
    point = _profiled(problem, lifted(tuple(-2.0 * a.d_variance for a in answers)))
    if problem.gaussian and isinstance(point, ElboPoint):
        return point  # the posterior: its weights are the sites' whatever the moments
    plain = elbo_at(problem, unit, _products(unit, problem.engine.prior_mean))
    if isinstance(point, Failed) or (isinstance(plain, ElboPoint) and plain.elbo > point.elbo):
        return _profiled(problem, unit)
    return point


def resolved(point: ElboPoint) -> bool:
    """Whether the terms of the ELBO, which grow with the weights, leave its digits standing."""
    return blur(point) <= RESOLVED * (1.0 + abs(point.elbo))


def comparable(tried: ElboPoint, point: ElboPoint) -> bool:
    """Whether tried's ELBO can be held against that of a point before it: it is resolved, or not
    much worse than the other in that, or legible and higher by far more than it can have lost."""
    if resolved(tried):
        return True
    unsure = blur(tried)
    if not resolved(point):
        return unsure <= WORSE * blur(point)
    return unsure < LEGIBLE and tried.elbo - point.elbo > CERTAIN * unsure


def blur(point: ElboPoint) -> float:
    """About how much the ELBO may have lost to the cancellation of its terms, in nats."""
    traces = zip(point.weight, point.variance, strict=True)
    more = rows.total(tuple(np.abs(rows.trace(w, v)) for w, v in traces))
    return point.conditioned.lost + more * EPSILON


def _profiled(problem: Problem, weight: Rows) -> ElboPoint | Failed:
    """The better of the point with these weights and the one with |2 f_v|, at the best mean."""
    engine, s = problem.engine, problem.engine.prior_mean
    first = engine.condition(weight, _products(weight, s))
    if isinstance(first, Failed):
        return first
    still = tuple(np.zeros_like(m) for m in s)
    profile = maximise_mean(engine, problem.expecting(), first.variance, s, still, tolerance=0.1)
    if isinstance(profile, Failed):
        return profile
    sharper = lifted(tuple(-2.0 * a.d_variance for a in profile.answers))
    slope = tuple(a.d_mean for a in profile.answers)
    points = (
        elbo_of(problem, first.with_shift(rows.shift_of(profile.alpha, weight, profile.mean))),
        elbo_at(problem, sharper, rows.shift_of(slope, sharper, profile.mean), first),
    )
    candidates = [p for p in points if isinstance(p, ElboPoint)]
    # Predictors far from zero next to a small noise lose digits everywhere: then all are taken.
    sound = [p for p in candidates if resolved(p)] or candidates
    if not sound:
        return Failed("the bound cannot be evaluated at the start")
    return max(sound, key=lambda p: p.elbo)


def lifted(weight: Rows) -> Rows:
    """|W|, its entries (eigenvalues) at least LEAST times the block's largest; 1 if all are 0."""
    return tuple(_lifted(w) for w in weight)


def _lifted(weight: Array) -> Array:
    if weight.ndim == 1:
        size = np.abs(weight)
        return np.maximum(size, _least(size))
    values, vectors = np.linalg.eigh(weight)
    size = np.abs(values)
    size = np.maximum(size, _least(size))
    return np.asarray((vectors * size[:, None, :]) @ vectors.transpose(0, 2, 1))


def _least(size: Array) -> float:
    return LEAST * float(size.max(initial=0.0)) or 1.0


def _unit(mean: Array) -> Array:
    if mean.ndim == 1:
        return np.ones_like(mean)
    n, k = mean.shape
    return np.broadcast_to(np.eye(k), (n, k, k)).copy()


def _products(weight: Rows, mean: Rows) -> Rows:
    return tuple(rows.times(w, m) for w, m in zip(weight, mean, strict=True))
