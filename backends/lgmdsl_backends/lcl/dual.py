"""The dual (11) of decoupled inference at one linearisation, in x = (a, lambda).

    D = -1/2 log|I + S diag(lambda)| + 1/2 a'Sa + s0'a + sum f*(a, lambda)
    f* = max over (h, sigma) of  f(h, sigma^2) - a h + lambda sigma_k (2 sigma - sigma_k) / 2
                                 - lambda_k (sigma - sigma_k)^2 / 2  - damping

a is minus the paper's alpha. The gradient is m - h and (2 sigma_k sigma - sigma_k^2 - v) / 2, with
m = s0 + S a and v of the q that weights lambda give. Its Hessian is S and V o V / 2, V the rows'
covariance, plus that of f*, row by row: the inverse of the 2 x 2 curvature in (h, sigma).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.joint import row_covariance, some_rows
from lgmdsl.contract.linear import LinearGaussian, Predictor
from lgmdsl.contract.objectives.elbo import ElboPoint
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Decoupled, Expected
from lgmdsl.contract.rows import CERTAIN
from lgmdsl.contract.site import Property, Site
from lgmdsl.contract.stacked import StackedPredictors, split_like
from lgmdsl.numerics.cholesky import cholesky
from lgmdsl.numerics.optimisation.newton import (
    Box,
    PairMaxima,
    PairMoments,
    PairTerms,
    maximise_pairs,
)

ROUNDING = 1e-13
EPSILON = float(np.finfo(np.float64).eps)
# The penalty in sigma is at least this share of the row's weight, which is at least WEAKEST / S_ii.
FIRMEST, WEAKEST = 1e-3, 1e-6
# A weight below this share of 1 / S_ii is no weight.
NO_WEIGHT = 1e-12
SMALLEST = 1e-200
# By how much the diagonal of -f'' is raised above its other entry, where f is not concave.
CONVEX = 1.5
# The tangent that starts the scalar problems reaches no further than this, in sigmas.
FARTHEST = 4.0


@dataclass(frozen=True, eq=False)
class Setting:
    """What all linearisations share: the prior of the rows, mean s0 and variance (P,), covariance
    S (P, P) where it is `dense`, and the limits (2, P) of the slopes a, infinite where none."""

    conditioned: Conditioned
    linear: LinearGaussian
    predictor: Predictor
    mean: Array
    variance: Array
    limits: Array
    dense: bool

    @cached_property
    def covariance(self) -> Array:
        """S, (P, P)."""
        return row_covariance(self.conditioned, self.linear)

    def times(self, a: Array) -> Array:
        """S a."""
        if self.dense:
            return np.asarray(self.covariance @ a)
        where, rhs = self.linear.slices, np.zeros(self.linear.size)
        self.predictor.add_transposed(a, where, rhs)
        return self.predictor.times(self.conditioned.solve(rhs), where)


def setting_of(problem: Problem, largest: int) -> Setting | Failed:
    """The rows' prior is an engine's answer to no sites at all; S is held up to `largest` rows.

    Failed where the prior is improper.
    """
    nothing = tuple(np.zeros_like(s) for s in problem.engine.prior_mean)
    q = problem.engine.condition(nothing, nothing)
    if isinstance(q, Failed):
        return q
    linear = problem.engine.linear
    mean, variance = np.concatenate(problem.engine.prior_mean), np.concatenate(q.variance)
    limits = [
        np.stack(slope_limits(site, answer))
        for site, answer in zip(problem.sites, problem.expecting(), strict=True)
    ]
    return Setting(
        q,
        linear,
        StackedPredictors(linear).predictor(),
        mean,
        variance,
        np.concatenate(limits, axis=1),
        len(mean) <= largest,
    )


class Dual:
    """The dual at the linearisation sigma_k = sd of the rows at a point, multipliers by (9) there.

    `penalty` is the share of lambda_k in (18); `damping` adds the quartic of (20), a penalty in
    sigma and a proximal term in h, in units of the rows' weights.
    """

    def __init__(
        self, problem: Problem, setting: Setting, point: ElboPoint, damping: float, penalty: float
    ) -> None:
        self.problem, self.setting, self.like = problem, setting, point.mean
        self.h0, variance = np.concatenate(point.mean), np.concatenate(point.variance)
        tiny = 1e-12 * max(1e-300, float(variance.max(initial=0.0)))
        self.sigma0 = np.sqrt(np.maximum(variance, tiny))
        self.size = self.h0.size
        target = np.concatenate(point.target[0])
        weight = np.maximum(np.abs(target), np.abs(np.concatenate(point.weight)))
        # No weight moves a row whose prior is certain: it is measured by the others' variance.
        prior = setting.variance
        known = np.where(prior > CERTAIN * prior.max(initial=0.0), prior, prior.max(initial=tiny))
        weight = np.maximum(weight, WEAKEST / known)
        firm, near, quartic = self._augmented(point, FIRMEST * weight)
        self.penalty = np.maximum(penalty * target, FIRMEST * weight) + firm + damping * weight
        self.proximal = near + damping * weight
        self.quartic = quartic + damping * weight / self.sigma0**2
        self.box = self._box()
        slope = np.concatenate([a.d_mean for a in point.answers])
        self.x0 = self.box.clip(np.concatenate([slope, target]))
        self.last: DualPoint | None = None

    def _augmented(self, point: ElboPoint, least: Array) -> tuple[Array, Array, Array]:
        """Terms added to (18) where f is not concave in (h, sigma): a penalty in sigma, a proximal
        term in h, and the quartic of (20), which has no curvature at sigma_k itself.

        With -f'' = [[d, c], [c, s]] at sigma_k, both diagonals are raised above |c|; rows that are
        concave enough already, and sites that are log-concave, need nothing.
        """
        added = []
        for site, answer, weight, h, sigma, floor in zip(
            self.problem.sites,
            self.problem.expecting(),
            point.target[0],
            *(split_like(x, point.mean) for x in (self.h0, self.sigma0, least)),
            strict=True,
        ):
            if Property.LOG_CONCAVE in site.spec.properties:
                added.append(np.zeros((3, len(site))))
                continue
            f = answer.expected(h, sigma * sigma, second=True)
            assert f.d_mean_variance is not None and f.d_variance2 is not None
            across, cross = -f.curvature, np.abs(2.0 * sigma * f.d_mean_variance)
            along = weight - 4.0 * sigma * sigma * f.d_variance2
            size = np.maximum(np.abs(weight), floor)
            raised = np.maximum(size, CONVEX * cross)
            fine = (across > 0.0) & (across * (along + size) > CONVEX * cross**2)
            firm = np.maximum(size, raised - along)
            near = np.maximum(raised - across, 0.0)
            added.append(np.where(fine, 0.0, np.stack([firm, near, raised / sigma**2])))
        firm, near, quartic = np.concatenate(added, axis=1)
        return firm, near, quartic

    def _box(self) -> Box:
        """Where f* is finite, and lambda >= 0 for log-concave sites; the edges just inside."""
        least = [
            np.full(len(s), 0.0 if Property.LOG_CONCAVE in s.spec.properties else -np.inf)
            for s in self.problem.sites
        ]
        edges = self.setting.limits
        inside = 4.0 * EPSILON * np.where(np.isfinite(edges), np.abs(edges), 0.0) + SMALLEST
        low, high = edges[0] + inside[0], edges[1] - inside[1]
        none = NO_WEIGHT / np.maximum(self.setting.variance, SMALLEST)
        return Box(
            np.concatenate([np.minimum(low, high), *least]),
            np.concatenate([np.maximum(low, high), np.full(self.size, np.inf)]),
            np.concatenate([inside.max(axis=0), none]),
            np.arange(2 * self.size) < self.size,
        )

    def evaluate(self, x: Array, near: DualPoint | None = None) -> DualPoint | None:
        """D at x; None where it is not finite, or a scalar problem not solved: they start from the
        tangent at `near`, or at the point evaluated last."""
        a, weight = x[: self.size], x[self.size :]
        parts = split_like(weight, self.like)
        s0 = self.problem.engine.prior_mean
        shift = tuple(rows.times(w, s) for w, s in zip(parts, s0, strict=True))
        q = self.problem.engine.condition(parts, shift)
        if isinstance(q, Failed):
            return None
        pairs = self._pairs(a, weight, near or self.last)
        if not pairs.settled.all():
            return None
        change = self.setting.times(a)
        prior, mean = self.setting.mean, self.setting.mean + change
        terms = (
            q.log_normaliser - 0.5 * float(prior @ (weight * prior)),
            0.5 * float(a @ change),
            float(a @ prior),
            float(np.sum(pairs.value - 0.5 * weight * self.sigma0**2)),
        )
        value = sum(terms)
        if not np.isfinite(value):
            return None
        noise = ROUNDING * (1.0 + sum(abs(t) for t in terms))
        self.last = DualPoint(self, x, value, noise, q, mean, pairs)
        return self.last

    def _pairs(self, a: Array, weight: Array, near: DualPoint | None) -> PairMaxima:
        terms = PairTerms(
            a,
            weight * self.sigma0,
            self.penalty,
            self.proximal,
            self.quartic,
            self.h0,
            self.sigma0,
        )
        h, sigma = self.h0, self.sigma0
        if near is not None:
            h, sigma = near.tangent(a, weight)
        return conjugates(self.problem.expecting(), self.like, terms, h, sigma)


@dataclass(frozen=True, eq=False)
class DualPoint:
    """D at x = (a, lambda), with q given lambda (its mean aside), m = s0 + S a, and (h, sigma)."""

    dual: Dual
    x: Array
    value: float
    noise: float
    conditioned: Conditioned
    mean: Array
    pairs: PairMaxima

    @property
    def a(self) -> Array:
        return self.x[: self.dual.size]

    @property
    def weight(self) -> Array:
        return self.x[self.dual.size :]

    @cached_property
    def gradient(self) -> Array:
        """(m - h, (2 sigma_k sigma - sigma_k^2 - v) / 2)."""
        sigma0, variance = self.dual.sigma0, np.concatenate(self.conditioned.variance)
        slack = 2.0 * sigma0 * self.pairs.sigma - sigma0**2
        return np.concatenate([self.mean - self.pairs.h, 0.5 * (slack - variance)])

    def gap(self, bound: BoolArray) -> float:
        """How far the free rows' constraints are from holding, in posterior sds."""
        sigma0 = self.dual.sigma0
        apart = np.abs(self.gradient) / np.concatenate([sigma0, sigma0**2])
        return float(np.max(np.where(bound, 0.0, apart), initial=0.0))

    def tangent(self, a: Array, weight: Array) -> tuple[Array, Array]:
        """(h, sigma) at another (a, lambda), to first order."""
        hh, hs, ss = self.pairs.inverse()
        less, more = self.a - a, self.dual.sigma0 * (weight - self.weight)
        sigma = self.pairs.sigma
        reach = FARTHEST * np.maximum(sigma, self.dual.sigma0)
        h = self.pairs.h + np.clip(hh * less + hs * more, -reach, reach)
        widest = np.maximum(sigma, self.dual.sigma0)
        return h, np.clip(sigma + hs * less + ss * more, 0.1 * sigma + 1e-3 * widest, 4.0 * widest)

    @cached_property
    def covariance(self) -> Array:
        """V, (P, P): S - A'A with A = L^-1 w^1/2 S, LL' = I + w^1/2 S w^1/2."""
        if self.weight.min(initial=0.0) >= 0.0:
            s, root = self.dual.setting.covariance, np.sqrt(self.weight)
            scaled = s * root * root[:, None]
            scaled[np.diag_indices_from(scaled)] += 1.0
            factor = cholesky(scaled)
            if factor is not None:
                half = factor.forward(root[:, None] * s)
                return np.asarray(s - half.T @ half)
        return row_covariance(self.conditioned, self.dual.setting.linear)

    def step(self, free: BoolArray) -> Array | None:
        """-H^-1 g over the free coordinates, with P = (S + curvature of f* in a)^-1 eliminated."""
        n, g = self.dual.size, self.gradient
        hh, hs, ss = self.pairs.inverse()
        sigma0 = self.dual.sigma0
        cross, diagonal = -sigma0 * hs, sigma0**2 * ss
        fa, fw = np.flatnonzero(free[:n]), np.flatnonzero(free[n:])
        upper = self.dual.setting.covariance[np.ix_(fa, fa)]
        upper[np.diag_indices_from(upper)] += hh[fa]
        factor = cholesky(upper)
        if factor is None:
            return None
        inverse = np.zeros((n, n))
        inverse[np.ix_(fa, fa)] = factor.inverse()
        schur = 0.5 * self.covariance[np.ix_(fw, fw)] ** 2
        schur -= cross[fw, None] * inverse[np.ix_(fw, fw)] * cross[fw]
        schur[np.diag_indices_from(schur)] += diagonal[fw]
        lower = cholesky(schur)
        if lower is None:
            return None
        ga, d = np.where(free[:n], g[:n], 0.0), np.zeros(2 * n)
        d[n + fw] = lower.solve(cross[fw] * (inverse @ ga)[fw] - g[n + fw])
        d[:n] = -inverse @ (ga + cross * d[n:])
        return d


