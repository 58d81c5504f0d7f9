"""Stochastic variational learning: natural gradients from batches of rows, their variance reduced.

A step passes over the rows in batches (`visits`) and then over all of them at once: bound and
residual are those of natural-gradient, of all rows. A pass that does not raise the bound is halved,
and in the last resort replaced by a step of natural-gradient.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from lgmdsl.contract import rows
from lgmdsl.contract.backend import BackendSpec, check_least, option
from lgmdsl.contract.engine import Failed
from lgmdsl.contract.objectives.elbo import (
    FALLEN,
    LEGIBLE,
    ElboPoint,
    begin,
    blur,
    elbo_at,
    resolved,
)
from lgmdsl.contract.objectives.natural_ascent import NaturalAscent, NaturalState, better
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Expected, ExpectedAnswer
from lgmdsl.contract.status import Guarantee
from lgmdsl.errors import Diagnostic, MethodError, NumericalError
from lgmdsl.vocabulary.notes import Notes
from lgmdsl.vocabulary.signature import also
from lgmdsl_backends.stochastic.batches import Batch, Batches
from lgmdsl_backends.stochastic.visits import Visits

# Shares of a pass that are tried: each costs a pass over all rows.
SHARES = (1.0, 0.5, 0.25)
# Rows of the sample that a fit begins with, for each latent: fewer determine none of them.
SAMPLED = 4


@dataclass(frozen=True)
class StochasticState(NaturalState):
    """A point on the ELBO of all rows; `passes`: over the rows in batches, so far."""

    batches: Batches | None = None
    passes: int = 0


@dataclass(frozen=True)
class StochasticGradient(NaturalAscent):
    """Natural-gradient steps on the ELBO from `minibatch` rows at a time.

    `passes`: over the rows in batches, before the bound of all rows is computed again.
    """

    minibatch: int = option(1000, "rows of a batch, at least 1")
    passes: int = option(1, "over the rows in batches before each evaluation of the whole bound")
    order: int = option(0, "a seed of the batches and of their order, at least 0")
    largest: int = option(2000, "latents at most; more are refused")
    memory: int = option(6, "how many past steps Anderson's candidate combines, at least 1")
    spec: ClassVar[BackendSpec] = BackendSpec(
        name="stochastic",
        needs=Expected,
        additive=True,
        row_by_row=True,
        guarantee=Guarantee.LOWER,
        monotone=True,
        max_steps=100,
        paper="Khan 2012, section 6.4.3; Roux, Schmidt and Bach 2012; Defazio et al. 2014",
        summary="variational Gaussian by natural gradients from batches of rows, variance reduced",
        notes=Notes(
            formula="maximise E_q[log p(y, z)] - E_q[log q(z)] over all Gaussians q = N(m, V): the "
            "(W, b) of a batch's rows move to (-2 f_v, f_m - 2 f_v m), those of others stay, and q "
            "follows batch by batch; then bound and residual of all rows",
            support="every site that natural-gradient takes; at most `largest` latents, which many "
            "rows share",
            advice="the optimum of natural-gradient in fewer passes over many rows; converged is "
            "said of all rows, never of a batch",
            example="lgm fit logit.lgm data.npz --method stochastic --option minibatch=1000",
            see_also=("natural-gradient", "cholesky", "lower"),
            also_called=(*also("GPflow", "SVGP NaturalGradient minibatch"),),
        ),
    )

    def __post_init__(self) -> None:
        check_least("minibatch", self.minibatch, 1)
        check_least("passes", self.passes, 1)
        check_least("order", self.order, 0)
        check_least("largest", self.largest, 0)
        check_least("memory", self.memory, 1)

    def start(self, problem: Problem, warm: GaussianPosterior | None = None) -> NaturalState:
        self._check(problem)
        batches = Batches(problem, self.minibatch, self.order)
        if warm is not None or batches.count == 1:
            return _with(super().start(problem, warm), batches, 0)
        point = _first(problem, batches)
        if point is None:
            return _with(super().start(problem), batches, 1)
        return _with(self._at(problem, point), batches, 1)

    def step(self, problem: Problem, state: NaturalState) -> NaturalState:
        assert isinstance(state, StochasticState) and state.point is not None
        batches, point = state.batches, state.point
        assert batches is not None
        if batches.count == 1:
            return _with(super().step(problem, state), batches, state.passes)
        made = state.passes + self.passes
        try:
            visits = Visits(point.conditioned, point.weight, point.shift, batches)
        except NumericalError:  # its covariance has no root
            return _with(super().step(problem, state), batches, made)
        for number in range(state.passes, made):
            for k in batches.order(number):
                visits.visit(batches.batch(int(k)))
        for share in SHARES:
            weight = rows.interpolate(point.weight, visits.weight, share)
            shift = rows.interpolate(point.shift, visits.shift, share)
            tried = elbo_at(problem, weight, shift)
            if isinstance(tried, ElboPoint) and better(problem, tried, point):
                return _with(self._at(problem, tried), batches, made)
        return _with(super().step(problem, state), batches, made)

    def _check(self, problem: Problem) -> None:
        """Raises MethodError E501 for many latents, and for an engine whose answers are
        estimates."""
        size, engine = problem.engine.linear.size, problem.engine
        if size > self.largest:
            why = f"it has {size} latents, and every batch conditions all of them together"
            help = f"use natural-gradient, or raise the option `largest` (now {self.largest})"
        elif not engine.exact:
            why = f"the {engine.name} engine estimates, and batches change what it would estimate"
            help = "use natural-gradient, or another engine"
        else:
            return
        message = f"method `{self.spec.name}` cannot run this model"
        raise MethodError(Diagnostic("E501", message, details=(why,), help=help))


@dataclass(frozen=True)
class _Scaled(Expected):
    """The answers of a batch's rows, each standing for `factor` rows."""

    batch: Batch
    block: int
    factor: float

    def expected(
        self, mean: np.ndarray, variance: np.ndarray, second: bool = False
    ) -> ExpectedAnswer:
        a = self.batch.asked(self.block, second)(mean, variance)
        more = (a.d_mean_variance, a.d_variance2, a.d_mean2)
        return ExpectedAnswer(
            self.factor * a.value,
            self.factor * a.d_mean,
            self.factor * a.d_variance,
            *(None if x is None else self.factor * x for x in more),
        )


