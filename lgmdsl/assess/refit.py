"""Fits without some of the responses by the same method, at the same hyperparameters or others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from lgmdsl.accuracy.errors import beyond, errors_against
from lgmdsl.accuracy.weighed import weighed
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.elsewhere import Elsewhere
from lgmdsl.assess.groups import joined
from lgmdsl.assess.importance.verdict import AGREE
from lgmdsl.assess.loo import Moments, Without
from lgmdsl.assess.mixture import Renew
from lgmdsl.assess.modes.draws import weighted_draws
from lgmdsl.assess.sampling.draws import WORTH, exact_draws
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import Predictor
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.other_starts import run_from_starts
from lgmdsl.inference.plan import Plan

# Rows without which variances are no more than this wider leave posteriors much as they were.
ALIKE = 0.8
OFF = 0.5  # of what is tolerated of a Gaussian
KEPT = 128  # hyperparameter points whose problems are kept: renewed points are many
T = TypeVar("T")


def of_blocks(rows: Sequence[IntArray], observed: Sequence[int], count: int) -> list[IntArray]:
    """Rows of each observed datum as rows of each of so many site blocks: none of the others."""
    known = dict(zip(observed, rows, strict=True))
    return [known.get(k, np.arange(0)) for k in range(count)]


@dataclass(frozen=True, eq=False)
class RefitWithout:
    """Runs the plan of a fit on its model less some rows, from the Gaussian sites of the others.

    `observed`: the positions of the blocks that observe among all site blocks. Called with a
    component and the rows left out of each datum, it gives the moments of their predictors; None
    where the rest determines no posterior. `elsewhere`: workers. `renew`: such a fit that
    integrates over the hyperparameters anew; None where the fit is at one point. `judging`: whether
    Gaussians are held against the posterior that they are of.
    """

    plan: Plan
    observed: Sequence[int]
    tolerances: Tolerances
    max_steps: int | None = None
    seed: int = 0
    elsewhere: Elsewhere | None = None
    renew: Renew | None = None
    judging: bool = False

    def each(self, call: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """`call(self, *those)` of several arguments, the first of which are components; on workers
        where there are any. `call` can be imported."""
        if self.elsewhere is not None and len(arguments) > 1:
            return list(self.elsewhere(call, arguments))
        return [call(self, *each) for each in arguments]

    def __call__(self, component: Component, rows: tuple[IntArray, ...]) -> Moments:
        fitted = self._fitted(component, rows)
        if fitted is None:
            return None
        problem, q = fitted
        predictor = joined(component, rows)
        mean, covariance = q.project(predictor, full=True)
        before, after = component.conditioned.project(predictor)[1], np.diag(covariance)
        doubted = self.judging and bool(np.any(before < ALIKE * after))
        off = doubted and _off(problem, q, predictor, (mean, after), self.seed)
        return Without(mean, covariance, off)

    def draws(
        self, component: Component, rows: tuple[IntArray, ...], count: int
    ) -> tuple[Array, float] | None:
        """`count` exact draws of all latents without these rows, (k, n), and what they are worth:
        of few latents weighted ones from all modes, else by chains around q. None where the rest
        determines no posterior, or the chains do not agree."""
        fitted = self._fitted(component, rows)
        if fitted is None:
            return None
        problem, q = fitted
        if not problem.sites:
            return q.sample(np.random.default_rng(self.seed), count), float(count)
        drawn = weighted_draws(problem, q, count, self.seed)
        if drawn is None or drawn.ess < WORTH * count:
            drawn = exact_draws(problem.sites, problem.engine.linear, q, count, self.seed)
        if drawn is None or not drawn.r_hat <= AGREE:
            return None
        return drawn.z, min(drawn.ess, float(len(drawn.z)))

    def _fitted(
        self, component: Component, rows: tuple[IntArray, ...]
    ) -> tuple[Problem, Conditioned] | None:
        """The problem without these rows, and its posterior by the method."""
        blocks = self.plan.canonical.blocks
        removed = of_blocks(rows, self.observed, len(blocks))
        remaining = [b.remaining(out) for b, out in zip(blocks, removed, strict=True)]
        problem = self.plan.some_rows(self._whole(component.theta), remaining)
        q = component.conditioned
        filled = [k for k, left in enumerate(remaining) if len(left)]
        weight = tuple(q.weight[k][remaining[k]] for k in filled)
        shift = tuple(q.shift[k][remaining[k]] for k in filled)
        start = problem.engine.condition(weight, shift)
        if isinstance(start, Failed):
            return None
        if not filled:  # no site is left: the prior
            return problem, start
        warm = GaussianPosterior(weight, shift, start, -np.inf, self.plan.backend.spec.guarantee)
        run, _ = run_from_starts(self.plan.backend, problem, self.tolerances, self.max_steps, warm)
        if run.posterior is None or run.status in (Status.diverged, Status.numerical_error):
            return None
        return problem, run.posterior.conditioned

    def _whole(self, theta: Theta) -> Problem:
        """The problem of all rows at theta, which its refits share: without some of their rows, the
        model's operators and what an engine makes of them are the same."""
        kept = self._wholes.get(id(theta))
        if kept is None or kept[0] is not theta:
            if len(self._wholes) >= KEPT:
                del self._wholes[next(iter(self._wholes))]
            kept = self._wholes[id(theta)] = theta, self.plan.at(theta)
        return kept[1]

    @cached_property
    def _wholes(self) -> dict[int, tuple[Theta, Problem]]:
        return {}


def _off(
    problem: Problem, q: Conditioned, predictor: Predictor, moments: tuple[Array, Array], seed: int
) -> bool:
    """Whether rows' moments under q are away from the posterior's; False where latents are too many
    to tell."""
    if all(Property.GAUSSIAN in site.spec.properties for site in problem.sites):
        return False
    known = weighed(problem.sites, problem.engine.linear, q, seed)
    if known is None:
        return False
    errors = errors_against(moments, *known.moments(predictor))
    return bool(np.any(beyond(errors) > OFF))
