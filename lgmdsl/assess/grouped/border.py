"""The border's posterior at one hyperparameter point, by importance of quasi-random draws of q.

    p(b | y) = q(b) exp(r_border(b)) prod_g F_g(b) / (p(y) / const)

Draws come in several scramblings of a Sobol sequence (Owen 1997): what these differ by is the error
of whatever is made of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtri

from lgmdsl.accuracy.tails import HEAVY, hill
from lgmdsl.accuracy.weighted import SCALES, Weighted, log_scale_mixture
from lgmdsl.arrays import Array
from lgmdsl.assess.grouped.groups import Groups
from lgmdsl.assess.grouped.lattice import (
    EDGE,
    FINE,
    NODES,
    SEEKING,
    GroupSites,
    Lattice,
    edges,
    fitting,
    holds,
    log_sum,
)
from lgmdsl.assess.grouped.lines import drawn
from lgmdsl.assess.grouped.split import NoGroups, Split, split
from lgmdsl.assess.sampling.draws import MixturePoint

SCRAMBLINGS = 8
LEAST = 4  # draws of a scrambling
EVEN, LITTLE = 0.5, 0.25  # of the draws: their effective size, below which others are drawn; none
WIDER = 1.15  # of the sds of draws that were adapted
UNEVEN = 4.0  # times the mean weight: a larger one asks for draws at several scales
NOTHING = 14.0  # nats below the largest weight: of draws that do not matter
WORST, LOOSE = 3, 4.5  # draws that a lattice is fitted to again, and nats at its ends then
TRIALS, AWAY = 4, 2.5  # border draws that lattices are fitted at, and how far out, in sds
TABLE = 1 << 24  # entries of the densities of all groups at all draws that are held
# Operations for a site at a draw and a node, for a latent that is drawn, and for each point of the
# densities that it is drawn from (measured at 20 to 60, 120 and 25 ns).
SITE, DRAWN, NODE = 40.0, 120.0, 25.0


@dataclass(frozen=True, eq=False)
class Border(Weighted):
    """Draws (m, p') of the border, weighted by p(y, b) over the density that they are of, in
    SCRAMBLINGS parts (one where it has no latents: a single draw), and the `levels` of the groups'
    lattice at each."""

    levels: Array = field(kw_only=True)


class GroupedPoint:
    """The posterior at one hyperparameter point. Raises NoGroups where it cannot be taken apart."""

    lattice: Lattice

    def __init__(self, point: MixturePoint, groups: Groups) -> None:
        self.split: Split = split(point.linear, point.q, groups)
        self.sites = GroupSites(tuple(point.sites), point.q, self.split)
        self.trial = _trials(self.split.rank)
        self.nodes = NODES[groups.width]

    def fit(self, known: Lattice | None = None) -> None:
        """A lattice: that `known` of a point near by, where it is good here too."""
        near = known is not None and len(known.low) == self.sites.count
        if known is not None and near and holds(known, self.sites, self.trial):
            self.lattice = known
        else:
            self.lattice = fitting(self.sites, self.trial)
        self.nodes = self.lattice.n

    def price(self, draws: int) -> float:
        """Operations of fitting a lattice and of so many draws of the border, about."""
        groups = self.split.groups
        nodes = float(NODES[groups.width] ** groups.width)
        seeking = float(SEEKING[groups.width] ** groups.width)
        fitting = 2.0 * len(self.trial) * (seeking + nodes)
        return SITE * float(self.sites.entries) * (fitting + draws * nodes)

    def tables(self, draws: int) -> float:
        """Operations on the densities that latents are drawn from, of so many draws of the border,
        about."""
        cells = self.nodes**self.split.groups.width * self.sites.count
        return NODE * FINE * float(draws * cells)

    @property
    def evaluations(self) -> float:
        """Sites at draws and nodes, counted."""
        return self.sites.evaluations

    @property
    def each(self) -> float:
        """Evaluations for a draw of the border."""
        return float(self.lattice.n**self.lattice.width * self.sites.entries)

    def most(self) -> int:
        """Draws of the border of which the densities can be held."""
        cells = self.lattice.n**self.lattice.width * self.sites.count
        return int(TABLE // max(cells, 1))

    def border(self, draws: int, seed: int, skip: int = 0) -> Border:
        """About so many draws, of each scrambling those after the first `skip`. Raises NoGroups
        where their weights are too uneven."""
        rank = self.split.rank
        if not rank:
            return self._weighted(np.zeros((1, 0)), np.ones(1), np.zeros(0), np.eye(0))
        eta = _quasi_random(rank, max(draws // SCRAMBLINGS, LEAST), seed, skip)
        wide = _scaled(len(eta), seed)
        scale = np.ones(len(eta))
        known = self._fitted(eta, scale)
        if len(eta) * known.weights.max() > UNEVEN:
            known = self._fitted(eta, wide)
            scale = wide
        if known.effective < EVEN * len(eta) and known.effective > 2.0 * rank:
            w = known.weights
            mean = w @ known.draws
            away = known.draws - mean
            spread = np.linalg.cholesky((w[:, None] * away).T @ away + 1e-12 * np.eye(rank))
            again = self._weighted(eta, scale, mean, np.asarray(WIDER * spread))
            known = again if again.effective > known.effective else known
        if not known.effective >= LITTLE * len(eta) or hill(known.log_weight) > HEAVY:
            worth = f"{len(eta)} are worth {known.effective:.0f}"
            raise NoGroups(f"the weights of shared latents' draws are too uneven ({worth})")
        return known

    def _fitted(self, eta: Array, scale: Array) -> Border:
        """Draws about the middle; of a lattice that was fitted again where it left out any."""
        middle, unit = np.zeros(eta.shape[1]), np.eye(eta.shape[1])
        known = self._weighted(eta, scale, middle, unit)
        outside = np.where(_matters(known.log_weight), edges(self.lattice, known.levels), -np.inf)
        if outside.max() > -EDGE:
            farthest = np.argsort(-outside, kind="stable")[:WORST]
            self.lattice = fitting(self.sites, np.concatenate([self.trial, known.draws[farthest]]))
            known = self._weighted(eta, scale, middle, unit)
        return known

    def _weighted(self, eta: Array, scale: Array, mean: Array, root: Array) -> Border:
        """Border of the draws mean + root (scale eta), from equal parts of each scale. Raises
        NoGroups."""
        u = scale[:, None] * eta
        xi = mean + u @ root.T
        levels = self.lattice.levels(self.sites, xi)
        inner = log_sum(levels)
        scales, counts = np.unique(scale, return_counts=True)
        shares = (counts / len(scale)).tolist()
        proposal = log_scale_mixture((u**2).sum(axis=1), u.shape[1], scales.tolist(), shares)
        change = -0.5 * (xi**2).sum(axis=1) - proposal
        change += float(np.linalg.slogdet(root)[1])
        log_weight = self.sites.border(xi) + inner @ self.sites.times + change
        if not np.isfinite(log_weight).all():
            raise NoGroups("a site has no density somewhere")
        if edges(self.lattice, levels)[_matters(log_weight)].max() > -LOOSE:
            raise NoGroups("a group's density moves too far with the shared latents")
        parts = SCRAMBLINGS if xi.shape[1] else 1
        return Border(xi, log_weight, parts=parts, levels=levels)

    def latents(self, border: Border, draws: int, rng: np.random.Generator) -> Array:
        """(draws, n) equally weighted draws of z: of the border by systematic resampling, of each
        group given it by its distribution function, stratified over the draws."""
        which = border.positions(draws, rng)
        shape = (draws, self.split.groups.count, self.lattice.width)
        ranks = rng.permuted(
            np.broadcast_to(np.arange(draws)[:, None], (draws, shape[1] * shape[2])), axis=0
        )
        uniform = (ranks.reshape(shape) + rng.random(shape)) / draws
        x = drawn(self.lattice, border.levels, which, self.sites.kind, uniform)
        return self.split.z(border.draws[which], x)


def _scaled(count: int, seed: int) -> Array:
    """(count,) scales in equal parts, of every scrambling in random order."""
    rng = np.random.default_rng([seed, 29])
    each = np.resize(SCALES, count // SCRAMBLINGS)
    return np.concatenate([rng.permutation(each) for _ in range(SCRAMBLINGS)])


def _matters(log_weight: Array) -> Array:
    """Whether a draw has any weight to speak of."""
    return np.asarray(log_weight >= log_weight.max() - NOTHING)  # of 1e148, where that is no less


def _trials(rank: int) -> Array:
    """(m, p') the middle, and draws in random directions."""
    if not rank:
        return np.zeros((1, 0))
    away = np.random.default_rng(rank).standard_normal((TRIALS - 1, rank))
    away *= AWAY / np.linalg.norm(away, axis=1, keepdims=True)
    return np.concatenate([np.zeros((1, rank)), away])


def _quasi_random(rank: int, each: int, seed: int, skip: int) -> Array:
    """(m, p') standard normal: of every scrambling `each` points after the first `skip`."""
    from scipy.stats import qmc

    power, pieces = math.ceil(math.log2(skip + each)), []
    for k in range(SCRAMBLINGS):
        sequence = qmc.Sobol(rank, seed=np.random.default_rng([seed, k, 19]))
        pieces.append(sequence.random_base2(power)[skip : skip + each])
    u = np.clip(np.concatenate(pieces), 1e-12, 1.0 - 1e-12)
    return np.asarray(ndtri(u), dtype=np.float64)
