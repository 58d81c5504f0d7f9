"""Maximising the log posterior of the hyperparameters, and its curvature there."""

# Long because a search, its ends, its curvature and the units of both belong to one class.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TypeVar

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.status import Status
from lgmdsl.inference.driver import Tolerances
from lgmdsl.learning.objective.log_posterior import OUT, Evaluation, Objective
from lgmdsl.learning.search.at_bounds import Edges, projected
from lgmdsl.learning.search.endless import distant, doubled
from lgmdsl.learning.search.exact_fit import fitted_exactly
from lgmdsl.learning.search.metric import Metric
from lgmdsl.numerics.optimisation.lbfgs import LBFGS, MOST_PAIRS, Evaluated, Iterate

T = TypeVar("T")

# A maximum is found where the quadratic model promises less than this many nats more; where fits
# are too rough to climb on, less than NOISE does. ROUNDING, of the objective, is not climbed on
# unless fits are asked for more digits: beside stiff priors an evidence has no more. Who asks for
# fewer than the default is content with a search that promises no more than those either.
GAIN, NOISE, ROUNDING = 1e-7, 1e-4, 1e-9
LEAST_PAIRS = 10  # held by a search of fewer coordinates
# A search ends where a coordinate (log of a scale, logit of a share) is this far from its start.
RUNAWAY = 0.8 * OUT
# From so many pairs on what a step promises is about what is left: at first it is what a single
# step along the gradient would gain, and after EM that is little.
SEEN = 5
# Where the second derivative along a direction is above RISING the density rises: a saddle, which
# is left at most ESCAPES times by steps AWAY along that direction.
RISING, ESCAPES, AWAY = 0.1, 5, (0.5, -0.5, 0.1, -0.1)
# Differences of gradients are taken over this share of a standard deviation, and at most so far in
# units of the coordinates.
SHARE, FARTHEST = 0.1, 1e-2
# Sds to the top, of Newton's step, that are none; the square of those from which it is taken, and
# how many.
SURE, NEAR, POLISHES = 5e-4, 0.02, 3
LIKE = 2.0  # units of a covariance's coordinates in which a metric stays as it is
RAN = "ran away, the density rising all along:"
BOUNDLESS = "ran away: its prior's density has no bound there, and the data hardly matter:"
EXACT = "is below the rounding of the data"
KNOWN = "it leads to a maximum that is known"
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
    edge of their range; `away`: the hyper that ran away from its start, or ""; `exact`: whether it
    is the noise of data that are fitted exactly, so that no other search could end higher."""

    at: Evaluation
    status: Status
    steps: tuple[LearningStep, ...]
    spread: Callable[[], Array]
    hessian: Array | None
    reason: str = ""
    edges: tuple[int, ...] = ()
    away: str = ""
    exact: bool = False

    @classmethod
    def interrupted(cls, at: Evaluation, step: LearningStep) -> Maximum:
        """Where a search was before its first step."""
        spread = partial(np.ones, len(at.x))
        return cls(at, Status.interrupted, (step,), spread, None, "interrupted")


@dataclass(frozen=True)
class Maximiser:
    """L-BFGS with warm-started fits. `jacobian`: maximise the density of the coordinates rather
    than that of theta on its natural scale. `known`: whether a search may end there, for where it
    leads is known. Of a search that only looks where it leads, `enough` nats need not be climbed
    for, fits are `rough` (as in `Objective.at`), and trials given up after `patience` steps."""

    objective: Objective
    jacobian: bool
    limit: int = 200
    known: Callable[[Evaluation], bool] | None = None
    enough: float = 0.0
    rough: float = 0.0
    patience: int = LONG

    def _little(self, at: Evaluation, pairs: int) -> float:
        """The gain, in nats, that is not climbed for, or not to be seen."""
        wanted = self.objective.tolerances.evidence
        least = max(GAIN, self.enough, at.rounding)
        if wanted > Tolerances().evidence and pairs >= SEEN:
            return max(least, wanted * abs(at.posterior.log_evidence))
        return max(least, min(ROUNDING, wanted) * abs(self.value(at)))

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
        search = LBFGS(memory=min(max(LEAST_PAIRS, len(first.x)), MOST_PAIRS))
        edges = Edges.none(len(first.x))
        search = _within(search, metric, edges)
        unit = self._units(first, first, metric)
        now: Iterate[Evaluation] = search.start(first.x / unit, self._minimised(first, unit, edges))
        steps: list[LearningStep] = []
        status, reason = Status.iteration_limit, ""
        k, longest, exact = 0, 0, ""
        path: list[tuple[Array, float]] = []
        endless: tuple[int, ...] = ()
        while True:
            gain = _gain(search, now)
            steps.append(LearningStep(k, -now.at.value, gain, self.objective.calls))
            try:
                if on_step is not None:
                    on_step(steps[-1])
            except KeyboardInterrupt:
                status, reason = Status.interrupted, "interrupted"
                break
            exact = fitted_exactly(self.objective, now.at.kept, self.gradient(now.at.kept))
            if exact:
                status, reason = Status.stalled, EXACT
                break
            if gain <= self._little(now.at.kept, len(now.pairs)):
                edges, moved = edges.released(self.objective, now.at.kept)
                if moved is None:
                    status = Status.converged
                    break
                search = _within(search, metric, edges)
                there = self._minimised(moved, unit, edges)
                now = Iterate(moved.x / unit, there, (), now.steps, now.evaluations + 1)
            if k == self.limit:
                break
            last = now.at.kept
            warm = last.posterior
            longest = max(longest, now.at.kept.run.steps)
            try:
                minimised = partial(self._minimised, unit=unit, edges=edges)
                most = max(self.patience, LONGER * longest if self.patience >= LONG else 0)
                evaluate = partial(self._evaluate, unit=unit, warm=warm, then=minimised, most=most)
                following = search.step(now, evaluate)
                rough = self.rough > 0.0
                if following is None and gain > NOISE and not rough and self.objective.refine():
                    seen = evaluate(now.x)  # differences of rougher fits meant nothing
                    if seen is not None:
                        following = search.step(replace(now, at=seen), evaluate)
            except KeyboardInterrupt:
                status, reason = Status.interrupted, "interrupted"
                break
            if following is None:
                status, reason = Status.stalled, "no step along the gradient raises the objective"
                if gain <= NOISE:
                    status = Status.converged  # as far as the fits' own tolerance lets it be seen
                break
            kept = following.at.kept
            if self.known is not None and self.known(kept):
                now, status, reason = following, Status.stalled, KNOWN
                break
            new = self._units(kept, first, metric, unit)
            now, unit, k = _in_units(following, unit, new), new, k + 1
            if not self.jacobian:
                edges, moved = edges.tried(self.objective, kept)
                if moved is None:
                    edges, moved = edges.at_once(self.objective, last, kept)
                if moved is not None:
                    pairs = projected(now, edges.held)
                    search = _within(search, metric, edges)
                    there = self._minimised(moved, unit, edges)
                    now = Iterate(moved.x / unit, there, pairs, now.steps, now.evaluations + 1)
                    kept = moved
                endless = doubled(self.objective, path, kept)
                if endless:
                    status = Status.converged
                    break
                if distant(self.objective, kept).any():
                    path.append((kept.x, kept.value))
                if edges.boundless(self.objective, kept).any():
                    status, reason = Status.stalled, BOUNDLESS
                    break
            if self.objective.beyond(kept.x, RUNAWAY, self.gradient(kept)):
                status, reason = Status.stalled, RAN
                if _gain(search, now) <= NOISE:  # to an edge, such as a variance of 0
                    status, reason = Status.converged, ""
                break
        spread = partial(_spread, search, now, unit)
        at_end = status is Status.converged and not self.jacobian
        highest = now.at.kept
        if at_end:
            try:
                highest = edges.closer(self.objective, highest) or highest
            except KeyboardInterrupt:
                status, reason = Status.interrupted, "interrupted"
        held = edges.pressed(self.objective, highest) if at_end else edges.held
        out = Maximum(
            highest,
            status,
            tuple(steps),
            spread,
            None,
            reason,
            tuple(sorted({*np.flatnonzero(held).tolist(), *endless})),
        )
        if exact:
            among = np.array([name == exact for name in self.objective.coordinates.names])
            value = self.objective.farthest(out.at, among)[1].rpartition(" ")[2]
            reason = f"`{exact}` = {float(value):.2g} {EXACT}"
            return replace(out, reason=reason, away=exact, exact=True)
        if reason not in (RAN, BOUNDLESS):
            return out
        among = self.objective.rising(out.at.x, self.gradient(out.at))
        if reason == BOUNDLESS:
            among = edges.boundless(self.objective, out.at)
        name, values = self.objective.farthest(out.at, among)
        return replace(out, reason=f"`{name}` {reason} {values}", away=name)

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
            further = self.run(max(higher, key=self.value))
            found = replace(further, steps=(*found.steps, *further.steps))
            if further.status is not Status.interrupted:
                found = self.with_curvature(found)
        return found

    def polished(self, found: Maximum) -> Maximum:
        """Newton's steps with the Hessian from a maximum that L-BFGS found, until what is left is
        less than SURE of an sd along every axis: estimates to as many digits as their standard
        errors have. L-BFGS ends by the digits of the objective, which of 70,000 rows are 1e-4 nats,
        or 0.015 sds."""
        if found.hessian is None or found.status is not Status.converged:
            return found
        unit = self.objective.units(found.at.x)
        values, vectors = np.linalg.eigh(unit[:, None] * found.hessian * unit)
        if values.max() >= -RISING:
            return found

        def step(at: Evaluation) -> tuple[Array, float]:
            slope = vectors.T @ (unit * self.gradient(at))
            return unit * (vectors @ (slope / -values)), float(slope @ (slope / -values))

        best = found.at
        move, squared = step(best)
        for _ in range(POLISHES if squared <= NEAR else 0):
            try:
                at = self.objective.at(best.x + move, best.posterior)
            except KeyboardInterrupt:
                return replace(found, at=best, status=Status.interrupted, reason="interrupted")
            if at is None or self.value(at) < self.value(best) - NOISE:
                break
            move, after = step(at)
            if after >= max(squared, SURE**2):
                break
            best, squared = at, after
            if squared <= SURE**2:
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
        """(d, d) by central differences of the gradient; `spread`: (d,) rough sds."""
        units = self.objective.units(at.x)
        steps = np.minimum(SHARE * spread, FARTHEST * units)
        places = [at.x + sign * step for step in np.diag(steps) for sign in (1.0, -1.0)]
        of: Callable[[Evaluation], Array]
        of = attrgetter("density_gradient" if self.jacobian else "gradient")
        found = self.objective.many(places, at, of)
        gradients = [g for g in found if g is not None]
        if len(gradients) < len(places):
            return None
        ends = np.array(gradients).reshape(-1, 2, len(at.x))
        hessian = (ends[:, 0] - ends[:, 1]) / (2.0 * steps[:, None])
        return np.asarray(0.5 * (hessian + hessian.T))

    def _units(
        self, at: Evaluation, first: Evaluation, metric: Metric | None, old: Array | None = None
    ) -> Array:
        """(d,) the coordinates' units. A metric knows those of all coordinates at `first`, where it
        was made: it is multiplied by what a covariance has grown or shrunk by since, unless the
        `old` units are within a factor of LIKE."""
        units = self.objective.units
        if metric is None:
            return units(at.x)
        new = units(at.x) / units(first.x)
        if old is not None and (np.abs(np.log(new / old)) < np.log(LIKE)).all():
            return old
        return np.asarray(new)

    def _evaluate(
        self,
        part: Array,
        unit: Array,
        warm: GaussianPosterior,
        then: Callable[[Evaluation], Evaluated[Evaluation]],
        most: int,
    ) -> Evaluated[Evaluation] | None:
        """What to minimise at a trial; None where there is no fit, or none within `most` steps: a
        shorter trial costs less."""
        whole = self.objective.longest_fit
        found = self.objective.at(unit * part, warm, self.rough, min(most, whole))
        if found is None or (most < whole and found.run.status is Status.iteration_limit):
            return None
        return then(found)

    def _minimised(self, at: Evaluation, unit: Array, edges: Edges) -> Evaluated[Evaluation]:
        gradient = edges.masked(-unit * self.gradient(at))
        return Evaluated(-self.value(at), gradient, at, at.rounding)


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
    """The same iterate, with all that it knows of curvature, in other units of the coordinates."""
    if np.array_equal(old, new):
        return now
    ratio = old / new
    pairs = tuple((ratio * s, y / ratio, rho) for s, y, rho in now.pairs)
    at = replace(now.at, gradient=now.at.gradient / ratio)
    return replace(now, x=ratio * now.x, at=at, pairs=pairs)


def _gain(search: LBFGS, now: Iterate[Evaluation]) -> float:
    """What a step of the quadratic model would gain: g'Hg / 2."""
    return -0.5 * search.inner(now.at.gradient, search.direction(now))


def _spread(search: LBFGS, now: Iterate[Evaluation], unit: Array) -> Array:
    """(d,) rough sds of the coordinates: roots of the diagonal of L-BFGS's inverse Hessian, one
    column at a time."""
    size = len(now.x)
    if not now.pairs:
        return np.array(unit)
    diagonal = np.empty(size)
    for j in range(size):
        slope = np.zeros(size)
        slope[j] = 1.0
        diagonal[j] = search.inverse_times(now, slope)[j]
    return unit * np.sqrt(np.maximum(diagonal, 1e-12))
