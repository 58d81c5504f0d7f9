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
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.rows import CERTAIN, diagonal, inner, quadratic, times
from lgmdsl.contract.site import Property
from lgmdsl.contract.stacked import flatten, split_like


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


# ---- blocks ------------------------------------------------------------------------------------
# Cavities, targets and gaps of one block of sites, scalar or with K predictors each.
#
# A `Block` holds arrays (N,) and (N,), or (N, K) and (N, K, K). Of vector sites everything is done
# in coordinates of the marginal's or the cavity's own root R, R R' = V, so that V may be singular:
# directions without variance keep whatever weight they have.


# A cavity whose precision is below FLATTEST of the marginal's is flat (a row that alone fixes a
# direction without a prior leaves none, up to rounding); below -ROUNDING there is no cavity.
FLATTEST, ROUNDING = 1e-9, 1e-7
# Directions of a site's predictors, each in its own sd, with less variance than this have none.
THIN = 1e-11


@dataclass(frozen=True, eq=False)
class Block:
    """One block of sites: weight, shift, q's marginals, the marginals that cavities were taken
    from, cavities and tilted moments; `known`, (N,): sites without variance; `log_mass`, (N,): of
    the tilted densities, and `gaussian`, (N,): 1/e log E_cav t~^e."""

    weight: Array
    shift: Array
    mean: Array
    variance: Array
    reference: tuple[Array, Array]
    known: BoolArray
    cavity_mean: Array
    cavity_variance: Array
    gaussian: Array
    power: float
    tilted_mean: Array
    tilted_variance: Array
    log_mass: Array

    @property
    def scalar(self) -> bool:
        """Whether each site has one predictor."""
        return self.mean.ndim == 1

    @property
    def finite(self) -> bool:
        """Whether every site has tilted moments."""
        spread = diagonal(self.tilted_variance)
        known = (
            self.known if self.scalar else self.known[:, None] | (diagonal(self.variance) <= 0.0)
        )
        return bool(np.isfinite(self.tilted_mean).all() and (known | (spread > 0.0)).all())

    def target_weight(self) -> Array:
        """tau' = (1/v^ - 1/v_c) / e."""
        cavity, tilted, power = self.cavity_variance, self.tilted_variance, self.power
        if self.scalar:
            product = np.where(self.known, 1.0, power * cavity * tilted)
            return np.where(self.known, self.weight, (cavity - tilted) / product)
        back, values, turn = _whitened(cavity, tilted)
        share = np.where(values > 0.0, (1.0 - values) / np.where(values > 0.0, values, 1.0), 0.0)
        side = back @ turn
        weight = (side * (share / power)[:, None, :]) @ side.transpose(0, 2, 1)
        return np.where(self.known[:, None, None], self.weight, _even(weight))

    def slope_gap(self) -> Array:
        """(m^ - m) / (e v^): what the slope of log t~ at m lacks."""
        if self.scalar:
            spread = np.where(self.known, 1.0, self.power * self.tilted_variance)
            return np.where(self.known, 0.0, (self.tilted_mean - self.mean) / spread)
        back, values, turn = _whitened(self.cavity_variance, self.tilted_variance)
        side = back @ turn
        inverse = np.where(values > 0.0, 1.0 / np.where(values > 0.0, values, 1.0), 0.0)
        along = np.einsum("nji,nj->ni", side, self.tilted_mean - self.mean) * inverse
        gap = np.einsum("nij,nj->ni", side, along) / self.power
        return np.where(self.known[:, None], 0.0, gap)

    def target(self) -> tuple[Array, Array]:
        """(tau', nu') that match the tilted moments."""
        weight = self.target_weight()
        slope = self.shift - times(self.weight, self.mean) + self.slope_gap()
        return weight, slope + times(weight, self.mean)

    def away(self) -> float:
        """The largest distance of a tilted mean from q's, in q's sds."""
        spread, known = diagonal(self.variance), self.known if self.scalar else self.known[:, None]
        known = known | (spread <= 0.0)
        sd = np.sqrt(np.where(known, 1.0, spread))
        return float(np.where(known, 0.0, np.abs(self.tilted_mean - self.mean) / sd).max(initial=0))

    def changes(self, concave: bool) -> tuple[float, float]:
        """`changes` from the weights to the target's."""
        target = self.target_weight()
        if concave:
            target = nonnegative(target, self.variance)  # but for rounding
        return changes(self.weight, target, self.variance)


def changes(weight: Array, target: Array, variance: Array) -> tuple[float, float]:
    """How far other weights of sites would change any posterior variance, relative to itself, at
    most: sum tr |dW| V; and a share within which all precisions are of one another (inf where a
    weight is negative)."""
    if weight.ndim == 1:
        change = np.abs(target - weight)
        if not ((weight >= 0.0).all() and (target >= 0.0).all()):
            return float(np.sum(change * variance)), np.inf
        size = np.maximum(weight, target)
        share = np.divide(change, size, out=np.zeros_like(size), where=size > 0.0)
        return float(np.sum(change * variance)), float(share.max(initial=0.0))
    root = root_of(variance)
    change = _seen(root, target - weight)
    widest = float(np.abs(np.linalg.eigvalsh(change)).sum())
    both = np.stack([_seen(root, w) for w in (weight, target)])
    if np.linalg.eigvalsh(both).min(initial=0.0) < -ROUNDING:
        return widest, np.inf
    # |change| <= s (W + W' + 1 / (n V)) at each site: in sum at most 3 s of the precision.
    values, turn = np.linalg.eigh(both.sum(axis=0))
    scale = turn / np.sqrt(np.maximum(values, 0.0) + 1.0 / len(change))[:, None, :]
    share = np.abs(np.linalg.eigvalsh(_even(scale.transpose(0, 2, 1) @ change @ scale)))
    return widest, 3.0 * float(share.max(initial=0.0))


