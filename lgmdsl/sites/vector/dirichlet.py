"""dirichlet.softmax and dirichlet_multinomial.softmax: shares about p = softmax(s).

With alpha = concentration p,

    Dirichlet              l = log Gamma(c) + sum_k -log Gamma(alpha_k) + (alpha_k - 1) log y_k
    Dirichlet-multinomial  l = log n! / prod y_k! - log (c)_n + sum_k log (alpha_k)_{y_k}

where (x)_y = Gamma(x + y) / Gamma(x). Neither is concave: where a share falls to 0, its term is
linear in s, and convex on the way there.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy import special

from lgmdsl.arrays import Array
from lgmdsl.contract.classes import Classes, ClassMoments
from lgmdsl.contract.questions import ParameterCurve, Pointwise, PointwiseAnswer, Sloped
from lgmdsl.contract.site import Property, Site, SiteSpec
from lgmdsl.numerics.counts import deviance
from lgmdsl.numerics.expectations.log_sum_exp import (
    LogSumExp,
    contrasts_of,
    expected_log_sum_exp,
)
from lgmdsl.numerics.log_gamma import log_rising, polygamma
from lgmdsl.numerics.normal_tail import LOG_TWO_PI
from lgmdsl.numerics.stable import Shares, covariances, shares, stirling_error, stirling_slope
from lgmdsl.sites.vector.softmax import complete, with_reference
from lgmdsl.vocabulary.lookup import declared

if TYPE_CHECKING:
    from numpy.random import Generator


# ---- shares ------------------------------------------------------------------------------------
# Vector sites whose density is a sum of terms, one for each share p = softmax(s).
#
# l = head + sum_k f_k(u_k), u = log p, so that with p from softmax, F1 = sum_k f_k' and so on
#
#     l_j  = f_j' - p_j F1
#     l_ij = delta_ij f_j'' - p_j f_i'' - p_i f_j'' + p_i p_j F2 - F1 C_ij,   C = diag(p) - pp'.
#
# Terms that add c e^u change nothing, as the shares add up to 1. Predictors are given for all K
# classes, or for all but the last one, whose predictor is then 0.


class SharesSite(Site, Pointwise, Sloped, Classes):
    """Families of counts or proportions over classes, `y` (N, K), with a `concentration`."""

    y: Array
    concentration: Array

    @property
    def classes(self) -> int:
        """K, the reference among them."""
        return int(self.y.shape[1])

    def shares(self, s: Array) -> Shares:
        """The shares at s, (N, K) or (N, K - 1)."""
        full = with_reference(s, self.classes)
        return shares(full, np.ones(full.shape, dtype=np.bool_))

    def contrasts(self, predictors: int) -> Array | None:
        return contrasts_of(predictors) if predictors == self.classes else None

    @abstractmethod
    def value(self, softmax: Shares) -> Array:
        """l, (N,)."""

    @abstractmethod
    def terms(self, softmax: Shares, order: int) -> tuple[Array, ...]:
        """f', f'' and f''' in u, as many as `order`, (N, K) each."""

    @abstractmethod
    def head_slope(self) -> Array:
        """What dl/dlog concentration has besides F1, (N,): a derivative in log concentration is one
        in all u at once, less that of what depends on the concentration alone."""

    def log_density(self, s: Array) -> Array:
        return self.value(self.shares(s))

    def sloped(self, s: Array) -> tuple[Array, Array]:
        points, n, k = s.shape
        many = self.take(np.tile(np.arange(n), points))
        softmax = many.shares(s.reshape(-1, k))
        (first,) = many.terms(softmax, 1)
        slope = first - softmax.p * first.sum(axis=1, keepdims=True)
        return many.value(softmax).reshape(points, n), slope[:, :k].reshape(s.shape)

    def pointwise(self, s: Array, variance: Array | float = 1.0) -> PointwiseAnswer:
        softmax, k = self.shares(s), s.shape[1]
        first, second, third = self.terms(softmax, 3)
        v = variance * np.eye(k)[None] if np.ndim(variance) == 0 else np.asarray(variance)
        full = np.zeros((len(s), self.classes, self.classes))
        full[:, :k, :k] = v
        return PointwiseAnswer(
            self.value(softmax),
            _slope(softmax, first)[:, :k],
            _curvature(softmax, first, second)[:, :k, :k],
            _third(softmax, first, second, third, full)[:, :k],
        )

    def parameter_slopes(self, s: Array) -> dict[str, Array]:
        (first,) = self.terms(self.shares(s), 1)
        return {"concentration": (first.sum(axis=1) + self.head_slope()) / self.concentration}

    def parameter_curves(self, s: Array) -> dict[str, ParameterCurve]:
        softmax, k, c = self.shares(s), s.shape[1], self.concentration
        first, second, third = self.terms(softmax, 3)
        return {
            "concentration": ParameterCurve(
                (first.sum(axis=1) + self.head_slope()) / c,
                _slope(softmax, second)[:, :k] / c[:, None],
                _curvature(softmax, second, third)[:, :k, :k] / c[:, None, None],
            )
        }

    def expected_shares(self, mean: Array, variance: Array) -> LogSumExp:
        """Expected log-sum-exp: its slope is E[p], the diagonal of its curvature E[p (1 - p)]."""
        m, v = complete(mean, variance, self.classes)
        return expected_log_sum_exp(m, v, np.ones(m.shape, dtype=np.bool_))


def _slope(softmax: Shares, first: Array) -> Array:
    return np.asarray(first - softmax.p * first.sum(axis=1, keepdims=True))


def _curvature(softmax: Shares, first: Array, second: Array) -> Array:
    p, k = softmax.p, np.arange(softmax.p.shape[1])
    cross = p[:, :, None] * second[:, None, :]
    total = second.sum(axis=1)[:, None, None]
    out = -cross - cross.transpose(0, 2, 1) + total * p[:, :, None] * p[:, None, :]
    out[:, k, k] += second
    return np.asarray(out - first.sum(axis=1)[:, None, None] * covariances(softmax))


def _third(softmax: Shares, first: Array, second: Array, third: Array, v: Array) -> Array:
    """The slope of tr(V l''): with q_k = (e_k - p)'V(e_k - p) and t = tr(V C) = sum_k p_k q_k,
    tr(V l'') = sum_k f_k'' q_k - F1 t."""
    p = softmax.p
    vp = np.einsum("nij,nj->ni", v, p)
    about = np.einsum("ni,ni->n", p, vp)[:, None]
    q = np.einsum("nii->ni", v) - 2.0 * vp + about
    t = (p * q).sum(axis=1, keepdims=True)
    # sum_k f_k'' V (e_k - p), and its projections on e_i - p
    lean = np.einsum("nij,nj->ni", v, second) - vp * second.sum(axis=1, keepdims=True)
    along = lean - (p * lean).sum(axis=1, keepdims=True)
    turned = third * q - p * (third * q).sum(axis=1, keepdims=True) - 2.0 * p * along
    gain = second - p * second.sum(axis=1, keepdims=True)
    return np.asarray(turned - gain * t - first.sum(axis=1, keepdims=True) * p * (q - t))


# ---- dirichlet ---------------------------------------------------------------------------------

CLOSE = 1e-6  # what the shares of a row may miss 1 by
_MANY = 60.0  # trials from which terms of size n log n would cancel
_LEAST = 1e-300


@dataclass(frozen=True, eq=False)
class DirichletSoftmax(SharesSite):
    """Shares y, (N, K), all above 0, that add up to 1."""

    y: Array
    concentration: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "dirichlet.softmax",
        signature=declared("family", "dirichlet"),
        takes=("concentration",),
        wide=("y",),
        vector=True,
        link="softmax",
    )

    @cached_property
    def possible(self) -> Array:
        """0, or -inf where y is no composition, (N,)."""
        proper = (self.y > 0.0).all(axis=1) & (np.abs(self.y.sum(axis=1) - 1.0) <= CLOSE)
        return np.where(proper, 0.0, -np.inf)

    @cached_property
    def log_y(self) -> Array:
        """(N, K)."""
        return np.asarray(np.log(np.maximum(self.y, _LEAST)))

    def reason(self, row: int) -> str:
        zero = np.flatnonzero(self.y[row] <= 0.0)
        if len(zero):
            return (
                f"share {int(zero[0])} is 0, and dirichlet has none: observe counts by "
                "dirichlet_multinomial, or add a small share to all"
            )
        return f"its shares add up to {self.y[row].sum():.6g}, not 1: divide each row by its sum"

    def value(self, softmax: Shares) -> Array:
        """With u = log p and log Gamma(a) = a log a - a + ..., in deviances D(alpha; c y)."""
        c = self.concentration[:, None]
        a = c * softmax.p
        large = a >= 1.0
        about = np.where(large, a, 1.0)
        expected = c * self.y
        gaps = deviance(about, np.where(large, expected, 1.0), np.where(large, a - expected, 0.0))
        near = expected - gaps - stirling_error(about) + 0.5 * (np.log(about) - LOG_TWO_PI)
        small = np.minimum(a, 1.0)
        log_a = softmax.log_p + np.log(c)
        far = log_a - special.gammaln(1.0 + small) + small * np.log(np.maximum(expected, _LEAST))
        one = self.concentration
        head = 0.5 * (LOG_TWO_PI - np.log(one)) + stirling_error(one) - one
        total = np.where(large, near, far).sum(axis=1) - self.log_y.sum(axis=1)
        return np.asarray(head + total + self.possible)

    def terms(self, softmax: Shares, order: int) -> tuple[Array, ...]:
        """f = -log Gamma(a) + a log(c y): f' = a w, w = log(c y) - psi(a)."""
        a = self.concentration[:, None] * softmax.p
        above = np.maximum(a, _LEAST)
        # a (log a - psi(a)) = 1/2 - a S'(a); a (1 - ...) where a underflows
        near = 0.5 - a * stirling_slope(np.maximum(a, 1.0))
        small = np.minimum(above, 1.0)
        far = 1.0 - small * (special.digamma(1.0 + small) - np.log(small))
        first = a * (self.log_y - softmax.log_p) + np.where(a >= 1.0, near, far)
        if order == 1:
            return (first,)
        square = a * a * polygamma(1, 1.0 + a) + 1.0
        cube = a * a * a * polygamma(2, 1.0 + a) - 2.0
        return first, first - square, first - 3.0 * square - cube

    def head_slope(self) -> Array:
        c = self.concentration
        return np.asarray(c * stirling_slope(c) - 0.5)

    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        answer = self.expected_shares(mean, variance)
        p, inside = answer.d_mean, np.einsum("nkk->nk", answer.bend)
        between = np.maximum(p - inside - p * p, 0.0)
        spread = inside / (1.0 + self.concentration[:, None]) + between
        return ClassMoments(p, p, np.sqrt(np.maximum(spread, 0.0)))

    def conditional_mean(self, s: Array) -> Array:
        """p, (N, K)."""
        return self.shares(s).p

    def conditional_variance(self, s: Array) -> Array:
        """p (1 - p) / (1 + concentration), (N, K)."""
        softmax = self.shares(s)
        return np.asarray(softmax.p * softmax.rest / (1.0 + self.concentration[:, None]))

    def sample(self, s: Array, rng: Generator) -> Array:
        """Shares that add up to 1, (N, K)."""
        return drawn_shares(self.shares(s).p, self.concentration, rng)


