"""Constant and tails of Prentice's w = log(q^2 g) / q, g gamma distributed with parameter q^-2.

q w is the log of a gamma of mean 1 (`LogGammaLaw`), whose upper tail is that of w where q > 0
and the lower one where q < 0. Near q = 0, where w is normal, tails are interpolated in q, and their
slopes in q are differences everywhere: the incomplete gamma function has none in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics import jets
from lgmdsl.numerics.jets import Jet
from lgmdsl.numerics.normal_tail import normal_tail
from lgmdsl.numerics.stable import EXPONENT_CAP, stirling_error
from lgmdsl.sites.laws import Curve, Law, one_each

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
# Stirling's series of log Gamma, B_2j / (2j (2j - 1))
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_SERIES = 0.1  # q^2 below which the constant is its series
_STEP = 0.05  # of differences in q, less where w is far out
_REACH = 4  # nodes on either side


def constant_derivatives(q: Array) -> list[Array]:
    """c(q) = log|q| - log Gamma(k) + k log k - k, k = q^-2, and its derivatives 1 to 3."""
    q = np.asarray(q, dtype=np.float64)
    near = q * q < _SERIES
    small, large = jets.variable(np.where(near, q, 0.0), 0), np.where(near, 1.0, q)
    square = small * small
    total = jets.constant(0.0)
    for term in reversed(_STIRLING):
        total = total * square * square + term
    series = -_HALF_LOG_TAU - total * square
    x = jets.variable(large, 0)
    k = jets.reciprocal(x * x)
    direct = -0.5 * jets.log(k) - jets.gammaln(k) + k * jets.log(k) - k
    chosen = jets.where(near, series, direct)
    return [chosen.derivative(*(0,) * n) for n in range(4)]


def log_tail(w: Jet, q: Jet, upper: bool) -> Jet:
    """log P(W > w), or log P(W <= w) where not `upper`."""
    shape = np.broadcast_shapes(np.shape(w.value), np.shape(q.value))
    x, centre = np.broadcast_to(w.value, shape), np.broadcast_to(q.value, shape)
    out = w.compose(*_tail(x, centre, upper))
    if q.fixed:
        return out
    moves = Jet({k: c for k, c in q.coefficients.items() if k}, q.order)
    step = jets.constant(1.0, w.order)
    for n, curve in enumerate(_slopes(x, centre, upper)[: q.depth], start=1):
        step = step * moves / float(n)
        out = out + w.compose(*curve) * step
    return out


def _spacing(w: Array) -> Array:
    return np.asarray(_STEP / np.maximum(1.0, 0.5 * np.abs(w)))


def _tail(w: Array, q: Array, upper: bool) -> list[Array]:
    """The tail and its derivatives in w, 1 to 3."""
    h = _spacing(w)
    near = np.abs(q) < h
    out = [np.empty(np.shape(w)) for _ in range(4)]
    if not near.all():
        for part, value in zip(out, _curved(w[~near], q[~near], upper), strict=True):
            part[~near] = value
    if near.any():
        x, share = w[near], q[near] / h[near]
        nodes = _nodes(x, np.zeros_like(x), h[near], upper)
        weights = _lagrange(share)
        for part, value in zip(out, np.einsum("jn,jkn->kn", weights, nodes), strict=True):
            part[near] = value
    return out


def _slopes(w: Array, q: Array, upper: bool) -> list[list[Array]]:
    """Derivatives 1 to 3 in q of the tail and of its derivatives in w."""
    flat_w, flat_q = w.ravel(), q.ravel()
    h = _spacing(flat_w)
    values = _nodes(flat_w, flat_q, h, upper)
    grid = np.arange(-_REACH, _REACH + 1.0)
    powers = np.vander(grid, increasing=True)
    taylor = np.linalg.inv(powers)  # rows: coefficients of 1, x, x^2, ...
    out = []
    for n in (1, 2, 3):
        terms = np.einsum("j,jkn->kn", taylor[n] * math.factorial(n), values) / h**n
        out.append([t.reshape(w.shape) for t in terms])
    return out


def _nodes(w: Array, q: Array, h: Array, upper: bool) -> Array:
    """(nodes, 4, N): the tail's derivatives at q + j h."""
    grid = range(-_REACH, _REACH + 1)
    return np.stack([np.stack(_curved(w, q + j * h, upper)) for j in grid])


def _lagrange(share: Array) -> Array:
    """(nodes, N): weights of the nodes -4 to 4 at a share of the spacing."""
    grid = np.arange(-_REACH, _REACH + 1.0)
    out = np.ones((len(grid), len(share)))
    for j, a in enumerate(grid):
        for b in grid:
            if a != b:
                out[j] *= (share - b) / (a - b)
    return out


def _curved(w: Array, q: Array, upper: bool) -> list[Array]:
    """At q that is 0, or not near it."""
    out = [np.empty(np.shape(w)) for _ in range(4)]
    flat = np.abs(q) < 1e-9
    if flat.any():
        sign = -1.0 if upper else 1.0
        tail = normal_tail(sign * w[flat])
        parts = (tail.log_cdf, sign * tail.hazard, -tail.hazard * tail.excess, sign * tail.third)
        for part, value in zip(out, parts, strict=True):
            part[flat] = value
    for side in (1.0, -1.0):
        some = ~flat & (side * q > 0.0)
        if not some.any():
            continue
        x, rate = w[some] * q[some], q[some]
        law = LogGammaLaw(rate**-2.0)
        if upper == (side > 0.0):
            curve, growth = law.above(x), law.growth(x)
            values = [part - growth for part in curve.parts]
        else:
            values = list(law.below(x).parts)
        for n, (part, value) in enumerate(zip(out, values, strict=True)):
            part[some] = value * rate**n
    return out


