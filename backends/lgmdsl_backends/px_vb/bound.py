"""The mean-field bound of q(z) q(auxiliaries), and one round of plain variational Bayes.

With q(auxiliaries) at its best for a q(z) of weights W and shifts b, moments m and v,

    bound = log_normaliser(W, b) + sum 1/2 (W - precision)(m^2 + v) - (b - shift) m + correction,

precision, shift and correction being the sites' answers at (m, v). With q(z) at its best for those
auxiliaries it is log_normaliser(precision, shift) + sum correction, which lies between two such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Augmented, AugmentedAnswer
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.status import Guarantee


@dataclass(frozen=True, eq=False)
class Gaussian:
    """q(z) by its shifts, and by a conditioning on its weights whose shifts may be others: what
    depends on the weights alone, the factor and the variances, is computed once."""

    family: Conditioned
    variance: Rows
    shift: Rows
    mean: Rows
    log_normaliser: float

    @property
    def weight(self) -> Rows:
        return self.family.weight

    @property
    def alpha(self) -> Rows:
        """b - W m."""
        return rows.slope_of(self.shift, self.weight, self.mean)

    def shifted(self, shift: Rows) -> Gaussian | Failed:
        """The Gaussian at these weights with other shifts."""
        q = self.family.with_shift(shift)
        if isinstance(q, Failed):
            return q
        return Gaussian(self.family, self.variance, shift, q.mean, q.log_normaliser)

    def conditioned(self) -> Conditioned:
        """q(z) as the engine has it."""
        q = self.family.with_shift(self.shift)
        return self.family if isinstance(q, Failed) else q


def conditioned_on(problem: Problem, weight: Rows, shift: Rows) -> Gaussian | Failed:
    """q(z) for these site weights and shifts."""
    q = problem.engine.condition(weight, shift)
    return q if isinstance(q, Failed) else Gaussian(q, q.variance, shift, q.mean, q.log_normaliser)


@dataclass(frozen=True, eq=False)
class Point:
    """q(z), the best auxiliaries for it, and the bound there."""

    q: Gaussian
    answers: tuple[AugmentedAnswer, ...]
    bound: float

    @property
    def precision(self) -> Rows:
        return tuple(a.precision for a in self.answers)

    @property
    def shift(self) -> Rows:
        return tuple(a.shift for a in self.answers)

    def posterior(self, problem: Problem, notes: tuple[str, ...]) -> GaussianPosterior:
        """What a back end hands back of this point."""
        q = self.q
        sites = tuple(zip(augmented(problem), q.mean, q.variance, strict=True))
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q.conditioned(),
            log_evidence=self.bound,
            guarantee=Guarantee.EXACT if problem.gaussian else Guarantee.LOWER,
            notes=notes,
            slopes=lambda: tuple(site.weight_slopes(m, v) for site, m, v in sites),
        )


def augmented(problem: Problem) -> tuple[Augmented, ...]:
    """The answers as Augmented (a back end that needs them declared it)."""
    return cast("tuple[Augmented, ...]", problem.answers)


def answers_at(problem: Problem, mean: Rows, variance: Rows) -> tuple[AugmentedAnswer, ...]:
    """The auxiliaries at their best for these moments of the predictors."""
    sites = zip(augmented(problem), mean, variance, strict=True)
    return tuple(site.weights(m, v) for site, m, v in sites)


def at(problem: Problem, q: Gaussian) -> Point:
    """The auxiliaries at their best for q(z), and the bound."""
    answers = answers_at(problem, q.mean, q.variance)
    parts = zip(answers, q.weight, q.shift, q.mean, q.variance, strict=True)
    gain = tuple(
        0.5 * (w - a.precision) * (m * m + v) - (b - a.shift) * m + a.correction
        for a, w, b, m, v in parts
    )
    return Point(q, answers, q.log_normaliser + rows.total(gain))


def update(problem: Problem, point: Point) -> Gaussian | Failed:
    """q(z) at its best for the point's auxiliaries; no factorisation where the weights stand."""
    q = point.q
    if all(np.array_equal(w, p) for w, p in zip(q.weight, point.precision, strict=True)):
        return q.shifted(point.shift)
    return conditioned_on(problem, point.precision, point.shift)


