"""Mean field over hyperparameters: q(z, h) = q(z) prod_j q(h_j), each the best for the others.

A fit at the values of h whose precisions are expected (`Factor.effective`) is that of q(z), and its
bound with `Factor.correction` added is the bound of all factors, hyperpriors included:

    log p(y) >= E_q[log p(y, z, h)] + entropy.

Back ends whose steps are coordinate ascent take few steps between updates of the factors (Bishop
and Tipping 2000; Qi and Jaakkola 2007, section 3.2), others run to their tolerance.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property
from lgmdsl.contract.status import Guarantee, Status
from lgmdsl.errors import Diagnostic, NumericalError
from lgmdsl.inference.driver import Run, TraceEntry, run
from lgmdsl.inference.plan import Plan
from lgmdsl.inference.settings import FitSettings
from lgmdsl.inference.stages import Ran
from lgmdsl.learning.integration.visited import Fitted
from lgmdsl.learning.mean_field.factors import (
    CONDITIONALLY_GAUSSIAN,
    ScaleFactor,
    ScaleFactors,
    effective,
)
from lgmdsl.learning.mean_field.marginals import FactorMarginals
from lgmdsl.learning.search.learning_record import Learning
from lgmdsl.learning.search.maximise import LearningStep
from lgmdsl.remedies import pin

LIMIT = 5000  # rounds
# Of coordinate ascent the first round takes one step and each further one twice as many, up to so
# many: what is slow is seldom the factors.
MOST = 32
FACTORS = "factors"  # the stage of a trace where those of the hypers were renewed
ROUNDING = 1e-9  # of the bound: what a round that gains nothing may seem to lose


@dataclass(frozen=True, eq=False)
class MeanField:
    """`hypers`: factors over them; `theta`: their effective values, `problem` and `run` the fit
    there; `bound`: the variational bound of log p(y). `calls` counts the fits, `iterations` their
    steps."""

    hypers: FactorMarginals
    theta: Theta
    problem: Problem
    run: Run
    bound: float
    status: Status
    steps: tuple[LearningStep, ...]
    calls: int
    iterations: int
    reason: str = ""

    @property
    def posterior(self) -> GaussianPosterior:
        assert self.run.posterior is not None
        return self.run.posterior

    @property
    def factors(self) -> Mapping[str, ScaleFactor]:
        return self.hypers.factors

    @property
    def of_fit_alone(self) -> bool:
        """The status is that of all rounds."""
        return False

    @property
    def stages(self) -> tuple[Ran, ...]:
        """All rounds are one search."""
        return ()

    @property
    def checkpoint(self) -> None:
        """Rounds go on from the posterior itself."""

    def evidence(self, log_evidence: float, guarantee: Guarantee) -> tuple[float, Guarantee]:
        """The bound of all factors, and what it promises by what the fit's promises."""
        weak = guarantee is Guarantee.APPROXIMATE
        return self.bound, guarantee if weak else Guarantee.LOWER

    @property
    def points(self) -> tuple[tuple[Fitted, float], ...]:
        """There is one q(z)."""
        return ()

    def marginals(self) -> FactorMarginals:
        """The posterior of the hyperparameters."""
        return self.hypers

    def record(self) -> Learning:
        """How it was found."""
        return Learning(self.steps, self.calls, self.iterations, "", 1)


def mean_field(
    planned: Plan,
    settings: FitSettings,
    problem: Problem,
    warm: GaussianPosterior | None = None,
    on_step: Callable[[LearningStep], None] | None = None,
    begin: Theta | None = None,
    limit: int | None = None,
) -> MeanField:
    """Rounds of q(z) and of the factors, until what is left to gain is below the tolerance and the
    fit itself has converged.

    What is left follows from the last two gains, which fall like a geometric series. The settings'
    limit of steps is that of all rounds together where steps are coordinate ascent, else of each
    fit; `limit`: of rounds; `begin`: hypers at which the first fit is made, by name, else in the
    middle of their priors; `problem`: the plan there.
    Raises MethodError E501 (`Factors.of`), NumericalError E601 for an improper factor, and where
    there is no fit at all.
    """
    pinned = settings.fixed
    rounds = Rounds(planned, settings, ScaleFactors.of(planned, pinned), problem)
    theta: Theta = planned.canonical.hypers.start(pinned, begin)
    fit = rounds.fit(warm, 0, None)
    factors = rounds.factors.at(_posterior(fit, planned), theta)
    state: MeanField | None = None
    steps: list[LearningStep] = []
    gain, status, reason = math.inf, Status.iteration_limit, ""
    for k in range(limit or LIMIT):
        theta = effective(planned.canonical, factors, pinned)
        rounds.plan(theta)
        following = rounds.fit(fit.posterior, k, factors)
        if following.status is Status.interrupted:
            status, reason = Status.interrupted, "interrupted"
            break
        bound = _posterior(following, planned).log_evidence
        bound += sum(f.correction for f in factors.values())
        size = max(1.0, abs(bound))
        before, gain = gain, math.inf if state is None else bound - state.bound
        if not bound - (bound if state is None else state.bound) >= -ROUNDING * size:
            status, reason = Status.stalled, "the bound fell"
            break
        fit = following
        steps.append(LearningStep(k, bound, _left(gain, before), k + 2))
        if on_step is not None:
            on_step(steps[-1])
        hypers = FactorMarginals(planned.canonical.hypers, pinned, factors)
        state = MeanField(
            hypers, theta, rounds.problem, fit, bound, status, (), k + 2, rounds.taken
        )
        done = fit.status is Status.converged
        if done and steps[-1].gain <= settings.tolerances.evidence * size:
            status = Status.converged
            break
        if rounds.taken >= rounds.most:
            break
        factors = rounds.factors.at(_posterior(fit, planned), theta)
    if state is None:
        raise NumericalError(_no_fit(planned.method, reason))
    whole = replace(
        state.run,
        steps=rounds.taken,
        trace=tuple(rounds.trace),
        posterior=replace(state.posterior, notes=_notes(state.posterior, rounds)),
    )
    return replace(state, run=whole, status=status, steps=tuple(steps), reason=reason)


