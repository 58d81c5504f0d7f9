"""The mean-field bound of q(z) q(auxiliaries), and one round of plain variational Bayes.

With q(auxiliaries) at its best for a q(z) of weights W and shifts b, moments m and v,

    bound = log_normaliser(W, b) + sum 1/2 (W - precision)(m^2 + v) - (b - shift) m + correction,

precision, shift and correction being the sites' answers at (m, v). With q(z) at its best for those
auxiliaries it is log_normaliser(precision, shift) + sum correction, which lies between two such.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Augmented, AugmentedAnswer
from lgmdsl.contract.status import Guarantee


@dataclass(frozen=True, eq=False)
class Gaussian:
    """q(z) by its shifts, and by a conditioning on its weights whose shifts may be others: what
    depends on the weights alone, the factor and the variances, is computed once."""

    family: Conditioned
    variance: Rows
    shift: Rows
    mean: Rows
    log_normaliser: float

    @property
    def weight(self) -> Rows:
        return self.family.weight

    @property
    def alpha(self) -> Rows:
        """b - W m."""
        return rows.slope_of(self.shift, self.weight, self.mean)

    def shifted(self, shift: Rows) -> Gaussian | Failed:
        """The Gaussian at these weights with other shifts."""
        q = self.family.with_shift(shift)
        if isinstance(q, Failed):
            return q
        return Gaussian(self.family, self.variance, shift, q.mean, q.log_normaliser)

    def conditioned(self) -> Conditioned:
        """q(z) as the engine has it."""
        q = self.family.with_shift(self.shift)
        return self.family if isinstance(q, Failed) else q


def conditioned_on(problem: Problem, weight: Rows, shift: Rows) -> Gaussian | Failed:
    """q(z) for these site weights and shifts."""
    q = problem.engine.condition(weight, shift)
    return q if isinstance(q, Failed) else Gaussian(q, q.variance, shift, q.mean, q.log_normaliser)


@dataclass(frozen=True, eq=False)
class Point:
    """q(z), the best auxiliaries for it, and the bound there."""

    q: Gaussian
    answers: tuple[AugmentedAnswer, ...]
    bound: float

    @property
    def precision(self) -> Rows:
        return tuple(a.precision for a in self.answers)

    @property
    def shift(self) -> Rows:
        return tuple(a.shift for a in self.answers)

    def posterior(self, problem: Problem, notes: tuple[str, ...]) -> GaussianPosterior:
        """What a back end hands back of this point."""
        q = self.q
        sites = tuple(zip(augmented(problem), q.mean, q.variance, strict=True))
        return GaussianPosterior(
            weight=q.weight,
            shift=q.shift,
            conditioned=q.conditioned(),
            log_evidence=self.bound,
            guarantee=Guarantee.EXACT if problem.gaussian else Guarantee.LOWER,
            notes=notes,
            slopes=lambda: tuple(site.weight_slopes(m, v) for site, m, v in sites),
        )


def augmented(problem: Problem) -> tuple[Augmented, ...]:
    """The answers as Augmented (a back end that needs them declared it)."""
    return cast("tuple[Augmented, ...]", problem.answers)


def answers_at(problem: Problem, mean: Rows, variance: Rows) -> tuple[AugmentedAnswer, ...]:
    """The auxiliaries at their best for these moments of the predictors."""
    sites = zip(augmented(problem), mean, variance, strict=True)
    return tuple(site.weights(m, v) for site, m, v in sites)


def at(problem: Problem, q: Gaussian) -> Point:
    """The auxiliaries at their best for q(z), and the bound."""
    answers = answers_at(problem, q.mean, q.variance)
    parts = zip(answers, q.weight, q.shift, q.mean, q.variance, strict=True)
    gain = tuple(
        0.5 * (w - a.precision) * (m * m + v) - (b - a.shift) * m + a.correction
        for a, w, b, m, v in parts
    )
    return Point(q, answers, q.log_normaliser + rows.total(gain))


def update(problem: Problem, point: Point) -> Gaussian | Failed:
    """q(z) at its best for the point's auxiliaries; no factorisation where the weights stand."""
    q = point.q
    if all(np.array_equal(w, p) for w, p in zip(q.weight, point.precision, strict=True)):
        return q.shifted(point.shift)
    return conditioned_on(problem, point.precision, point.shift)


def bound_after(point: Point, q: Gaussian) -> float:
    """The bound of the point's auxiliaries with the q(z) that `update` found for them."""
    return q.log_normaliser + rows.total(tuple(a.correction for a in point.answers))
