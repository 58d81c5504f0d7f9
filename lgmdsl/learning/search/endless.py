"""Densities without a maximum: along real coordinates, and of responses fitted exactly.

Real coordinates along which the density has no maximum: it rises for ever, ever more slowly.

It may be a plateau next to a maximum: lifetimes with delayed entry have a likelihood that forgets
their level where it is far below the entries. So other levels of the predictor are tried first.

Counts that are all 0 under a flat prior of the log rate let it go to minus infinity; a search ends
where what is left to gain is little. The curvature is small there, but it is no maximum's: one of
its sds farther on, where a normal density has fallen by half a nat, this one has not. Where other
coordinates go along (the scale of a generalized gamma, as its shape grows, to that of a power law)
a search would crawl on the ridge until its limit: it ends where twice the value gains little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.canonical.queries.scales import sizes
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.landmarks import has_unit, landmark_of
from lgmdsl.learning.objective.log_posterior import Evaluation, Objective

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
    whose density does not fall uphill of it. One evaluation for each. `hessian`: (d, d), not finite
    where it is unknown."""
    uphill = np.where(at.gradient != 0.0, np.sign(at.gradient), np.sign(at.x - objective.origin))
    curvature = np.zeros(at.x.shape) if hessian is None else -np.diag(hessian)
    falling = (curvature > 0.0) & np.isfinite(curvature)
    length = np.where(falling, np.sqrt(1.0 / np.where(falling, curvature, 1.0)), 1.0 + np.abs(at.x))
    out = []
    for j in np.flatnonzero(_without_prior(objective, at) & np.isfinite(length)):
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
    real = np.zeros(coordinates.size, dtype=np.bool_)
    for block in coordinates.blocks:
        real[coordinates.slices[block.name]] = block.type == "real"
    space = objective.planned.canonical.hypers
    slopes = space.log_prior(coordinates.unpack(at.x), objective.pinned.keys())[1]
    return np.asarray(real & (coordinates.pull(slopes, at.x) == 0.0))


# ---- exact fit ---------------------------------------------------------------------------------
# Responses that a model fits exactly: their density has no maximum as the noise goes to 0.
#
# A constant response, the points of a line, more coefficients than rows: all residuals may be 0,
# and n rows with k free directions have a density like sd^-(n - k). Once the sd of the noise is
# below the rounding of the responses, residuals are rounding too, and no search says any more; nor
# does one from another start, as none could end higher.


# Of the largest response: noise below it is lost to the rounding of sums and products.
ROUNDING = 8.0 * float(np.finfo(np.float64).eps)


def fitted_exactly(objective: Objective, at: Evaluation, gradient: Array) -> str:
    """The coordinate of a noise that is below the rounding of its responses and on its way to 0,
    by the `gradient` (d,) of what is searched; "" where there is none."""
    blocks = _below_rounding(at.problem)
    if not blocks:
        return ""
    coordinates = objective.coordinates
    for size in sizes(objective.planned.canonical, at.theta, set(objective.pinned)):
        if size.latent or size.block not in blocks:
            continue
        for name, power in size.powers.items():
            own = coordinates.slices[name]
            outwards = -np.sign(power) * gradient[own]
            if outwards.max(initial=0.0) > 0.0:
                return str(coordinates.names[own.start + int(outwards.argmax())])
    return ""


def _below_rounding(problem: Problem) -> set[int]:
    """The site blocks whose distances are below the rounding of their responses."""
    out = set()
    predictors, means = problem.engine.linear.predictors, problem.engine.prior_mean
    for k, (site, p, mean) in enumerate(zip(problem.sites, predictors, means, strict=True)):
        landmark = landmark_of(site, p.event) if has_unit(site) else None
        if landmark is None:
            continue
        centre, distance = landmark
        level = max(float(np.abs(x).max(initial=0.0)) for x in (centre, p.offset, mean))
        known = distance[np.isfinite(distance)]
        if float(known.max()) <= ROUNDING * level:
            out.add(k)
    return out