def bound_after(point: Point, q: Gaussian) -> float:
    """The bound of the point's auxiliaries with the q(z) that `update` found for them."""
    return q.log_normaliser + rows.total(tuple(a.correction for a in point.answers))


# ---- expansion ---------------------------------------------------------------------------------
# The expansion: all auxiliaries that can be are stretched by one rho, q(z) at its best for each.
#
# Qi and Jaakkola 2007 scale z and the auxiliaries together and find c^2 = 1 / rho^2 by (13). Here
# the auxiliaries alone are scaled and q(z) is optimised jointly (their section 3: then the map need
# change one factor only), which holds for every Gaussian prior, offset and constraint: the shifts
# move along d = pull, and log_normaliser is quadratic in them,
#
#     bound(rho) = constant + count log rho + tilt rho - 1/2 size rho^2,
#     tilt = d's_0 - slope,   size = square - d'Cov(s) d,
#
# s_0 being the mean of s at rho = 0, and sums over sites understood. For probit sites, a prior of
# mean 0 and no offsets the maximum is at rho^2 = N / size, as in PX-EM (Liu, Rubin and Wu 1998);
# (13) is (size + M) / (N + M) where they say N, since they scale Cov(z) too, and its M goes with
# that part of the numerator for a flat prior as well. The bound has slope 0 at rho = 1 wherever
# plain variational Bayes is stationary, so the expansion is stationary there too.


def pulls(answers: tuple[AugmentedAnswer, ...]) -> Rows | None:
    """d, zero for sites that cannot be stretched; None where none can be."""
    if all(a.stretch is None for a in answers):
        return None
    return tuple(np.zeros_like(a.shift) if a.stretch is None else a.stretch.pull for a in answers)


def expanded(
    answers: tuple[AugmentedAnswer, ...], pull: Rows, q: Gaussian, anchor: Gaussian
) -> Gaussian | None:
    """q(z) at the best rho; None where there is none. `q`: at rho = 1; `anchor`: at rho = 0."""
    stretches = [a.stretch for a in answers if a.stretch is not None]
    count = sum(float(t.count.sum()) for t in stretches)
    slope = sum(float(t.slope.sum()) for t in stretches)
    square = sum(float(t.square.sum()) for t in stretches)
    along = tuple(m - a for m, a in zip(q.mean, anchor.mean, strict=True))  # Cov(s) d
    start, spread = _dot(pull, anchor.mean), _dot(pull, along)
    rho = best(count, start - slope, square - spread)
    if rho is None:
        return None
    shift = rows.interpolate(anchor.shift, q.shift, rho)
    mean = rows.interpolate(anchor.mean, q.mean, rho)
    rise = (rho - 1.0) * (start + 0.5 * (rho + 1.0) * spread)
    return Gaussian(q.family, q.variance, shift, mean, q.log_normaliser + rise)


def best(count: float, tilt: float, size: float) -> float | None:
    """The maximum over rho > 0 of count log rho + tilt rho - 1/2 size rho^2; None if there is none.

    The positive root of size rho^2 - tilt rho - count, without a difference of near equals.
    """
    if not (count > 0.0 and size > 0.0 and math.isfinite(count + tilt + size)):
        return None
    root = math.hypot(tilt, 2.0 * math.sqrt(count * size))
    return (tilt + root) / (2.0 * size) if tilt > 0.0 else 2.0 * count / (root - tilt)


def anchored(q: Gaussian, pull: Rows, known: Gaussian | None) -> Gaussian | Failed:
    """q(z) with its shifts at rho = 0; `known` where it is the same one."""
    shift = tuple(b - d for b, d in zip(q.shift, pull, strict=True))
    if known is not None and known.family is q.family and _same(known.shift, shift):
        return known
    return q.shifted(shift)


