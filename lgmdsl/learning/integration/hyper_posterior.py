"""The posterior of the hyperparameters: moments, quantiles and densities of anything made of them.

The surrogate of the log density is integrated in the standardised coordinates of the first mode:
over a product lattice in one or two dimensions, and by importance sampling on a rank-1 (Kronecker)
sequence in more, or where there are several modes. Means and sds are those of the nodes; quantiles,
densities and draws on a lattice are those of its cells (`cells`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from scipy.special import ndtri

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.errors import DataError
from lgmdsl.learning.coordinates.hyper_marginals import (
    Ends,
    HyperMarginals,
    OneHyper,
    Stored,
    ends_of_values,
)
from lgmdsl.learning.coordinates.standardised import Standardised
from lgmdsl.learning.coordinates.vector import Coordinates
from lgmdsl.learning.integration.asymptotic import pinned
from lgmdsl.learning.integration.cells import SPLIT, Cells
from lgmdsl.learning.integration.kernel_density import (
    NODES,
    Range,
    kernel_density,
    lattice_share,
    sample_share,
)
from lgmdsl.learning.integration.landscape import (
    ADAPTATIONS,
    LONGER,
    SEQUENCE,
    Landscape,
    shares,
)
from lgmdsl.numerics.stable import sigmoids
from lgmdsl.state import FieldState

if TYPE_CHECKING:
    from numpy.random import Generator

NEGLIGIBLE = 1e-12  # of the heaviest node: what is left out
SMALLEST = 1e-15  # of a probability
TIED = 1e-12  # relative: values nearer to one another are the same
UNSEEN = 1e-8  # of the heaviest part of a cell: what a density leaves out
FINEST = 0.05  # of the sd: kernels of a lattice are not made narrower than this
SPARE = 1.5  # points for each moment of the hyperparameters themselves
UNUSED = 1e-12  # of the largest weight of a rule: those have none where weights are sought anew


@dataclass(frozen=True, eq=False, repr=False)
class HyperPosterior(FieldState, HyperMarginals):
    """Weighted nodes `z` (m, d), `weights` (m,) summing to 1; `log_integral`: log of the integral
    of exp(log density) over z; `lattice`: whether the nodes are those of a product lattice."""

    coordinates: Coordinates
    frame: Standardised
    z: Array
    weights: Array
    log_integral: float
    lattice: bool

    @cached_property
    def x(self) -> Array:
        """(m, d) the nodes in unconstrained coordinates."""
        return self.frame.x(self.z)

    @cached_property
    def thetas(self) -> tuple[Theta, ...]:
        """Every hyperparameter at every node."""
        return self.coordinates.unpacked(self.x)

    @cached_property
    def cells(self) -> Cells | None:
        """What the nodes of a lattice stand for; None for others."""
        return Cells.of(self.z, self.weights) if self.lattice else None

    def values(self, of: Callable[[Theta], Array]) -> Array:
        """(m, ...) a function of the hyperparameters at the nodes; it may overflow far out."""
        if isinstance(of, OneHyper):
            if of.name not in self._columns:
                self._columns[of.name] = self.coordinates.column(of.name, self.x)
            return self._columns[of.name]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array([of(theta) for theta in self.thetas])

    @cached_property
    def _columns(self) -> dict[str, Array]:
        return {}

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """Posterior mean, of the function's shape; exactly the value of what is fixed, NaN for what
        is not finite at some node."""
        values = self.values(of)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(values[0] + np.tensordot(self.weights, values - values[0], axes=1))

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """Posterior standard deviation, of the function's shape; exactly 0 for what is fixed, NaN
        for what is not finite at some node."""
        values = self.values(of)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows may have no variance
            gap = values - values[0]
            gap = gap - np.tensordot(self.weights, gap, axes=1)
            return np.asarray(np.sqrt(np.tensordot(self.weights, gap**2, axes=1)))

    def quantile(
        self, of: Callable[[Theta], Array], levels: Array, ends: Ends | None = None
    ) -> Array:
        """(Q, ...) quantiles; of what overflows at some node, those of the nodes alone."""
        values = self.values(of)
        flat = values.reshape(len(values), -1)
        columns = [
            weighted_quantile(c, self.weights, levels)
            if self.cells is None or not np.isfinite(c).all()
            else self.cells.distribution(c).quantile(levels)
            for c in flat.T
        ]
        return np.array(columns).T.reshape(len(levels), *values.shape[1:])

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) points between the `ends` of the function's range and the density there:
        NaN where the value is fixed."""
        values = self.values(of)
        pairs = zip(*(np.ravel(e) for e in ends or ends_of_values(values)), strict=True)
        found = [
            kernel_density(*self._spread(column), size, Range(float(low), float(high)))
            for column, (low, high) in zip(values.reshape(len(values), -1).T, pairs, strict=True)
        ]
        shape = (*values.shape[1:], size)
        x, p = (np.array([f[i] for f in found]).reshape(shape) for i in (0, 1))
        return x, p

    def _spread(self, values: Array) -> tuple[Array, Array, float]:
        """Values, their weights and the kernels' share for a density: of the nodes' parts, where
        they are those of a lattice."""
        if self.cells is None:
            return values, self.weights, sample_share(self.weights, NODES)
        share = lattice_share(self.z, self.weights)
        if not np.isfinite(values).all():
            return values, self.weights, share
        masses = self.cells.masses
        kept = masses > UNSEEN * masses.max()
        mass = masses[kept] / masses[kept].sum()
        return self.cells.values(values)[kept], mass, max(share / SPLIT, min(share, FINEST))

    def draws(
        self, points: Sequence[Theta], shares: Array, chosen: IntArray, rng: Generator
    ) -> tuple[Theta, ...]:
        """Every hyperparameter in draws that belong to those of a mixture's points of `shares`
        (k,), of which `chosen` (size,) were drawn; on a lattice anywhere in a node's cell."""
        weights = self.weights if self.cells is None else self.cells.shares
        plan = transport(self.z, weights, np.array([self.place(p) for p in points]), shares)
        nodes = drawn_nodes(plan, chosen, rng)
        z = self.z[nodes]
        if self.cells is not None:
            z = z + self.cells.drawn(nodes, rng)
        return self.coordinates.unpacked(self.frame.x(z))

    def places(self, thetas: Sequence[Theta]) -> Array:
        """(k, d) z of each."""
        return np.array([self.place(t) for t in thetas])

    def natural(self, z: Array) -> Array:
        """(k, d) what the coordinates at z (k, d) stand for."""
        return self.coordinates.natural(self.frame.x(z), self.thetas[0])

    def record(self) -> Stored:
        """The nodes and their weights, in the standardised coordinates that they are in."""
        attributes: dict[str, str | int | float] = {
            **pinned(self.coordinates),
            "log_integral": self.log_integral,
            "lattice": int(self.lattice),
        }
        arrays = {**self.frame.record(), "nodes": self.z, "shares": self.weights}
        return Stored(attributes, arrays)

    def place(self, theta: Theta) -> Array:
        """(d,) z of a point; the mean for one that rounding has moved to the edge of a range."""
        try:
            away = self.coordinates.pack(theta) - self.frame.mode
        except DataError:
            return self.weights @ self.z
        return np.asarray(np.linalg.solve(self.frame.axes, away), dtype=np.float64)


