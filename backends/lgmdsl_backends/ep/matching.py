"""One point of EP: cavities, tilted moments, evidence, and where moment matching would move it.

Site parameters (tau, nu) of t~ = exp(-1/2 tau s^2 + nu s), power e, a marginal N(m, v) of the row,
the slope a = nu - tau m of log t~ at m. Power EP (Minka 2004), so written that a large m does not
cancel:

    cavity    1/v_c = 1/v - e tau,    m_c = m - e v_c a
    value     log_normaliser + sum 1/e [log E_cav t^e - log E_cav t~^e],
              1/e log E_cav t~^e = nu m - 1/2 tau m^2 - log(1 + e tau v_c) / (2 e) - 1/2 e v_c a^2
    target    tau' = (1/v^ - 1/v_c) / e,    slope at m: a + (m^ - m) / (e v^)

with m^, v^ the moments of the tilted density N(m_c, v_c) t^e. In EP the marginals are q's own, and
the value is its log evidence; the double loop holds others (`reference`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import flatten, split

# Rows whose share of the largest variance is below this are known exactly: no weight changes them.
POINT = 1e-28
# A cavity whose precision is below FLATTEST of the marginal's is flat (a row that alone fixes a
# direction without a prior leaves none, up to rounding); below -ROUNDING there is no cavity.
FLATTEST, ROUNDING = 1e-9, 1e-7


@dataclass(frozen=True, eq=False)
class Matched:
    """q and its sites with their tilted densities; arrays are (P,), site blocks in order.

    `mean`, `variance`: q's marginals; `reference`: mean and variance of the marginals that the
    cavities were taken from; `known`: rows without variance; `residual`: see `residual_of`.
    """

    conditioned: Conditioned
    power: float
    weight: Array
    shift: Array
    mean: Array
    variance: Array
    reference: tuple[Array, Array]
    cavity_mean: Array
    cavity_variance: Array
    tilted_mean: Array
    tilted_variance: Array
    known: BoolArray
    value: float
    residual: float = math.inf


def condition(problem: Problem, weight: Array, shift: Array) -> Conditioned | Failed:
    """The engine conditioned on sites (P,)."""
    predictors = problem.engine.linear.predictors
    return problem.engine.condition(split(weight, predictors), split(shift, predictors))


def matched(problem: Problem, weight: Array, shift: Array, power: float) -> Matched | Failed:
    """EP's point at (tau, nu), with its residual: one factorisation, with variances."""
    q = condition(problem, weight, shift)
    return q if isinstance(q, Failed) else own(problem, q, power)


def own(problem: Problem, q: Conditioned, power: float) -> Matched | Failed:
    """q with the tilted densities of its own cavities, with the residual."""
    point = against(problem, q, None, power)
    return (
        point if isinstance(point, Failed) else replace(point, residual=residual_of(problem, point))
    )


def against(
    problem: Problem, q: Conditioned, reference: tuple[Array, Array] | None, power: float
) -> Matched | Failed:
    """q with the tilted densities of the cavities of `reference` (None: its own marginals).

    Failed where a cavity has no positive precision or a tilted moment is not finite.
    """
    mean, variance = flatten(q.mean), flatten(q.variance)
    tau, nu = flatten(q.weight), flatten(q.shift)
    m, v = (mean, variance) if reference is None else reference
    if not (np.isfinite(m).all() and np.isfinite(v).all()):
        return Failed("a marginal is not finite")
    known = ~(v > POINT * v.max(initial=0.0))
    share = np.where(known, 1.0, 1.0 - power * tau * v)
    if (share < -ROUNDING).any():
        return Failed("a cavity has no positive precision")
    cavity_variance = np.where(known, 0.0, v) / np.maximum(share, FLATTEST)
    slope = nu - tau * m
    cavity_mean = m - power * cavity_variance * slope
    predictors = problem.engine.linear.predictors
    blocks = zip(
        problem.tilting(),
        split(cavity_mean, predictors),
        split(cavity_variance, predictors),
        strict=True,
    )
    answers = [site.tilted(x, y, power) for site, x, y in blocks]
    log_mass = flatten(tuple(a.log_mass for a in answers))
    tilted_mean = flatten(tuple(a.mean for a in answers))
    tilted_variance = flatten(tuple(a.variance for a in answers))
    gaussian = (
        nu * m
        - 0.5 * tau * m * m
        - 0.5 / power * np.log1p(power * tau * cavity_variance)
        - 0.5 * power * cavity_variance * slope**2
    )
    value = q.log_normaliser + float(np.sum(log_mass / power - gaussian))
    if not (
        math.isfinite(value)
        and np.isfinite(tilted_mean).all()
        and (known | (tilted_variance > 0.0)).all()
    ):
        return Failed("a tilted moment is not finite")
    return Matched(
        q,
        power,
        tau,
        nu,
        mean,
        variance,
        (m, v),
        cavity_mean,
        cavity_variance,
        tilted_mean,
        tilted_variance,
        known,
        value,
    )


def target_of(point: Matched) -> tuple[Array, Array]:
    """(tau', nu') that match the tilted moments."""
    weight = _target_weight(point)
    slope = point.shift - point.weight * point.mean + _slope_gap(point)
    return weight, slope + weight * point.mean


def log_concave(problem: Problem) -> BoolArray:
    """(P,) whether the site of a row is log-concave."""
    flags = [
        np.full(p.rows, Property.LOG_CONCAVE in site.spec.properties)
        for site, p in zip(problem.sites, problem.engine.linear.predictors, strict=True)
    ]
    return np.concatenate([np.zeros(0, dtype=np.bool_), *flags])


def residual_of(problem: Problem, point: Matched) -> float:
    """How far one undamped step would move any mean in posterior sds, or any posterior variance
    relative to itself, at most (to first order), and how far any tilted mean is from q's: zero
    exactly where the moments match."""
    linear = problem.engine.linear
    move = newton_move(linear, point.conditioned, split(_slope_gap(point), linear.predictors))
    # Sites that contradict each other may be far from matched and yet move nothing together.
    sd = np.sqrt(np.where(point.known, 1.0, point.variance))
    away = np.where(point.known, 0.0, np.abs(point.tilted_mean - point.mean) / sd)
    weight, target = point.weight, _target_weight(point)
    target = np.where(log_concave(problem), np.maximum(target, 0.0), target)  # but for rounding
    change = np.abs(target - weight)
    widest = float(np.sum(change * point.variance))
    if (weight >= 0.0).all() and (target >= 0.0).all():
        # Precisions all within a share of one another give variances within that share.
        size = np.maximum(weight, target)
        share = np.divide(change, size, out=np.zeros_like(size), where=size > 0.0)
        widest = min(widest, float(share.max(initial=0.0)))
    return max(move, widest, float(away.max(initial=0.0)))


def _target_weight(point: Matched) -> Array:
    cavity, tilted = point.cavity_variance, point.tilted_variance
    product = np.where(point.known, 1.0, point.power * cavity * tilted)
    return np.where(point.known, point.weight, (cavity - tilted) / product)


def _slope_gap(point: Matched) -> Array:
    spread = np.where(point.known, 1.0, point.power * point.tilted_variance)
    return np.where(point.known, 0.0, (point.tilted_mean - point.mean) / spread)
