"""Problems solved from an origin near their posterior, in units of their sites' own scales.

Sites that are densities on the predictor's own axis (`SiteSpec.scales`) have no natural unit and
no zero: y, the predictors and the scales can be divided by a number, which shifts the log evidence
by its logarithm for each density, and y and the predictors moved by one, which shifts nothing.
Floating point and back ends do depend on both. Statistics of sites whose level is L times their
noise have terms of L^2 that cancel, and starts, steps and floors are made for scales around 1. So
where levels or scales are extreme, a problem is solved for

    z = place + z',   s = origin + unit s',   origin = B place + c to twice the precision,

and what comes back is translated (`engines.shared.rescaled`). Where priors are so wide that the
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
from lgmdsl.contract.posterior import GaussianPosterior
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Site
from lgmdsl.contract.structure import Shape
from lgmdsl.engines.shared.prior import BlockPrior
from lgmdsl.engines.shared.rescaled import Rescaling
from lgmdsl.numerics.doubled import Pair, added, row_sums
from lgmdsl.operators.scaled import scaled

# Levels of a row of a block's sites from which on terms cancel that are worth the digits (1e-8 nats
# of a row), and powers of two beyond which its scale is its unit.
LEVEL, OCTAVES = 1e4, 12
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
    free = [bool(site.spec.scales) and not site.spec.vector for site in problem.sites]
    if not any(free):
        return None
    landmarks = [_landmark(s) if f else None for s, f in zip(problem.sites, free, strict=True)]
    unit = tuple(_unit(found) for found in landmarks)
    high, engine = _high(problem, landmarks), problem.engine
    weight = tuple(_weight(f, m) for f, m in zip(landmarks, engine.prior_mean, strict=True))
    if engine.strain(weight) > STRAIN * max(1, engine.linear.rows):
        engine = engine if problem.stronger is None else problem.stronger(engine)
    if not high and engine is problem.engine and all(u == 1.0 for u in unit):
        return None
    problem = replace(problem, engine=engine)
    place = _place(problem, landmarks, weight) if high else np.zeros(engine.linear.size)
    return _rescaled(problem, unit, place, high)


def _landmark(site: Site) -> tuple[Array, Array] | None:
    """Centre and distance of each row; None where there are none to go by."""
    landmark = site.landmark() if len(site) else None
    if landmark is None:
        scale = np.array(getattr(site, site.spec.scales[0])) if len(site) else np.zeros(0)
        landmark = np.zeros_like(scale), scale
    centre, distance = landmark
    sound = np.isfinite(distance) & (distance > 0.0) & np.isfinite(centre)
    if not sound.any():
        return None
    return np.where(sound, centre, 0.0), np.where(sound, distance, np.inf)


def _unit(landmark: tuple[Array, Array] | None) -> float:
    """The power of two nearest to a block's median distance, 1 where that is not extreme."""
    if landmark is None:
        return 1.0
    known = landmark[1][np.isfinite(landmark[1])]
    usual = math.ldexp(1.0, OCTAVES)
    if known.min() >= 1.0 / usual and known.max() <= usual:
        return 1.0  # a median of many rows takes its time
    octave = round(float(np.median(np.log2(known))))
    return 1.0 if abs(octave) <= OCTAVES else math.ldexp(1.0, octave)


def _high(problem: Problem, landmarks: list[tuple[Array, Array] | None]) -> bool:
    """Whether the level of some block is high in units of its sites' distances."""
    blocks = zip(
        landmarks, problem.engine.prior_mean, problem.engine.linear.predictors, strict=True
    )
    for landmark, mean, predictor in blocks:
        if landmark is not None:
            parts = (np.abs(x) for x in (landmark[0], mean, predictor.offset))
            level = np.maximum.reduce([np.broadcast_to(x, landmark[1].shape) for x in parts])
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
        weight = tuple(w if f is None else _robust(f, c - m) for w, f, c, m in parts)
    for b in blocks:
        tied = any(f.constraints().shape[0] for f in b.block.factors)
        if tied or (Shape.IMPROPER in b.block.shape and not b.flat):
            place[b.where] = b.mean
    return place


def _weight(landmark: tuple[Array, Array] | None, mean: Array) -> Array:
    if landmark is not None:
        return landmark[1] ** -2.0 + np.zeros_like(mean)
    if mean.ndim == 1:
        return np.ones_like(mean)
    return np.broadcast_to(np.eye(mean.shape[1]), (*mean.shape, mean.shape[1])).copy()


def _robust(landmark: tuple[Array, Array], residual: Array) -> Array:
    """Cauchy's weights in units of the median residual."""
    x = residual / landmark[1]
    usual = max(1.0, float(np.median(np.abs(x))))
    return np.asarray(landmark[1] ** -2.0 / (1.0 + (x / usual) ** 2))


def _rescaled(
    problem: Problem, unit: tuple[float, ...], place: Array, high: bool
) -> RescaledProblem:
    engine, gain = problem.engine, 0.0
    linear = engine.linear
    sites: list[Site] = []
    origins: list[Array] = []
    predictors: list[Predictor] = []
    for site, p, u in zip(problem.sites, linear.predictors, unit, strict=True):
        level = _level(p, linear, place) if high else (np.array(p.offset), np.zeros(p.rows))
        origin = np.zeros(p.rows)
        if site.spec.places and high:
            origin, level = level[0], (level[1], np.zeros(p.rows))
        offset = (level[0] + level[1]) / u
        columns = {name: scaled(operator, 1.0 / u) for name, operator in p.columns.items()}
        if site.spec.scales and not site.spec.vector:
            site, more = site.measured(origin, u)
            gain += more
        sites.append(site)
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
    return RescaledProblem(rescaled, Rescaling(linear, tuple(origins), unit, place), scales, gain)


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