def _first(problem: Problem, batches: Batches) -> ElboPoint | None:
    """After one pass that begins at the q of a sample, whose rows stand for all; None where no
    start can be made of it."""
    order = [int(k) for k in batches.order(0)]
    share = sum(batches.sizes) / batches.count
    few = min(len(order), math.ceil(SAMPLED * problem.engine.linear.size / share) or 1)
    sample = batches.batch(*order[:few])
    factors = [n / max(len(rows), 1) for n, rows in zip(batches.sizes, sample.rows, strict=True)]
    answers = tuple(_Scaled(sample, k, f) for k, f in enumerate(factors))
    begun = begin(Problem(problem.sites, answers, problem.engine.remade(sample.linear)))
    if not isinstance(begun, ElboPoint):
        return None
    weight = tuple(np.zeros((*m.shape, *m.shape[1:])) for m in problem.engine.prior_mean)
    shift = tuple(np.zeros_like(m) for m in problem.engine.prior_mean)
    try:
        visits = Visits(begun.conditioned, weight, shift, batches, sample)
    except NumericalError:
        return None
    visits.visit(sample)
    for k in order[few:]:
        visits.visit(batches.batch(k))
    point = elbo_at(problem, visits.weight, visits.shift)
    if isinstance(point, Failed) or point.elbo < begun.elbo - FALLEN * sum(batches.sizes):
        return None
    return point if resolved(point) or blur(point) < LEGIBLE else None


def _with(state: NaturalState, batches: Batches, passes: int) -> StochasticState:
    known = {f.name: getattr(state, f.name) for f in fields(NaturalState)}
    return StochasticState(**known, batches=batches, passes=passes)