def hyper_posterior(coordinates: Coordinates, landscape: Landscape) -> HyperPosterior:
    """The posterior whose log density is the landscape's: on its lattice, or at draws that have
    the marginals of more draws."""
    frame = landscape.frame
    if landscape.lattice:
        nodes, log_weight = landscape.nodes()
        weights, log_integral = shares(log_weight)
    else:
        nodes, log_weight, mixed = landscape.drawn(SEQUENCE, ADAPTATIONS)
        many, log_mass = landscape.weighted(mixed, LONGER)
        masses, log_integral = shares(log_mass)
        weights = raked(frame.x(nodes), shares(log_weight)[0], frame.x(many), masses)
    kept = weights > NEGLIGIBLE * weights.max()
    return HyperPosterior(
        coordinates,
        frame,
        nodes[kept],
        weights[kept] / weights[kept].sum(),
        log_integral,
        landscape.lattice,
    )


def matched(
    nodes: Array, weights: Array, z: Array, rule: Array, natural: tuple[Array, Array]
) -> Array:
    """(n,) weights of design points z, (n, d), that give the total, the means and the second
    moments of `nodes` (m, d) with `weights` (m,): the least relative change of the weights `rule`.
    Where points are many, also the means and the second moments of the hyperparameters themselves,
    `natural`: (m, e) at the nodes and (n, e) at the points, for the variance of a latent goes with
    the square of its sd.
    """
    mean = weights @ nodes
    second = np.einsum("m,mi,mj->ij", weights, nodes, nodes)
    upper = np.triu_indices(z.shape[1])
    rows = np.vstack([np.ones(len(z)), z.T, (z[:, upper[0]] * z[:, upper[1]]).T])
    wanted = np.concatenate([[1.0], mean, second[upper]])
    further, theirs = _moments(*natural, weights)
    if len(rows) + len(further) <= len(z) / SPARE:
        rows, wanted = np.vstack([rows, further]), np.concatenate([wanted, theirs])
    weighted = rows * rule
    step = np.linalg.lstsq(weighted @ rows.T, wanted - rows @ rule, rcond=1e-10)[0]
    weights = rule + weighted.T @ step
    if weights.min() >= 0.0:
        return np.asarray(weights)
    from scipy.optimize import lsq_linear

    # Where a weight would be negative: as near to the moments as weights can come that are not,
    # and near to the rule where that leaves a choice.
    used = rule > UNUSED * rule.max()
    near = 1e-3 / np.sqrt(rule[used])
    whole = np.vstack([rows[:, used], np.diag(near)])
    sought = np.concatenate([wanted, near * rule[used]])
    found = np.zeros(len(rule))
    found[used] = np.maximum(lsq_linear(whole, sought, (0.0, np.inf), "bvls").x, 0.0)
    return np.asarray(found / found.sum())


