"""Problems solved from an origin near their posterior, in units of their sites' own scales.

Sites that are densities on the predictor's own axis (`SiteSpec.scales`) have no natural unit and
no zero: y, the predictors and the scales can be divided by a number, which shifts the log evidence
by its logarithm for each density, and y and the predictors moved by one, which shifts nothing.
Floating point and back ends do depend on both. Statistics of sites whose level is L times their
noise have terms of L^2 that cancel, and starts, steps and floors are made for scales around 1. So
where levels or scales are extreme, a problem is solved for

    z = place + z',   s = origin + unit s',   origin = B place + c to twice the precision,

and what comes back is translated (`engines.shared.rescaled`). Of vector sites with predictors for
the logarithms of their scales (`Site.log_scales`) the unit is that of the first predictor, and the
logarithms lack its own. Where priors are so wide that the
engine's own algebra loses digits, one whose algebra does not takes its place. Elsewhere nothing is
touched.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Failed, Leftover, Rows
from lgmdsl.contract.linear import Constraints, LinearGaussian, Predictor
from lgmdsl.contract.problem import GaussianPosterior, Problem
from lgmdsl.contract.site import Site
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.rescaled import Rescaling, Unit
from lgmdsl.inference.landmarks import (
    has_unit,
    is_joint,
    joint_landmark,
    landmark_of,
    robust,
    unit_of,
    weight_of,
)
from lgmdsl.numerics.doubled import Pair, added, row_sums
from lgmdsl.operators.scaled import scaled

# Levels of a row of a block's sites from which on terms cancel that are worth the digits (1e-8 nats
# of a row).
LEVEL = 1e4
STRAIN = 1e-9  # nats of a row that an engine may lose to wide priors, where another loses none
# Of the residual where an engine that iterates begins: a level of 1e12 is left some units off.
NEAR = 1e-12
SWEEPS = 3  # of reweighting, so that a few outliers do not draw the place to themselves


class Unplaced(Exception):
    """The level is high, and no engine's answer says where: what would be solved for cancels."""


@dataclass(frozen=True, eq=False)
class RescaledProblem:
    """The problem in other units, and `gain`: what log evidences have in addition to its own."""

    problem: Problem
    rescaling: Rescaling
    scales: tuple[tuple[str, ...], ...]
    gain: float

    def inward(self, warm: GaussianPosterior | None) -> GaussianPosterior | None:
        """A posterior to start from."""
        if warm is None:
            return None
        q = self.rescaling.inverse().seen(warm.conditioned)
        return GaussianPosterior(
            q.weight, q.shift, q, warm.log_evidence - self.gain, warm.guarantee, warm.notes
        )

    def outward(self, posterior: GaussianPosterior) -> GaussianPosterior:
        """A posterior that was found, in the units of the model."""
        q = self.rescaling.seen(posterior.conditioned)
        slopes, adjoints = posterior.slopes, posterior.adjoints
        return replace(
            posterior,
            weight=q.weight,
            shift=q.shift,
            conditioned=q,
            log_evidence=posterior.log_evidence + self.gain,
            slopes=None if slopes is None else lambda: self._slopes(slopes()),
            adjoints=None if adjoints is None else lambda: self.rescaling.adjoints(adjoints()),
        )

    def _slopes(self, inner: tuple[Mapping[str, Array], ...]) -> tuple[Mapping[str, Array], ...]:
        blocks = zip(inner, self.scales, self.rescaling.unit, strict=True)
        return tuple(
            {n: x / unit if n in names else x for n, x in slopes.items()}
            for slopes, names, unit in blocks
        )


def rescale(problem: Problem) -> RescaledProblem | None:
    """The problem in rescaled units; None where its scales and levels are ordinary. Raises
    Unplaced where they are not and rounding hides where the latents are."""
    if problem.remade is None:
        return None
    predictors = problem.engine.linear.predictors
    free = [has_unit(site) for site in problem.sites]
    joint = [is_joint(s, p) for s, p in zip(problem.sites, predictors, strict=True)]
    if not any(free) and not any(joint):
        return None
    landmarks = [
        landmark_of(site, p.event) if f else joint_landmark(site) if j else None
        for site, p, f, j in zip(problem.sites, predictors, free, joint, strict=True)
    ]
    unit = tuple(unit_of(found) for found in landmarks)
    high, engine = _high(problem, landmarks), problem.engine
    # Flat latents of the logarithms are to start where the unit is.
    high = high or any(j and u != 1.0 for j, u in zip(joint, unit, strict=True))
    if not any(free) and not high:
        return None
    weight = tuple(weight_of(f, m) for f, m in zip(landmarks, engine.prior_mean, strict=True))
    if engine.strain(weight) > STRAIN * max(1, engine.linear.rows):
        engine = engine if problem.stronger is None else problem.stronger(engine)
    if not high and engine is problem.engine and all(u == 1.0 for u in unit):
        return None
    problem = replace(problem, engine=engine)
    place = _place(problem, landmarks, weight) if high else np.zeros(engine.linear.size)
    return _rescaled(problem, unit, place, high)


