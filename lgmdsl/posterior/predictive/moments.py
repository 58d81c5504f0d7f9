"""Means and sds of y where its predictors are Gaussian, by the total variance:

    Var y = E Var(y | s) + Var E(y | s)

Averages of one predictor are taken by rules that each row chooses by itself: Gauss-Hermite rules
where two agree, else trapezoid rules that reach as far as the average has its mass: of e^{2s} this
is two variances from the mean of s, however wide s is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.canonical.model import some_rows
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations.normal_product import averages, product_rule
from lgmdsl.posterior.extended_gaussian import Gaussian

PREDICTORS_PER_PASS = 1 << 18  # predictor entries that are held at once
# To what two rules are to agree: the longer one has about the square of their difference.
ALIKE = 1e-6
FEW = (5, 9)  # nodes of the Gauss-Hermite rules
# Steps of the trapezoid rules in sds of s (a predictor of sd 500 needs the last one under a logit
# link), and their reach, as far as more than EDGE of an average lies there.
STEPS = tuple(0.8 * 0.5**k for k in range(11))
BLOCK, BLOCKS, EDGE = 8.0, 6, 1e-13
# Averages of squares beyond (predictors of sd 11 under a log link) rest on nodes where families cap
# their exponentials at e^340: they are not known.
LARGEST = 1e105
# To what two rules must agree under several predictors: the longer is much better.
SEVERAL = 1e-4

# rows (n,), s (n, p) -> the averaged functions (2, n, p)
Both = Callable[[IntArray, Array], Array]


class ResponseMoments(NamedTuple):
    """Mean and sd of y, (N,) each. `powers`: E[y z^j] and E[y^2 z^j], j = 0, 1, 2, of y less its
    `centre` in `unit`s under s = mean + sd z, (2, 3, N); NaN under several predictors."""

    mean: Array
    sd: Array
    centre: Array
    unit: Array
    powers: Array

    def about(self, mean: Array) -> Array:
        """E[(y - mean)^2 z^j], (3, N)."""
        away = (mean - self.centre) / self.unit
        first, second = self.powers
        none = np.array([1.0, 0.0, 1.0])[:, None]
        return np.asarray(self.unit**2 * (second - 2.0 * away * first + away**2 * none))


def moments_at(site: Site, s: Array) -> tuple[Array, Array]:
    """E[y | s] and Var(y | s) at predictors s, (T, N)."""
    many = site.take(np.tile(np.arange(len(site)), len(s)))
    with np.errstate(all="ignore"):
        mean, variance = many.conditional_mean(s.ravel()), many.conditional_variance(s.ravel())
    return mean.reshape(s.shape), variance.reshape(s.shape)


def response_moments(site: Site, mean: Array, variance: Array) -> ResponseMoments:
    """Moments of y for s ~ N(mean, variance), (N,) each, or (N, K) and (N, K, K); NaN where y has
    no moments, or where no rule averages it."""
    with np.errstate(all="ignore"):
        centre, noise = site.conditional_mean(mean), site.conditional_variance(mean)
        centre = np.where(np.isfinite(centre), centre, 0.0)
        unit = np.where(np.isfinite(noise), np.sqrt(noise), np.abs(centre))
        unit = np.where(unit > 0.0, unit, 1.0)

        def both(rows: IntArray, s: Array) -> Array:
            """y less its centre in units, and its square, expected at s."""
            many = site.take(np.repeat(rows, s.shape[1]))
            flat, of = s.reshape(-1, *s.shape[2:]), np.repeat(rows, s.shape[1])
            first = (many.conditional_mean(flat) - centre[of]) / unit[of]
            second = many.conditional_variance(flat) / unit[of] ** 2 + first**2
            return np.stack([first, second]).reshape(2, *s.shape[:2])

        if mean.ndim > 1:
            (first, second), same = averages(both, mean, variance, tolerance=SEVERAL)
            settled = np.stack([same, same])
            powers = np.full((2, 3, len(mean)), np.nan)
        else:
            powers, settled = _of_one(both, mean, np.sqrt(variance))
            first, second = powers[:, 0]
        sd = unit * np.sqrt(np.maximum(second - first**2, 0.0))
        first = np.where(settled[0], centre + unit * first, np.nan)
        sd = np.where(settled.all(axis=0), sd, np.nan)
        return ResponseMoments(first, sd, centre, unit, powers)


def _of_one(both: Both, mean: Array, sd: Array) -> tuple[Array, BoolArray]:
    """E[both z^j], j = 0, 1, 2, (2, 3, N), s = mean + sd z, and where two rules agree, (2, N)."""
    out, settled = np.full((2, 3, len(mean)), np.nan), np.zeros((2, len(mean)), dtype=np.bool_)
    before = np.full((2, len(mean)), np.nan)
    pending = np.arange(len(mean))
    rules = [
        *(partial(_hermite, nodes=n) for n in FEW),
        *(partial(_trapezoid, step=h) for h in STEPS),
    ]
    costs = [*FEW, *(2.0 * BLOCK / h for h in STEPS)]
    for k, (rule, cost) in enumerate(zip(rules, costs, strict=True)):
        size = max(1, int(PREDICTORS_PER_PASS / cost))
        for start in range(0, len(pending), size):
            rows = pending[start : start + size]
            out[..., rows] = rule(both, rows, mean, sd)
        if k not in (0, len(FEW)):  # the first of its kind
            settled[:, pending] = _alike(before[:, pending], out[:, 0, pending])
            pending = pending[~settled[:, pending].all(axis=0)]
        before[:, pending] = out[:, 0, pending]
        if not len(pending):
            break
    return out, settled


def _hermite(both: Both, rows: IntArray, mean: Array, sd: Array, nodes: int) -> Array:
    points, weight, _ = product_rule(nodes, 1)
    x = np.asarray(points[:, 0])
    values = both(rows, mean[rows, None] + sd[rows, None] * x)
    return _with_powers(np.asarray(values * weight), x)


def _with_powers(parts: Array, x: Array) -> Array:
    """Sums of parts (2, n, P) at nodes x times their powers: (2, 3, n)."""
    return np.swapaxes(parts @ np.stack([np.ones_like(x), x, x**2], axis=1), 1, 2)


def _trapezoid(both: Both, rows: IntArray, mean: Array, sd: Array, step: float) -> Array:
    """The sum over nodes out to BLOCK sds, and on by blocks on either side where there is more."""
    count = round(BLOCK / step)
    total, edges = _summed(both, rows, mean, sd, step, np.arange(-count, count + 1))
    for side, edge in zip((-1, 1), edges, strict=True):
        at = np.flatnonzero(_reaches(edge, total[:, 0]))
        for block in range(1, BLOCKS):
            if not len(at):
                break
            nodes = side * np.arange(block * count + 1, (block + 1) * count + 1)
            more, (_, edge) = _summed(both, rows[at], mean, sd, step, nodes)
            total[..., at] += more
            at = at[_reaches(edge, total[:, 0, at])]
        total[..., at] = np.nan
    return np.where(np.abs(total[:, :1]) <= LARGEST, total, np.nan)


def _reaches(edge: Array, total: Array) -> BoolArray:
    return np.asarray((edge > EDGE * np.abs(total)).any(axis=0))


def _summed(
    both: Both, rows: IntArray, mean: Array, sd: Array, step: float, nodes: IntArray
) -> tuple[Array, tuple[Array, Array]]:
    """The weighted sums over nodes, and what the first and the last of them are of these."""
    x = step * nodes
    values = both(rows, mean[rows, None] + sd[rows, None] * x)
    # Weights alone underflow where values are very large.
    log = np.log(np.abs(values)) - 0.5 * x**2 + np.log(step / np.sqrt(2.0 * np.pi))
    parts = np.sign(values) * np.exp(log)
    return _with_powers(parts, np.asarray(x)), (np.abs(parts[:, :, 0]), np.abs(parts[:, :, -1]))


def _alike(one: Array, other: Array) -> BoolArray:
    """Which averages agree, relative to the sd of y; infinite ones too, and those that are none."""
    size = 1.0 + np.abs(other[1])
    spread = np.where(np.isfinite(size), np.sqrt(size), 1.0 + np.abs(other[0]))
    near = np.abs(one - other) <= ALIKE * np.stack([spread, size])
    return np.asarray(near | (one == other) | (np.isnan(one) & np.isnan(other)))


# ---- event moments -----------------------------------------------------------------------------
# Moments of vector predictors (several for each datum), with their covariances.


# Rows whose joint covariance is formed at once: the blocks on its diagonal are kept.
TOGETHER = 64


def moments(conditioned: Gaussian, predictor: Predictor) -> tuple[Array, Array]:
    """Means and variances of a predictor: (N,) each, or (N, K) and (N, K, K) for K to a datum."""
    if not predictor.event:
        mean, variance = conditioned.project(predictor)
        return mean, np.maximum(variance, 0.0)
    k = predictor.event
    n = predictor.rows // k
    mean, variance = np.empty((n, k)), np.empty((n, k, k))
    step = max(1, TOGETHER // k)
    for start in range(0, n, step):
        count = min(step, n - start)
        rows = np.arange(start * k, (start + count) * k)
        part, joint = conditioned.project(some_rows(predictor, rows), full=True)
        mean[start : start + count] = part.reshape(count, k)
        blocks = joint.reshape(count, k, count, k)
        variance[start : start + count] = blocks[np.arange(count), :, np.arange(count), :]
    return mean, variance
