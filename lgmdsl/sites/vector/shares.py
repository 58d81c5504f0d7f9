"""Vector sites whose density is a sum of terms, one for each share p = softmax(s).

l = head + sum_k f_k(u_k), u = log p, so that with p from softmax, F1 = sum_k f_k' and so on

    l_j  = f_j' - p_j F1
    l_ij = delta_ij f_j'' - p_j f_i'' - p_i f_j'' + p_i p_j F2 - F1 C_ij,   C = diag(p) - pp'.

Terms that add c e^u change nothing, as the shares add up to 1. Predictors are given for all K
classes, or for all but the last one, whose predictor is then 0.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.classes import Classes
from lgmdsl.contract.questions import ParameterCurve, Pointwise, PointwiseAnswer, Sloped
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations.log_sum_exp import (
    LogSumExp,
    contrasts_of,
    expected_log_sum_exp,
)
from lgmdsl.numerics.stable import Shares, covariances, shares
from lgmdsl.sites.vector.softmax import complete, with_reference


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
