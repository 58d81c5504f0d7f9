"""The log density of the hyperparameters around one mode or several, one surrogate for each.

A place belongs to the mode that has a fit nearest to it, in half-axes of that mode: there its
surrogate counts and no other, so that nothing is counted twice. Surrogates of neighbours see each
other's fits, which makes them agree where they meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.integration.surrogate import LENGTHS, Surrogate, squares, surrogate
from lgmdsl.learning.integration.visited import Fitted, Visited

LATTICE = {1: 601, 2: 81}  # nodes an axis
MARGIN = 2.5  # half-axes beyond the outermost fits
COARSEST = 0.25  # of the shorter half-axis: the step of a lattice
SEQUENCE, LONGER = 4096, 32768  # nodes elsewhere, and those that marginals are taken from
# Nodes are drawn again, at most so often, while fewer than this share of them count.
ADAPTATIONS, ENOUGH, KEPT = 3, 0.5, 0.2
# Fits in the tails about which nodes are drawn: so many half-axes from the mode, and from each
# other, so many nats below the top and so many at most. REACHING: of the square of the way to the
# next.
FAR, APART, DEEP, REACHING, PARTS = 2.0, 1.5, 9.0, 0.3, 24
TIED = 1e-6  # relative: distances nearer to one another are the same
SHARED = 4.0  # half-axes from a mode: fits within are seen by its surrogate


@dataclass(frozen=True, eq=False)
class Landscape:
    """`regions`: the fits made around each mode; `fits`: those nearest to each mode, whoever made
    them; `surrogates` of the log density in the coordinates of each, whose first points are those
    of its fits. Places u are in the coordinates of the first."""

    regions: tuple[Visited, ...]
    fits: tuple[tuple[Fitted, ...], ...]
    surrogates: tuple[Surrogate, ...]

    @classmethod
    def of(cls, regions: Sequence[Visited], before: Landscape | None = None) -> Landscape:
        """Through all fits; with the lengths of an earlier one of the same regions."""
        made = [fit for r in regions for _, fit in r.fits]
        places = [_places(regions, k) for k in range(len(regions))]
        away = [
            np.linalg.norm(p / r.sides(p), axis=1) for p, r in zip(places, regions, strict=True)
        ]
        nearest = np.argmin(away, axis=0)
        held, out = list[tuple[Fitted, ...]](), list[Surrogate]()
        for k, region in enumerate(regions):
            own = np.flatnonzero(nearest == k)
            others = np.flatnonzero((nearest != k) & (away[k] < SHARED))
            seen = [made[i] for i in (*own, *others)]
            gradients = np.array([f.density_gradient for f in seen]) @ region.frame.axes
            values = np.array([f.density for f in seen])
            lengths = LENGTHS if before is None else (before.surrogates[k].process.length,)
            points = places[k][np.concatenate([own, others])]
            out.append(surrogate(points, values, gradients, region.stretch, lengths))
            held.append(tuple(seen[: len(own)]))
        return cls(tuple(regions), tuple(held), tuple(out))

    def places_of(self, k: int) -> Array:
        """(n, d) where the fits of a region are, in its coordinates."""
        return self.surrogates[k].points[: len(self.fits[k])]

    @property
    def frame(self) -> Standardised:
        return self.regions[0].frame

    @property
    def lattice(self) -> bool:
        """Whether its nodes are those of a product lattice: around one mode, in one or two
        dimensions, where that is no coarser than COARSEST."""
        if len(self.regions) > 1 or self.frame.size not in LATTICE:
            return False
        low, high = self._box()
        steps = (high - low) / (LATTICE[self.frame.size] - 1.0)
        return bool((steps <= COARSEST * self.regions[0].stretch.min(axis=1)).all())

    def _box(self) -> tuple[Array, Array]:
        """(d,) ends of a lattice: a little wider than the fits."""
        points, stretch = self.places_of(0), self.regions[0].stretch
        return (
            points.min(axis=0) - MARGIN * stretch[:, 0],
            points.max(axis=0) + MARGIN * stretch[:, 1],
        )

    def places(self, u: Array) -> list[Array]:
        """(m, d) u in the coordinates of each region."""
        return [u, *(r.frame.u(self.frame.x(u)) for r in self.regions[1:])]

    def owner(self, u: Array) -> IntArray:
        """(m,) the region that each place belongs to."""
        if len(self.regions) == 1:
            return np.zeros(len(u), dtype=np.int64)
        gaps = [self.distance(k, v) for k, v in enumerate(self.places(u))]
        return np.asarray(np.argmin(gaps, axis=0))

    def distance(self, k: int, u: Array) -> Array:
        """(m,) from u (m, d), in the coordinates of region k, to its nearest fit, in half-axes."""
        scale = self.regions[k].stretch.mean(axis=1)
        return np.asarray(np.sqrt(squares(u / scale, self.places_of(k) / scale).min(axis=1)))

    def __call__(self, u: Array) -> Array:
        """(m,) the log density at u, (m, d)."""
        return self._chosen(u, list(self.surrogates))

    def sd(self, u: Array) -> Array:
        """(m,) what the fits leave uncertain of it, in nats."""
        return self._chosen(u, [s.sd for s in self.surrogates])

    def covariance(self, u: Array) -> Array:
        """(m, m) of what the fits leave uncertain of it at u, (m, d); none between regions."""
        owner, out = self.owner(u), np.zeros((len(u), len(u)))
        for k, (fitted, place) in enumerate(zip(self.surrogates, self.places(u), strict=True)):
            here = np.flatnonzero(owner == k)
            if len(here):
                out[np.ix_(here, here)] = fitted.process.covariance(place[here])
        return out

    def _chosen(self, u: Array, functions: Sequence[Callable[[Array], Array]]) -> Array:
        owner, out = self.owner(u), np.empty(len(u))
        for k, (function, place) in enumerate(zip(functions, self.places(u), strict=True)):
            if (owner == k).any():
                out[owner == k] = function(place[owner == k])
        return out

    def nodes(self) -> tuple[Array, Array]:
        """Nodes (m, d) of u and the log of the density times the measure of each: a product lattice
        a little wider than the fits around one mode in one or two dimensions, else draws."""
        if self.lattice:
            nodes, log_measure = self._lattice()
            return nodes, self(nodes) + log_measure
        return self.drawn(SEQUENCE, ADAPTATIONS)[:2]

    def drawn(self, count: int, most: int) -> tuple[Array, Array, MixedProposal]:
        """Nodes of Student-t densities about the modes and the fits in the tails, the log of the
        density times the measure of each, and where more are to be drawn from; drawn again about
        the means and covariances that they gave, `most` times, where few of them carry the weight.
        """
        mixed = first = self._proposals()
        nodes, log_weight = self.weighted(mixed, count)
        for _ in range(most):
            if effective(log_weight) > ENOUGH * len(nodes):
                break
            weight = np.exp(log_weight - log_weight.max())
            nearer = mixed.adapted(nodes, weight / weight.sum(), KEPT)
            again = self.weighted(nearer, count)
            if effective(again[1]) <= effective(log_weight):
                break
            (nodes, log_weight), mixed = again, nearer
        return nodes, log_weight, mixed if mixed is first else mixed.joined(first)

    def weighted(self, mixed: MixedProposal, count: int) -> tuple[Array, Array]:
        """Nodes (m, d) of a mixture and the log of the density times the measure of each."""
        nodes = mixed.nodes(count)
        return nodes, self(nodes) + mixed.log_measure(nodes, count)

    def _proposals(self) -> MixedProposal:
        """Split Student-t densities about the modes, and a Student-t about each fit in the tails
        that reaches to its neighbour on the inner side, with the mass that its density gives."""
        parts, logs = list[Proposal](), list[float]()
        for k, (region, fitted) in enumerate(zip(self.regions, self.surrogates, strict=True)):
            turn = self.frame.u(self.frame.mode + region.frame.axes.T).T
            volume = float(np.linalg.slogdet(turn)[1])
            origin, scale = self.frame.u(region.frame.mode), region.stretch.mean(axis=1)
            parts.append(Proposal(origin, turn, region.stretch))
            logs.append(fitted.top + float(np.log(scale).sum()) + volume)
            own, values = self.places_of(k), fitted.values
            far = np.linalg.norm(own / region.sides(own), axis=1)
            eligible = (far >= FAR) & (values[: len(own)] >= fitted.top - DEEP)
            for i in _spread_out(own / scale, eligible):
                inner = own[far < far[i] * (1.0 - TIED)]
                away = own[i] - inner[_smallest(np.linalg.norm((inner - own[i]) / scale, axis=1))]
                spread = np.diag(scale**2) + REACHING * np.outer(away, away)
                place = self.frame.u(region.frame.x(own[i]))
                parts.append(Proposal.elliptical(place, turn @ spread @ turn.T))
                size = 0.5 * float(np.linalg.slogdet(spread)[1])
                logs.append(float(values[i]) + size + volume)
        weights = np.exp(np.array(logs) - max(logs))
        return MixedProposal(tuple(parts), weights / weights.sum())

    def _lattice(self) -> tuple[Array, Array]:
        """Nodes of a product lattice, and the log of the measure of each."""
        ends = zip(*self._box(), strict=True)
        axes = [np.linspace(low, high, LATTICE[self.frame.size]) for low, high in ends]
        nodes = np.stack([a.reshape(-1) for a in np.meshgrid(*axes, indexing="ij")], axis=1)
        cell = float(np.prod([a[1] - a[0] for a in axes]))
        return nodes, np.full(len(nodes), np.log(cell))


def _spread_out(places: Array, eligible: BoolArray) -> list[int]:
    """Up to PARTS of the eligible places (n, d), each the farthest from 0 and from those before it,
    and APART from them: so that far ends of the tails are among them."""
    gaps, out = np.linalg.norm(places, axis=1), list[int]()
    for _ in range(PARTS):
        k = _smallest(np.where(eligible, -gaps, np.inf))
        if not eligible[k] or gaps[k] < APART:
            break
        out.append(k)
        gaps = np.minimum(gaps, np.linalg.norm(places - places[k], axis=1))
    return out


def _smallest(values: Array) -> int:
    """The first of the smallest values: of fits on a lattice many are as far away as one another,
    and rounding may not choose."""
    least = values.min()
    return int(np.argmax(values <= least + TIED * abs(least)))


def effective(log_weight: Array) -> float:
    """How many of the nodes count."""
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / np.sum(weight**2))


def shares(log_weight: Array) -> tuple[Array, float]:
    """(m,) weights that sum to 1, and the log of their sum before."""
    top = float(log_weight.max())
    weight = np.exp(log_weight - top)
    total = float(weight.sum())
    return weight / total, top + float(np.log(total))


def _places(regions: Sequence[Visited], k: int) -> Array:
    """(n, d) the fits of all regions, in the coordinates of region k."""
    own = regions[k].frame
    return np.concatenate([r.u if r is regions[k] else own.u(r.frame.x(r.u)) for r in regions])


# ---- proposals ---------------------------------------------------------------------------------
# Where the surrogate of a density is evaluated to integrate it: nodes and what each stands for.


DF, SCALE = 6.0, 1.15  # of the Student-t
LARGEST = 1e30
FEWEST = 24  # nodes of a part
PIECE = 4096  # points of the sequence that are kept together


@dataclass(frozen=True, eq=False)
class Proposal:
    """u = mean + root (s t): t independent Student-t variables, s the half-axis `stretch` (d, 2) of
    their sides."""

    mean: Array
    root: Array
    stretch: Array

    @classmethod
    def elliptical(cls, mean: Array, covariance: Array) -> Proposal:
        """Proposal with a mean (d,) and a covariance (d, d), of the same spread to both sides."""
        root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        return cls(mean, root, np.ones((len(mean), 2)))

    def nodes(self, t: Array) -> Array:
        """(m, d) from values (m, d) of the Student-t variables."""
        return np.asarray(self.mean + (t * self._sides(t)) @ self.root.T)

    def log_density(self, u: Array) -> Array:
        """(m,) at u, (m, d)."""
        w: Array = np.asarray((u - self.mean) @ np.linalg.inv(self.root).T, dtype=np.float64)
        lengths = SCALE * self._sides(w)
        constant = special.gammaln(0.5 * (DF + 1.0)) - special.gammaln(0.5 * DF)
        constant = len(self.mean) * (constant - 0.5 * np.log(DF * np.pi))
        # One logarithm of products over the coordinates; factors stop where these would overflow.
        falls = _product(np.minimum(1.0 + (w / lengths) ** 2 / DF, LARGEST))
        out = constant - np.linalg.slogdet(self.root)[1] - 0.5 * (DF + 1.0) * np.log(falls)
        return np.asarray(out - np.log(_product(lengths)))

    def _sides(self, t: Array) -> Array:
        return np.where(t < 0.0, self.stretch[:, 0], self.stretch[:, 1])


@dataclass(frozen=True, eq=False)
class MixedProposal:
    """A mixture of proposals with `weights` (k,), which sum to 1."""

    parts: tuple[Proposal, ...]
    weights: Array

    def nodes(self, count: int) -> Array:
        """(m, d), about `count`: of each part as many as it has weight, and FEWEST at least, all
        from one sequence."""
        counts = self._counts(count)
        sequence = students(int(counts.sum()), len(self.parts[0].mean))
        own = np.split(sequence, np.cumsum(counts)[:-1])
        return np.concatenate([p.nodes(c) for p, c in zip(self.parts, own, strict=True)])

    def log_measure(self, u: Array, count: int) -> Array:
        """(m,) the log of what each of the `nodes(count)` u stands for (Owen and Zhou 2000, the
        balance heuristic: each as if it were drawn from the mixture)."""
        logs = self._logs(u) + np.log(self._counts(count))[:, None]
        return -_log_total(logs)

    def adapted(self, u: Array, weight: Array, kept: float) -> MixedProposal:
        """Towards nodes u (m, d) with weights (m,) that sum to 1: the parts' weights, means and
        covariances are those of what they are responsible for (Cappe and others 2008, population
        Monte Carlo). `kept`: the share of the present weights in the new ones."""
        logs = self._logs(u) + np.log(self.weights)[:, None]
        own = weight * np.exp(logs - _log_total(logs))
        mass = own.sum(axis=1)
        parts = []
        for part, mine, total in zip(self.parts, own, mass, strict=True):
            if mine.sum() ** 2 < FEWEST * np.sum(mine**2):
                parts.append(part)
                continue
            mean = mine @ u / total
            gap = u - mean
            spread = np.einsum("m,mi,mj->ij", mine / total, gap, gap)
            floor = 1e-3 * np.diag(np.diag(part.root @ part.root.T))
            parts.append(Proposal.elliptical(mean, spread + floor))
        weights = (1.0 - kept) * mass / mass.sum() + kept * self.weights
        return MixedProposal(tuple(parts), weights)

    def joined(self, other: MixedProposal) -> MixedProposal:
        """Half of each: no node counts for more than twice what it does under either."""
        return MixedProposal(
            self.parts + other.parts, 0.5 * np.concatenate([self.weights, other.weights])
        )

    def _counts(self, count: int) -> IntArray:
        return np.maximum(FEWEST, np.round(count * self.weights)).astype(np.int64)

    def _logs(self, u: Array) -> Array:
        return np.array([p.log_density(u) for p in self.parts])


def _product(factors: Array) -> Array:
    """(m,) the products of (m, d): a few columns are multiplied faster than many short rows."""
    return reduce(np.multiply, factors.T)


def _log_total(logs: Array) -> Array:
    """(m,) log of the sum of exp(logs) (k, m) over its rows, all finite."""
    top = logs.max(axis=0)
    return np.asarray(top + np.log(np.exp(logs - top).sum(axis=0)))


def students(count: int, size: int) -> Array:
    """(count, size) Student-t variables from the first points of the sequence: their quantiles,
    which take longer than all else that is asked of them, are kept by pieces."""
    pieces = [_students(k, size) for k in range(-(-count // PIECE))]
    return np.concatenate([np.zeros((0, size)), *pieces])[:count]


@lru_cache(maxsize=64)
def _students(piece: int, size: int) -> Array:
    t = SCALE * special.stdtrit(DF, kronecker(PIECE, size, piece * PIECE))
    return np.asarray(t, dtype=np.float64)


def kronecker(count: int, size: int, first: int = 0) -> Array:
    """(count, size), from the `first` on, of the additive sequence k alpha mod 1 whose alphas are
    the powers of the generalised golden ratio, g^(size+1) = g + 1: low discrepancy in any
    dimension."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (size + 1))
    alpha = ratio ** -np.arange(1.0, size + 1.0)
    u = (0.5 + np.outer(np.arange(first + 1, first + count + 1), alpha)) % 1.0
    return np.clip(u, 1e-12, 1.0 - 1e-12)
