"""A method: the variational Gaussian by a damped fixed point (Opper and Archambeau 2009).

At the optimum of the bound the weights are w = -2 df/dv and the shifts b = df/dm + w m, f being the
expected log density of a site. Each step goes part of the way there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lgmdsl.extend import (
    Backend,
    BackendSpec,
    Expected,
    ExpectedAnswer,
    Failed,
    GaussianPosterior,
    Guarantee,
    Problem,
    Rows,
    Status,
    option,
    rows,
)


@dataclass(frozen=True)
class Point:
    """Weights and shifts, the Gaussian that they give, and its bound on the log evidence."""

    weight: Rows
    shift: Rows
    q: Any  # Conditioned, or None in a failed state
    objective: float = -math.inf
    failed: Status | None = None


@dataclass(frozen=True)
class DampedVB(Backend[Point]):
    """(w, b) <- (1 - damping) (w, b) + damping (-2 f_v, f_m + w m)."""

    damping: float = option(0.5, "the share of each step that is taken, above 0 and up to 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="damped-vb",
        needs=Expected,
        guarantee=Guarantee.LOWER,
        paper="Opper and Archambeau 2009",
    )

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> Point:
        if warm is not None:
            return self._at(problem, warm.weight, warm.shift)
        zero = tuple(np.zeros_like(m) for m in problem.engine.prior_mean)
        weight = tuple(z + 0.1 for z in zero)
        shift = tuple(0.1 * m for m in problem.engine.prior_mean)
        return self._at(problem, weight, shift)

    def step(self, problem: Problem, state: Point) -> Point:
        weight, shift = self._wanted(problem, state.q)
        weight = rows.interpolate(state.weight, weight, self.damping)
        shift = rows.interpolate(state.shift, shift, self.damping)
        return self._at(problem, weight, shift)

    def residual(self, problem: Problem, state: Point) -> float:
        """In posterior sds: how far the shifts and weights that are wanted would move a mean."""
        weight, shift = self._wanted(problem, state.q)
        worst = 0.0
        for w, b, w0, b0, m, v in zip(
            weight, shift, state.weight, state.shift, state.q.mean, state.q.variance, strict=True
        ):
            force = (b - b0) - (w - w0) * m
            worst = max(worst, float(np.max(np.abs(force) * v**0.5 + np.abs(w - w0) * v)))
        return worst

    def posterior(self, problem: Problem, state: Point) -> GaussianPosterior:
        return GaussianPosterior(
            state.weight, state.shift, state.q, state.objective, Guarantee.LOWER
        )

    def _answers(self, problem: Problem, q: Any) -> list[ExpectedAnswer]:
        """Of each block of sites, which may answer through a bound."""
        parts = zip(problem.expecting(), q.mean, q.variance, strict=True)
        return [site.expected(m, v) for site, m, v in parts]

    def _wanted(self, problem: Problem, q: Any) -> tuple[Rows, Rows]:
        answers = self._answers(problem, q)
        weight = tuple(-2.0 * a.d_variance for a in answers)
        shift = tuple(a.d_mean + w * m for a, w, m in zip(answers, weight, q.mean, strict=True))
        return weight, shift

    def _at(self, problem: Problem, weight: Rows, shift: Rows) -> Point:
        q = problem.engine.condition(weight, shift)
        if isinstance(q, Failed):
            return Point(weight, shift, None, failed=Status.numerical_error)
        answers = self._answers(problem, q)
        corrections = [
            a.value + 0.5 * w * (m * m + v) - b * m
            for a, w, b, m, v in zip(answers, weight, shift, q.mean, q.variance, strict=True)
        ]
        return Point(weight, shift, q, q.log_normaliser + rows.total(tuple(corrections)))
