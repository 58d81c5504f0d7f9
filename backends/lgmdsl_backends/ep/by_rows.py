"""EP where some blocks are sums over rows: parallel steps, and single rows in passes.

Rows have sites of their own, as where they are kept (`matching`), so that the fixed point is the
same; a pass visits them with the marginals of their predictors under q and leaves what an update of
q needs, sums over rows. Of blocks that are no sums all rows are visited at once.

    value    centred + sum 1/e [log mass - log E_cav t~^e] + b m - 1/2 w m^2

(`Conditioned.centred` is log_normaliser without the exponents at the mean.)

Steps are not extrapolated, which would take the sites of several earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.joint import (
    Cavity,
    RowSites,
    RowUpdate,
    SumsOfRows,
    Visit,
    VisitedRows,
    newton_move,
)
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.questions import TiltedSlopes
from lgmdsl.contract.rows import diagonal, inner, interpolate, isotropic, quadratic, times
from lgmdsl_backends.ep.matching import Block, cavities, changes, concave_blocks, nonnegative, tilt
from lgmdsl_backends.ep.parallel import damped


@dataclass(frozen=True, eq=False)
class OwnRows(RowSites):
    """Sites of a block that is no sum: `answer` of all its rows."""

    answer: Any
    weight: Array
    shift: Array
    concave: bool

    def visited(self, mean: Array, variance: Array, visit: Visit) -> VisitedRows | None:
        update = visit(self.weight, self.shift, mean, variance, self.answer)
        if update is None:
            return None
        return VisitedRows(float(np.sum(update.value)), update.gap, partial(self._towards, update))

    def _towards(self, asked: RowUpdate, share: float) -> OwnRows:
        (weight,), (shift,) = (
            interpolate((now,), (end,), share)
            for now, end in ((self.weight, asked.weight), (self.shift, asked.shift))
        )
        return replace(self, weight=nonnegative(weight) if self.concave else weight, shift=shift)

    def slopes(
        self, mean: Array, variance: Array, cavity: Cavity, power: float
    ) -> dict[str, Array]:
        at = cavity(self.weight, self.shift, mean, variance)
        with np.errstate(all="ignore"):
            return cast(TiltedSlopes, self.answer).tilted_slopes(*at, power)


@dataclass
class Visitor:
    """Matches the moments of rows at q's marginals; what it has seen of them: `away`, `change` and
    `share`, as `matching.residual_of` has them. `most`: the largest variance of any predictor."""

    power: float
    most: float
    concave: bool
    away: float = 0.0
    change: float = 0.0
    share: float = 0.0

    def cavities(self, weight: Array, shift: Array, mean: Array, variance: Array) -> Block | None:
        return cavities(weight, shift, (mean, variance), None, self.power, self.most)

    def cavity(
        self, weight: Array, shift: Array, mean: Array, variance: Array
    ) -> tuple[Array, Array]:
        block = self.cavities(weight, shift, mean, variance)
        assert block is not None, "a point has proper cavities"
        return block.cavity_mean, block.cavity_variance

    def __call__(
        self, weight: Array, shift: Array, mean: Array, variance: Array, answer: Any
    ) -> RowUpdate | None:
        block = self.cavities(weight, shift, mean, variance)
        if block is None:
            return None
        block = tilt(block, answer)
        if not block.finite:
            return None
        change, share = block.changes(self.concave)
        self.away, self.change = max(self.away, block.away()), self.change + change
        self.share = max(self.share, share)
        asked, slope = block.target_weight(), shift - times(weight, mean)
        gap = block.slope_gap()
        asked = nonnegative(asked, variance) if self.concave else asked
        value = block.log_mass / self.power - block.gaussian
        value += inner(shift, mean) - 0.5 * quadratic(weight, mean)
        return RowUpdate(value, gap, asked, slope + gap + times(asked, mean))


@dataclass(frozen=True, eq=False)
class RowPoint:
    """q, the sites of all rows and what their visit left, EP's value and residual there."""

    conditioned: Conditioned
    power: float
    sites: tuple[RowSites, ...]
    visited: tuple[VisitedRows, ...]
    value: float
    residual: float


@dataclass(frozen=True, eq=False)
class RowWalk:
    """A point, and the share of the next step."""

    point: RowPoint
    share: float = field(default=1.0)


def in_passes(problem: Problem) -> bool:
    """Whether some block is a sum over rows."""
    return any(isinstance(answer, SumsOfRows) for answer in problem.answers)


def begin(
    problem: Problem, power: float, warm: GaussianPosterior | None = None
) -> RowPoint | Failed:
    """Sites that match the moments of rows against an earlier posterior as their cavity, blocks
    that are no sums with theirs; else against the prior with weights of about 1 / |a|^2."""
    reason = Failed("no site gives a finite moment")
    starts = [_unit(problem)] if warm is None else [(warm.weight, warm.shift), _unit(problem)]
    for weight, shift in starts:
        q = problem.engine.condition(weight, shift)
        if isinstance(q, Failed):
            reason = q
            continue
        known = warm is not None and weight is warm.weight
        visited = _visited(problem, q, _sites(problem, q, known), power)
        if isinstance(visited, Failed):
            reason = visited
            continue
        point = at(problem, tuple(v.towards(1.0) for v in visited[0]), power)
        if isinstance(point, RowPoint):
            return point
        reason = point
    return reason


