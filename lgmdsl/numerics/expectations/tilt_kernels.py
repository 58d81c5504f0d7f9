"""The best exponential tilt of a log-sum-exp, row by row, compiled (formulas: `bounds.tilted`).
Imported only where rows are many enough to repay numba.
"""

from __future__ import annotations

import math

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.numerics.compiled import compiled


@compiled
def _terms(
    raised: Array, variance: Array, offered: BoolArray, a: Array, p: Array, rest: Array
) -> float:
    """a'Va / 2 + log sum_k exp((raised - Va)_k) over the classes on offer; the shares of its terms
    into p and what is left of 1 into rest, both to full relative accuracy."""
    size, half, top, first = len(a), 0.0, -math.inf, 0
    for j in range(size):
        pulled = 0.0
        for k in range(size):
            pulled += variance[j, k] * a[k]
        half += 0.5 * a[j] * pulled
        p[j] = raised[j] - pulled
        if offered[j] and p[j] > top:
            top, first = p[j], j
    odds = 0.0
    for j in range(size):
        p[j] = math.exp(p[j] - top) if offered[j] and j != first else 0.0
        odds += p[j]
    for j in range(size):
        p[j] /= 1.0 + odds
        rest[j] = 1.0 - p[j]
    p[first], rest[first] = 1.0 / (1.0 + odds), odds / (1.0 + odds)
    return half + top + math.log1p(odds)


@compiled
def _system(p: Array, rest: Array, variance: Array, bend: Array, system: Array) -> None:
    """diag p - pp' into bend, I + bend V into system."""
    size = len(p)
    for j in range(size):
        for k in range(size):
            bend[j, k] = -p[j] * p[k]
        bend[j, j] = p[j] * rest[j]
    for j in range(size):
        for k in range(size):
            total = 1.0 if j == k else 0.0
            for m in range(size):
                total += bend[j, m] * variance[m, k]
            system[j, k] = total


@compiled
def _solve(system: Array, x: Array) -> None:
    """system^-1 x in place of x, (K, R); system is lost. Partial pivoting."""
    size, width = x.shape
    for j in range(size):
        pivot = j
        for k in range(j + 1, size):
            if abs(system[k, j]) > abs(system[pivot, j]):
                pivot = k
        if pivot != j:
            for k in range(size):
                system[j, k], system[pivot, k] = system[pivot, k], system[j, k]
            for k in range(width):
                x[j, k], x[pivot, k] = x[pivot, k], x[j, k]
        for k in range(j + 1, size):
            share = system[k, j] / system[j, j]
            if share != 0.0:
                for m in range(j + 1, size):
                    system[k, m] -= share * system[j, m]
                for m in range(width):
                    x[k, m] -= share * x[j, m]
    for j in range(size - 1, -1, -1):
        for m in range(width):
            total = x[j, m]
            for k in range(j + 1, size):
                total -= system[j, k] * x[k, m]
            x[j, m] = total / system[j, j]


@compiled
def tilts(
    raised: Array,
    variance: Array,
    offered: BoolArray,
    limits: tuple[int, int, float],
    out: tuple[Array, Array, Array, Array],
) -> None:
    """Tilted bound of each row, at the minimising a: its value, (N,), the shares p, (N, K), diag p
    - pp' and (I + bend V)^-1 bend, (N, K, K) each. Newton's method with halved steps. `limits`:
    the steps, the halvings of each, and the length of one that is none."""
    (value, share, bend, curvature), (steps, cuts, close) = out, limits
    size = raised.shape[1]
    a, p, rest, far = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    step, system = np.empty((size, 1)), np.empty((size, size))
    for i in range(len(raised)):
        top, v, on = raised[i], variance[i], offered[i]
        a[:] = 0.0
        _terms(top, v, on, a, p, rest)
        a[:] = p
        now = _terms(top, v, on, a, p, rest)
        for _ in range(steps):
            moving = False
            for j in range(size):
                moving = moving or abs(p[j] - a[j]) > close
                step[j, 0] = p[j] - a[j]
            if not moving:
                break
            _system(p, rest, v, bend[i], system)
            _solve(system, step)
            fall = 0.0
            for j in range(size):
                for k in range(size):
                    fall += (p[j] - a[j]) * v[j, k] * step[k, 0]
            t, tried = 1.0, now
            for _ in range(cuts):
                for j in range(size):
                    far[j] = a[j] + t * step[j, 0]
                tried = _terms(top, v, on, far, p, rest)
                if not tried > now - 1e-4 * t * fall + 1e-14 * (1.0 + abs(now)):
                    break
                t *= 0.5
            for j in range(size):
                a[j] += t * step[j, 0]
            now = tried
        value[i] = _terms(top, v, on, a, p, rest)
        share[i] = p
        _system(p, rest, v, bend[i], system)
        curvature[i] = bend[i]
        _solve(system, curvature[i])
