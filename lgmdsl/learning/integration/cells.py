"""The nodes of a product lattice with their cells: quantiles and densities between the nodes.

A lattice whose axes are not those of a hyperparameter has its values in clusters. So every node's
cell is cut into SPLIT^d parts. Along each axis the log of the weight, and the value of a function
(or its log, where that bends less), follow the parabola through the node and its neighbours,

    l(t) = l + sum_j (s_j t_j + c_j t_j^2 / 2),   |t_j| < 1/2 in steps of the lattice

and the mass of a part is spread evenly over the values that the function has in it. The function's
distribution is then continuous. The weights are those of the trapezoid rule,
which is as good as exact for a smooth density, so parts have the nodes' moments.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.numerics.stable import sigmoids

SPLIT = 4  # parts of a cell along each axis
# Logits of the probabilities near which a distribution is evaluated.
LOGITS = np.linspace(-16.0, 16.0, 321)
BULK, EVEN = 60, 200  # of these left out at each end of a range that has values at even distances
LESS = 0.5  # of the bend that values have: logs with less are taken
UNSEEN = 1e-6  # of the heaviest cell: bends and ranges of lighter ones do not count
TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Distribution:
    """Distribution of a function: ascending `x` (g,), its values or (`log`) their logs, and the
    probability of what is `below` each, linear between two; `nodes`: values between which all
    are."""

    x: Array
    below: Array
    log: bool
    nodes: Array

    def quantile(self, levels: Array) -> Array:
        """(Q,) quantiles."""
        line = np.interp(levels, self.below, self.x)
        values = np.exp(line) if self.log else line
        return np.asarray(np.clip(values, self.nodes.min(), self.nodes.max()))

    def probability(self, values: Array) -> Array:
        """The probability of what is below each value: of positive ones where `log`."""
        return np.asarray(np.interp(np.log(values) if self.log else values, self.x, self.below))


@dataclass(frozen=True, eq=False)
class Cells:
    """`step`: (d,) of the lattice, 0 along an axis with one node; `neighbours`: (d, 2, m) of each
    node, below and above, -1 for none; `parts`: (k, d) the middles of a cell's parts, in steps;
    `masses`: (m, k) of the parts, which sum to 1."""

    step: Array
    neighbours: IntArray
    parts: Array
    masses: Array

    @classmethod
    def of(cls, z: Array, weights: Array) -> Cells:
        """The cells of nodes z (m, d) of a lattice, some of which may be left out."""
        gaps = [float(np.min(np.diff(np.unique(c)), initial=np.inf)) for c in z.T]
        step = np.array([g if np.isfinite(g) else 0.0 for g in gaps])
        middles = (np.arange(SPLIT) + 0.5) / SPLIT - 0.5
        parts = np.array(list(itertools.product(middles, repeat=len(step))))
        bare = cls(step, _neighbours(z, step), parts, np.zeros((0, 0)))
        log = np.log(np.maximum(weights, TINY))
        masses = np.exp(bare._curved(log) - log.max())
        return cls(step, bare.neighbours, parts, masses / masses.sum())

    @property
    def shares(self) -> Array:
        """(m,) the mass of each cell."""
        return np.asarray(self.masses.sum(axis=1))

    def values(self, nodes: Array) -> Array:
        """(m, k) a function's values in the middles of the parts, from those at the nodes (m,),
        which are finite; between those of the node and its neighbours."""
        line, log = self._line(nodes)
        out = np.clip(self._curved(line), *self._around(line))
        return np.clip(np.exp(out) if log else out, nodes.min(), nodes.max())

    def distribution(self, nodes: Array) -> Distribution:
        """Distribution of a function whose values at the nodes, (m,), are finite."""
        line, log = self._line(nodes)
        low, high = float(line.min()), float(line.max())
        if not high > low:
            return Distribution(np.array([low, high]), np.array([0.0, 1.0]), log, nodes[:1])
        slopes, curves = self._differences(line)
        spread = np.zeros(self.masses.shape)
        for slope, curve, t in zip(slopes, curves, self.parts.T, strict=True):
            spread += np.abs(slope[:, None] + curve[:, None] * t)
        middle = np.clip(self._curved(line), *self._around(line))
        first, last = (np.clip(middle + s * spread / SPLIT, low, high) for s in (-0.5, 0.5))
        order = np.argsort(middle, axis=None)
        below = np.cumsum(self.masses.reshape(-1)[order])
        places = np.interp(sigmoids(LOGITS)[0], below, middle.reshape(-1)[order])
        even = np.linspace(places[BULK], places[-1 - BULK], EVEN)  # in gaps too, where nothing is
        x = np.unique(np.concatenate([places, even]))
        x = np.concatenate([[low], x[(x > low) & (x < high)], [high]])
        probability = _below(x, first.reshape(-1), last.reshape(-1), self.masses.reshape(-1))
        return Distribution(x, probability, log, nodes)

    def drawn(self, nodes: IntArray, rng: np.random.Generator) -> Array:
        """(size, d) places in the cells of `nodes` (size,), from the middles, in z."""
        cumulative = np.cumsum(self.masses[nodes], axis=1)
        height = rng.random(len(nodes)) * cumulative[:, -1]
        which = np.minimum((cumulative <= height[:, None]).sum(axis=1), len(self.parts) - 1)
        away = (rng.random((len(nodes), len(self.step))) - 0.5) / SPLIT
        return np.asarray((self.parts[which] + away) * self.step)

    def _line(self, nodes: Array) -> tuple[Array, bool]:
        """The values (m,) or their logs, and whether it is these."""
        if not nodes.min() > 0.0:
            return nodes, False
        line: Array = np.log(nodes)
        with np.errstate(over="ignore", invalid="ignore"):  # differences of what is just finite
            log = not self._bend(nodes) * LESS <= self._bend(line)
        return (line if log else nodes), log

    def _bend(self, nodes: Array) -> float:
        """How much of the change of values within a cell is curvature, 0 to 1, at most."""
        slopes, curves = (np.abs(v).sum(axis=0) for v in self._differences(nodes))
        return float(np.max((curves / np.maximum(slopes + curves, TINY))[self._seen]))

    @property
    def _seen(self) -> BoolArray:
        """(m,) the cells that have all but a little of the mass."""
        return np.asarray(self.shares > UNSEEN * self.shares.max())

    def _curved(self, nodes: Array) -> Array:
        """(m, k) values in the middles of the parts."""
        slopes, curves = self._differences(nodes)
        return np.asarray(nodes[:, None] + slopes.T @ self.parts.T + curves.T @ self._halves)

    @property
    def _halves(self) -> Array:
        """(d, k) t^2 / 2."""
        return 0.5 * self.parts.T**2

    def _differences(self, nodes: Array) -> tuple[Array, Array]:
        """(d, m) slopes and curvatures, in steps; to one side where there is one neighbour."""
        there, gaps = self._gaps(nodes)
        slopes = gaps.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
        return slopes, np.where(there.all(axis=1), gaps[:, 1] - gaps[:, 0], 0.0)

    def _around(self, nodes: Array) -> tuple[Array, Array]:
        """(m, 1) the least and the largest value in a cell's corners, as the node's neighbours have
        them."""
        there, gaps = self._gaps(nodes)
        rise = np.where(there, gaps, gaps[:, ::-1]) * np.array([-1.0, 1.0])[:, None]
        low = nodes + np.minimum(rise, 0.0).min(axis=1).sum(axis=0)
        high = nodes + np.maximum(rise, 0.0).max(axis=1).sum(axis=0)
        return low[:, None], high[:, None]

    def _gaps(self, nodes: Array) -> tuple[BoolArray, Array]:
        """(d, 2, m) whether there is a neighbour, and how much the values rise from the one below
        and to the one above; 0 where there is none."""
        there = self.neighbours >= 0
        rises = (nodes[self.neighbours] - nodes) * np.array([-1.0, 1.0])[:, None]
        return there, np.where(there, rises, 0.0)


def _below(x: Array, first: Array, last: Array, masses: Array) -> Array:
    """(g,) the mass below each of ascending x: of masses (n,), each spread evenly from `first` to
    `last`. The ends of x have 0 and 1. Nothing is subtracted: parts far out may be wide beyond
    measure."""
    start = np.searchsorted(x, first, side="right")
    end = np.searchsorted(x, last, side="left")
    out = np.cumsum(np.bincount(end, masses, minlength=len(x) + 1)[: len(x)])
    inside = np.maximum(end - start, 0)
    part = np.repeat(np.arange(len(first)), inside)
    place = np.arange(len(part)) - np.repeat(np.cumsum(inside) - inside, inside) + start[part]
    share = (x[place] - first[part]) / (last[part] - first[part])
    out += np.bincount(place, masses[part] * share, minlength=len(x))
    out[0], out[-1] = 0.0, 1.0
    return np.asarray(np.clip(np.maximum.accumulate(out), 0.0, 1.0))


def _neighbours(z: Array, step: Array) -> IntArray:
    """(d, 2, m) places of the nodes' neighbours, -1 for none."""
    unit = np.where(step > 0.0, step, 1.0)
    cell = np.rint((z - z.min(axis=0)) / unit).astype(np.int64) + 1
    place = np.full(cell.max(axis=0) + 2, -1, dtype=np.int64)
    place[tuple(cell.T)] = np.arange(len(z))
    units = np.eye(len(step), dtype=np.int64)
    return np.array([[place[tuple((cell + s * u).T)] for s in (-1, 1)] for u in units])