@dataclass(frozen=True, eq=False)
class DirichletMultinomialSoftmax(SharesSite):
    """Counts y, (N, K), of n trials whose probabilities are Dirichlet(concentration p)."""

    y: Array
    n: Array
    concentration: Array
    spec: ClassVar[SiteSpec] = SiteSpec(
        "dirichlet_multinomial.softmax",
        signature=declared("family", "dirichlet_multinomial"),
        takes=("n", "concentration"),
        wide=("y",),
        vector=True,
        properties=Property.BOUNDED,
        link="softmax",
    )

    @property
    def trials(self) -> Array:
        """n, (N,)."""
        return self.n

    @cached_property
    def more(self) -> Array:
        """Counts after the first of each class, (N, K)."""
        return np.maximum(self.y - 1.0, 0.0)

    @cached_property
    def seen(self) -> Array:
        """1 where a class was counted, (N, K)."""
        return np.where(self.y > 0.0, 1.0, 0.0)

    @cached_property
    def possible(self) -> Array:
        """0, or -inf where y is no counts of n trials, (N,)."""
        proper = (self.y.sum(axis=1) == self.n) & (self.y >= 0.0).all(axis=1)
        return np.where(proper, 0.0, -np.inf)

    def reason(self, row: int) -> str:
        total = self.y[row].sum()
        return f"its counts add up to {total:g}, not to n = {self.n[row]:g}"

    @cached_property
    def constant(self) -> Array:
        """log n! / prod y_k! - log (c)_n, (N,)."""
        coefficient = special.gammaln(self.n + 1.0) - special.gammaln(self.y + 1.0).sum(axis=1)
        return np.asarray(coefficient - log_rising(self.concentration, self.n, 0))

    def value(self, softmax: Shares) -> Array:
        c = self.concentration[:, None]
        log_a = softmax.log_p + np.log(c)
        rising = self.seen * log_a + log_rising(1.0 + c * softmax.p, self.more, 0)
        plain = self.constant + rising.sum(axis=1)
        many = (self.n > _MANY) & np.isfinite(self.possible)
        if many.any():
            rows = np.flatnonzero(many)
            some = Shares(softmax.p[rows], softmax.rest[rows], softmax.log_p[rows])
            plain[rows] = self.take(rows)._accurate(some)
        return np.asarray(plain + self.possible)

    def _accurate(self, softmax: Shares) -> Array:
        """l by deviances about P = (y + alpha) / (n + c), as of beta-binomial counts."""
        c, n, y = self.concentration[:, None], self.n[:, None], self.y
        a = np.maximum(c * softmax.p, _LEAST)
        excess = c * (y - n * softmax.p) / (c + n)
        counted = y > 0.0
        at = np.where(counted, y, 1.0)
        gaps = deviance(y, np.maximum(y - excess, _LEAST), excess) + deviance(
            a, np.maximum(a + excess, _LEAST), -excess
        )
        errors = stirling_error(y + a) - stirling_error(a) - stirling_error(at)
        roots = 0.5 * (np.log(a / (y + a)) - np.log(at) - LOG_TWO_PI)
        each = np.where(counted, errors + roots, 0.0) - gaps
        n, c = self.n, self.concentration
        head = stirling_error(n) + stirling_error(c) - stirling_error(n + c)
        return np.asarray(
            head + 0.5 * (LOG_TWO_PI + np.log(n) + np.log1p(n / c)) + each.sum(axis=1)
        )

    def terms(self, softmax: Shares, order: int) -> tuple[Array, ...]:
        a = self.concentration[:, None] * softmax.p
        slopes = [log_rising(1.0 + a, self.more, k) for k in range(1, order + 1)]
        first = a * slopes[0]
        if order == 1:
            return (self.seen + first,)
        square = a * a * slopes[1]
        return (
            self.seen + first,
            first + square,
            first + 3.0 * square + a * a * a * slopes[2],
        )

    def head_slope(self) -> Array:
        c = self.concentration
        return np.asarray(-c * log_rising(c, self.n, 1))

    def class_moments(self, mean: Array, variance: Array) -> ClassMoments:
        answer = self.expected_shares(mean, variance)
        p, inside = answer.d_mean, np.einsum("nkk->nk", answer.bend)
        n, c = self.n[:, None], self.concentration[:, None]
        between = np.maximum(p - inside - p * p, 0.0)
        spread = n * inside * (c + n) / (c + 1.0) + n * n * between
        return ClassMoments(p, n * p, np.sqrt(np.maximum(spread, 0.0)))

    def conditional_mean(self, s: Array) -> Array:
        """n p, (N, K)."""
        return np.asarray(self.n[:, None] * self.shares(s).p)

    def conditional_variance(self, s: Array) -> Array:
        """n p (1 - p) (c + n) / (c + 1), (N, K)."""
        softmax, n, c = self.shares(s), self.n[:, None], self.concentration[:, None]
        return np.asarray(n * softmax.p * softmax.rest * (c + n) / (c + 1.0))

    def sample(self, s: Array, rng: Generator) -> Array:
        """Counts that add up to n, (N, K)."""
        p = drawn_shares(self.shares(s).p, self.concentration, rng)
        return rng.multinomial(self.n.astype(np.int64), p).astype(np.float64)


def drawn_shares(p: Array, concentration: Array, rng: Generator) -> Array:
    """One Dirichlet(concentration p) vector a row: gammas, in logarithms where shapes are small
    (Gamma(a) is Gamma(1 + a) u^(1 / a)), so that no share is lost to underflow."""
    shape = np.maximum(concentration[:, None] * p, _LEAST)
    logs = np.log(rng.gamma(1.0 + shape)) - rng.exponential(size=shape.shape) / shape
    logs = np.maximum(logs - logs.max(axis=1, keepdims=True), -690.0)
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
