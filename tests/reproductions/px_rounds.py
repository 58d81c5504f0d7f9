"""px-vb round by round, until two estimates of the weights differ by little.

Beside it, as printed, the algorithm of Qi and Jaakkola 2007 for probit regression: (9), (10), and
the expansion (13), whose denominator they give as N + M, and as N for a flat prior.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from lgmdsl.arrays import AnyArray, Array
from lgmdsl.contract.problem import Problem
from lgmdsl_backends.px_vb import ParameterExpanded
from tests.compiled import problem_for

PROBIT = """lgm 1
index obs
index feat
data X[obs, feat] : real
data y[obs] : binary
latent w[feat] ~ {prior}
let eta[obs] = X @ w
observe y ~ bernoulli(probit = eta)
"""
FLAT = PROBIT.format(prior="flat()")


def problem_of(text: str, data: dict[str, AnyArray]) -> Problem:
    """What the driver hands to px-vb."""
    return problem_for("px-vb", text, data)


def rounds(problem: Problem, X: Array, expand: bool) -> Iterator[Array]:
    """The estimate of w after each round, without end; X of full column rank, no offsets."""
    backend, back = ParameterExpanded(expand), np.linalg.pinv(X)
    state = backend.start(problem)
    while True:
        assert state.point is not None and state.failed is None, state.reason
        yield back @ state.point.q.mean[0]
        state = backend.step(problem, state)


def as_printed(X: Array, y: Array, count: float | None) -> Iterator[Array]:
    """The same for a flat prior by the paper's formulae: (13) with the denominator `count`, plain
    where there is none."""
    sign, size = 2.0 * y - 1.0, X.shape[1]
    w, solve = np.zeros(size), np.linalg.solve(X.T @ X, X.T)
    while True:
        m = X @ w
        hazard = np.exp(-0.5 * m * m - special.log_ndtr(sign * m)) / np.sqrt(2.0 * np.pi)
        first = m + sign * hazard
        variance = 1.0 - hazard * (sign * m + hazard)
        w = solve @ first
        if count is not None:
            # sum <z^2> - 2 <z> x'<w> + x'<ww'>x, of which tr X Cov(w) X' = M for a flat prior.
            square = variance.sum() + ((first - X @ w) ** 2).sum() + size
            w = w / np.sqrt(square / count)
        yield w


@dataclass(frozen=True)
class Reached:
    """How many rounds until two estimates differ by less than a tolerance, CPU seconds of them, and
    the estimate there."""

    rounds: int
    seconds: float
    w: Array


def until(
    start: Callable[[], Iterator[Array]], tolerances: tuple[float, ...], most: int = 100_000
) -> list[Reached]:
    """The first round at which |w_t - w_{t-1}| is below each of the tolerances, largest first, of
    those that are reached within so many rounds."""
    found: list[Reached] = []
    steps = start()
    before, began = next(steps), time.process_time()
    for k, w in zip(range(2, most + 1), steps, strict=False):
        change = float(np.linalg.norm(w - before))
        while len(found) < len(tolerances) and change < tolerances[len(found)]:
            found.append(Reached(k, time.process_time() - began, w))
        if len(found) == len(tolerances):
            break
        before = w
    return found


def changes(steps: Iterator[Array], size: int) -> tuple[Array, Array]:
    """|w_t - w_{t-1}| from the second round on, (size - 1,), and the estimates, (size, n)."""
    w = np.array([next(steps) for _ in range(size)])
    return np.linalg.norm(np.diff(w, axis=0), axis=1), w
