"""Real coordinates along which the density has no maximum: it rises for ever, ever more slowly.

It may be a plateau next to a maximum: lifetimes with delayed entry have a likelihood that forgets
their level where it is far below the entries. So other levels of the predictor are tried first.

Counts that are all 0 under a flat prior of the log rate let it go to minus infinity; a search ends
where what is left to gain is little. The curvature is small there, but it is no maximum's: one of
its sds farther on, where a normal density has fallen by half a nat, this one has not. Where other
coordinates go along (the scale of a generalized gamma, as its shape grows, to that of a power law)
a search would crawl on the ridge until its limit: it ends where twice the value gains little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.queries.loadings import linear_hypers
from lgmdsl.contract.problem import Problem
from lgmdsl.errors import MethodError
from lgmdsl.inference.landmarks import has_unit, landmark_of
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective
from lgmdsl.remedies import narrow_prior, pin

# Nats that evidence + log prior falls by at least, a conditional sd beyond a maximum. A Poisson
# rate with a single event in the data falls by 0.37 on its longer side.
FALLS = 0.05
# A real goes to infinity that is FAR units from its start and gained less than DOUBLED nats since
# it was half as far: of c / x, no more than that is left.
FAR, DOUBLED = 100.0, 1e-3
# Shifts of a predictor, both ways, that are tried where the density is flat; nats from which the
# edge of a plateau is seen and clear, the halvings that find it, and where maxima are beyond it.
SHIFTS, SEEN = tuple(0.5 * 2.0**k for k in range(11)), (0.01, 0.5)
HALVINGS, BEYOND = 7, (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


def endless(objective: Objective, at: Evaluation, hessian: Array | None) -> tuple[int, ...]:
    """The coordinates, of values themselves and not of their logs, whose prior is flat at `at` and
    whose density does not fall uphill of it. One evaluation for each that is no coefficient or
    offset of Gaussian sites, along which the curvature is the same everywhere. `hessian`: (d, d),
    not finite where it is unknown."""
    uphill = np.where(at.gradient != 0.0, np.sign(at.gradient), np.sign(at.x - objective.origin))
    curvature = np.zeros(at.x.shape) if hessian is None else -np.diag(hessian)
    falling = (curvature > 0.0) & np.isfinite(curvature)
    length = np.where(falling, np.sqrt(1.0 / np.where(falling, curvature, 1.0)), 1.0 + np.abs(at.x))
    looked = _without_prior(objective, at) & np.isfinite(length)
    if at.problem.gaussian:
        linear = linear_hypers(objective.planned.canonical, at.theta, objective.pinned)
        for name in linear.coefficients:
            own = objective.coordinates.slices[name]
            looked[own] &= ~falling[own]
    out = []
    for j in np.flatnonzero(looked):
        x = at.x.copy()
        x[j] += length[j] * (uphill[j] or 1.0)
        ahead = objective.at(x, at.posterior)
        if ahead is not None and ahead.value > at.value - FALLS:
            out.append(int(j))
    return tuple(out)


def off_the_plateau(objective: Objective, at: Evaluation, away: Sequence[int]) -> Evaluation | None:
    """The highest place above `at`, near the edge of a plateau on which the coordinates `away` have
    no effect; None where there is none. Their moves are those that come nearest to 1 in all
    predictors, by least squares: how else they differ is forgotten on a plateau."""
    which = list(away)
    level = _level(objective, at, which)
    if not (np.isfinite(level).all() and level.any()):
        return None
    x, direction = at.x.copy(), np.zeros(len(at.x))
    x[which] = level * (level @ x[which]) / (level @ level)
    direction[which] = level
    flat, best = objective.at(x, at.posterior), at
    if flat is None:
        return None
    for way in (direction, -direction):
        found = list[Evaluation]()
        _edge(objective, flat, way, found)
        best = max((best, *found), key=lambda f: f.value)
    return best if best.value > at.value + SEEN[0] else None


def _level(objective: Objective, at: Evaluation, which: Sequence[int]) -> Array:
    """(which,) the move of coordinates that is nearest to a move of all predictors by 1."""
    columns = []
    for j in which:
        x = at.x.copy()
        x[j] += 1.0
        moved = objective.planned.at(objective.coordinates.unpack(x), seed=objective.seed)
        parts = zip(moved.engine.prior_mean, at.problem.engine.prior_mean, strict=True)
        columns.append(np.concatenate([np.ravel(b - a) for b, a in parts]))
    table = np.array(columns).T
    return np.asarray(np.linalg.lstsq(table, np.ones(len(table)), rcond=1e-8)[0])


def _edge(objective: Objective, at: Evaluation, way: Array, found: list[Evaluation]) -> None:
    """Adds to `found` the fits that look for the edge of a plateau, and those beyond it by shares
    of the length in which it turns from seen to clear."""

    def fall(shift: float) -> float:
        there = objective.at(at.x + shift * way, at.posterior)
        if there is None:
            return np.inf
        found.append(there)
        return abs(there.value - at.value)

    ends: list[float] = []
    inside, outside = 0.0, 0.0
    for shift in SHIFTS:
        if fall(shift) > SEEN[1]:
            outside = shift
            break
        inside = shift
    if not outside:
        return
    for least in SEEN[::-1]:  # the nearer edge last
        low, high = (inside if not ends else 0.0), (outside if not ends else ends[0])
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if fall(middle) > least else (middle, high)
        ends.append(high)
    for share in BEYOND:
        fall(ends[0] + share * (ends[0] - ends[1]))


def distant(objective: Objective, at: Evaluation) -> BoolArray:
    """(d,) real values under flat priors that are FAR units from their start, and rise."""
    away = at.x - objective.origin
    far = (np.abs(away) > FAR * objective.units(at.x)) & (away * at.gradient > 0.0)
    return np.asarray(far & _without_prior(objective, at)) if far.any() else far


def doubled(
    objective: Objective, path: Sequence[tuple[Array, float]], at: Evaluation
) -> tuple[int, ...]:
    """Coordinates among the `distant` that have doubled their distance and gained less than
    DOUBLED, on a `path` of points and values."""
    out = []
    away = np.abs(at.x - objective.origin)
    for j in np.flatnonzero(distant(objective, at)):
        half = [v for x, v in path if 2.0 * abs(x[j] - objective.origin[j]) <= away[j]]
        if half and at.value - half[-1] < DOUBLED:
            out.append(int(j))
    return tuple(out)


def _without_prior(objective: Objective, at: Evaluation) -> BoolArray:
    """(d,) real values whose log prior has no slope."""
    coordinates = objective.coordinates
    space = objective.planned.canonical.hypers
    slopes = space.log_prior(coordinates.unpack(at.x), objective.pinned.keys())[1]
    return np.asarray(coordinates.real & (coordinates.pull(slopes, at.x) == 0.0))


# ---- exact fit ---------------------------------------------------------------------------------
# Responses that a model fits exactly: their density has no maximum as the noise goes to 0.
#
# A constant response, the points of a line, more coefficients than rows: all residuals may be 0,
# and n rows with k free directions have a density like sd^-(n - k). Once the sd of the noise is
# below the rounding of the responses, residuals are rounding too, and no search says any more; nor
# does one from another start, as none could end higher. Other searches fail before that: where one
# has, and the noise is small beside what the responses vary by, and the density still rises as it
# shrinks, so that residuals are smaller than it, that is the reason. The noise is whatever y varies
# by where the predictor is known: an sd, 1 / shape of a Weibull, the root of 1 / shape of a gamma.


# Of the largest response: noise below it is lost to the rounding of sums and products.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
# Of what the responses vary by, or of their size where they do not: noise of a failed search that
# tells of an exact fit. Lognormal responses end at 1e-7 of it, Weibull and gamma at 1e-6 and 1e-5.
NEARLY = 1e-4
STEP = 1e-2  # of a coordinate, over which the noise's power is taken
USUAL = 1e-2  # of the size of the responses: the noise of an example


@dataclass(frozen=True)
class ExactFit:
    """`name`: the coordinate that sets the noise of data that are fitted exactly, of a `value`, and
    `grows` where noise vanishes; `noise`: what is left of it, of the size of the responses, a
    `power` of the value. `rows`: how many say so; `positive`: whether it is one of these."""

    name: str
    value: float
    grows: bool
    noise: float
    power: float
    rows: float
    positive: bool

    @property
    def cause(self) -> str:
        """Cause of a search without an end, as part of a sentence."""
        end = "grows" if self.grows else "goes to 0"
        return f"the model fits the data exactly, and their density rises as `{self.name}` {end}"

    @property
    def end(self) -> str:
        """Where the search ended."""
        return (
            f"it ended at `{self.name}` = {self.value:.2g}, where noise is {self.noise:.1g} of the "
            "size of the responses"
        )

    @property
    def remedy(self) -> str:
        """A way on: a prior that decides, as the data do not."""
        usual = self.value * (USUAL / self.noise) ** (1.0 / self.power)
        such = ""
        if self.positive:
            such = f", such as {narrow_prior(usual, self.rows)} for noise of 1 % of their size"
        return (
            f"say how precise the data are, as they do not: pin `{self.name}` "
            f"({pin(self.name)}), or give it a narrow prior{such}"
        )


def below_rounding(objective: Objective, at: Evaluation, gradient: Array) -> ExactFit | None:
    """The exact fit at a noise below the rounding of its responses, by the `gradient` (d,) of what
    is searched; None where there is none."""
    problem = at.problem
    predictors, means = problem.engine.linear.predictors, problem.engine.prior_mean
    for k, (p, mean) in enumerate(zip(predictors, means, strict=True)):
        if not has_unit(problem.sites[k]):
            continue
        noise, responses = _noise(problem, k, mean)
        level = max(_largest(x) for x in (responses, p.offset, mean))
        if noise <= ROUNDING * level:
            found = _set_by(objective, at, gradient, k, level)
            if found is not None:
                return found
    return None


def nearly_exact(objective: Objective, at: Evaluation, gradient: Array) -> ExactFit | None:
    """The exact fit that a search ended on its way to, by the `gradient` (d,) of what was searched;
    None where that is not the reason of its end."""
    for k, mean in enumerate(at.posterior.conditioned.mean):
        noise, responses = _noise(at.problem, k, mean)
        size = _largest(responses)
        spread = float(np.std(responses)) if responses.size else 0.0
        level = spread if spread > ROUNDING * size else size
        if noise <= NEARLY * level:
            found = _set_by(objective, at, gradient, k, level)
            if found is not None:
                return found
    return None


def _set_by(
    objective: Objective, at: Evaluation, gradient: Array, block: int, level: float
) -> ExactFit | None:
    """What sets the noise of a block and shrinks it uphill: of several, the steepest."""
    coordinates, canonical = objective.coordinates, objective.planned.canonical
    mean = at.posterior.conditioned.mean[block]
    noise = _noise(at.problem, block, mean)[0]
    for j in np.argsort(-np.abs(gradient)):
        x = at.x.copy()
        x[j] += STEP * np.sign(gradient[j])
        try:
            moved = objective.planned.at(coordinates.unpack(x), seed=objective.seed)
        except MethodError:
            continue
        ahead = _noise(moved, block, mean)[0]
        name = coordinates.names[j]
        values = [objective.entry(place, int(j)) for place in (at.x, x)]
        if not (0.0 < ahead < noise and min(values) > 0.0 and values[0] != values[1]):
            continue
        power = math.log(ahead / noise) / math.log(values[1] / values[0])
        return ExactFit(
            name,
            values[0],
            values[1] > values[0],
            noise / level,
            power,
            canonical.total_weight,
            coordinates.type_of(int(j)) == "positive",
        )
    return None


def _noise(problem: Problem, block: int, mean: Array) -> tuple[float, Array]:
    """The most that a response of a block varies by where its predictor is known, and the
    responses; inf where nothing says so."""
    site = problem.sites[block]
    unknown = math.inf, np.zeros(0)
    if has_unit(site):
        landmark = landmark_of(site, problem.engine.linear.predictors[block].event)
        if landmark is None:
            return unknown
        centre, distance = landmark
        return _largest(distance[np.isfinite(distance)]), centre
    if site.spec.potential or site.spec.discrete:
        return unknown
    try:
        with np.errstate(all="ignore"):
            variance, responses = site.conditional_variance(mean), site.conditional_mean(mean)
    except TypeError:  # a family without moments
        return unknown
    if not len(responses) or not (np.isfinite(variance).all() and np.isfinite(responses).all()):
        return unknown
    return math.sqrt(_largest(variance)), responses


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))
