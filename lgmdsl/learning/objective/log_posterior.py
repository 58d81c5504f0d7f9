"""The log posterior of the hyperparameters: evidence + log prior, with its gradient.

    value(x) = log p(y | theta(x)) + log p(theta(x))         what `map` maximises
    density(x) = value(x) + log |dtheta/dx|                  what `integrate` integrates

x are unconstrained coordinates (log, logit, ...). The density of theta lives on its natural scale,
so the Jacobian enters only where x is integrated over (`priors/README.md`).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from typing import Any, TypeAlias, TypeVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.expressions.coefficient import Gradient, Theta
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.status import Status
from lgmdsl.errors import LgmError, MethodError, TooLong
from lgmdsl.inference.driver import Run, Tolerances, run
from lgmdsl.inference.plan import Plan
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.objective.blend import Blend, blended
from lgmdsl.learning.objective.elsewhere import Base, Kept, ObjectiveTerms, WorkersOfFits
from lgmdsl.learning.objective.gradient import evidence_gradient
from lgmdsl.workers.sources import PlanParts, Source

T = TypeVar("T")
Rough: TypeAlias = float | Callable[[Array], float]  # of all places, or of each
WORTH_A_THREAD = 0.05  # seconds of a fit
# How far from the start (a factor of 1e10 of a scale) fits are made.
OUT = 23.0
# Nats of the evidence that may be rounding, and the multiple of what the start has (data far from 0
# in units of their noise): beyond, as where a noise sd goes to 0, there is no fit.
ROUGHEST, WORSE = 0.1, 10.0
FINER = 1e-2  # of tolerances, where fits are too rough to climb on


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One fit at theta. `gradient`: (d,) of `value` in x; `slopes`: of the evidence alone, in the
    free hypers on natural scales; `jacobian_gradient`: (d,) of `jacobian`, log |dtheta/dx|;
    `rounding`: nats that the evidence may be wrong by, for the digits it has."""

    x: Array
    theta: Theta
    problem: Problem
    run: Run
    log_prior: float
    rounding: float
    slopes: Gradient
    gradient: Array
    jacobian: float
    jacobian_gradient: Array

    @property
    def posterior(self) -> GaussianPosterior:
        assert self.run.posterior is not None
        return self.run.posterior

    @property
    def chance(self) -> float:
        """Standard error of the evidence, in nats, where the engine estimates it; else 0."""
        errors = self.posterior.conditioned.errors
        return 0.0 if errors is None else errors.log_normaliser

    @property
    def value(self) -> float:
        return self.posterior.log_evidence + self.log_prior

    @property
    def density(self) -> float:
        return self.value + self.jacobian

    @property
    def density_gradient(self) -> Array:
        return self.gradient + self.jacobian_gradient


