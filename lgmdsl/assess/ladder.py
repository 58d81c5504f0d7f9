"""The ladder of estimators: an exact posterior by the first one that applies, can be afforded and
whose answer is worth enough. Accuracies, corrections, refits and hyperparameters ask here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from lgmdsl.accuracy.better import Unknown, better
from lgmdsl.accuracy.limits import WORTH
from lgmdsl.assess.estimator import Estimator, ExactDraws, MixturePoint, NotEstimated
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.problem import Problem
from lgmdsl.errors import LgmError
from lgmdsl.inference.plan import Plan


def drawn(
    estimators: Sequence[Estimator],
    points: Callable[[], Iterable[MixturePoint]],
    shares: Sequence[float],
    count: int,
    budget: float = math.inf,
    least: float = 0.0,
) -> ExactDraws | None:
    """Draws of a mixture by the first estimator that applies to it and whose draws agree, are worth
    `least` and enough of their number; else the best of all. None where none are to be had."""
    known: ExactDraws | None = None
    first = next(iter(points()))
    for estimator in estimators:
        if known is not None and known.agree and known.ess >= max(WORTH * len(known.z), least):
            break
        if not estimator.applies(first):
            continue
        try:
            found = estimator.draws(points(), shares, count, budget)
        except (NotEstimated, np.linalg.LinAlgError):
            continue
        if found is not None:
            better_one = known is None or (found.agree, found.ess) > (known.agree, known.ess)
            known = found if better_one else known
    return known


class Gap:
    """Exact, or corrected, less reported log evidence of a model at hyperparameters: by the first
    of some estimators that applies and has one; by second order of the plan's own Gaussians where
    `planned` is given, `near` being the variational one at hyperparameters close by."""

    def __init__(
        self,
        estimators: Sequence[Estimator],
        planned: Plan | None = None,
        seed: int = 0,
        near: Conditioned | None = None,
    ) -> None:
        self.estimators, self.planned, self.seed = estimators, planned, seed
        self.near = near

    def cost(self, problem: Problem, q: Conditioned) -> float:
        """Operations at a point, about; infinite where no estimator applies."""
        point = MixturePoint.of(problem, q)
        return min((e.cost(point) for e in self.estimators if e.applies(point)), default=math.inf)

    def __call__(self, problem: Problem, theta: Theta, q: Conditioned, reported: float) -> float:
        """NaN where it is not known."""
        point = MixturePoint.of(problem, q)
        for estimator in self.estimators:
            if estimator.applies(point):
                try:
                    exact = estimator.log_evidence(point)
                except (NotEstimated, LgmError, np.linalg.LinAlgError):
                    continue
                if math.isfinite(exact):
                    return exact - reported
        if self.planned is None:
            return math.nan
        try:
            known = better(
                self.planned, theta, q, reported, self.seed, evidence_alone=True, near=self.near
            )
        except (Unknown, LgmError, np.linalg.LinAlgError):
            return math.nan
        return 0.0 if known is None else known.log_evidence - reported
