"""The graphical lasso: a sparse precision matrix from a scatter matrix.

    maximise log|P| - tr(TP) - penalty sum_ij |P_ij|        over P positive definite

QUIC (Hsieh, Sustik, Dhillon and Ravikumar 2014, algorithm 1): Newton directions by coordinate
descent over the entries that are not 0, or whose slope exceeds the penalty; steps are halved until
the objective rises. Every iterate is positive definite and no lower than the one before, and an
entry that coordinate descent puts to 0 is 0 exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np

from lgmdsl.arrays import Array, IntArray

NEWTON, SWEEPS, HALVINGS = 100, 30, 40
SUFFICIENT = 1e-3  # of the expected gain, for a step to count
COMPILED = 16  # rows from which sweeps are worth compiling, for an EM of some forty steps


class Sparse(NamedTuple):
    """P, (k, k) symmetric with exact zeros; the objective there; the largest entry of the
    smallest subgradient, 0 at the maximum."""

    precision: Array
    objective: float
    residual: float


def graphical_lasso(
    scatter: Array, penalty: float, start: Array, tolerance: float = 1e-10
) -> Sparse | None:
    """See the module; `scatter`, `start` (k, k) symmetric, `penalty` > 0 on every entry, the
    diagonal's too. Ends where the residual is below `tolerance` times the largest entry of T, or
    rounding hides what is left. None where `start` is not positive definite.
    """
    p = np.array(start, dtype=np.float64)
    value = _objective(p, scatter, penalty)
    if value is None:
        return None
    scale = max(float(np.abs(scatter).max(initial=0.0)), penalty)
    for k in range(NEWTON):
        w = np.linalg.inv(p)
        w = 0.5 * (w + w.T)
        slope = scatter - w
        residual = _residual(p, slope, penalty)
        if residual <= tolerance * scale:
            break
        rows, columns = np.nonzero(np.triu((p != 0.0) | (np.abs(slope) > penalty)))
        target = _sweeps(len(p))(p, w, slope, penalty, rows, columns, min(SWEEPS, 3 + k), 1e-12)
        step = _line(p, target, scatter, penalty, slope, value)
        if step is None:
            break
        p, value = step
    return Sparse(p, value, _residual(p, scatter - np.linalg.inv(p), penalty))


def _line(
    p: Array, target: Array, scatter: Array, penalty: float, slope: Array, value: float
) -> tuple[Array, float] | None:
    """The longest of the steps 1, 1/2, ... to `target` that raises the objective enough."""
    d = target - p
    gain = -float((slope * d).sum()) - penalty * float(np.abs(target).sum() - np.abs(p).sum())
    if not gain > 1e-15 * (1.0 + abs(value)):
        return None
    for halving in range(HALVINGS):
        share = 0.5**halving
        trial = target if halving == 0 else p + share * d
        reached = _objective(trial, scatter, penalty)
        if reached is not None and reached >= value + SUFFICIENT * share * gain:
            return trial, reached
    return None


def _objective(p: Array, scatter: Array, penalty: float) -> float | None:
    """None where P is not positive definite."""
    try:
        root = np.linalg.cholesky(p)
    except np.linalg.LinAlgError:
        return None
    log_det = 2.0 * float(np.log(np.diagonal(root)).sum())
    value = log_det - float((scatter * p).sum()) - penalty * float(np.abs(p).sum())
    return value if np.isfinite(value) else None


def _residual(p: Array, slope: Array, penalty: float) -> float:
    inside = np.maximum(np.abs(slope) - penalty, 0.0)
    return float(np.where(p == 0.0, inside, np.abs(slope + penalty * np.sign(p))).max())


def descent(
    p: Array,
    w: Array,
    slope: Array,
    penalty: float,
    rows: IntArray,
    columns: IntArray,
    sweeps: int,
    least: float,
) -> Array:
    """P + D, D the minimum of the quadratic model plus penalty, over the entries (rows, columns)
    of the upper triangle: equations 8 and 9 of the paper, on P + D so that zeros are exact."""
    target = p.copy()
    u = np.zeros_like(p)  # DW, by columns
    for _ in range(sweeps):
        change, whole = 0.0, 0.0
        for e in range(len(rows)):
            i, j = rows[e], columns[e]
            b = slope[i, j] + np.dot(w[i], u[j])
            a = w[i, i] * w[i, i] if i == j else w[i, j] * w[i, j] + w[i, i] * w[j, j]
            now = target[i, j]
            to = now - b / a
            shrunk = abs(to) - penalty / a
            after = 0.0
            if shrunk > 0.0:
                after = shrunk if to > 0.0 else -shrunk
            step = after - now
            if step != 0.0:
                target[i, j] = after
                target[j, i] = after
                u[:, i] += step * w[j]
                if i != j:
                    u[:, j] += step * w[i]
            change += abs(step)
            whole += abs(after)
        if change <= least * whole:
            break
    return target


_Sweeps = Callable[[Array, Array, Array, float, IntArray, IntArray, int, float], Array]


def _sweeps(size: int) -> _Sweeps:
    return _compiled() if size >= COMPILED else descent


@cache
def _compiled() -> _Sweeps:
    from lgmdsl.numerics.compiled import compiled

    return compiled(descent)
