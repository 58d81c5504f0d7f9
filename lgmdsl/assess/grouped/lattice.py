"""The integrals of all groups at once, by product lattices, and draws from them.

Given the border, with x ~ N(0, I) a group's latents under q and r the sites less q's,

    F_g = int N(x; 0, I) exp sum_i r_i(s_i) dx

by the trapezoidal rule, whose error falls like e^{-2 pi d / h} with the step h (d: how far the
singularities are from the real axis), on a box that holds all of the integrand but e^-CUT of its
top. A lattice of the middles of its cells says whether it is fine enough.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.grouped.split import NoGroups, Split
from lgmdsl.contract.engine import Conditioned
from lgmdsl.contract.site import Site
from lgmdsl.numerics.normal_tail import LOG_TWO_PI

CUT = 10.0  # nats below its top, where a box ends
EDGE = 6.0  # and at least so many at its ends at every draw of the border
# Nodes an axis by the latents of a group: where boxes are sought, at first, and at most.
SEEKING = {1: 25, 2: 15, 3: 11}
NODES = {1: 12, 2: 9, 3: 8}
MOST = {1: 1024, 2: 40, 3: 32}
CLIFF = 40.0  # nats between neighbours of the nodes that seek a box, which say little of its end
SLACK, CHEAP = 1.7, 4e6  # of the first: more only where that takes so few evaluations
REACH, FARTHEST = 8.0, 128.0  # where boxes are sought, in sds of q
# What two lattices may differ by: all groups together, in nats, and the densities between nodes.
SUMMED, BETWEEN = 0.06, 0.02
DIGITS = 10  # to which groups that count as alike agree
PADDED = 4.0  # places, in groups of as many sites, for each site where groups are compared
CHUNK = 1 << 18  # sites at draws and nodes that are evaluated at once
NEIGHBOURS = 6  # nodes that a log density is interpolated from
FINE = 4  # points of a drawn density for each node


class GroupSites:
    """The sites by groups: sums of r over each group, and those that see the border alone. Groups
    that are alike to rounding (persons of the same answers) are one of `count`: `kind` (G,) says
    which of them each is, `times` (count,) how many are. `entries`: sites of all kinds;
    `evaluations`: sites at draws and nodes, counted."""

    def __init__(self, sites: tuple[Site, ...], q: Conditioned, split: Split) -> None:
        self.split, ratio = split, DensityRatio(sites, q)
        groups = split.groups
        first, self.kind, self.times = alike(ratio, split)
        self.count = len(first)
        which = np.full(groups.count, -1)
        which[first] = np.arange(self.count)
        taken = [np.where(g >= 0, which[g], -2 - (g < 0)) for g in groups.site_group]
        order = [np.argsort(g, kind="stable") for g in taken]
        inside = [o[g[o] >= 0] for g, o in zip(taken, order, strict=True)]
        outside = [np.flatnonzero(g < 0) for g in groups.site_group]
        self.constant = ratio.constant
        self.inside, self.outside = ratio.part(inside), ratio.part(outside)
        self.group: list[IntArray] = []
        self.rows: list[tuple[Array, Array]] = []
        self.outer_rows: list[Array] = []
        self.events = _events(ratio)
        for number, event in enumerate(self.events):
            shared, own = split.shared_rows[number], split.own_rows[number]
            some, others = (_of_sites(o[number], event) for o in (inside, outside))
            self.rows.append((shared[some], own[some]))
            self.outer_rows.append(shared[others])
            self.group.append(taken[number][inside[number]])
        self.entries = sum(map(len, self.group))
        self.evaluations = 0.0

    def border(self, xi: Array) -> Array:
        """(m,) what the sites without a group add at border draws xi, and the constant."""
        out = np.full(len(xi), self.constant)
        for number, rows in enumerate(self.outer_rows):
            if len(rows):
                out += self.outside.term(number, xi @ rows.T).sum(axis=1)
        return out

    def sums(self, xi: Array, x: Array) -> Array:
        """(m, K, G) sum of r over each group at xi (m, p') and all nodes x, (K, G, D)."""
        m, (nodes, groups, _) = len(xi), x.shape[:3]
        out = np.zeros((m, nodes, groups))
        self.evaluations += float(m * nodes * self.entries)
        for number, group in enumerate(self.group):
            if not len(group):
                continue
            shared, own = self.rows[number]
            where = np.repeat(group, self.events[number])
            inner = sum(own[:, d] * x[:, where, d] for d in range(own.shape[1]))
            starts = np.flatnonzero(np.r_[True, np.diff(group) > 0])
            present, step = group[starts], max(1, min(m, CHUNK // (nodes * len(where))))
            for first in range(0, m, step):
                some = slice(first, min(first + step, m))
                moves = (xi[some] @ shared.T)[:, None, :] + inner
                terms = self._terms(number, moves.reshape(-1, len(where)), step * nodes)
                summed = np.add.reduceat(terms, starts, axis=1)
                out[some, :, present] += summed.reshape(-1, nodes, len(starts))
        return out

    def _terms(self, number: int, moves: Array, size: int) -> Array:
        """Terms of one block at `moves`; always computed for `size` draws, whose sites are kept."""
        padded = moves
        if len(moves) < size:
            padded = np.concatenate([moves, np.zeros((size - len(moves), moves.shape[1]))])
        return self.inside.term(number, padded)[: len(moves)]


def _events(ratio: DensityRatio) -> list[int]:
    """Predictor rows of a site of each block."""
    return [1 if m.ndim == 1 else m.shape[1] for m in ratio.mean]


def alike(ratio: DensityRatio, split: Split) -> tuple[IntArray, IntArray, Array]:
    """Groups of which every other is a copy, the place among them of each group's, (G,), and how
    many are alike."""
    groups = split.groups
    keys = [groups.members >= 0]
    for number, group in enumerate(groups.site_group):
        rows = np.flatnonzero(group >= 0)
        if not len(rows):
            continue
        known = _features(ratio, split, number)[rows]
        unit = np.abs(known).max(axis=0)
        rounded = np.round(known / np.where(unit > 0.0, unit, 1.0), DIGITS) + 0.0
        identity = np.unique(rounded, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.lexsort((identity, group[rows]))
        inner, held = group[rows][order], np.bincount(group[rows], minlength=groups.count)
        table = np.full((groups.count, int(held.max())), -1)
        if table.size > PADDED * len(rows):
            every = np.arange(groups.count)
            return every, every, np.ones(groups.count)
        place = np.arange(len(rows)) - np.repeat(np.cumsum(held) - held, held)
        table[inner, place] = identity[order]
        keys.append(table)
    whole = np.concatenate([np.asarray(k, dtype=np.int64) for k in keys], axis=1)
    found = np.unique(whole, axis=0, return_index=True, return_inverse=True, return_counts=True)
    return found[1], found[2].reshape(-1), found[3].astype(np.float64)


def _features(ratio: DensityRatio, split: Split, number: int) -> Array:
    """(N, f) all that tells the sites of a block apart."""
    site, count = ratio.sites[number], len(ratio.mean[number])
    own = [getattr(site, f.name) for f in fields(site) if f.name not in site.spec.shared]
    known = [ratio.mean[number], ratio.weight[number], ratio.alpha[number]]
    rows = [split.shared_rows[number], split.own_rows[number]]
    return np.concatenate([np.reshape(a, (count, -1)) for a in (*own, *known, *rows)], axis=1)


def _of_sites(sites: IntArray, event: int) -> IntArray:
    """The predictor rows of sites."""
    return (sites[:, None] * event + np.arange(event)).reshape(-1)


@dataclass(frozen=True, eq=False)
class Lattice:
    """`n` nodes an axis between `low` and `high`, (G, D) each."""

    low: Array
    high: Array
    n: int

    @property
    def width(self) -> int:
        return int(self.low.shape[1])

    @property
    def step(self) -> Array:
        """(G, D)."""
        return (self.high - self.low) / (self.n - 1)

    def nodes(self, middles: bool = False) -> Array:
        """(K, G, D), K = n^D, or the middles of the cells."""
        line = np.arange(self.n - 1) + 0.5 if middles else np.arange(self.n)
        places = np.stack(np.meshgrid(*[line] * self.width, indexing="ij"), axis=-1)
        return self.low + places.reshape(-1, 1, self.width) * self.step

    def levels(self, sites: GroupSites, xi: Array, middles: bool = False) -> Array:
        """(m, K, G) the log of the integrand's mass at each node."""
        x = self.nodes(middles)
        base = np.log(np.maximum(self.step, 1e-300)) - 0.5 * LOG_TWO_PI
        return np.asarray(sites.sums(xi, x) + base.sum(axis=1) - 0.5 * (x**2).sum(axis=2))


def log_sum(levels: Array) -> Array:
    """(m, G) log F of levels (m, K, G)."""
    top = levels.max(axis=1)
    safe = np.where(np.isfinite(top), top, 0.0)
    return np.asarray(safe + np.log(np.exp(levels - safe[:, None]).sum(axis=1)))


def holds(lattice: Lattice, sites: GroupSites, trial: Array) -> bool:
    """Whether a lattice of another point is good at the border draws `trial`, too."""
    return _fine(lattice, sites, trial) and not bool(
        (edges(lattice, lattice.levels(sites, trial)) > -EDGE).any()
    )


def edges(lattice: Lattice, levels: Array) -> Array:
    """(m,) the highest level at the ends of a box less its top, of all groups."""
    tensor = levels.reshape(len(levels), *[lattice.n] * lattice.width, -1)
    ends = [tensor.take([0, -1], axis=1 + d) for d in range(lattice.width)]
    tops = [e.max(axis=tuple(range(1, 1 + lattice.width))) for e in ends]
    return np.asarray((np.max(tops, axis=0) - levels.max(axis=1)).max(axis=1))


def fitting(sites: GroupSites, trial: Array) -> Lattice:
    """Boxes and steps that hold at the border draws `trial`, (m, p'). Raises NoGroups."""
    width = sites.split.groups.width
    seeking, shape = SEEKING[width], (sites.count, width)
    lattice = Lattice(np.full(shape, -REACH), np.full(shape, REACH), seeking)
    while True:
        found, open_ends = _boxes(lattice, sites, trial)
        if not open_ends.any():
            break
        if lattice.high.max() > FARTHEST:
            raise NoGroups("a group's density does not end")
        wide = np.where(open_ends, 2.0, 1.0)
        lattice = replace(lattice, low=lattice.low * wide, high=lattice.high * wide)
    narrow = replace(lattice, low=found.low, high=found.high)
    lattice = replace(_boxes(narrow, sites, trial)[0], n=NODES[width])
    while not _fine(lattice, sites, trial):
        more = int(np.ceil(1.15 * lattice.n))
        work = 2.0 * len(trial) * float(more**width * max(sites.entries, sites.count))
        slack = more <= SLACK * NODES[width]
        if more > MOST[width] or not (slack or work <= CHEAP):
            raise NoGroups("quadrature of a group does not settle")
        lattice = replace(lattice, n=more)
    return lattice


def _boxes(lattice: Lattice, sites: GroupSites, trial: Array) -> tuple[Lattice, Array]:
    """Where the profile along each axis is CUT below its top, and (G, D) whether an end is not."""
    levels = lattice.levels(sites, trial)
    m, _, count = levels.shape
    if not np.isfinite(levels).all():
        raise NoGroups("a site has no density somewhere")
    levels = levels - levels.max(axis=1, keepdims=True)
    n, width = lattice.n, lattice.width
    tensor = levels.reshape(m, *[n] * width, count)
    low, high = lattice.low.copy(), lattice.high.copy()
    open_ends = np.zeros((count, width), dtype=bool)
    for d in range(width):
        others = tuple(1 + j for j in range(width) if j != d)
        profile = tensor.max(axis=(0, *others))  # (n, G)
        open_ends[:, d] = np.maximum(profile[0], profile[-1]) > -CUT
        above = profile > -CUT
        first, last = above.argmax(axis=0), n - 1 - above[::-1].argmax(axis=0)
        for at, step, end in ((first, -1, low), (last, 1, high)):
            there = np.clip(at + step, 0, n - 1)
            every = np.arange(count)
            inner, outer = profile[at, every], profile[there, every]
            share = np.where(there == at, 0.0, (inner + CUT) / np.maximum(inner - outer, 1e-300))
            # A concave density is above its chord, and a cliff may be anywhere along it.
            share = np.where((there != at) & (inner - outer > CLIFF), 1.0, share)
            away = step * np.minimum(np.sqrt(np.clip(share, 0.0, 1.0)), 1.0)
            end[:, d] = lattice.low[:, d] + (at + away) * lattice.step[:, d]
    return Lattice(low, high, n), open_ends


def _fine(lattice: Lattice, sites: GroupSites, trial: Array) -> bool:
    """Whether twice the nodes change neither the integrals nor what is drawn between them."""
    levels, middle = lattice.levels(sites, trial), lattice.levels(sites, trial, middles=True)
    if np.abs((log_sum(levels) - log_sum(middle)) @ sites.times).max() > SUMMED:
        return False
    n, width, (m, _, count) = lattice.n, lattice.width, levels.shape
    between = floored(levels).reshape(m, *[n] * width, count)
    weights = cardinal(n, 0.5 + np.arange(n - 1.0, dtype=np.float64))
    for d in range(width):
        between = np.moveaxis(np.tensordot(weights, between, axes=(1, 1 + d)), 0, 1 + d)
    between = between.reshape(m, -1, count)
    mass = np.exp(middle - log_sum(middle)[:, None])
    return bool((np.abs(between - middle) * mass).sum(axis=1).max() < BETWEEN)


def floored(levels: Array, below: float = 30.0) -> Array:
    """Levels no more than so many nats below the top of their group."""
    return np.asarray(np.maximum(levels, levels.max(axis=1, keepdims=True) - below))


def cardinal(n: int, places: Array) -> Array:
    """(..., n) weights of the values at 0 .. n-1 in the polynomial through six neighbours."""
    first = np.clip(np.floor(places).astype(np.int64) - NEIGHBOURS // 2 + 1, 0, n - NEIGHBOURS)
    t = places - first
    out = np.zeros((*places.shape, n))
    for k in range(NEIGHBOURS):
        weight = np.ones_like(t)
        for j in range(NEIGHBOURS):
            if j != k:
                weight = weight * (t - j) / (k - j)
        np.put_along_axis(out, (first + k)[..., None], weight[..., None], axis=-1)
    return out