# ---- log gamma ---------------------------------------------------------------------------------
# The law of X = log(G / shape), G ~ Gamma(shape, 1). With T = shape e^x, f = T^shape e^-T / Gamma.
#
# Left of the bulk, f / P = shape / M, M = 1 + T/(shape+1) + T^2/((shape+1)(shape+2)) + ...; right
# of it, f / Q = T + 1 - shape - c with the continued fraction (DLMF 8.9.2)
#
#     c = 1 (1 - shape) / (T + 3 - shape - c2),   c2 = 2 (2 - shape) / (T + 5 - shape - ...),
#
# and log Q + T has the derivatives shape - 1 + c, -c (1 + c - c2) and (below), none of which
# cancels.


_TERMS = 80
_MOST = 2000


@dataclass(frozen=True, eq=False)
class LogGammaLaw(Law):
    """Mean of e^X 1, variance 1 / shape."""

    shape: Array

    @cached_property
    def peak(self) -> Array:
        """log f(0)."""
        k = self.shape
        return np.asarray(0.5 * np.log(k / (2.0 * np.pi)) - stirling_error(k))

    def take(self, index: tuple[IntArray, ...]) -> LogGammaLaw:
        return LogGammaLaw(one_each(self.shape, index))

    def log_growth(self, x: Array) -> Array:
        return np.asarray(x + np.log(self.shape))

    def density(self, x: Array) -> Curve:
        k, rate = self.shape, self.growth(x)
        large = np.minimum(x, EXPONENT_CAP - np.log(k))
        return Curve(self.peak + k * (x - np.expm1(large)), k - rate, -rate, -rate)

    def below(self, x: Array) -> Curve:
        k, rate = self.shape + 0.0 * x, self.growth(x)
        g = self.density(x)
        lower, upper = _both(k, rate)
        small = (rate < 0.5 * k) | (lower < 1e-250)
        with np.errstate(divide="ignore"):
            value = np.where(rate < k, np.log(lower), np.log1p(-upper))
        value = np.where(small, g.value, value)
        ratio = np.exp(g.value - value)
        over = g.first - ratio
        over_slope = g.second - ratio * over
        if np.any(small):
            total, over[small], over_slope[small] = _series(k[small], rate[small])
            ratio[small] = k[small] / total
            value[small] -= np.log(ratio[small])
        return Curve(value, ratio, ratio * over, ratio * (over**2 + over_slope))

    def above(self, x: Array) -> Curve:
        k, rate = self.shape + 0.0 * x, self.growth(x)
        g = self.density(x)
        right = rate > k + 6.0 * np.sqrt(k) + 30.0
        lower, upper = _both(k, rate)
        with np.errstate(divide="ignore"):
            value = np.where(rate < k, np.log1p(-lower), np.log(upper))
        hazard = np.where(right, 0.0, np.exp(np.where(right, 0.0, g.value - value)))
        over = np.where(right, 0.0, g.first + hazard)
        second = -hazard * over
        third = second * over - hazard * (g.second - second)
        tame = np.where(right, 0.0, rate)
        out = [value + tame, tame - hazard, second + tame, third + tame]
        if np.any(right):
            for part, tail in zip(out, _right(k[right], rate[right], x[right]), strict=True):
                part[right] = tail
        return Curve(*out)


def _both(k: Array, rate: Array) -> tuple[Array, Array]:
    """P and Q, the one that may be small as it is and the other as 1 less it."""
    small = rate < k
    lower, upper = np.empty_like(rate), np.empty_like(rate)
    lower[small] = special.gammainc(k[small], rate[small])
    upper[~small] = special.gammaincc(k[~small], rate[~small])
    upper[small], lower[~small] = 1.0 - lower[small], 1.0 - upper[~small]
    return lower, upper


def _series(k: Array, rate: Array) -> tuple[Array, Array, Array]:
    """M; and shape - T - shape / M with its derivative in x, which are less the mean and less the
    variance of n under weights proportional to the n-th term."""
    term = np.ones_like(k)
    total, first, second = np.ones_like(k), np.zeros_like(k), np.zeros_like(k)
    for n in range(1, _MOST):
        term = term * rate / (k + n)
        total, first, second = total + term, first + n * term, second + n * n * term
        if np.all(term * n * n <= 1e-17 * second):
            break
    mean = first / total
    return total, -mean, mean**2 - second / total


def _right(k: Array, rate: Array, x: Array) -> tuple[Array, Array, Array, Array]:
    """log Q + T and its derivatives in x."""
    c2 = np.zeros_like(rate)
    for n in range(_TERMS, 1, -1):
        c2 = n * (n - k) / (rate + (2.0 * n + 1.0) - k - c2)
    c = (1.0 - k) / (rate + 3.0 - k - c2)
    bend = c * (1.0 + c - c2)
    skew = c * (k - 2.0 + 2.0 * c - (c - c2) * (rate + 2.0 - k - 2.0 * c))
    # f / Q = T (1 + (1 - shape - c) / T), so log Q + T = log f + T - log T - log(1 + ...).
    level = k * (x + np.log(k)) - special.gammaln(k)
    value = level - (x + np.log(k)) - np.log1p((1.0 - k - c) / rate)
    return value, k - 1.0 + c, -bend, skew
