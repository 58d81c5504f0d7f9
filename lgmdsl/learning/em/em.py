"""EM for the hyperparameters: the start of a search, or all of it.

E-step: a fit, whose q makes the bound on (or the estimate of) the evidence as good as it gets;
early on, where another search follows, only as good as the steps are long; with topics a few steps
of it, and M-steps that are longer than they say while they climb.
M-step: `complete_data` for what enters the predictors linearly, then `noise` for the noise sds
given that, both at that q (ECM: Meng and Rubin 1993); what is left has no closed form and takes a
step of L-BFGS on evidence + log prior itself (ECME: Liu and Rubin 1994). A step that lowers
evidence + log prior is halved until it does not, for surrogates that are no bounds and sites whose
complete-data objective is not quadratic.

Alone it converges like (1 - share of missing information)^k. `squarem` extrapolates two steps
(Varadhan and Roland 2008, S3), and keeps the second where that is higher.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.contract.status import Status
from lgmdsl.learning.em.closed_steps import ClosedStep, Probabilities, closed_steps
from lgmdsl.learning.em.complete_data import CompleteData
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.learning.search.maximise import GAIN, NOISE, LearningStep
from lgmdsl.learning.search.metric import Metric, joined, metric, together
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, Evaluated, Iterate

ACCELERATIONS = ("l-bfgs", "squarem", "none")
# With L-BFGS to follow, EM ends where a step gains more than this share of what the last one did,
# less than ENOUGH nats, or after FIRST steps.
SLOW, ENOUGH, FIRST = 0.5, 1e-2, 20
# Topics leave documents between two optima now and then: line searches meet the kinks of what is
# maximised over them, steps of EM do not. With topics EM goes on while a step gains WORTH nats.
WORTH, TOPICS = 0.1, 100
# Steps of an E-step with topics until the last: after each, q is somewhere, and the M-step is exact
# for it (Neal and Hinton 1998). Three where twelve led to the tolerance: 267 texts of five topics
# take 9 s, not 15.
PARTIAL = 3
# With topics, by how much each step is longer than the last while they climb: four texts in five
# then take half of the fits.
LONGER = 1.5
HALVINGS = 12
RECENT = 4  # cycles, the slowest of which says what is left: extrapolated ones are uneven
# Of what the last step gained: how far from its optimum an E-step may stay where L-BFGS follows.
SHARE = 0.01
ROUNDING = 1e-12
# Differences of gradients for curvatures that are not known: how many, and how long.
PROBES, DIFFERENCE = 2, 1e-3


@dataclass(frozen=True, eq=False)
class Climbed:
    """Where EM ended, `expected` being the nats that are left by its rate."""

    at: Evaluation
    steps: tuple[LearningStep, ...]
    status: Status
    reason: str = ""


@dataclass
class EM:
    """`complete` is None where nothing enters linearly; `rest`: coordinates without a closed form;
    `acceleration`: l-bfgs (another search follows), squarem or none. `stretch`: by how much every
    step is longer than the last."""

    objective: Objective
    complete: CompleteData | None
    closed: tuple[ClosedStep, ...]
    acceleration: str = "l-bfgs"
    limit: int = 5000
    stretch: float = 1.0
    rest: IntArray = field(init=False)
    _rough: float = field(default=0.0, init=False)
    _partial: bool = field(default=False, init=False)
    _length: float = field(default=1.0, init=False)
    _search: LBFGS = field(default_factory=LBFGS, init=False)
    _pairs: tuple[tuple[Array, Array, float], ...] = field(default=(), init=False)

    def __post_init__(self) -> None:
        coordinates = self.objective.coordinates
        done = np.zeros(coordinates.size, dtype=bool)
        if self.complete is not None:
            done[self.complete.x] = True
        for one in self.closed:
            done[coordinates.slices[one.name]] = True
        self.rest = np.flatnonzero(~done)
        if self.topics and self.acceleration == ACCELERATIONS[0]:
            self._partial, self.stretch = True, max(self.stretch, LONGER)

    @property
    def topics(self) -> bool:
        """Whether words are drawn from topics."""
        return any(isinstance(one, Probabilities) for one in self.closed)

    @classmethod
    def of(cls, objective: Objective, theta: Theta, acceleration: str) -> EM | None:
        """The M-steps that the model has in closed form; None where there is none."""
        canonical, coordinates = objective.planned.canonical, objective.coordinates
        if not canonical.rows.kept:  # the steps are sums over rows
            return None
        linear = linear_hypers(canonical, theta, objective.pinned).names
        complete = CompleteData.of(canonical, coordinates, linear, theta) if linear else None
        closed = closed_steps(canonical, coordinates, theta)
        if complete is None and not closed:
            return None
        return cls(objective, complete, closed, acceleration)

    def run(
        self, first: Evaluation, on_step: Callable[[LearningStep], None] | None = None
    ) -> Climbed:
        """From an evaluated start to where EM is slow, or (without L-BFGS to follow) done."""
        now, steps = first, [LearningStep(0, first.value, math.inf, self.objective.calls)]
        gained, last = math.inf, math.inf
        rates: tuple[float, ...] = ()
        for k in range(1, self.limit + 1):
            try:
                following = self._cycle(now)
                if following is None and self._rough:  # lost in what E-steps leave
                    self._rough, self._partial = 0.0, False
                    now = self.objective.at(now.x, now.posterior) or now
                    following = self._cycle(now)
            except KeyboardInterrupt:
                return Climbed(now, tuple(steps), Status.interrupted, "interrupted")
            if following is None:
                return self._ended(now, steps, "no EM step raises the objective")
            last, gained = gained, following.value - now.value
            if self.acceleration == ACCELERATIONS[0]:  # what follows is exact
                self._rough = SHARE * gained / max(1.0, abs(now.value))
            now = following
            rate = min(max(gained / last, 0.0), 0.9999) if math.isfinite(last) and last > 0 else 0.0
            rates = (*rates, rate)[-RECENT:]
            left = max(gained, 0.0) / (1.0 - max(rates))
            steps.append(LearningStep(k, now.value, left, self.objective.calls))
            if on_step is not None:
                on_step(steps[-1])
            if self.acceleration == ACCELERATIONS[0]:
                if self._enough(k, gained, rate, now):
                    exact = self.objective.at(now.x, now.posterior) if self._rough else now
                    return Climbed(exact or now, tuple(steps), Status.iteration_limit)
            elif k > 2 and left <= GAIN:
                return self._ended(now, steps, "EM steps became short where the slope is not 0")
        return Climbed(now, tuple(steps), Status.iteration_limit, "at its limit")

    def _ended(self, now: Evaluation, steps: list[LearningStep], reason: str) -> Climbed:
        """Converged where the slope is small beside the M-step it asks for, whose gain it tells."""
        if self._promised(now) <= NOISE:
            return Climbed(now, tuple(steps), Status.converged)
        return Climbed(now, tuple(steps), Status.stalled, reason)

    def _promised(self, now: Evaluation) -> float:
        """What another step would gain by its length and the slope."""
        direction = self.direction(now)
        if direction is None:
            return math.inf
        gradient = now.gradient[self.rest]
        begin = Evaluated(-now.value, -gradient, now)
        rest: Iterate[Evaluation] = Iterate(now.x[self.rest], begin, self._pairs)
        along = float(now.gradient @ direction)
        return 0.5 * (along + float(gradient @ self._search.direction(rest)))

    def _enough(self, steps: int, gained: float, rate: float, now: Evaluation) -> bool:
        """Whether L-BFGS is better from here."""
        if self.topics:
            little = self.objective.tolerances.evidence * abs(now.posterior.log_evidence)
            return steps >= TOPICS or gained <= max(WORTH, little)
        return steps >= FIRST or gained <= ENOUGH or (steps > 2 and rate > SLOW)

    def step(self, now: Evaluation) -> Evaluation | None:
        """One M-step and the E-step after it; None where nothing raises evidence + log prior."""
        evaluation = self._stretched(now) if self.stretch > 1.0 else None
        if evaluation is None:
            direction = self.direction(now)
            evaluation = None if direction is None else self._along(now, direction)
        if self.rest.size:
            further = self._rest_step(now if evaluation is None else evaluation)
            evaluation = further or evaluation
        return evaluation

    def _stretched(self, now: Evaluation) -> Evaluation | None:
        """The step that is longer while steps climb; None, and steps are plain, where it does not
        (adaptive overrelaxed bound optimisation: Salakhutdinov and Roweis 2003)."""
        direction = self.direction(now, self._length)
        candidate = None if direction is None else self._at(now.x + direction, now)
        if candidate is None or candidate.value < now.value:
            self._length = 1.0
            return None
        self._length *= self.stretch
        return candidate

    def direction(self, now: Evaluation, stretch: float = 1.0) -> Array | None:
        """(d,) from the coordinates to those that the M-step gives, or `stretch` times as far."""
        x, coordinates = now.x.copy(), self.objective.coordinates
        theta: Theta = now.theta
        if self.complete is not None:
            entries = self.complete.x
            step = self.complete.step(now.posterior, theta, now.gradient[entries])
            if step is None:
                return None
            x[entries] += stretch * step
            theta = coordinates.unpack(x)
        for one in self.closed:
            value = one.step(self.objective.planned.canonical, now, theta, stretch)
            if value is not None:
                x[coordinates.slices[one.name]] = value
        return x - now.x

    def metric(self, now: Evaluation) -> Metric | None:
        """Metric of the curvatures of all M-steps at `now`, for the search that follows; by
        differences of gradients where no curvature is known."""
        slices = self.objective.coordinates.slices
        parts: list[tuple[IntArray, sp.csr_array | Array]] = []
        whole: list[tuple[IntArray, Metric]] = []
        unknown = [self.rest]
        if self.complete is not None:
            seen = self.complete.curvature(now.posterior)
            parts.append((self.complete.x, self.complete.with_prior(seen, now.theta)))
        for one in self.closed:
            own, curvature = slices[one.name], one.curvature(now)
            where = np.arange(own.start, own.stop)
            if curvature is None:
                unknown.append(where)
            elif isinstance(curvature, Metric):
                whole.append((where, curvature))
            else:
                parts.append((where, curvature))
        unknown_entries = np.concatenate(unknown)
        if len(unknown_entries):
            parts.append((unknown_entries, self._diagonal(now, unknown_entries)))
        if not whole:
            return metric(joined(parts))
        if parts:
            entries = np.concatenate([where for where, _ in parts])
            ends = np.cumsum([0, *(len(where) for where, _ in parts)])
            local = [
                (np.arange(a, b), part)
                for a, b, (_, part) in zip(ends[:-1], ends[1:], parts, strict=True)
            ]
            explicit = metric(joined(local))
            if explicit is None:
                return None
            whole.append((entries, explicit))
        return together(whole)

    def _diagonal(self, now: Evaluation, which: IntArray) -> Array:
        """The diagonal of minus the Hessian, roughly: means of v * (Hv) over random signs v
        (Bekas, Kokiopoulou and Saad 2007), and no less than 1 where it is small or negative."""
        rng, total = np.random.default_rng(0), np.zeros(len(which))
        for _ in range(PROBES):
            signs = rng.choice([-1.0, 1.0], len(which))
            x = now.x.copy()
            x[which] += DIFFERENCE * signs
            shifted = self.objective.at(x, now.posterior)
            if shifted is not None:
                total -= signs * (shifted.gradient - now.gradient)[which] / (DIFFERENCE * PROBES)
        return np.maximum(total, 1.0)

    def _cycle(self, now: Evaluation) -> Evaluation | None:
        one = self.step(now)
        if self.acceleration != "squarem" or one is None:
            return one
        two = self.step(one)
        if two is None:
            return one
        first, second = one.x - now.x, two.x - one.x
        bend, unit = second - first, self.objective.coordinates.units(now.x)
        length = _norm(first / unit) / max(_norm(bend / unit), 1e-150)
        if length <= 1.0:
            return two
        x = now.x + 2.0 * length * first + length**2 * bend
        far = self.objective.at(x, two.posterior)
        return far if far is not None and far.value > two.value else two

    def _at(self, x: Array, now: Evaluation) -> Evaluation | None:
        most = PARTIAL if self._partial and self._rough else 0
        return self.objective.at(x, now.posterior, self._rough, most)

    def _along(self, now: Evaluation, direction: Array) -> Evaluation | None:
        slack = ROUNDING * (1.0 + abs(now.value))
        for halving in range(HALVINGS):
            candidate = self._at(now.x + 0.5**halving * direction, now)
            if candidate is not None and candidate.value >= now.value - slack:
                return candidate
        return None

    def _rest_step(self, now: Evaluation) -> Evaluation | None:
        """One step of L-BFGS in the coordinates that have no closed form, the others held."""

        def evaluate(part: Array, known: Evaluation | None = None) -> Evaluated[Evaluation] | None:
            x = now.x.copy()
            x[self.rest] = part
            evaluation = known or self._at(x, now)
            if evaluation is None:
                return None
            gradient = -evaluation.gradient[self.rest]
            return Evaluated(-evaluation.value, gradient, evaluation, evaluation.rounding)

        begin = evaluate(now.x[self.rest], now)
        assert begin is not None
        iterate: Iterate[Evaluation] = Iterate(now.x[self.rest], begin, self._pairs)
        following = self._search.step(iterate, partial(evaluate))
        if following is None:
            return None
        self._pairs = following.pairs
        return following.at.kept


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x))
