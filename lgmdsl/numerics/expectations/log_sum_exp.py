"""E[log sum_k exp s_k], s ~ N(m, V), and its derivatives in m and V.

One class: s itself. Two: m_1 + E[softplus(s_2 - s_1)]. Three: with x = s_j - s_i and the third
class given x a Gaussian of mean mu(x) and variance tau^2 (all relative to s_i),

    E = m_i + E_x[softplus(x) + F(mu(x) - softplus(x), tau^2)],   F(m, v) = E_{N(m, v)}[softplus],

the outer expectation by the trapezoidal rule, exponentially accurate as its singularities stay
pi / sd_eff away, F by `expectation`. More: quasi-Monte Carlo, the same points for every site, their
first two moments exact.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.numerics.expectations.expectation import GAUSS_HERMITE, expectations, hermite
from lgmdsl.numerics.stable import sigmoids

REACH = 9.0  # of the trapezoidal rule, in sds
FINEST, COARSEST = 0.65, 0.6  # its step: times 1 / sd_eff, and in sds (errors of 1e-13)
MOST_NODES = 4000
WIDEST = 3.0  # sd below which the trapezoidal rule is the faster one of a softplus alone
COMPILED_FROM = 100  # sites from which compiled expectations repay the loading of numba
POINTS = 2048  # pairs of quasi-Monte Carlo points
PREDICTORS_PER_PASS = (
    1 << 18
)  # predictors at all points that are held at once: the cache's size decides


class LogSumExp(NamedTuple):
    """The expectation, (N,), and its derivatives in m, (N, K), and V, (N, K, K); `bend`, (N, K, K),
    is its second derivative in m, exactly so for the rule itself."""

    value: Array
    d_mean: Array
    d_variance: Array
    bend: Array


def expected_log_sum_exp(
    mean: Array, variance: Array, offered: BoolArray, seed: int = 0
) -> LogSumExp:
    """E log sum_k exp(s_k) over the classes on offer, (N, K), and its derivatives, of means (N, K)
    and covariances (N, K, K); `seed` of the points where there are more than three classes."""
    n, size = mean.shape
    out = LogSumExp(
        np.zeros(n), np.zeros((n, size)), np.zeros((n, size, size)), np.zeros((n, size, size))
    )
    counts = offered.sum(axis=1)
    for count in np.unique(counts[counts > 0]):  # nothing on offer: 0, and no class likely
        rows = np.flatnonzero(counts == count)
        classes = np.argsort(~offered[rows], axis=1, kind="stable")[:, :count]
        m = np.take_along_axis(mean[rows], classes, axis=1)
        v = variance[rows[:, None, None], classes[:, :, None], classes[:, None, :]]
        rule = _RULES.get(int(count))
        answer = rule(m, v) if rule is not None else _by_points(m, v, seed)
        out.value[rows] = answer.value
        out.d_mean[rows[:, None], classes] = answer.d_mean
        place = rows[:, None, None], classes[:, :, None], classes[:, None, :]
        out.d_variance[place], out.bend[place] = answer.d_variance, answer.bend
    return out


def third_of_log_sum_exp(
    mean: Array, variance: Array, offered: BoolArray, seed: int = 0
) -> Array | None:
    """The third derivative of the same in m, (N, K, K, K): the mean third cumulant of the class at
    the points. None where a row has no more than three classes on offer, which have other rules."""
    n, size = mean.shape
    counts = offered.sum(axis=1)
    if counts.min(initial=size) in _RULES or not counts.all():
        return None
    out = np.zeros((n, size, size, size))
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        classes = np.argsort(~offered[rows], axis=1, kind="stable")[:, :count]
        v = variance[rows[:, None, None], classes[:, :, None], classes[:, None, :]]
        m = np.take_along_axis(mean[rows], classes, axis=1)
        i, j, k = np.ix_(*[np.arange(count)] * 3)
        place = rows[:, None, None, None], classes[:, i], classes[:, j], classes[:, k]
        out[place] = _third(m, v, seed)
    return out


def _third(m: Array, v: Array, seed: int) -> Array:
    """E[cumulant] = d_ijk p_i - (d_ij p_i p_k + d_ik p_i p_j + d_jk p_j p_i) + 2 p_i p_j p_k."""
    n, size = m.shape
    contrasts, t = contrasts_of(size), normal_points(size - 1, seed=seed)
    s_root = _symmetric_root(contrasts.T @ v @ contrasts)
    out = np.empty((n, size, size, size))
    for few in np.array_split(
        np.arange(n), max(1, n * len(t) * size * size // PREDICTORS_PER_PASS)
    ):
        p = _shares(contrasts @ s_root[few] @ t.T + m[few][:, :, None])
        pairs = p @ p.transpose(0, 2, 1) / len(t)
        flat = (p[:, :, None, :] * p[:, None, :, :]).reshape(len(few), size * size, len(t))
        cumulant = 2.0 * (flat @ p.transpose(0, 2, 1)).reshape(-1, size, size, size) / len(t)
        for i in range(size):
            cumulant[:, i, i, :] -= pairs[:, i]
            cumulant[:, i, :, i] -= pairs[:, i]
            cumulant[:, :, i, i] -= pairs[:, i]
            cumulant[:, i, i, i] += p[:, i].mean(axis=1)
        out[few] = cumulant
    return out


def _symmetric_root(variance: Array) -> Array:
    values, turn = np.linalg.eigh(variance)
    return np.asarray((turn * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ turn.swapaxes(1, 2))


def _shares(s: Array) -> Array:
    """Probabilities of the classes, along the second axis."""
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _one(m: Array, v: Array) -> LogSumExp:
    return LogSumExp(m[:, 0], np.ones_like(m), np.zeros_like(v), np.zeros_like(v))


def _two(m: Array, v: Array) -> LogSumExp:
    spread = v[:, 0, 0] + v[:, 1, 1] - 2.0 * v[:, 0, 1]
    value, up, down, bend = _softplus(m[:, 1] - m[:, 0], spread)
    h = bend[:, None, None] * np.array([[1.0, -1.0], [-1.0, 1.0]])
    return LogSumExp(m[:, 0] + value, np.stack([down, up], axis=1), 0.5 * h, h)


def _softplus(m: Array, v: Array) -> tuple[Array, Array, Array, Array]:
    """E[softplus(x)], E[sigma(x)], E[sigma(-x)] and E[sigma(x) sigma(-x)] for x ~ N(m, v)."""
    sd = np.sqrt(np.maximum(v, 0.0))
    if len(m) >= COMPILED_FROM:
        from lgmdsl.numerics.expectations.softplus_kernels import softplus

        out = np.empty((4, len(m)))
        softplus(np.ascontiguousarray(m), sd, _inner_rules(sd), REACH, _table(), out)
        return out[0], out[1], out[2], out[3]

    def integrands(rows: IntArray, s: Array, t: Array) -> Array:
        up, down, level = _both(s)
        out = np.empty((4, *s.shape))
        out[0], out[1], out[2] = level, up, down
        np.multiply(up, down, out=out[3])
        return out

    none = np.zeros_like(m)
    values = expectations(integrands, m, sd, none, np.full_like(m, np.pi), checked=False)
    return values[0], values[1], values[2], values[3]


def _both(x: Array) -> tuple[Array, Array, Array]:
    """sigma(x), sigma(-x) and softplus(x), by one exponential and one logarithm."""
    up, down, tail = sigmoids(x)
    tail += np.maximum(x, 0.0)
    return up, down, tail


_ORDERS = np.array([[0, 1, 2], [0, 2, 1], [1, 2, 0]])  # reference, outer class, inner class


class _Nested(NamedTuple):
    """Three classes relative to one of them, (n,) each: mean and sd of x, mean, slope in x and
    variance of the inner class, and sd_eff."""

    mu: Array
    sd: Array
    centre: Array
    slope: Array
    tau: Array
    wide: Array


def _three(m: Array, v: Array) -> LogSumExp:
    """Nested; the outer class is the one that leaves the widest strip of analyticity."""
    n = len(m)
    parts = [_relative(m, v, order) for order in _ORDERS]
    width = np.stack([p.wide for p in parts], axis=1)
    choice = width.argmin(axis=1)
    order = _ORDERS[choice]
    nested = _Nested(*(np.stack(p, axis=1)[np.arange(n), choice] for p in zip(*parts, strict=True)))
    value, p, off = _by_arrays(nested) if n < COMPILED_FROM else _compiled(nested)
    h = np.zeros((n, 3, 3))
    for k, (i, j) in enumerate(((0, 1), (0, 2), (1, 2))):
        h[:, i, j] = h[:, j, i] = -off[:, k]
    for i in range(3):
        h[:, i, i] = -h[:, i].sum(axis=1)
    back = np.argsort(order, axis=1)
    h = h[np.arange(n)[:, None, None], back[:, :, None], back[:, None, :]]
    reference = np.take_along_axis(m, order[:, :1], axis=1)[:, 0]
    return LogSumExp(reference + value, np.take_along_axis(p, back, axis=1), 0.5 * h, h)


def _by_arrays(q: _Nested) -> tuple[Array, Array, Array]:
    """E of the value, (n,), of the probabilities, (n, 3), and of p_0 p_1, p_0 p_2, p_1 p_2, in the
    order's places."""
    n = len(q.mu)
    step = np.minimum(COARSEST, FINEST / np.maximum(q.wide, 1e-300))
    half = np.minimum(np.ceil(REACH / step), MOST_NODES).astype(np.int64)
    # Few sizes, so that sites are taken together: each at most a quarter finer than it need be.
    half = np.ceil(1.25 ** np.ceil(np.log(half) / np.log(1.25))).astype(np.int64)
    value, p, off = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3))
    for size in np.unique(half):
        rows = np.flatnonzero(half == size)
        t = np.linspace(-REACH, REACH, 2 * int(size) + 1)
        w = np.exp(-0.5 * t * t)
        w /= w.sum()
        for few in np.array_split(rows, max(1, len(rows) * len(t) * 40 // PREDICTORS_PER_PASS)):
            away = q.sd[few, None] * t
            up, down, level = _both(q.mu[few, None] + away)
            inner = q.centre[few, None] + q.slope[few, None] * away - level
            spread = np.broadcast_to(q.tau[few, None], inner.shape)
            f, one, rest, bend = (
                a.reshape(inner.shape) for a in _softplus(inner.ravel(), spread.ravel())
            )
            value[few] = (level + f) @ w
            p[few] = np.stack([(down * rest) @ w, (up * rest) @ w, one @ w], axis=1)
            # E[(1 - P)^2] = E[1 - P] - E[P (1 - P)].
            both = up * down * (rest - bend)
            off[few] = np.stack([both @ w, (down * bend) @ w, (up * bend) @ w], axis=1)
    return value, p, off


def _compiled(q: _Nested) -> tuple[Array, Array, Array]:
    """E of the value, (n,), of the probabilities, (n, 3), and of p_0 p_1, p_0 p_2, p_1 p_2, in the
    order's places, by compiled code."""
    from lgmdsl.numerics.expectations.softplus_kernels import three

    out, spread = np.empty((7, len(q.mu))), np.sqrt(q.tau)
    x = q.mu, q.sd, q.centre, q.slope, spread
    three(x, _rules(q.wide), _inner_rules(spread), REACH, _table(), out)
    return out[0], out[1:4].T, out[4:].T


def _rules(wide: Array) -> tuple[IntArray, IntArray]:
    """Which of the Gauss-Hermite rules does for a softplus over `wide` sds, -1 for none; and half
    the nodes of the trapezoidal one."""
    wide = np.where(np.isfinite(wide), wide, 0.0)  # others answer NaN by any rule
    which = np.searchsorted(np.pi * np.array(list(GAUSS_HERMITE.values())), wide, side="right")
    step = np.clip(FINEST / np.maximum(wide, 1e-300), REACH / MOST_NODES, COARSEST)
    half = np.ceil(REACH / step).astype(np.int64)
    return np.where(which < len(GAUSS_HERMITE), which, -1), half


def _inner_rules(sd: Array) -> tuple[IntArray, IntArray]:
    """Rules for a softplus alone: 0 trapezoidal nodes where the sd is so large that another rule is
    shorter."""
    which, half = _rules(sd)
    return which, np.where(sd < WIDEST, half, 0)


@cache
def _table() -> tuple[IntArray, Array, Array]:
    """Where each Gauss-Hermite rule begins, all nodes and all weights."""
    rules = [hermite(count) for count in GAUSS_HERMITE]
    starts = np.cumsum([0, *(len(t) for t, _ in rules)])
    return starts, np.concatenate([t for t, _ in rules]), np.concatenate([w for _, w in rules])


def _relative(m: Array, v: Array, order: IntArray) -> _Nested:
    """Three classes in one order, relative to its first."""
    i, j, k = order
    variance = np.maximum(v[:, j, j] + v[:, i, i] - 2.0 * v[:, i, j], 0.0)
    inner = np.maximum(v[:, k, k] + v[:, i, i] - 2.0 * v[:, i, k], 0.0)
    shared = v[:, j, k] - v[:, i, j] - v[:, i, k] + v[:, i, i]
    solid = variance > 1e-14 * (variance + inner)
    slope = np.where(solid, shared / np.where(solid, variance, 1.0), 0.0)
    tau = np.maximum(inner - slope * shared, 0.0)
    steepest = np.maximum(1.0, np.maximum(np.abs(slope), np.abs(1.0 - slope)))
    sd = np.sqrt(variance)
    return _Nested(m[:, j] - m[:, i], sd, m[:, k] - m[:, i], slope, tau, sd * steepest)


def _by_points(m: Array, v: Array, seed: int) -> LogSumExp:
    """Quasi-Monte Carlo over the K - 1 contrasts, and the derivatives of that very sum.

    s = m + C S t with C the contrasts and S the symmetric root of C'VC. With G = mean sym(g t') the
    derivative X in C'VC solves X S + S X = G.
    """
    n, size = m.shape
    contrasts, t = contrasts_of(size), normal_points(size - 1, seed=seed)
    values, turn = np.linalg.eigh(contrasts.T @ v @ contrasts)
    root = np.sqrt(np.maximum(values, 0.0))
    s_root = (turn * root[:, None, :]) @ turn.transpose(0, 2, 1)
    out = LogSumExp(np.zeros(n), np.zeros_like(m), np.zeros_like(v), np.zeros_like(v))
    for few in np.array_split(np.arange(n), max(1, n * len(t) * size // PREDICTORS_PER_PASS)):
        s = (contrasts @ s_root[few]) @ t.T  # (n, K, points)
        s += m[few][:, :, None]
        top = s.max(axis=1, keepdims=True)
        p = np.exp(np.subtract(s, top, out=s), out=s)
        total = p.sum(axis=1, keepdims=True)
        p /= total
        out.value[few] = (top + np.log(total)).mean(axis=(1, 2))
        share = p.mean(axis=2)
        out.d_mean[few] = share
        h = p @ p.transpose(0, 2, 1) / -len(t)
        h[:, np.arange(size), np.arange(size)] += share
        out.bend[few] = h
        g = contrasts.T @ (p @ t) / len(t)
        # X = H / 2 + Y: what Stein's identity gives, and what the rule makes of it.
        plain = contrasts.T @ h @ contrasts
        remainder = g - plain @ s_root[few]
        remainder = 0.5 * (remainder + remainder.transpose(0, 2, 1))
        u, r = turn[few], root[few]
        sums = r[:, :, None] + r[:, None, :]
        sound = sums > 1e-6 * r.max(axis=1)[:, None, None]
        solution = np.where(
            sound, u.transpose(0, 2, 1) @ remainder @ u / np.where(sound, sums, 1.0), 0.0
        )
        x = 0.5 * plain + u @ solution @ u.transpose(0, 2, 1)
        out.d_variance[few] = contrasts @ x @ contrasts.T
    return out


@cache
def contrasts_of(size: int) -> Array:
    """(K, K - 1): orthonormal columns that add up to 0 (Helmert's)."""
    out = np.zeros((size, size - 1))
    for j in range(size - 1):
        out[: j + 1, j], out[j + 1, j] = 1.0, -(j + 1.0)
    return np.asarray(out / np.linalg.norm(out, axis=0))


@cache
def normal_points(dimension: int, pairs: int = POINTS, seed: int = 0) -> Array:
    """Sobol's points under the normal distribution with their negatives, of covariance I."""
    from scipy.stats import qmc  # slow to import

    drawn = special.ndtri(qmc.Sobol(dimension, seed=seed).random(pairs))
    both = np.concatenate([drawn, -drawn])
    root = np.linalg.cholesky(both.T @ both / len(both))
    return np.asarray(np.linalg.solve(root, both.T).T)


_RULES = {1: _one, 2: _two, 3: _three}


# ---- normal lattice ----------------------------------------------------------------------------
# Averages over standard normals: a lattice within a ball, whose step follows how wide f is.
#
# The trapezoidal rule with step h leaves e^{-2 pi d / h} of a function whose singularities are d
# away from the real axis (in sds: theirs over the sd of f's argument), and e^{-2 pi^2 / h^2} of the
# normal law. Beyond three dimensions there is no lattice that is small, and points are quasi-
# random.


LATTICE_REACH = 5.8  # of the lattice, in sds
# Its steps: WIDEST, finer by RATIO as long as the largest sd times the step is above ANALYTIC,
# down to the finest that is had for so many dimensions.
LATTICE_WIDEST, RATIO, ANALYTIC = 1.05, 0.8, 1.0
LATTICE_FINEST = {1: 0.02, 2: 0.15, 3: 0.7}

Rule = tuple[Array, Array]  # points, (P, dimension), and their weights, (P,)


def level(sd: float, dimension: int) -> int:
    """How many times the lattice is made finer for arguments of sds to `sd`; 0 of other rules."""
    if dimension not in LATTICE_FINEST or not sd * LATTICE_WIDEST > ANALYTIC:
        return 0
    step = max(ANALYTIC / sd, LATTICE_FINEST[dimension])
    return int(np.ceil(np.log(step / LATTICE_WIDEST) / np.log(RATIO)))


@cache
def rule(dimension: int, level: int, pairs: int, seed: int = 0) -> Rule:
    """The lattice of a level, or `pairs` of quasi-random points beyond three dimensions. Of a log
    density of classes: errors of 1e-6 where the level is `level`'s and not the finest."""
    if dimension not in LATTICE_FINEST:
        points = normal_points(dimension, pairs, seed) if dimension else np.zeros((1, 0))
        return points, np.full(len(points), 1.0 / len(points))
    step = LATTICE_WIDEST * RATIO**level
    half = int(LATTICE_REACH / step)
    line = step * np.arange(-half, half + 1)
    points = np.stack(np.meshgrid(*[line] * dimension, indexing="ij"), axis=-1)
    points = points.reshape(-1, dimension)
    square = (points**2).sum(axis=1)
    points, weight = (
        points[square <= LATTICE_REACH**2],
        np.exp(-0.5 * square[square <= LATTICE_REACH**2]),
    )
    return points, weight / weight.sum()