def cavities(
    weight: Array,
    shift: Array,
    moments: tuple[Array, Array],
    reference: tuple[Array, Array] | None,
    power: float,
    most: float,
) -> Block | None:
    """A block with its cavities, its tilted moments still those of the cavities; None where a
    cavity has no positive precision. `most`: the largest variance of any predictor."""
    m, v = moments if reference is None else reference
    slope = shift - times(weight, m)
    if m.ndim == 1:
        known = ~(v > CERTAIN * most)
        share = np.where(known, 1.0, 1.0 - power * weight * v)
        if (share < -ROUNDING).any():
            return None
        spread = np.where(known, 0.0, v) / np.maximum(share, FLATTEST)
        log_share = -np.log1p(power * weight * spread)
    else:
        known = ~(diagonal(v).max(axis=1) > CERTAIN * most)
        root = root_of(np.where(known[:, None, None], 0.0, v))
        values, turn = np.linalg.eigh(np.eye(m.shape[1]) - power * _seen(root, weight))
        if (values < -ROUNDING).any():
            return None
        values = np.maximum(values, FLATTEST)
        side = root @ turn
        spread = _even((side / values[:, None, :]) @ side.transpose(0, 2, 1))
        log_share = np.log(values).sum(axis=1)
    centre = m - power * times(spread, slope)
    gaussian = (
        inner(shift, m)
        - quadratic(0.5 * weight, m)
        + 0.5 / power * log_share
        - (
            0.5 * power * spread * slope**2
            if m.ndim == 1
            else 0.5 * power * quadratic(spread, slope)
        )
    )
    none = np.zeros(len(m))
    return Block(
        weight,
        shift,
        *moments,
        (m, v),
        known,
        centre,
        spread,
        gaussian,
        power,
        centre,
        spread,
        none,
    )


def tilt(block: Block, site: Tilted) -> Block:
    """The block with its tilted moments."""
    a = site.tilted(block.cavity_mean, block.cavity_variance, block.power)
    return replace(block, tilted_mean=a.mean, tilted_variance=a.variance, log_mass=a.log_mass)


def nonnegative(weight: Array, variance: Array | None = None) -> Array:
    """Weights without their negative part, in units of the predictors' sds where their variance is
    given."""
    if weight.ndim == 1:
        return np.maximum(weight, 0.0)
    unit = np.ones(weight.shape[:2]) if variance is None else _units(variance)
    values, turn = np.linalg.eigh(_even(weight * unit[:, :, None] * unit[:, None, :]))
    side = turn / unit[:, :, None]
    return np.asarray((side * np.maximum(values, 0.0)[:, None, :]) @ side.transpose(0, 2, 1))


def root_of(variance: Array) -> Array:
    """R with RR' = V, (N, K, K): the predictors' sds times the symmetric root of their
    correlations, so that predictors of very different units keep their digits."""
    unit = _units(variance)
    values, turn = np.linalg.eigh(variance / unit[:, :, None] / unit[:, None, :])
    side = turn * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(unit[:, :, None] * (side @ turn.transpose(0, 2, 1)))


def _units(variance: Array) -> Array:
    """The predictors' sds, (N, K); 1 where there is none."""
    sds = np.sqrt(np.maximum(diagonal(variance), 0.0))
    return np.where(sds > 0.0, sds, 1.0)


def _seen(root: Array, weight: Array) -> Array:
    """R'WR."""
    return _even(root.transpose(0, 2, 1) @ weight @ root)


def _even(a: Array) -> Array:
    return 0.5 * (a + a.transpose(0, 2, 1))


def _whitened(cavity: Array, tilted: Array) -> tuple[Array, Array, Array]:
    """B with B'CB = I where C has variance, and eigenvalues and vectors of B'V^B: 0 where none."""
    sds = np.sqrt(diagonal(cavity))
    unit = np.where(sds > 0.0, 1.0 / np.where(sds > 0.0, sds, 1.0), 0.0)
    values, turn = np.linalg.eigh(cavity * unit[:, :, None] * unit[:, None, :])
    solid = values > THIN
    scale = np.where(solid, 1.0 / np.sqrt(np.where(solid, values, 1.0)), 0.0)
    back = unit[:, :, None] * turn * scale[:, None, :]
    squares, axes = np.linalg.eigh(_even(back.transpose(0, 2, 1) @ tilted @ back))
    return back, np.where(squares > THIN, squares, 0.0), axes


def in_sds(weight: Array, shift: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Changes (dtau, dnu) of a block as those of log variance over root two, and of the mean in
    posterior sds, that each site would make alone."""
    if mean.ndim == 1:
        return variance * weight / np.sqrt(2.0), np.sqrt(variance) * (shift - mean * weight)
    root = root_of(variance)
    turned = np.einsum("nji,nj->ni", root, shift - times(weight, mean))
    return _seen(root, weight) / np.sqrt(2.0), turned
