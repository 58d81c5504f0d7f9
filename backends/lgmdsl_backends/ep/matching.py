"""One point of EP: cavities, tilted moments, evidence, and where moment matching would move it.

Site parameters (tau, nu) of t~ = exp(-1/2 tau s^2 + nu s), power e, a marginal N(m, v) of the row,
the slope a = nu - tau m of log t~ at m. Power EP (Minka 2004), so written that a large m does not
cancel:

    cavity    1/v_c = 1/v - e tau,    m_c = m - e v_c a
    value     log_normaliser + sum 1/e [log E_cav t^e - log E_cav t~^e],
              1/e log E_cav t~^e = nu m - 1/2 tau m^2 - log(1 + e tau v_c) / (2 e) - 1/2 e v_c a^2
    target    tau' = (1/v^ - 1/v_c) / e,    slope at m: a + (m^ - m) / (e v^)

with m^, v^ the moments of the tilted density N(m_c, v_c) t^e. In EP the marginals are q's own, and
the value is its log evidence; the double loop holds others (`reference`). Of vector sites the same
with matrices, log(1 + e tau v_c) = -log det(I - e V W): see `blocks`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.contract.engine import Conditioned, Failed, Rows
from lgmdsl.contract.joint import newton_move
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.rows import diagonal
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import flatten, split_like
from lgmdsl_backends.ep.blocks import Block, cavities, nonnegative, tilt


@dataclass(frozen=True, eq=False)
class Matched:
    """q and its sites with their tilted densities, block by block; `residual`: see `residual_of`.

    Flattened, (P,) each where all sites are scalar: `weight`, `shift`; `mean`, `variance`: q's
    marginals; `reference`: mean and variance of the marginals that the cavities were taken from;
    `known`: rows without variance.
    """

    conditioned: Conditioned
    power: float
    blocks: tuple[Block, ...]
    value: float
    residual: float = math.inf

    @cached_property
    def weight(self) -> Array:
        return flatten(tuple(b.weight for b in self.blocks))

    @cached_property
    def shift(self) -> Array:
        return flatten(tuple(b.shift for b in self.blocks))

    @cached_property
    def mean(self) -> Array:
        return flatten(tuple(b.mean for b in self.blocks))

    @cached_property
    def variance(self) -> Array:
        return flatten(tuple(b.variance for b in self.blocks))

    @cached_property
    def reference(self) -> tuple[Array, Array]:
        return (
            flatten(tuple(b.reference[0] for b in self.blocks)),
            flatten(tuple(b.reference[1] for b in self.blocks)),
        )

    @cached_property
    def cavity_mean(self) -> Array:
        return flatten(tuple(b.cavity_mean for b in self.blocks))

    @cached_property
    def cavity_variance(self) -> Array:
        return flatten(tuple(b.cavity_variance for b in self.blocks))

    @cached_property
    def tilted_mean(self) -> Array:
        return flatten(tuple(b.tilted_mean for b in self.blocks))

    @cached_property
    def tilted_variance(self) -> Array:
        return flatten(tuple(b.tilted_variance for b in self.blocks))

    @cached_property
    def known(self) -> BoolArray:
        none = np.zeros(0, dtype=np.bool_)
        return np.concatenate([none, *(b.known for b in self.blocks)])


def condition(problem: Problem, weight: Array, shift: Array) -> Conditioned | Failed:
    """The engine conditioned on flattened sites."""
    prior = problem.engine.prior_mean
    return problem.engine.condition(shaped(weight, prior), split_like(shift, prior))


def shaped(weight: Array, like: Rows) -> Rows:
    """Flattened weights, (N,) for each block of `like` that is (N,), (N, K, K) for (N, K)."""
    shapes = [m if m.ndim == 1 else np.empty((*m.shape, m.shape[1])) for m in like]
    return split_like(weight, tuple(shapes))


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
    like = (q.mean, q.variance)
    base = like if reference is None else tuple(map(split_like, reference, like))
    if not all(np.isfinite(x).all() for rows in base for x in rows):
        return Failed("a marginal is not finite")
    most = max((float(diagonal(v).max(initial=0.0)) for v in base[1]), default=0.0)
    blocks = []
    rows = zip(q.weight, q.shift, q.mean, q.variance, *base, problem.tilting(), strict=True)
    for weight, shift, mean, variance, m, v, site in rows:
        block = cavities(weight, shift, (mean, variance), (m, v), power, most)
        if block is None:
            return Failed("a cavity has no positive precision")
        blocks.append(tilt(block, site))
    masses = flatten(tuple(b.log_mass / power - b.gaussian for b in blocks))
    value = q.log_normaliser + float(np.sum(masses))
    if not (math.isfinite(value) and all(b.finite for b in blocks)):
        return Failed("a tilted moment is not finite")
    return Matched(q, power, tuple(blocks), value)


def target_of(point: Matched) -> tuple[Array, Array]:
    """(tau', nu') that match the tilted moments, flattened."""
    targets = [b.target() for b in point.blocks]
    return flatten(tuple(w for w, _ in targets)), flatten(tuple(s for _, s in targets))


def concave_blocks(problem: Problem) -> tuple[bool, ...]:
    """Whether the sites of each block are log-concave."""
    return tuple(Property.LOG_CONCAVE in site.spec.properties for site in problem.sites)


def usable(problem: Problem, weight: Array) -> Array:
    """Flattened weights, those of log-concave sites without their negative part."""
    blocks = shaped(weight, problem.engine.prior_mean)
    pairs = zip(blocks, concave_blocks(problem), strict=True)
    return flatten(tuple(nonnegative(w) if concave else w for w, concave in pairs))


def residual_of(problem: Problem, point: Matched) -> float:
    """How far one undamped step would move any mean in posterior sds, or any posterior variance
    relative to itself, at most (to first order), and how far any tilted mean is from q's: zero
    exactly where the moments match."""
    gaps = tuple(b.slope_gap() for b in point.blocks)
    move = newton_move(problem.engine, point.conditioned, gaps)
    # Sites that contradict each other may be far from matched and yet move nothing together.
    away = max((b.away() for b in point.blocks), default=0.0)
    pairs = zip(point.blocks, concave_blocks(problem), strict=True)
    changes = [b.changes(concave) for b, concave in pairs]
    widest = sum(change for change, _ in changes)
    # Precisions all within a share of one another give variances within that share.
    widest = min(widest, max((share for _, share in changes), default=0.0))
    return max(move, widest, away)