def _high(problem: Problem, landmarks: list[tuple[Array, Array] | None]) -> bool:
    """Whether the level of some block is high in units of its sites' distances."""
    blocks = zip(
        landmarks, problem.engine.prior_mean, problem.engine.linear.predictors, strict=True
    )
    for landmark, mean, predictor in blocks:
        if landmark is not None:
            shape = landmark[1].shape
            offset = np.broadcast_to(predictor.offset, predictor.rows).reshape(shape)
            parts = (np.abs(x) for x in (landmark[0], mean, offset))
            level = np.maximum.reduce([np.broadcast_to(x, shape) for x in parts])
            level = level / landmark[1]
            if float(level.max()) > LEVEL:
                return True
    return False


def _place(problem: Problem, landmarks: list[tuple[Array, Array] | None], weight: Rows) -> Array:
    """About where the latents are: least squares on the sites' centres, rows far off counting less
    at each sweep; the prior's mean where there is no such place. Latents that are tied stay."""
    engine = problem.engine
    linear, means = engine.linear, engine.prior_mean
    blocks = [BlockPrior(b, linear.starts[b.name]) for b in linear.blocks]
    place = np.concatenate([np.zeros(0), *(b.mean for b in blocks)])
    centre = tuple(
        m if landmark is None else landmark[0] + np.zeros_like(m)
        for landmark, m in zip(landmarks, means, strict=True)
    )
    begin = Leftover(np.zeros(linear.size), np.zeros(linear.size))
    for _ in range(SWEEPS):
        shift = tuple(rows.times(w, c) for w, c in zip(weight, centre, strict=True))
        q = engine.approach(weight, shift, begin, NEAR)
        if isinstance(q, Failed) and q.rounding:
            raise Unplaced(q.reason)
        if isinstance(q, Failed) or not np.isfinite(q.latent_mean).all():
            break
        place = np.array(q.latent_mean)
        parts = zip(weight, landmarks, centre, q.mean, strict=True)
        weight = tuple(w if f is None else robust(f, c - m) for w, f, c, m in parts)
    for b in blocks:
        tied = any(f.constraints().shape[0] for f in b.block.factors)
        if tied or (Shape.IMPROPER in b.block.shape and not b.flat):
            place[b.where] = b.mean
    return place


def _rescaled(
    problem: Problem, unit: tuple[float, ...], place: Array, high: bool
) -> RescaledProblem:
    engine, gain = problem.engine, 0.0
    linear = engine.linear
    sites: list[Site] = []
    origins: list[Array] = []
    units: list[Unit] = []
    predictors: list[Predictor] = []
    for site, p, u in zip(problem.sites, linear.predictors, unit, strict=True):
        level = _level(p, linear, place) if high else (np.array(p.offset), np.zeros(p.rows))
        origin = np.zeros(p.rows)
        each: Unit = u
        if is_joint(site, p):
            origin, each = _joint_origin(site, level[0] if high else origin, u)
            level = level[0] - origin, level[1]
            site, more = site.measured(origin[:: p.event], u)
            gain += more
        elif site.spec.places and high:
            origin, level = level[0], (level[1], np.zeros(p.rows))
        of_row = np.resize(each, p.rows) if isinstance(each, np.ndarray) else each
        offset = (level[0] + level[1]) / of_row
        columns = {name: scaled(o, 1.0 / of_row) for name, o in p.columns.items()}
        if has_unit(site):
            site, more = site.measured(origin, u)
            gain += more
        sites.append(site)
        units.append(each)
        origins.append(origin.reshape(-1, p.event) if p.event else origin)
        predictors.append(Predictor(columns, offset, p.event))
    blocks = tuple(
        b if not high else replace(b, mean=b.mean - place[where])
        for b, where in zip(linear.blocks, linear.slices.values(), strict=True)
    )
    model = LinearGaussian(blocks, tuple(predictors), _constraints(linear, place))
    assert problem.remade is not None
    rescaled = problem.remade(tuple(sites), engine.remade(model))
    scales = tuple(s.spec.scales for s in problem.sites)
    rescaling = Rescaling(linear, tuple(origins), tuple(units), place)
    return RescaledProblem(rescaled, rescaling, scales, gain)


def _joint_origin(site: Site, level: Array, unit: float) -> tuple[Array, Unit]:
    """Origin of each row, and the unit of each predictor: the level of the first, the logarithm of
    the unit of those that are logarithms of scales."""
    count = len(site.spec.predictors)
    origin, each = np.zeros((len(site), count)), np.ones(count)
    origin[:, 0], each[0] = level[::count], unit
    origin[:, list(site.log_scales)] = math.log(unit)
    return origin.reshape(-1), 1.0 if unit == 1.0 else each


def _level(predictor: Predictor, linear: LinearGaussian, place: Array) -> Pair:
    """B place + c to twice the precision; of operators that are not written out, to one."""
    total: Pair = np.array(predictor.offset, dtype=np.float64), np.zeros(predictor.rows)
    for name, operator in predictor.columns.items():
        x = place[linear.slices[name]]
        if operator.in_memory or operator.is_sparse:
            total = row_sums(operator.sparse(), x, total)
        else:
            high, low = added(total[0], operator.matvec(x))
            total = added(high, low + total[1])
    return total


def _constraints(linear: LinearGaussian, place: Array) -> Constraints | None:
    """C z' = e - C place."""
    if linear.constraints is None:
        return None
    values = np.array(linear.constraints.values, dtype=np.float64)
    for name, operator in linear.constraints.columns.items():
        values -= operator.matvec(place[linear.slices[name]])
    return Constraints(linear.constraints.columns, values)