def _same(one: Rows, two: Rows) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def _dot(one: Rows, two: Rows) -> float:
    return float(sum(a @ b for a, b in zip(one, two, strict=True)))


# ---- precisions --------------------------------------------------------------------------------
# Precisions of scale mixtures by Newton, each on its own: the expansion that pays.
#
# A mixture's expected precision W_i is stationary where it is what its own q asks for, P_i(x_i)
# with x_i = m_i^2 + v_i. Plain variational Bayes takes W_i <- P_i and creeps where W_i v_i is near
# 1, a weight that data say nothing about: x_i then follows W_i. With that response taken into
# account,
#
#     dv/dlog W = -W v^2,   dm/dlog W = -W v m,   log W <- log W + (log P - log W) / (1 - k),
#     k = (dlog P/dx) (-W v (2 m^2 + v)),
#
# which for gamma precisions is nearly MacKay's step, (1 - W v) over m^2. It has the fixed points of
# plain variational Bayes and no others. Such a step need not raise the bound: where it does not,
# nor leaves it as it was and brings W nearer to P, the plain one is taken, and the next is
# shortened by half.


STRETCHED = 1e4  # times the plain step in log W at most,
LONGEST = 3.0  # and so long
ROUNDING = 1e-12  # of the bound
RELATIVE = 1e-5  # of x, for the difference that gives P'


def mixture(site: Site) -> bool:
    """Whether a site is a mixture of Gaussians over their scale."""
    properties = site.spec.properties
    return Property.SUPER_GAUSSIAN in properties and Property.GAUSSIAN not in properties


def stepped(problem: Problem, point: Point, share: float) -> Point | None:
    """The point with the mixtures' precisions moved on by Newton's excess over the plain step times
    `share`; its bound is that of the point. None where there are no mixtures."""
    if not any(mixture(s) for s in problem.sites):
        return None
    answers = list(point.answers)
    for k, (site, answer) in enumerate(zip(problem.sites, augmented(problem), strict=True)):
        if mixture(site):
            q = point.q
            asked = answers[k].precision
            excess = _excess(answer, asked, q.weight[k], q.mean[k], q.variance[k])
            move = (1.0 + share * excess) * np.log(asked / q.weight[k])
            precision = q.weight[k] * np.exp(np.clip(move, -LONGEST, LONGEST))
            fine = np.isfinite(precision) & (precision > 0.0)
            answers[k] = replace(answers[k], precision=np.where(fine, precision, asked))
    return Point(point.q, tuple(answers), point.bound)


def nearer(problem: Problem, following: Point, point: Point) -> bool:
    """Whether a point is better than another: by its bound, or where the bounds are the same to
    rounding by how far its precisions are from those asked for."""
    rise = following.bound - point.bound
    if rise > ROUNDING * max(1.0, abs(point.bound)):
        return True
    return _gap(problem, following) < 0.99 * _gap(problem, point)


def _gap(problem: Problem, point: Point) -> float:
    gaps = [
        float(np.abs(np.log(a.precision / w)).max(initial=0.0))
        for s, a, w in zip(problem.sites, point.answers, point.q.weight, strict=True)
        if mixture(s)
    ]
    return max(gaps, default=0.0)


def _excess(answer: Augmented, asked: Array, weight: Array, mean: Array, variance: Array) -> Array:
    """k / (1 - k): how many times the plain step Newton's is longer."""
    more = RELATIVE * (mean * mean + variance)
    beyond = answer.weights(mean, variance + more).precision
    with np.errstate(all="ignore"):
        slope = (np.log(beyond) - np.log(asked)) / more
        k = -slope * weight * variance * (2.0 * mean * mean + variance)
        ratio = np.clip(k, 0.0, 1.0 - 1.0 / STRETCHED)
    return np.where(np.isfinite(ratio), ratio / (1.0 - ratio), 0.0)
