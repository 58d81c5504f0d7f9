"""L-BFGS that is run a step at a time, in any inner product (Nocedal and Wright 2006, chapter 7).

    d = -H g,   H from the last pairs (s, y), H0 = <s, y> / <y, y>

Vectors are arrays of any shape, and `inner` is their inner product; gradients are those of that
inner product (Riesz representers), so a metric M needs no root: with vectors held as (x, Mx),
inner(u, v) = u[0].v[1] is L-BFGS in the whitened coordinates M^1/2 x. The same steps come of plain
gradients and `precondition`, M^-1, with no product with M:

    H0 = <s, y> / <y, M^-1 y> M^-1

The line search brackets a step that meets the weak Wolfe conditions by bisection (Lewis and Overton
2013), with the approximate ones where f is flat to rounding (Hager and Zhang 2005). It ends where
what the slope promises of the bracket is less than f's noise: no shorter step shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from lgmdsl.arrays import Array

T = TypeVar("T")

# Pairs that a search holds at most: its memory stays linear in the number of coordinates (a 400 x
# 400 covariance has 80,200, and 100 pairs of it are 130 MB).
MOST_PAIRS = 100
# Relative rounding of f, below which differences of f mean nothing.
ROUNDING = 1e-13
# Trials of one line search outside f's domain, after which its longest step that lowers f is taken.
OUTSIDE = 3


@dataclass(frozen=True, eq=False)
class Evaluated(Generic[T]):
    """f at a point, its gradient, and what the caller wants to keep of the evaluation. `noise`: how
    much of the value may be rounding, where that is more than `ROUNDING` of it."""

    value: float
    gradient: Array
    kept: T
    noise: float = 0.0


Function: TypeAlias = Callable[[Array], Evaluated[T] | None]


@dataclass(frozen=True, eq=False)
class Iterate(Generic[T]):
    """A point, what was evaluated there, the pairs (s, y, 1 / <s, y>), steps and evaluations."""

    x: Array
    at: Evaluated[T]
    pairs: tuple[tuple[Array, Array, float], ...] = ()
    steps: int = 0
    evaluations: int = 1


def euclidean(u: Array, v: Array) -> float:
    """The plain inner product of two arrays."""
    return float(np.vdot(u, v))


@dataclass(frozen=True)
class LBFGS:
    """Minimises f. `memory`: pairs held; `sufficient` < `curvature`: the Wolfe constants;
    `first`: the length of the first step in the inner product's norm; `farthest`: the multiple of
    a step beyond which no line search goes, at least 1; `trials`: evaluations of one line search at
    most; `precondition`: M^-1 of the metric that H0 is of, None for M = I."""

    memory: int = 20
    sufficient: float = 1e-4
    curvature: float = 0.9
    first: float = 1.0
    farthest: float = math.inf
    trials: int = 40
    inner: Callable[[Array, Array], float] = field(default=euclidean, repr=False)
    precondition: Callable[[Array], Array] | None = field(default=None, repr=False)

    def start(self, x: Array, evaluated: Evaluated[T]) -> Iterate[T]:
        """The first point, already evaluated."""
        return Iterate(x, evaluated)

    def direction(self, now: Iterate[T]) -> Array:
        """-H g by the two-loop recursion; down the gradient, `first` long, without pairs."""
        q = np.array(now.at.gradient)
        if not now.pairs:
            step = self._conditioned(q)
            norm = math.sqrt(max(self.inner(q, step), 1e-300))
            return -step * min(1.0, self.first / norm)
        return -self.inverse_times(now, q)

    def inverse_times(self, now: Iterate[T], vector: Array) -> Array:
        """H v with the inverse Hessian of the last pairs, of which there must be one."""
        q = np.array(vector)
        shares = []
        for s, y, rho in reversed(now.pairs):
            a = rho * self.inner(s, q)
            q -= a * y
            shares.append(a)
        y, rho = now.pairs[-1][1:]
        q = self._conditioned(q) / (rho * self.inner(y, self._conditioned(y)))
        for (s, y, rho), a in zip(now.pairs, reversed(shares), strict=True):
            q += (a - rho * self.inner(y, q)) * s
        return q

    def _conditioned(self, vector: Array) -> Array:
        return vector if self.precondition is None else self.precondition(vector)

    def step(self, now: Iterate[T], function: Function[T]) -> Iterate[T] | None:
        """The next point; None where no step along the direction, nor along the gradient, lowers f.

        `function` returns None outside f's domain: the search then shortens the step.
        """
        following = self._search(now, function)
        if following is None and now.pairs:
            return self._search(replace(now, pairs=()), function)
        return following

    def _search(self, now: Iterate[T], function: Function[T]) -> Iterate[T] | None:
        d = self.direction(now)
        slope = self.inner(now.at.gradient, d)
        if not slope < 0.0:
            return None
        f0 = now.at.value
        slack = ROUNDING * (1.0 + abs(f0))
        low, high, t, used, outside = 0.0, math.inf, 1.0, 0, 0
        best: tuple[float, Evaluated[T]] | None = None  # the longest step that lowers f
        while used < self.trials:
            used += 1
            x = now.x + t * d
            trial = function(x)
            if trial is None or not math.isfinite(trial.value):
                high, proposed = t, 0.1 * (t - low) + low
                outside += 1
                if best is not None and outside >= OUTSIDE:
                    break  # f falls up to the end of its domain
            else:
                trial_slope = self.inner(trial.gradient, d)
                flat = abs(trial.value - f0) <= slack
                enough = trial.value <= f0 + self.sufficient * t * slope
                close = flat and trial_slope <= (2 * self.sufficient - 1) * slope
                if not (enough or close):
                    high, proposed = t, _minimum(low, t, f0, slope, trial.value)
                elif trial_slope < self.curvature * slope and t < self.farthest:
                    low = t
                    if trial.value < f0:
                        best = (t, trial)
                    proposed = _secant(t, slope, trial_slope)
                else:
                    return self._next(now, t, d, trial, used)
            if math.isinf(high):
                t = min(max(proposed, 1.5 * low), 10.0 * low, self.farthest)
            else:
                width = high - low
                unseen = low == 0.0 and -slope * high <= now.at.noise
                if width <= 1e-15 * high or unseen:
                    break
                t = min(max(proposed, low + 0.1 * width), high - 0.1 * width)
        if best is not None:
            return self._next(now, best[0], d, best[1], used)
        return None

    def _next(
        self, now: Iterate[T], t: float, d: Array, trial: Evaluated[T], used: int
    ) -> Iterate[T]:
        s, y = t * d, trial.gradient - now.at.gradient
        product = self.inner(s, y)
        pairs = now.pairs
        # A pair without curvature would make H indefinite.
        if product > 1e-14 * math.sqrt(max(self.inner(s, s) * self.inner(y, y), 0.0)):
            pairs = (*pairs, (s, y, 1.0 / product))[-self.memory :]
        return Iterate(now.x + s, trial, pairs, now.steps + 1, now.evaluations + used)


def _minimum(low: float, t: float, f0: float, slope: float, value: float) -> float:
    """Where the parabola through f(0), f'(0) and f(t) is least; the middle without a start at 0."""
    curve = value - f0 - slope * t
    return -0.5 * slope * t * t / curve if low == 0.0 and curve > 0.0 else 0.5 * (low + t)


def _secant(t: float, slope: float, trial_slope: float) -> float:
    """Where the line through f'(0) and f'(t) is zero; far where it does not rise."""
    return t * slope / (slope - trial_slope) if trial_slope > slope else math.inf