@dataclass
class Objective:
    """Fits a plan's model at hyperparameters. `begin`: where a search starts, by name, of the
    hypers that do not start in the middle of their priors. `workers`: threads of `many` (None: one
    a core, or one in all where fits are so short that threads would wait for the interpreter's
    lock). `elsewhere`: workers that make the fits of `many`, where there are any. `on_point`: how
    many of the points that are fitted together are done, and of how many. `scales`: (d,) the units
    of reals. `calls` counts the fits, `steps` their iterations; `seconds` is the time of all.
    `refused`: what the method said last of a place that it does not take."""

    planned: Plan
    coordinates: Coordinates
    pinned: Mapping[str, object]
    tolerances: Tolerances
    max_steps: int | None = None
    seed: int = 0
    workers: int | None = None
    begin: Theta = field(default_factory=dict)
    on_point: Callable[[int, int], None] | None = None
    elsewhere: WorkersOfFits | None = None
    origin: Array = field(init=False)
    spanned: tuple[Array, Array] = field(init=False)
    calls: int = field(default=0, init=False)
    steps: int = field(default=0, init=False)
    roughest: float | None = field(default=None, init=False)
    seconds: float = field(default=0.0, init=False)
    refined: bool = field(default=False, init=False)
    refused: MethodError | None = field(default=None, init=False)
    scales: Array = field(init=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        space = self.planned.canonical.hypers
        self.origin = self.coordinates.pack(space.start(self.pinned))
        self.spanned = (self.origin, self.origin)
        self.scales = np.ones(self.coordinates.size)

    @property
    def longest_fit(self) -> int:
        """The most steps of a fit."""
        return self.max_steps or self.planned.backend.spec.max_steps

    def units(self, x: Array) -> Array:
        """(d,) what a search takes for a step of 1 in each coordinate at x (d,): that of the
        coordinates, times `scales`."""
        return self.coordinates.units(x) * self.scales

    def centre(self, x: Array, which: BoolArray) -> None:
        """x, (d,), where the data are, is the origin from now on, in the coordinates `which`."""
        self.origin = np.where(which, x, self.origin)
        self.span(x)

    def span(self, x: Array) -> None:
        """Let searches start at x, (d,), too: distances are from what lies between all starts."""
        low, high = self.spanned
        self.spanned = (np.minimum(low, x), np.maximum(high, x))

    def refine(self) -> bool:
        """Fit by tighter tolerances from now on; False where they were tightened before."""
        if self.refined:
            return False
        self.refined, own = True, self.tolerances
        self.tolerances = Tolerances(FINER * own.evidence, FINER * own.mean)
        return True

    def at(
        self, x: Array, warm: GaussianPosterior | None = None, rough: float = 0.0, most: int = 0
    ) -> Evaluation | None:
        """Evidence, prior and gradients at x, (d,); None where there is no fit: the prior or the
        posterior does not factorise there, or numbers overflow. Raises
        TooLong where that is so of the first. `rough`: a relative tolerance of
        the evidence that does, where it is above the objective's own; `most`: steps of the
        fit, where fewer than the objective's own are wanted."""
        found = self._apart(x, warm, rough, most)
        if found is not None:
            self.planned.canonical.rows.reached(found.theta, found.posterior, found.value)
        return found

    def _apart(
        self, x: Array, warm: GaussianPosterior | None, rough: float, most: int = 0
    ) -> Evaluation | None:
        """`at`, of a fit that others may be made next to: the model is not informed."""
        return None if self.beyond(x, OUT) else self.inside(x, warm, rough, most)

    def inside(
        self, x: Array, warm: GaussianPosterior | None = None, rough: float = 0.0, most: int = 0
    ) -> Evaluation | None:
        """`at`, of an x that is not too far out."""
        began = time.thread_time()  # not what other processes take
        with np.errstate(all="ignore"):  # what is not finite is None
            try:
                return self._at(np.array(x), warm, rough, most)
            except TooLong:
                if not self.calls:  # where the search begins: so would all that follow
                    raise
                return None
            except MethodError as refused:
                self.refused = refused
                return None
            except (LgmError, np.linalg.LinAlgError, FloatingPointError):
                return None
            finally:
                with self._lock:
                    self.calls += 1
                    self.seconds += time.thread_time() - began

    def by(self, planned: Plan) -> Objective:
        """The objective by another plan for the model, whose searches begin where this one's do;
        its fits are counted by itself."""
        other = replace(self, planned=planned)
        other.origin, other.spanned, other.scales = self.origin, self.spanned, self.scales
        return other

    def counted(self, other: Objective) -> None:
        """Count the fits that another objective has made."""
        self.calls, self.steps = self.calls + other.calls, self.steps + other.steps

    def beyond(self, x: Array, distance: float, slope: Array | None = None) -> bool:
        """Whether a log or logit is farther than `distance` from where searches begin, and the
        density rises outwards there, whose `slope` (d,) is."""
        away = x - np.clip(x, *self.spanned)
        out = self.coordinates.scaled & (self.coordinates.logs * np.abs(away) > distance)
        return bool((out if slope is None else out & self.rising(x, slope)).any())

    def rising(self, x: Array, slope: Array) -> BoolArray:
        """(d,) the coordinates whose density, of a `slope` (d,), rises away from the starts."""
        return np.asarray((x - np.clip(x, *self.spanned)) * slope >= 0.0)

    def farthest(self, at: Evaluation, among: BoolArray) -> tuple[str, str]:
        """The coordinate that is farthest from where the search began, `among` (d,) some; and its
        first and last value in words."""
        j = self.farthest_of(at, among)
        name = self.coordinates.names[j]
        return name, f"from {self.entry(self.origin, j):.3g} to {self.entry(at.x, j):.10g}"

    def farthest_of(self, at: Evaluation, among: BoolArray) -> int:
        """The coordinate that is farthest from where the search began, `among` (d,) some."""
        far = self.coordinates.logs * np.abs(at.x - np.clip(at.x, *self.spanned))
        return int(np.where(among, far, 0.0).argmax())

    def entry(self, x: Array, j: int) -> float:
        """Natural value of one coordinate; the coordinate itself, of an entry of a matrix."""
        theta = self.coordinates.unpack(x)
        for name, own in self.coordinates.slices.items():
            value = np.ravel(theta[name])
            if own.start <= j < own.stop and value.size == own.stop - own.start:
                return float(value[j - own.start])
        return float(x[j])

    def many(
        self,
        places: Sequence[Array],
        base: Evaluation,
        keep: Callable[[Evaluation], T],
        rough: Rough = 0.0,
        near: Callable[[Array], Blend] | None = None,
        arrived: Callable[[Array, T], object] | None = None,
    ) -> list[T | None]:
        """What `keep` takes of the evaluations at several places, all from the posterior of `base`,
        or from its own sites each, `near` the place: digits depend neither on their order nor on
        the number of threads or workers. `rough`: as in `at`, or that of each place. `arrived` gets
        a place and what was kept there as soon as there is anything. Workers want a `keep` that can
        be imported."""
        if self.elsewhere is not None and len(places) > 1:
            return self._elsewhere(self.elsewhere, places, base, keep, rough, near, arrived)

        def one(x: Array) -> T | None:
            return self._one(x, base, keep, rough, near, arrived)

        workers = self.workers
        if workers is None:
            long = self.seconds >= WORTH_A_THREAD * self.calls
            workers = (os.cpu_count() or 1) if long else 1
        if workers == 1 or len(places) < 2:
            return self._counted(len(places), (one(x) for x in places))
        pool = ThreadPoolExecutor(min(workers, len(places)))
        try:
            futures = [pool.submit(one, x) for x in places]
            return self._counted(len(places), (f.result() for f in futures))
        finally:  # an interrupt does not wait for what has not begun
            pool.shutdown(cancel_futures=True)

    def _one(
        self,
        x: Array,
        base: Evaluation,
        keep: Callable[[Evaluation], T],
        rough: Rough,
        near: Callable[[Array], Blend] | None,
        arrived: Callable[[Array, T], object] | None,
    ) -> T | None:
        warm = base.posterior
        if near is not None:
            weight, shift = near(x).sites
            warm = replace(warm, weight=weight, shift=shift)
        evaluation = self._apart(x, warm, rough_at(rough, x))
        kept = None if evaluation is None else keep(evaluation)
        if kept is not None and arrived is not None:
            arrived(x, kept)
        return kept

    def _elsewhere(
        self,
        elsewhere: WorkersOfFits,
        places: Sequence[Array],
        base: Evaluation,
        keep: Callable[[Evaluation], T],
        rough: Rough,
        near: Callable[[Array], Blend] | None,
        arrived: Callable[[Array, T], object] | None,
    ) -> list[T | None]:
        out: list[T | None] = [None] * len(places)
        inside = [k for k, x in enumerate(places) if not self.beyond(x, OUT)]
        done = len(places) - len(inside)

        def take(number: int, kept: Kept) -> None:
            nonlocal done
            k, done = inside[number], done + 1
            self.calls, self.steps = self.calls + 1, self.steps + kept.steps
            self.seconds += kept.seconds
            out[k] = kept.value
            if kept.value is not None and arrived is not None:
                arrived(places[k], kept.value)
            if self.on_point is not None:
                self.on_point(done, len(places))

        while inside and self.roughest is None:  # the first fit says how rough the others may be
            k, done = inside.pop(0), done + 1
            out[k] = self._one(places[k], base, keep, rough, near, arrived)
        some = [places[k] for k in inside]
        starts = [None if near is None else near(x) for x in some]
        each = [rough_at(rough, x) for x in some]
        elsewhere.evaluations(self, some, base, starts, keep, each, take, evaluated)
        return out

    def _counted(self, size: int, results: Iterable[T]) -> list[T]:
        out = []
        for result in results:
            out.append(result)
            if self.on_point is not None:
                self.on_point(len(out), size)
        return out

    def _at(
        self, x: Array, warm: GaussianPosterior | None, rough: float, most: int
    ) -> Evaluation | None:
        theta = self.coordinates.unpack(x)
        problem = self.planned.at(theta, seed=self.seed)
        wanted = self.tolerances
        if rough > wanted.evidence:
            wanted = Tolerances.scaled(rough)
        result = run(self.planned.backend, problem, wanted, most or self.max_steps, warm)
        if result.status is Status.interrupted:
            raise KeyboardInterrupt
        with self._lock:
            self.steps += result.steps
        if result.posterior is None or not math.isfinite(result.posterior.log_evidence):
            return None
        rounding = result.posterior.conditioned.lost
        if self.roughest is None:
            self.roughest = max(ROUGHEST, WORSE * rounding)
        if rounding > self.roughest:
            return None
        space = self.planned.canonical.hypers
        log_prior, gradient = space.log_prior(theta, self.pinned.keys())
        slopes = evidence_gradient(self.planned, result.posterior, theta, self.pinned)
        for name, slope in slopes.items():
            gradient[name] = gradient[name] + slope if name in gradient else slope
        jacobian, jacobian_gradient = self.coordinates.log_jacobian(x)
        out = Evaluation(
            x,
            theta,
            problem,
            result,
            log_prior,
            rounding,
            slopes,
            self.coordinates.pull(gradient, x),
            jacobian,
            jacobian_gradient,
        )
        return out if math.isfinite(out.density) and np.isfinite(out.gradient).all() else None


@dataclass(frozen=True, eq=False)
class ObjectiveState:
    """What an objective is besides its plan and its workers, where it stands now."""

    coordinates: Coordinates
    tolerances: Tolerances
    max_steps: int | None
    seed: int
    begin: Theta
    origin: Array
    spanned: tuple[Array, Array]
    scales: Array
    calls: int
    roughest: float | None
    refined: bool

    @classmethod
    def of(cls, objective: Objective) -> ObjectiveState:
        """State of an objective."""
        return cls(**{f.name: getattr(objective, f.name) for f in fields(cls)})

    def objective(self, planned: Plan) -> Objective:
        """An objective by a plan that stands there; `workers` of `many` are one thread."""
        began = self.coordinates.pinned, self.tolerances, self.max_steps, self.seed, 1
        made = Objective(planned, self.coordinates, *began, begin=self.begin)
        for name in ("origin", "spanned", "scales", "calls", "roughest", "refined"):
            setattr(made, name, getattr(self, name))
        return made


def rough_at(rough: Rough, x: Array) -> float:
    """The tolerance of the fit at x, (d,)."""
    return rough(x) if callable(rough) else rough


def evaluated(
    source: Source, parts: PlanParts, terms: ObjectiveTerms, about: Base, *more: Any
) -> Kept:
    """In a worker: one fit. `more`: the sites of the base and of the fits that the start is
    between, then x, the coefficients and the tolerance."""
    base, fits, (x, share, rough) = more[0], more[1:-3], more[-3:]
    planned = parts.plan(source)
    objective = Objective(
        planned,
        terms.coordinates,
        terms.coordinates.pinned,
        terms.tolerances,
        terms.max_steps,
        terms.seed,
    )
    objective.roughest, objective.calls = terms.roughest, 1
    with np.errstate(all="ignore"):
        q = about.conditioned(planned, base, terms.seed)
    if q is None:
        return Kept(None, 0, 0.0)
    weight, shift = blended(fits, share) if fits else base
    warm = GaussianPosterior(weight, shift, q, about.log_evidence, about.guarantee, about.notes)
    evaluation = objective.inside(x, warm, rough)
    value = None if evaluation is None else terms.keep(evaluation)
    return Kept(value, objective.steps, objective.seconds)
