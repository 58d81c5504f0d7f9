"""pc_mix(graph, u, alpha): the structured share of a bym2, P(mix < u) = alpha.

Riebler et al. (2016), section 3.2 and appendix: the distance from independence is d(mix) =
sqrt(2 KLD), 2 KLD = sum_i x_i - log(1 + x_i), x_i = mix (g_i - 1), over the eigenvalues g of the
covariance of the scaled intrinsic part. A connected part of the graph has an eigenvalue 0, so d has
no end as mix goes to 1, and is exponential with rate -log(1 - alpha) / d(u).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.numerics.stable import sigmoids, softplus
from lgmdsl.priors.prior import UNIT, Bounds, InLogits, Terms, Unsuitable
from lgmdsl.vocabulary.lookup import declared

_NEAR = 0.1  # |x| below which (x - log(1 + x)) / x^2 is a series
_TERMS = 18
_BISECTIONS = 70
NULL = 1e-9  # an eigenvalue below this is 0
_AT_ONCE = 100_000  # entries of an array of values by eigenvalues
_SERIES = (-1.0) ** np.arange(_TERMS + 1) / (np.arange(_TERMS + 1) + 2.0)  # of h: (-x)^k / (k + 2)


class Distance(NamedTuple):
    """d(mix) and its first two derivatives, (...)."""

    value: Array
    slope: Array
    bend: Array


def _quotient(x: Array) -> tuple[Array, Array]:
    """h = (x - log(1 + x)) / x^2 and dh/dx; x > -1."""
    near = np.abs(x) < _NEAR
    large = np.where(near, 1.0, x)
    h = (large - np.log1p(large)) / large**2
    slope = (1.0 / (1.0 + large) - 2.0 * h) / large
    if near.any():
        powers = np.vander(x[near], _TERMS + 1, increasing=True)
        h[near] = powers @ _SERIES
        slope[near] = powers[:, :-1] @ (np.arange(1.0, _TERMS + 1.0) * _SERIES[1:])
    return h, slope


@dataclass(frozen=True, eq=False)
class PcMix(InLogits):
    """P(mix < u) = alpha.

    `graph` stands for the structure on the graph: (n,) eigenvalues of its scaled covariance.
    """

    graph: Array
    u: Array
    alpha: Array
    signature = declared("prior", "pc_mix")

    def check(self) -> None:
        if not (self.graph < 0.5).any():
            raise Unsuitable(
                "graph",
                "`graph` of `pc_mix` must connect some of its members",
                "has no edge",
                "give a graph with edges",
            )

    @property
    def bounds(self) -> Bounds:
        return UNIT

    def distance(self, mix: Array) -> Distance:
        """With d = mix sqrt(B), B = sum (g - 1)^2 h(x), A = sum (g - 1)^2 / (1 + x):
        d' = A / (2 sqrt B) and d'' = (A' - A B' / (2 B)) / (2 sqrt B)."""
        flat = np.asarray(mix, dtype=np.float64).reshape(-1)
        rows = max(1, _AT_ONCE // len(self.graph))
        starts = range(0, max(1, len(flat)), rows)
        parts = zip(*(self._several(flat[k : k + rows]) for k in starts), strict=True)
        return Distance(*(np.concatenate(p).reshape(np.shape(mix)) for p in parts))

    def _several(self, mix: Array) -> Distance:
        off = self.graph - 1.0
        x = mix[:, None] * off
        h, h_slope = _quotient(x)
        square = off * off
        b, b_slope = h @ square, h_slope @ (square * off)
        inverse = 1.0 / (1.0 + x)
        a, a_slope = inverse @ square, -(inverse * inverse) @ (square * off)
        root = 2.0 * np.sqrt(b)
        return Distance(mix * 0.5 * root, a / root, (a_slope - 0.5 * a * b_slope / b) / root)

    @cached_property
    def _at_u(self) -> Distance:
        return self.distance(self.u)

    @property
    def rate(self) -> Array:
        return np.asarray(-np.log1p(-self.alpha) / self._at_u.value)

    def terms(self, value: Array) -> Terms:
        distance = self._at_u
        rate = -np.log1p(-self.alpha) / distance.value
        d = self.distance(value)
        up = 1.0 / rate - d.value
        slopes = {
            "u": -up * rate * distance.slope / distance.value,
            "alpha": up / ((1.0 - self.alpha) * distance.value),
        }
        log = np.log(rate) - rate * d.value + np.log(d.slope)
        return Terms(log, -rate * d.slope + d.bend / d.slope, slopes)

    def in_logits(self, logit: Array) -> Terms:
        """log density of L = logit(mix) and its slope in L, exact where mix rounds to 1.

        An eigenvalue 0 gives d^2 the term softplus(L) - mix, any other a part that ends at mix = 1.
        S = dd^2/dL = mix^2 (k + (1 - mix) A), k eigenvalues 0 and A over the rest.
        """
        flat = np.asarray(logit, dtype=np.float64).reshape(-1, 1)
        mix, rest, _ = sigmoids(flat)
        off = self.graph - 1.0
        none = off < NULL - 1.0
        inner = off[~none]
        x = mix * inner
        h, square, inverse = _quotient(x)[0], inner * inner, 1.0 / (1.0 + x)
        count = float(none.sum())
        past = (softplus(flat) - mix) / np.maximum(mix, 0.5) ** 2
        null = np.where(mix < 0.5, _quotient(-np.minimum(mix, 0.5))[0], past)[:, 0]
        mix, rest = mix[:, 0], rest[:, 0]
        over = np.sqrt(h @ square + count * null)  # d / mix
        a, a_slope = inverse @ square, -(inverse * inverse) @ (square * inner)
        s = count + rest * a
        s_slope = mix * rest * (rest * a_slope - a)
        relative = 0.5 * s / over**2  # (dd/dL) / d
        rate = self.rate
        log = np.log(rate) - rate * mix * over - softplus(-flat[:, 0]) + np.log(0.5 * s / over)
        slope = 2.0 * rest + s_slope / s - relative * (1.0 + rate * mix * over)
        shape = np.shape(logit)
        return Terms(log.reshape(shape), slope.reshape(shape), {})

    def quantile(self, p: Array) -> Array:
        """By bisection: P(mix < q) = 1 - exp(-rate d(q))."""
        wanted = np.asarray(-np.log1p(-p) / self.rate)
        low, high = np.zeros(wanted.shape), np.ones(wanted.shape)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            with np.errstate(divide="ignore", invalid="ignore"):
                below = self.distance(middle).value < wanted
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))