def _unit(problem: Problem) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    prior = problem.engine.prior_mean
    weight = tuple(
        site.unit_weights() if isinstance(site, SumsOfRows) else isotropic(np.ones(len(m)), m)
        for site, m in zip(problem.sites, prior, strict=True)
    )
    return weight, tuple(times(w, m) for w, m in zip(weight, prior, strict=True))


def _sites(problem: Problem, q: Conditioned, known: bool) -> tuple[RowSites, ...]:
    """Sites of the rows to begin with: weights and shifts of 0 for sums, q's for other blocks, or 0
    for these as well where none is `known`."""
    blocks = zip(problem.answers, q.weight, q.shift, concave_blocks(problem), strict=True)
    return tuple(
        answer.row_sites()
        if isinstance(answer, SumsOfRows)
        else OwnRows(answer, w if known else 0.0 * w, b if known else 0.0 * b, concave)
        for answer, w, b, concave in blocks
    )


def at(problem: Problem, sites: tuple[RowSites, ...], power: float) -> RowPoint | Failed:
    """EP's point at these sites: one factorisation, with variances, and a pass over all rows."""
    q = problem.engine.condition(tuple(s.weight for s in sites), tuple(s.shift for s in sites))
    if isinstance(q, Failed):
        return q
    seen = _visited(problem, q, sites, power)
    if isinstance(seen, Failed):
        return seen
    visited, widest, away = seen
    value = q.centred + sum(v.value for v in visited)
    if not math.isfinite(value):
        return Failed("a tilted moment is not finite")
    move = newton_move(problem.engine, q, tuple(v.gap for v in visited))
    if not math.isfinite(move + widest + away):
        return Failed("a tilted moment is not finite")
    return RowPoint(q, power, sites, visited, value, max(move, widest, away))


def _visited(
    problem: Problem, q: Conditioned, sites: tuple[RowSites, ...], power: float
) -> tuple[tuple[VisitedRows, ...], float, float] | Failed:
    """The sites visited at q, how far they would change a variance, and the farthest tilted mean:
    as `matching.residual_of` has it."""
    if not all(np.isfinite(x).all() for x in (*q.mean, *q.variance)):
        return Failed("a marginal is not finite")
    visitors = _visitors(problem, q, power)
    out = []
    for rows, m, v, visitor in zip(sites, q.mean, q.variance, visitors, strict=True):
        seen = rows.visited(m, v, visitor)
        if seen is None:
            return Failed("a cavity has no positive precision, or a tilted moment is not finite")
        if seen.inside:
            visitor.change, visitor.share = changes(rows.weight, seen.towards(1.0).weight, v)
        out.append(seen)
    widest = min(sum(v.change for v in visitors), max((v.share for v in visitors), default=0.0))
    return tuple(out), widest, max((v.away for v in visitors), default=0.0)


def _visitors(problem: Problem, q: Conditioned, power: float) -> tuple[Visitor, ...]:
    most = max((float(diagonal(v).max(initial=0.0)) for v in q.variance), default=0.0)
    return tuple(Visitor(power, most, concave) for concave in concave_blocks(problem))


def advance(problem: Problem, walk: RowWalk) -> RowWalk | None:
    """The next point, the step damped as `parallel.damped` does; None where none is usable."""
    point = walk.point

    def trial(share: float) -> RowPoint | None:
        tried = at(problem, tuple(v.towards(share) for v in point.visited), point.power)
        return tried if isinstance(tried, RowPoint) else None

    step = damped(walk.share, point.residual, trial)
    return None if step is None else RowWalk(*step)


def parameter_slopes(
    problem: Problem, point: RowPoint
) -> Callable[[], tuple[Mapping[str, Array], ...]]:
    """dlog evidence/dparameter at the fixed point: E_tilted[dl/dparameter], summed over rows. Those
    of sums are computed at once: a posterior that is kept must not hold the sites of all rows."""
    q = point.conditioned
    parts = tuple(
        zip(point.sites, q.mean, q.variance, _visitors(problem, q, point.power), strict=True)
    )
    power = point.power
    known = tuple(
        None if isinstance(rows, OwnRows) else rows.slopes(m, v, visitor.cavity, power)
        for rows, m, v, visitor in parts
    )
    others = tuple(
        (rows, m, v, visitor) if isinstance(rows, OwnRows) else None
        for rows, m, v, visitor in parts
    )

    def slopes() -> tuple[Mapping[str, Array], ...]:
        asked = problem.asking(TiltedSlopes) if any(others) else (None,) * len(known)
        out: list[Mapping[str, Array]] = []
        for summed, other, answer in zip(known, others, asked, strict=True):
            if other is not None:
                rows, m, v, visitor = other
                summed = replace(rows, answer=answer).slopes(m, v, visitor.cavity, power)
            assert summed is not None
            out.append(summed)
        return tuple(out)

    return slopes
