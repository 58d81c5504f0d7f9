"""Maximising the log posterior of the hyperparameters, and its curvature there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from typing import TypeVar

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.learning.objective.information import information
from lgmdsl.learning.objective.log_posterior import OUT, Evaluation, Objective
from lgmdsl.learning.search.at_bounds import Edges, projected
from lgmdsl.learning.search.endless import ExactFit, below_rounding, distant, doubled, nearly_exact
from lgmdsl.learning.search.metric import Informed, Metric
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, MOST_PAIRS, Evaluated, Iterate
from lgmdsl.remedies import pin, setting

T = TypeVar("T")

# A maximum is found where the quadratic model promises less than this many nats more; where fits
# are too rough to climb on, less than NOISE does. ROUNDING, of the objective, is not climbed on
# unless fits are asked for more digits: beside stiff priors an evidence has no more. Who asks for
# fewer than the default is content with a search that promises no more than those either. Steps by
# the information go on to the last DIGITS.
GAIN, NOISE, ROUNDING, DIGITS = 1e-7, 1e-4, 1e-9, 1e-12
# Half an sd of a coordinate. Where an engine estimates, slopes come from samples and evidences from
# probes: K of each leave the maxima of the two 1 / sqrt(2 K) sds apart, a sixth for 20, however
# many latents there are; three times as far is as far as chance goes.
CHANCE = 0.125
LEAST_PAIRS = 10  # held by a search of fewer coordinates
# A search ends where a coordinate (log of a scale, logit of a share) is this far from its start.
RUNAWAY = 0.8 * OUT
# From so many pairs on what a step promises is about what is left: at first it is what a single
# step along the gradient would gain, and after EM that is little.
SEEN = 5
# Where the second derivative along a direction is above RISING the density rises: a saddle, which
# is left at most ESCAPES times by steps AWAY along that direction.
# Newton's steps are taken where all of them are below -LEVEL.
RISING, LEVEL, ESCAPES, AWAY = 0.1, 1e-3, 5, (0.5, -0.5, 0.1, -0.1)
# Differences of gradients are taken over this share of a standard deviation, SHORT of exact ones,
# and at most so far in units of the coordinates.
SHARE, SHORT, FARTHEST = 0.1, 1e-3, 1e-2
# Share of a promised gain that a step by good information leaves at most, and steps after which
# the information serves no longer: the density has no parabola on the way.
QUICK, LASTING = 0.25, 20
# Sds to the top, of Newton's step, that are none, unless more digits than by default are asked for;
# the square of those from which it is taken, and how many.
SURE, NEAR, POLISHES = 5e-4, 0.02, 3
LIKE = 2.0  # units of a covariance's coordinates in which a metric stays as it is
# Steps of a fit, and the multiple of those of the fits so far, after which a trial is given up:
# far from the data EP takes its last resorts (500 rows of gev: 20 s, to find 700 nats less).
LONG, LONGER = 60, 10


@dataclass(frozen=True)
class LearningStep:
    """One outer step: its number, the objective, the expected gain of another, the fits so far."""

    step: int
    objective: float
    gain: float
    calls: int


@dataclass(frozen=True, eq=False)
class Maximum:
    """The highest point found. `spread`: gives (d,) rough sds of the coordinates, which only a
    curvature asks for: it costs d applications of L-BFGS's inverse Hessian; `hessian`: (d, d) of
    the objective, None where it was not wanted or could not be had; `edges`: coordinates at the
    edge of their range; `exact`: data that are fitted exactly, so that no other search could end
    higher; `remedy`: a way on for a hyper that ran away from its start, or ""."""

    at: Evaluation
    status: Status
    steps: tuple[LearningStep, ...]
    spread: Callable[[], Array]
    hessian: Array | None
    reason: str = ""
    edges: tuple[int, ...] = ()
    exact: ExactFit | None = None
    remedy: str = ""

    @property
    def away(self) -> bool:
        """Whether a hyper ran away from its start."""
        return bool(self.remedy)

    @classmethod
    def interrupted(cls, at: Evaluation, step: LearningStep) -> Maximum:
        """Where a search was before its first step."""
        spread = partial(np.ones, len(at.x))
        return cls(at, Status.interrupted, (step,), spread, None, "interrupted")


@dataclass(frozen=True)
class Maximiser:
    """L-BFGS with warm-started fits, by the information where it is known. `jacobian`: maximise the
    density of the coordinates rather than that of theta on its natural scale. `known`: whether a
    search may end there, for where it leads is known. Of a search that only looks where it leads,
    `enough` nats need not be climbed for, fits are `rough` (as in `Objective.at`), and trials given
    up after `patience` steps. `pinned`: coordinates that stay where a search begins."""

    objective: Objective
    jacobian: bool
    limit: int = 200
    known: Callable[[Evaluation], bool] | None = None
    enough: float = 0.0
    rough: float = 0.0
    patience: int = LONG
    pinned: tuple[int, ...] = ()

    def value(self, at: Evaluation) -> float:
        return at.density if self.jacobian else at.value

    def gradient(self, at: Evaluation) -> Array:
        return at.density_gradient if self.jacobian else at.gradient

    def run(
        self,
        first: Evaluation,
        on_step: Callable[[LearningStep], None] | None = None,
        metric: Metric | None = None,
    ) -> Maximum:
        """From an evaluated start to a maximum, in the inner product of `metric`, which was made
        there."""
        return _Climb(self, first, on_step, metric).run()

    def with_curvature(self, found: Maximum) -> Maximum:
        """The maximum with its Hessian, which costs two fits for each coordinate."""
        try:
            return replace(found, hessian=self.hessian(found.at, found.spread()))
        except KeyboardInterrupt:
            return replace(found, status=Status.interrupted, reason="interrupted")

    def climbed(self, found: Maximum) -> Maximum:
        """From a saddle, where the gradient vanishes and the density rises both ways, to a maximum.
        The middle of a loading's prior, 0, is such a place: a factor's sign is not determined."""
        for _ in range(ESCAPES):
            if found.hessian is None or not np.isfinite(found.hessian).all():
                break
            unit = self.objective.units(found.at.x)
            values, vectors = np.linalg.eigh(unit[:, None] * found.hessian * unit)
            if found.status is not Status.converged or values[-1] <= RISING:
                break
            axis = vectors[:, -1] * np.sign(vectors[np.abs(vectors[:, -1]).argmax(), -1])
            try:
                ways = (found.at.x + way * unit * axis for way in AWAY)
                fits = [self.objective.at(x, found.at.posterior) for x in ways]
            except KeyboardInterrupt:
                return replace(found, status=Status.interrupted, reason="interrupted")
            higher = [f for f in fits if f is not None and self.value(f) > self.value(found.at)]
            if not higher:
                break
            found = self._followed(found, self.run(max(higher, key=self.value)))
        return found

    def _followed(self, found: Maximum, further: Maximum) -> Maximum:
        """Where a search from what was found ended, with the curvature unless it was interrupted,
        and the steps of both."""
        whole = replace(further, steps=(*found.steps, *further.steps))
        return whole if whole.status is Status.interrupted else self.with_curvature(whole)

    def polished(self, found: Maximum, plain: bool = False) -> Maximum:
        """Newton's steps with the Hessian from a maximum that L-BFGS found, until what is left is
        less than SURE of an sd along every axis: estimates to as many digits as their standard
        errors have. Coordinates at the edge of their range stay. L-BFGS ends by the digits of the
        objective, which of 70,000 rows are 1e-4 nats, or 0.015 sds. Far from the top the search
        goes on without the information, unless it was `plain` already."""
        if found.hessian is None or found.status is not Status.converged:
            return found
        inside = np.setdiff1d(np.arange(len(found.at.x)), found.edges)
        unit = self.objective.units(found.at.x)[inside]
        curved = unit[:, None] * found.hessian[np.ix_(inside, inside)] * unit
        values, vectors = np.linalg.eigh(curved)
        if len(inside) == 0 or values.max() >= -LEVEL:
            return found

        def step(at: Evaluation) -> tuple[Array, float]:
            slope, move = vectors.T @ (unit * self.gradient(at)[inside]), np.zeros(len(at.x))
            move[inside] = unit * (vectors @ (slope / -values))
            return move, float(slope @ (slope / -values))

        best = found.at
        move, squared = step(best)
        tolerance = self.objective.tolerances.evidence
        sure = 0.0 if tolerance < Tolerances().evidence else SURE
        wanted = tolerance * abs(self.value(best))
        if squared > max(NEAR, 2.0 * wanted) and not plain and not found.edges:
            # The information promised too little: what is left, the curvature knows.
            further = _Climb(self, best, None, None, plain=True).run()
            return self.polished(self._followed(found, further), plain=True)
        for _ in range(POLISHES if squared <= NEAR else 0):
            try:
                at = self.objective.at(best.x + move, best.posterior)
            except KeyboardInterrupt:
                return replace(found, at=best, status=Status.interrupted, reason="interrupted")
            if at is None or self.value(at) < self.value(best) - NOISE:
                break
            move, after = step(at)
            if after >= max(squared, sure**2):
                break
            best, squared = at, after
            if squared <= sure**2:
                break
        return replace(found, at=best)

    def newton(self, found: Maximum) -> Array:
        """(d,) the step along each axis of the curvature, in units of the coordinates, by slope
        over its size, RISING at least; 0 without a curvature, and in coordinates at the edge of
        their range."""
        step = np.zeros(len(found.at.x))
        if found.hessian is not None and np.isfinite(found.hessian).all():
            inside = np.setdiff1d(np.arange(len(step)), found.edges)
            unit = self.objective.units(found.at.x)[inside]
            scaled = unit[:, None] * found.hessian[np.ix_(inside, inside)] * unit
            values, vectors = np.linalg.eigh(scaled)
            slope = vectors.T @ (unit * self.gradient(found.at)[inside])
            step[inside] = unit * (vectors @ (slope / np.maximum(np.abs(values), RISING)))
        return step

    def hessian(self, at: Evaluation, spread: Array) -> Array | None:
        """(d, d) by differences of the gradient, `spread`: (d,) rough sds: central ones, or over
        SHORT steps to one side where fits have all their digits."""
        units = self.objective.units(at.x)
        sides = (1.0,) if at.problem.gaussian else (1.0, -1.0)
        steps = np.minimum((SHORT if at.problem.gaussian else SHARE) * spread, FARTHEST * units)
        places = [at.x + sign * step for sign in sides for step in np.diag(steps)]
        of: Callable[[Evaluation], Array]
        of = attrgetter("density_gradient" if self.jacobian else "gradient")
        found = self.objective.many(places, at, of)
        gradients = [g for g in found if g is not None]
        if len(gradients) < len(places):
            return None
        ends = np.array(gradients).reshape(len(sides), *2 * at.x.shape)
        difference = ends[0] - (of(at) if len(sides) == 1 else ends[1])
        hessian = difference / (len(sides) * steps[:, None])
        return np.asarray(0.5 * (hessian + hessian.T))


def expected(objective: Objective, at: Evaluation, among: BoolArray) -> str:
    """A way on where a coordinate `among` (d,) some runs away: a prior about an expected value."""
    j = objective.farthest_of(at, among)
    name = objective.coordinates.names[j]
    positive = objective.coordinates.type_of(j) == "positive"
    such = ", such as lognormal(mean = log(VALUE), sd = 1)," if positive else ""
    return f"give `{name}` a prior about the value that you expect{such} or pin it: {pin(name)}"


@dataclass(frozen=True)
class _End:
    """Why a search ends, and the status that it has then."""

    status: Status
    reason: str = ""


CONVERGED, LIMIT = _End(Status.converged), _End(Status.iteration_limit)
INTERRUPTED = _End(Status.interrupted, "interrupted")
NO_STEP = _End(Status.stalled, "no step along the gradient raises the objective")
IS_KNOWN = _End(Status.stalled, "it leads to a maximum that is known")
EXACT = _End(Status.stalled, "the data are fitted exactly")
RAN_AWAY = _End(Status.stalled, "ran away, the density rising all along:")
NO_BOUND = _End(
    Status.stalled, "ran away: its prior's density has no bound there, and the data hardly matter:"
)


@dataclass(eq=False)
class _Climb:
    """A search on its way. `of`: what it maximises, and how; `now`, in units of `unit`, and `last`,
    the place before; `longest`: the most steps of a fit so far; `taken`: steps of the search,
    and what the next was `promised` to gain at the last; `path`: distant places, and the
    values there; `endless`: coordinates along which the density rises for ever;
    `exact`: data that are fitted exactly; `informed`: directions by the information at `now`,
    None where it is not known, or, `plain`, did not serve; `closest`: the end of a search at
    rest, with coordinates closer to the edge of their range where that gained."""

    of: Maximiser
    first: Evaluation
    on_step: Callable[[LearningStep], None] | None
    metric: Metric | None
    steps: list[LearningStep] = field(default_factory=list)
    path: list[tuple[Array, float]] = field(default_factory=list)
    endless: tuple[int, ...] = ()
    longest: int = 0
    taken: int = 0
    promised: float = 0.0
    exact: ExactFit | None = None
    informed: Informed | None = None
    plain: bool = False
    closest: Evaluation | None = None

    def __post_init__(self) -> None:
        size = len(self.first.x)
        self.edges, self.last = Edges.none(size, self.of.pinned), self.first
        self.lbfgs = LBFGS(memory=min(max(LEAST_PAIRS, size), MOST_PAIRS))
        self.lbfgs = _within(self.lbfgs, self.metric, self.edges)
        self.unit = self._units(self.first)
        begin = self._minimised(self.first)
        self.now: Iterate[Evaluation] = self.lbfgs.start(self.first.x / self.unit, begin)
        self._inform()

    def _inform(self) -> None:
        """Take the information at the present place, where it is known, for directions and for what
        they promise. L-BFGS's pairs say where it is wrong, as a step that left much to gain."""
        if self.metric is not None or self.plain:
            return
        if self.taken >= LASTING:
            return self._forget()
        held, left = self.edges.held, self.informed
        known = information(self.of.objective, self.now.at.kept, self.of.jacobian)
        if known is None or not np.isfinite(known).all():
            return self._forget()
        slope = self.edges.masked(self.now.at.gradient)
        scaled, bounded = (
            self.unit[:, None] * known * self.unit,
            ~self.of.objective.coordinates.real,
        )
        found = Informed.of(scaled, slope, held, bounded, left)
        if left is None or left.cuts or found.gain < QUICK * left.gain:
            self.now = replace(self.now, pairs=())
        self.informed = found
        self.lbfgs = replace(
            self.lbfgs, precondition=found.solve, first=found.reach, farthest=found.farthest
        )

    def _forget(self) -> None:
        """No information from now on."""
        self.informed, self.plain = None, True
        plain = LBFGS()
        self.lbfgs = replace(
            self.lbfgs, precondition=None, first=plain.first, farthest=plain.farthest
        )

    def run(self) -> Maximum:
        """Rounds of the rules, in their order, until one of them ends the search."""
        rules = (
            self._exact,
            self._at_rest,
            self._at_limit,
            self._step,
            self._at_known,
            self._at_edges,
            self._away,
        )
        end: _End | None = None
        try:
            while end is None:
                self._tell()
                end = next((found for rule in rules if (found := rule()) is not None), None)
        except KeyboardInterrupt:
            end = INTERRUPTED
        return self._maximum(end)

    @property
    def gain(self) -> float:
        """What the next step would gain by the quadratic model."""
        return _gain(self.lbfgs, self.now)

    def _tell(self) -> None:
        self.promised = self.gain
        value, calls = -self.now.at.value, self.of.objective.calls
        self.steps.append(LearningStep(self.taken, value, self.promised, calls))
        if self.on_step is not None:
            self.on_step(self.steps[-1])

    def _exact(self) -> _End | None:
        """Noise below the rounding of the data, which the model fits exactly."""
        at = self.now.at.kept
        self.exact = below_rounding(self.of.objective, at, self.of.gradient(at))
        return None if self.exact is None else EXACT

    def _at_rest(self) -> _End | None:
        """Nothing is left to gain, unless it is by a coordinate that is held at an edge."""
        at = self.now.at.kept
        if self.promised > self._little(at, len(self.now.pairs)):
            return None
        objective, held, closest = self.of.objective, self.edges.held, None
        self.edges, moved = self.edges.released(objective, at)
        if moved is None and not self.of.jacobian:
            self.edges, closest = self.edges.closer(objective, at)
        if np.array_equal(self.edges.held, held):
            self.closest = closest or at
            return CONVERGED
        self._move(moved or at, ())
        return None

    def _at_limit(self) -> _End | None:
        return LIMIT if self.taken == self.of.limit else None

    def _step(self) -> _End | None:
        """A step of the search; the end where there is none that rises."""
        now, gain = self.now, self.promised
        self.last = now.at.kept
        unseen = max(NOISE, min(self.last.chance, CHANCE))
        self.longest = max(self.longest, self.last.run.steps)
        following = self.lbfgs.step(now, self._evaluate)
        if (
            following is None
            and gain > unseen
            and self.of.rough == 0.0
            and self.of.objective.refine()
        ):
            seen = self._evaluate(now.x)  # differences of rougher fits meant nothing
            if seen is not None:
                following = self.lbfgs.step(replace(now, at=seen), self._evaluate)
        if following is None and self.informed is not None and gain > unseen:
            self._forget()
            following = self.lbfgs.step(now, self._evaluate)
        if following is None:
            # Converged as far as the fits' own errors let it be seen.
            return CONVERGED if gain <= unseen else NO_STEP
        self.now = following
        return None

    def _at_known(self) -> _End | None:
        """A place whose maximum is known. If not, the search goes on in the units of the place."""
        if self.of.known is not None and self.of.known(self.now.at.kept):
            return IS_KNOWN
        new = self._units(self.now.at.kept, self.unit)
        self.now, self.unit = _in_units(self.now, self.unit, new), new
        self._inform()
        self.taken += 1
        return None

    def _at_edges(self) -> _End | None:
        """Coordinates that go to an edge of their range are held there; some have no end."""
        if self.of.jacobian:
            return None
        objective, at = self.of.objective, self.now.at.kept
        ahead = None if self.informed is None else self.unit * self.informed.ahead
        self.edges, moved = self.edges.tried(objective, at, ahead)
        if moved is None:
            self.edges, moved = self.edges.at_once(objective, self.last, at, ahead)
        if moved is not None:
            self._move(moved, projected(self.now, self.edges.held))
            at = moved
        self.endless = doubled(objective, self.path, at)
        if self.endless:
            return CONVERGED
        if distant(objective, at).any():
            self.path.append((at.x, at.value))
        return NO_BOUND if self.edges.boundless(objective, at).any() else None

    def _away(self) -> _End | None:
        """A coordinate too far from its start, unless nothing is left to gain, as at a sd of 0."""
        at = self.now.at.kept
        if not self.of.objective.beyond(at.x, RUNAWAY, self.of.gradient(at)):
            return None
        return CONVERGED if self.gain <= NOISE else RAN_AWAY

    def _maximum(self, end: _End) -> Maximum:
        objective, highest = self.of.objective, self.now.at.kept
        at_end = end is CONVERGED and not self.of.jacobian
        if at_end:
            try:
                closest = self.closest or self.edges.closer(objective, highest)[1]
                highest = closest or highest
            except KeyboardInterrupt:
                end = INTERRUPTED
        held = self.edges.pressed(objective, highest) if at_end else self.edges.reached
        edges = tuple(sorted({*np.flatnonzero(held).tolist(), *self.endless}))
        spread = partial(_spread, self.lbfgs, self.now, self.unit, objective.coordinates.real)
        if self.informed is not None and not self.now.pairs:
            spread = partial(np.multiply, self.unit, self.informed.sds)
        steps = tuple(self.steps)
        out = Maximum(highest, end.status, steps, spread, None, end.reason, edges)
        if end in (RAN_AWAY, NO_STEP):
            self.exact = nearly_exact(objective, highest, self.of.gradient(highest))
        if self.exact is not None:
            return replace(out, reason=self.exact.end, exact=self.exact, remedy=self.exact.remedy)
        if end is NO_BOUND:
            among = self.edges.boundless(objective, highest)
        elif end is RAN_AWAY:
            among = objective.rising(highest.x, self.of.gradient(highest))
        else:
            return out
        name, values = objective.farthest(highest, among)
        remedy = expected(objective, highest, among)
        if end is NO_BOUND:  # but the prior has a mass, which an integral takes
            remedy += f", or integrate over it: {setting('hyper', 'integrate')}"
        return replace(out, reason=f"`{name}` {end.reason} {values}", remedy=remedy)

    def _move(self, at: Evaluation, pairs: tuple[tuple[Array, Array, float], ...]) -> None:
        """To a place where other coordinates are held than before."""
        self.lbfgs = _within(self.lbfgs, self.metric, self.edges)
        now, there = self.now, self._minimised(at)
        self.now = Iterate(at.x / self.unit, there, pairs, now.steps, now.evaluations + 1)
        self._inform()

    def _little(self, at: Evaluation, pairs: int) -> float:
        """The gain, in nats, that is not climbed for, or not to be seen."""
        wanted, informed = self.of.objective.tolerances.evidence, self.informed is not None
        least = max(GAIN, self.of.enough, at.rounding)
        if wanted > Tolerances().evidence and (informed or pairs >= SEEN):
            return max(least, wanted * abs(at.posterior.log_evidence))
        digits = DIGITS if informed else min(ROUNDING, wanted)
        return max(least, digits * abs(self.of.value(at)))

    def _units(self, at: Evaluation, old: Array | None = None) -> Array:
        """(d,) the coordinates' units. A metric knows those of all coordinates at `first`, where it
        was made: it is multiplied by what a covariance has grown or shrunk by since, unless the
        `old` units are within a factor of LIKE."""
        units = self.of.objective.units
        if self.metric is None:
            return units(at.x)
        new = units(at.x) / units(self.first.x)
        if old is not None and (np.abs(np.log(new / old)) < np.log(LIKE)).all():
            return old
        return np.asarray(new)

    def _evaluate(self, part: Array) -> Evaluated[Evaluation] | None:
        """What to minimise at a trial; None where there is no fit, or none within the most steps
        that are waited for: a shorter trial costs less."""
        of, whole = self.of, self.of.objective.longest_fit
        most = max(of.patience, LONGER * self.longest if of.patience >= LONG else 0)
        warm = self.last.posterior
        found = of.objective.at(self.unit * part, warm, of.rough, min(most, whole))
        if found is None or (most < whole and found.run.status is Status.iteration_limit):
            return None
        return self._minimised(found)

    def _minimised(self, at: Evaluation) -> Evaluated[Evaluation]:
        gradient = self.edges.masked(-self.unit * self.of.gradient(at))
        return Evaluated(-self.of.value(at), gradient, at, at.rounding)