# ---- conjugates --------------------------------------------------------------------------------
# The inner problem of decoupled inference, for all rows at once, and where it has a solution.
#
#     f*(a, b) = max over (h, sigma) of f(h, sigma^2) - a h + b sigma - p (sigma - sigma_0)^2 / 2
#
# (Khan 2014, (12)), with the damping of (20) and a proximal term in h where they are asked for.
# Those who are Decoupled answer in closed form, where nothing is damped; all others through Newton.


# Sites are finite at this distance, and their slopes have come to their limits, if there are any.
FAR = 1e4
# Slopes beyond this, or that still grow by this fraction from FAR / 2 to FAR, have no limit.
HUGE, GROWING = 1e12, 1e-3
# The curvature of a closed form is taken at no smaller sigma, in units of its centre.
NARROWEST = 1e-6


def conjugates(
    answers: Sequence[Expected], like: Rows, terms: PairTerms, h: Array, sigma: Array
) -> PairMaxima:
    """The maximisers for all rows, (P,); those without a closed form start from (h, sigma)."""
    damped = bool(terms.r.any() or terms.d.any())
    pairs, first = [], 0
    for answer, block in zip(answers, like, strict=True):
        rows = slice(first, first + len(block))
        part = terms.take(rows)
        if isinstance(answer, Decoupled) and not damped:
            pairs.append(_closed(answer, answer, part))
        else:
            moments = _moments(answer, len(block))
            pairs.append(maximise_pairs(moments, part, h[rows], sigma[rows]))
        first += len(block)
    return PairMaxima.joined(pairs)