def _moments(nodes: Array, points: Array, weights: Array) -> tuple[Array, Array]:
    """(2 e, n) first and second powers of standardised values at points, and (2 e,) their means
    over the nodes; without values that do not vary or are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weights @ nodes
        sd = np.sqrt(weights @ (nodes - mean) ** 2)
        seen = np.isfinite(sd) & (sd > 0.0) & np.isfinite(points).all(axis=0)
    scaled = (points[:, seen] - mean[seen]) / sd[seen]
    ones = np.ones(scaled.shape[1])
    return np.vstack([scaled.T, scaled.T**2]), np.concatenate([0.0 * ones, ones])


def weighted_quantile(values: Array, weights: Array, levels: Array) -> Array:
    """(Q,) quantiles of weighted values (m,), between the middles of the weights' steps linear in
    normal scores; equal values, as a lattice has along its other axes, are one step."""
    order = np.argsort(values, kind="stable")
    ordered, mass = values[order], weights[order]
    size = np.abs(ordered)
    with np.errstate(invalid="ignore"):  # infinite ones are tied too
        apart = np.diff(ordered) > TIED * np.minimum(size[1:], size[:-1])
    first = np.concatenate([[True], apart])
    mass = np.add.reduceat(mass, np.flatnonzero(first))
    middles = np.clip((np.cumsum(mass) - 0.5 * mass) / mass.sum(), SMALLEST, 1.0 - SMALLEST)
    scores: Array = np.asarray(ndtri(middles), dtype=np.float64)
    return np.asarray(np.interp(ndtri(levels), scores, ordered[first]))


# ---- coupled -----------------------------------------------------------------------------------
# Draws of hyperparameters that belong to draws of the mixture's points.
#
# A point of the mixture, where latents are drawn, stands for the part of the hyperparameters'
# posterior around it. Which part: the transport plan from the posterior's nodes to the points that
# moves mass least, made smooth by its entropy (Cuturi 2013, Sinkhorn distances, algorithm 1):
#
#     P(node m, point k) = w_m R_mk a_k / sum_j R_mj a_j,   R = exp(-|z_m - u_k|^2 / (2 blur^2))
#
# with a such that each point's total is its weight. So hyperparameters of draws have the
# posterior's own distribution, latents that of the mixture, and both move together.


# Of the distance between neighbouring points: a node between two goes to either.
BLUR = 0.3
ROUNDS, CLOSE = 500, 1e-4  # of the totals, and their relative error at which they end
# Logs of R below which a point is so far from all nodes that its a would overflow.
FAR = -200.0
SPAN, STAGES = 50.0, 12  # logs of R span this in the first of so many blurs


def transport(nodes: Array, weights: Array, places: Array, shares: Array) -> Array:
    """(m, k) joint probabilities of nodes (m, d), of `weights` (m,), and points at `places` (k, d),
    of `shares` (k,); both sum to 1."""
    if len(places) == 1:
        return weights[:, None]
    square = np.sum((nodes[:, None, :] - places) ** 2, axis=2)
    gaps = np.sum((places[:, None, :] - places) ** 2, axis=2)
    np.fill_diagonal(gaps, np.inf)
    blur = BLUR**2 * float(np.median(gaps.min(axis=1)))
    logs = -0.5 * (square - square.min(axis=1, keepdims=True)) / blur
    if float(logs.max(axis=0).min()) < FAR:
        return _by_logs(logs, weights, shares)
    kernel = np.exp(logs)
    factor = shares.copy()
    for _ in range(ROUNDS):
        total = factor * ((weights / (kernel @ factor)) @ kernel)
        if np.abs(total - shares).max() <= CLOSE * shares.max():
            break
        factor *= shares / np.maximum(total, 1e-300)
    return np.asarray(kernel * factor * (weights / (kernel @ factor))[:, None])


def _by_logs(logs: Array, weights: Array, shares: Array) -> Array:
    """(m, k) joint probabilities by the logs of R and a, first for wider blurs, where a few rounds
    reach the totals (epsilon-scaling, Schmitzer 2019)."""
    kept = shares > 0.0
    logs, wanted = logs[:, kept], np.log(shares[kept])
    factor, wider = np.zeros_like(wanted), math.inf
    for width in np.geomspace(max(1.0, float(-logs.min()) / SPAN), 1.0, STAGES).tolist():
        factor *= wider / width if math.isfinite(wider) else 1.0
        wider = width
        for _ in range(ROUNDS):
            total = _log_total(logs / width + factor, weights)
            if np.abs(np.exp(total) - shares[kept]).max() <= CLOSE * shares.max():
                break
            factor += wanted - total
    plan = np.zeros((len(weights), len(shares)))
    plan[:, kept] = weights[:, None] * special.softmax(logs + factor, axis=1)
    return plan


def _log_total(logs: Array, weights: Array) -> Array:
    """log sum_m w_m exp(logs_mk) / sum_j exp(logs_mj)."""
    part = logs - special.logsumexp(logs, axis=1, keepdims=True)
    return np.asarray(special.logsumexp(part, axis=0, b=weights[:, None]))


def drawn_nodes(plan: Array, chosen: IntArray, rng: np.random.Generator) -> IntArray:
    """(size,) a node for each draw, whose point is `chosen` (size,)."""
    out = np.empty(len(chosen), dtype=np.int64)
    for k in np.unique(chosen):
        here = np.flatnonzero(chosen == k)
        cumulative = np.cumsum(plan[:, k])
        at = rng.random(len(here)) * cumulative[-1]
        out[here] = np.minimum(np.searchsorted(cumulative, at), len(plan) - 1)
    return out


# ---- raked -------------------------------------------------------------------------------------
# Weights of few nodes that have the marginal distributions of many.
#
# Quantiles far out rest on few nodes: of 4,096 about 60 lie beyond a 97.5 % quantile, which is then
# uncertain by a tenth of an sd and more where the tail is long. More nodes cost no fits, but
# whatever is evaluated at each does. So the marginal masses of cells of every coordinate are taken
# from many, and the weights of the few are scaled to them, one coordinate after the other, until
# all agree (iterative proportional fitting: Deming and Stephan 1940).


# Cells end at these logits of the probabilities; FEWEST: nodes in a cell.
LOGITS = np.linspace(-7.0, 7.0, 43)
FEWEST = 8
SWEEPS, RAKED_CLOSE = 20, 1e-3


def raked(nodes: Array, weights: Array, many: Array, masses: Array) -> Array:
    """(n,) weights of `nodes` (n, d), near to `weights` (n,), whose marginal masses are those of
    the nodes `many` (m, d) with `masses` (m,); all weights sum to 1."""
    margins = [_cells(few, sample, masses) for few, sample in zip(nodes.T, many.T, strict=True)]
    out = weights
    for _ in range(SWEEPS):
        farthest = 0.0
        for cell, wanted in margins:
            mass = np.bincount(cell, out, minlength=len(wanted))
            ratio = wanted / np.maximum(mass, np.finfo(float).tiny)
            farthest = max(farthest, float(np.abs(ratio[mass > 0.0] - 1.0).max()))
            out = out * ratio[cell]
        if farthest < RAKED_CLOSE:
            break
    return np.asarray(out / out.sum())


def _cells(few: Array, sample: Array, masses: Array) -> tuple[IntArray, Array]:
    """The cell of each of the `few` (n,) values, and the mass (c,) that the `sample` (m,) has in
    each cell, all of which hold FEWEST of the few."""
    order = np.argsort(sample, kind="stable")
    below = np.cumsum(masses[order])
    levels = sigmoids(LOGITS)[0]
    ends = sample[order][np.minimum(np.searchsorted(below, levels), len(sample) - 1)]
    rank = np.searchsorted(np.sort(few), ends)
    kept, last = list[float](), 0
    for end, place in zip(ends, rank, strict=True):
        if place - last >= FEWEST and len(few) - place >= FEWEST:
            kept.append(float(end))
            last = place
    edges = np.array(kept)
    wanted: Array = np.zeros(len(edges) + 1)
    np.add.at(wanted, np.searchsorted(edges, sample), masses)
    return np.searchsorted(edges, few).astype(np.int64), wanted