def _notes(posterior: GaussianPosterior, rounds: Rounds) -> tuple[str, ...]:
    """The last fit's first note, and how many steps of all fits were of which stage."""
    tally = ", ".join(f"{count} {stage}" for stage, count in sorted(rounds.stages.items()))
    stages = (f"of {rounds.taken} steps {tally}",) if tally else ()
    return (*posterior.notes[:1], *stages)


@dataclass
class Rounds:
    """Fits at values of the hypers, each from the one before; `taken` counts their steps.

    `trace` is one run through all rounds that have factors: its objective is the bound of all
    factors, those of the hypers as they were in that round, its clock goes on, and where a round
    begins an entry of stage `factors` says what new factors have brought. (The first fit, at the
    values that the search begins with, is of another objective.)"""

    planned: Plan
    settings: FitSettings
    factors: ScaleFactors
    problem: Problem  # of the last fit, or of the first one before it is made
    taken: int = 0
    trace: list[TraceEntry] = field(default_factory=list)
    stages: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.perf_counter)

    @property
    def ascent(self) -> bool:
        """Whether each step of the back end is coordinate ascent."""
        return self.planned.backend.spec.needs in CONDITIONALLY_GAUSSIAN

    @property
    def most(self) -> float:
        """How many steps all rounds may take together."""
        if not self.ascent:
            return math.inf
        limit = self.settings.max_steps
        return self.planned.backend.spec.max_steps if limit is None else limit

    def plan(self, theta: Theta) -> None:
        """The next problem; factors of sites alone leave the engine as it is."""
        engine = self.problem.engine if self.factors.sites_alone else None
        self.problem = self.planned.at(theta, engine, self.settings.seed)

    @np.errstate(all="ignore")  # the driver watches for what is not finite
    def fit(
        self,
        warm: GaussianPosterior | None,
        number: int,
        factors: Mapping[str, ScaleFactor] | None,
    ) -> Run:
        """q(z) of the problem, at the effective values of the factors `held`: to convergence, or
        for the steps of that round."""
        clock = time.perf_counter() - self.began
        steps = min(2.0 ** min(number, 60), MOST, self.most - self.taken)
        problem = self.problem
        begin = None if warm is None else _refreshed(problem, warm)
        limit = max(int(steps), 0) if self.ascent else self.settings.max_steps
        result = run(self.planned.backend, problem, self.settings.tolerances, limit, begin)
        self.stages.update(e.stage for e in result.trace if e.stage)
        if factors is not None:
            more = sum(f.correction for f in factors.values())
            for k, e in enumerate(result.trace):
                stage = e.stage if k or not self.trace else FACTORS
                step, seconds = e.step + self.taken, e.seconds + clock
                value = e.objective + more
                self.trace.append(TraceEntry(step, value, e.residual, seconds, stage))
        self.taken += result.steps
        return result


def _left(gain: float, before: float) -> float:
    """The sum of all further gains where each is the same share of the one before."""
    if not math.isfinite(gain):
        return math.inf
    share = gain / before if math.isfinite(before) and before > 0.0 else 0.9
    share = min(max(share, 0.0), 0.9999)
    return max(gain, 0.0) * share / (1.0 - share)


def _refreshed(problem: Problem, earlier: GaussianPosterior) -> GaussianPosterior:
    """The earlier sites, those that are Gaussian as they now stand: q at these is the best for the
    auxiliaries of all others, so that a round cannot lower the bound."""
    weight, shift = list(earlier.weight), list(earlier.shift)
    for k, site in enumerate(problem.sites):
        if Property.GAUSSIAN in site.spec.properties and isinstance(site, Pointwise):
            answer = site.pointwise(np.zeros_like(shift[k]))
            weight[k], shift[k] = -answer.curvature, answer.slope
    return replace(earlier, weight=tuple(weight), shift=tuple(shift))


def _posterior(fit: Run, planned: Plan) -> GaussianPosterior:
    if fit.posterior is None:
        raise NumericalError(_no_fit(planned.method, fit.reason or fit.status.value))
    return fit.posterior


def _no_fit(method: str, reason: str) -> Diagnostic:
    return Diagnostic(
        "E601",
        f"method `{method}` found no usable state for factors over the hyperparameters",
        details=(reason,),
        help=f"pin the hyperparameters ({pin('NAME')}) to see where it can start",
    )
