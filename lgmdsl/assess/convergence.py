"""How fast an iteration converges: the rate of a run, and the spectral radius of its map.

Near its fixed point x* an iteration x <- M(x) has |x_{t+1} - x*| = r |x_t - x*|, r being the
largest eigenvalue of M's derivative there (Qi and Jaakkola 2007, (21) and theorem 4.1).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.backend import Round
from lgmdsl.contract.engine import Failed, Rows
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.stacked import split_like

# Steps that a rate is read from, at least; it is read from the last third of a run.
FEWEST = 6
# Relative step of the central differences, where what moves is of the size of (W, b).
STEP = 1e-5


def observed_rate(distances: Sequence[float]) -> float:
    """exp of the slope of log distance over the last third of a run; nan for runs of fewer than
    `FEWEST` steps, or where distances vanish there."""
    tail = np.asarray(distances[-max(len(distances) // 3, FEWEST) :], dtype=np.float64)
    if len(tail) < FEWEST or not (np.isfinite(tail).all() and (tail > 0.0).all()):
        return float("nan")
    return float(np.exp(np.polyfit(np.arange(len(tail)), np.log(tail), 1)[0]))


def derivative(problem: Problem, turn: Round, weight: Rows, shift: Rows) -> Array | None:
    """(d, d) dM/dx at x = (W, b) by central differences; None where a round fails.

    x is all site weights and shifts, or the shifts alone where a round leaves the weights as they
    are whatever it starts from. Costs 2 d rounds; for scalar sites.
    """
    w, b = np.concatenate(weight), np.concatenate(shift)

    def after(x: Array) -> Array | None:
        result = turn(problem, split_like(x[: len(w)], weight), split_like(x[len(w) :], shift))
        return None if isinstance(result, Failed) else np.concatenate([*result[0], *result[1]])

    x = np.concatenate([w, b])
    scale = STEP * (1.0 + np.abs(x))
    nudged = [after(x + k * scale) for k in (-1.0, 0.0, 1.0)]
    if any(y is None for y in nudged):
        return None
    still = all(np.array_equal(y[: len(w)], w) for y in nudged if y is not None)
    first = len(w) if still else 0
    out = np.empty((len(x) - first, len(x) - first))
    for k in range(first, len(x)):
        away = np.zeros(len(x))
        away[k] = scale[k]
        up, down = after(x + away), after(x - away)
        if up is None or down is None:
            return None
        out[:, k - first] = (up - down)[first:] / (2.0 * scale[k])
    return out


def spectral_radius(problem: Problem, turn: Round, weight: Rows, shift: Rows) -> float:
    """The largest modulus of an eigenvalue of a round's derivative at its fixed point (W, b); nan
    where it cannot be computed."""
    jacobian = derivative(problem, turn, weight, shift)
    if jacobian is None or not np.isfinite(jacobian).all():
        return float("nan")
    return float(np.abs(np.linalg.eigvals(jacobian)).max(initial=0.0))