def _within(search: LBFGS, metric: Metric | None, edges: Edges) -> LBFGS:
    """The search in the metric's inner product, of the coordinates that are not at an edge."""
    if metric is None:
        return search
    solve = metric.solve
    return replace(
        search,
        precondition=lambda g: edges.masked(solve(edges.masked(g))),
        first=max(search.first, metric.reach),
    )


def _in_units(now: Iterate[T], old: Array, new: Array) -> Iterate[T]:
    """The iterate in other units of the coordinates, with all that it knows of curvature."""
    if np.array_equal(old, new):
        return now
    ratio = old / new
    pairs = tuple((ratio * s, y / ratio, rho) for s, y, rho in now.pairs)
    at = replace(now.at, gradient=now.at.gradient / ratio)
    return replace(now, x=ratio * now.x, at=at, pairs=pairs)


def _gain(search: LBFGS, now: Iterate[Evaluation]) -> float:
    """What a step of the quadratic model would gain: g'Hg / 2."""
    return -0.5 * search.inner(now.at.gradient, search.direction(now))


def _spread(search: LBFGS, now: Iterate[Evaluation], unit: Array, real: BoolArray) -> Array:
    """(d,) rough sds of the coordinates: roots of the diagonal of L-BFGS's inverse Hessian, one
    column at a time; of `real` ones, (d,), which have the data's unit, however small."""
    size = len(now.x)
    if not now.pairs:
        return np.array(unit)
    diagonal = np.empty(size)
    for j in range(size):
        slope = np.zeros(size)
        slope[j] = 1.0
        diagonal[j] = search.inverse_times(now, slope)[j]
    return unit * np.sqrt(np.maximum(diagonal, np.where(real, np.finfo(np.float64).tiny, 1e-12)))
