"""Densities on a line given by their logarithms, any number of them at once.

Composite Gauss-Legendre between where each has fallen by DEPTH below its top, so that a density
that ends abruptly (a prior with bounds) is integrated as well as a smooth one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray

DEPTH = 40.0  # nats
PANELS, POINTS = 24, 12
NODES, WEIGHTS = np.polynomial.legendre.leggauss(POINTS)
SCAN = np.linspace(-40.0, 40.0, 161)  # around the guess, in units of x and in widths
FARTHEST = 700.0  # where exp(x) leaves the doubles
ROUGHLY, HALVINGS = 10, 50  # of where the density ends, and of a quantile


@dataclass(frozen=True, eq=False)
class LogLine:
    """`x` (m, ...) nodes and `weight` (m, ...) their shares, sum 1; `ends` (p + 1, ...) of the
    panels; `log_integral` (...), inf where a density does not fall off."""

    log_density: Callable[[Array], Array]
    x: Array
    weight: Array
    ends: Array
    log_integral: Array

    def mean(self, of: Callable[[Array], Array]) -> Array:
        """E[of(x)], (...)."""
        return np.asarray((self.weight * of(self.x)).sum(axis=0))

    def quantile(self, levels: Array) -> Array:
        """(Q, ...): by bisection of the distribution function in the panel of each level."""
        shape = self.x.shape[1:]
        shares = self.weight.reshape(-1, POINTS, *shape).sum(axis=1)
        below = np.concatenate([np.zeros((1, *shape)), np.cumsum(shares, axis=0)])
        wanted = np.clip(np.asarray(levels).reshape(-1, *(1 for _ in shape)), 0.0, 1.0)
        panel = (below[1:-1][:, None] < wanted).sum(axis=0)
        begin, left = (np.take_along_axis(a, panel, axis=0) for a in (below, self.ends))
        low, high = left, np.take_along_axis(self.ends[1:], panel, axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            short = begin + self._share(left, middle) < wanted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return 0.5 * (low + high)

    def _share(self, left: Array, right: Array) -> Array:
        """The mass between two places within a panel, (Q, ...) each."""
        half = 0.5 * (right - left)
        nodes = 0.5 * (left + right) + half * NODES.reshape(-1, *(1 for _ in left.shape))
        flat = nodes.reshape(-1, *left.shape[1:])
        mass = np.exp(self.log_density(flat) - self.log_integral).reshape(nodes.shape)
        return np.asarray(half * np.tensordot(WEIGHTS, mass, axes=1))


def log_line(
    log_density: Callable[[Array], Array],
    guess: Array,
    width: Array,
    support: tuple[Array | float, Array | float] = (-np.inf, np.inf),
) -> LogLine:
    """The densities exp(log_density(x)), x (m, ...), of `support`; `guess` (...) of their tops and
    `width` (...) of those. The integral is inf where one has not fallen off by FARTHEST."""
    scan = SCAN.reshape(-1, *(1 for _ in guess.shape))
    lower, upper = (np.nextafter(end, 0.0) + np.zeros_like(guess) for end in support)
    places = np.concatenate([guess + width * scan, guess + scan])
    top = _best(log_density, np.clip(places, lower, upper))
    spread = np.minimum(width, 1.0)
    for _ in range(30):  # the scan's step may be wider than a narrow prior
        spread = 0.5 * spread
        top = _best(log_density, np.stack([top, top - spread, top + spread]))
    height = log_density(top[None])[0]
    low, open_low = _end(log_density, top, height, -1.0, width)
    high, open_high = _end(log_density, top, height, 1.0, width)
    low, high = np.maximum(low, lower), np.minimum(high, upper)
    share = np.linspace(0.0, 1.0, PANELS + 1).reshape(-1, *(1 for _ in guess.shape))
    ends = low + (high - low) * share
    half = 0.5 * (ends[1:] - ends[:-1])
    middle = 0.5 * (ends[1:] + ends[:-1])
    tail = (POINTS, *(1 for _ in guess.shape))
    x = middle[:, None] + half[:, None] * NODES.reshape(tail)
    area = half[:, None] * WEIGHTS.reshape(tail)
    x, area = x.reshape(-1, *guess.shape), area.reshape(-1, *guess.shape)
    mass = np.exp(log_density(x) - height) * area
    total = mass.sum(axis=0)
    with np.errstate(all="ignore"):
        log_integral = np.where(open_low | open_high, np.inf, height + np.log(total))
        return LogLine(log_density, x, mass / total, ends, log_integral)


def _best(log_density: Callable[[Array], Array], places: Array) -> Array:
    best = log_density(places).argmax(axis=0)
    return np.asarray(np.take_along_axis(places, best[None], axis=0)[0])


def _end(
    log_density: Callable[[Array], Array], top: Array, height: Array, side: float, width: Array
) -> tuple[Array, BoolArray]:
    """Where the density is DEPTH below its top on one side, and whether it is nowhere so."""

    def high(x: Array) -> BoolArray:
        return np.asarray(log_density(x[None])[0] > height - DEPTH)

    inner, step = top, np.maximum(width, 1e-8)
    outer = top + side * step
    while (still := high(outer) & (np.abs(outer) < FARTHEST)).any():
        inner = np.where(still, outer, inner)
        step = np.where(still, 2.0 * step, step)
        outer = np.where(still, outer + side * step, outer)
    endless = high(outer)
    for _ in range(ROUGHLY):
        middle = 0.5 * (inner + outer)
        up = high(middle)
        inner, outer = np.where(up, middle, inner), np.where(up, outer, middle)
    return outer, endless
