"""Fits without some of the responses, at the same hyperparameters, by the same method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.groups import joined
from lgmdsl.assess.importance.verdict import AGREE
from lgmdsl.assess.sampling.draws import exact_draws
from lgmdsl.canonical.model import CanonicalModel
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.inference.other_starts import run_from_starts
from lgmdsl.inference.plan import Plan

DRAWS = 4000


@dataclass(frozen=True, eq=False)
class RefitWithout:
    """Runs the plan of a fit on its model less some rows, from the Gaussian sites of the others.

    `observed`: the positions of the blocks that observe among all site blocks. Called with a
    component and the rows left out of each datum, it gives the joint mean (P,) and covariance
    (P, P) of their predictors; None where the rest determines no posterior.
    """

    plan: Plan
    observed: Sequence[int]
    tolerances: Tolerances
    max_steps: int | None = None
    seed: int = 0

    def __call__(
        self, component: Component, rows: tuple[IntArray, ...]
    ) -> tuple[Array, Array] | None:
        fitted = self._fitted(component, rows)
        if fitted is None:
            return None
        return fitted[1].project(joined(component, rows), full=True)

    def draws(self, component: Component, rows: tuple[IntArray, ...]) -> tuple[Array, float] | None:
        """Exact draws of all latents without these rows, (k, n), and what they are worth; None
        where the rest determines no posterior, or the chains do not agree."""
        fitted = self._fitted(component, rows)
        if fitted is None:
            return None
        problem, q = fitted
        if not problem.sites:
            return q.sample(np.random.default_rng(self.seed), DRAWS), float(DRAWS)
        drawn = exact_draws(problem.sites, problem.engine.linear, q, DRAWS, self.seed)
        if drawn is None or not drawn.r_hat <= AGREE:
            return None
        return drawn.z, min(drawn.ess, float(len(drawn.z)))

    def _fitted(
        self, component: Component, rows: tuple[IntArray, ...]
    ) -> tuple[Problem, Conditioned] | None:
        """The problem without these rows, and its posterior by the method."""
        gone = dict(zip(self.observed, rows, strict=True))
        removed = [gone.get(k, np.arange(0)) for k in range(len(self.plan.canonical.blocks))]
        pairs = list(zip(self.plan.canonical.blocks, removed, strict=True))
        remaining = [np.flatnonzero(~np.isin(b.data.owner, out)) for b, out in pairs]
        blocks = [b.without(out) for b, out in pairs]
        filled = [k for k, b in enumerate(blocks) if len(b.rows)]
        canonical: CanonicalModel = replace(
            self.plan.canonical, blocks=tuple(blocks[k] for k in filled)
        )
        routes = tuple(self.plan.routes[k] for k in filled)
        problem = replace(self.plan, canonical=canonical, routes=routes).at(component.theta)
        q = component.conditioned
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