def _closed(answer: Decoupled, same: Expected, terms: PairTerms) -> PairMaxima:
    best = answer.conjugate(terms.a, terms.b, terms.p, terms.sigma0)
    wide = np.maximum(best.sigma, NARROWEST * terms.sigma0)
    f = same.expected(best.h, wide * wide, second=True)
    assert f.d_mean_variance is not None and f.d_variance2 is not None
    hh, hs, ss = terms.bends(f.d_variance, f.curvature, f.d_mean_variance, f.d_variance2, wide)
    return PairMaxima(best.h, best.sigma, best.value, hh, hs, ss, np.isfinite(best.value))


def _moments(answer: Expected, size: int) -> PairMoments:
    def moments(where: IntArray, h: Array, v: Array) -> tuple[Array, ...]:
        a = some_rows(answer, where, size)(h, v)
        assert a.d_mean_variance is not None and a.d_variance2 is not None
        first, second = (a.value, a.d_mean, a.d_variance), (a.d_mean_variance, a.d_variance2)
        return tuple(np.array(p, dtype=np.float64) for p in (*first, a.curvature, *second))

    return moments


def slope_limits(site: Site, answer: Expected) -> tuple[Array, Array]:
    """Between which slopes a the undamped f* of log-concave sites is finite: the limits of f_m at
    both ends, (N,) each, infinite where f_m grows for ever. Without bounds for all other sites."""
    n = len(site)
    if Property.LOG_CONCAVE not in site.spec.properties:
        return np.full(n, -np.inf), np.full(n, np.inf)
    centre, scale = site.landmark() or (np.zeros(n), np.ones(n))
    away = FAR * np.maximum(scale, 1.0)
    variance = np.ones(n) * np.maximum(scale, 1.0) ** 2

    def limit(side: float) -> Array:
        near, middle, far = (
            np.asarray(answer.expected(centre + side * k * away, variance).d_mean)
            for k in (0.0, 0.5, 1.0)
        )
        with np.errstate(invalid="ignore"):
            grows = np.abs(far - middle) > GROWING * np.abs(middle - near)
            none = ~(np.abs(far) < HUGE) | grows
        return np.where(none, -side * np.inf, far)

    return limit(1.0), limit(-1.0)
