"""The posterior of the hyperparameters: moments, quantiles and densities of anything made of them.

The surrogate of the log density is integrated in standardised coordinates: over a product lattice
in one or two dimensions, and by importance sampling on a rank-1 (Kronecker) sequence in more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray
from lgmdsl.canonical.coefficient import Theta
from lgmdsl.errors import DataError
from lgmdsl.learning.coordinates import Coordinates
from lgmdsl.learning.coupled import drawn_nodes, transport
from lgmdsl.learning.kernel_density import (
    NODES,
    Range,
    kernel_density,
    lattice_share,
    sample_share,
)
from lgmdsl.learning.ranges import Ends, ends_of_values
from lgmdsl.learning.standardised import Standardised
from lgmdsl.learning.surrogate import Surrogate

if TYPE_CHECKING:
    from numpy.random import Generator

LATTICE = {1: 601, 2: 81}  # nodes an axis
MARGIN = 2.5  # sds beyond the outermost fits
SEQUENCE = 4096
DF, SCALE = 6.0, 1.15  # of the proposal's Student-t
# Draws are drawn again, at most so often, while fewer than this share of them count.
ADAPTATIONS, ENOUGH = 3, 0.4
# The surrogate is doubted within MATTERS nats of the top, RAISED above the split normal.
MATTERS, RAISED = 5.0, 0.5


@dataclass(frozen=True, eq=False)
class HyperPosterior:
    """Weighted nodes `z` (m, d), `weights` (m,) summing to 1; `log_integral`: log of the integral
    of exp(log density) over z."""

    coordinates: Coordinates
    frame: Standardised
    z: Array
    weights: Array
    log_integral: float

    @cached_property
    def x(self) -> Array:
        """(m, d) the nodes in unconstrained coordinates."""
        return self.frame.x(self.z)

    @cached_property
    def thetas(self) -> tuple[Theta, ...]:
        """Every hyperparameter at every node."""
        return tuple(self.coordinates.unpack(x) for x in self.x)

    def values(self, of: Callable[[Theta], Array]) -> Array:
        """(m, ...) a function of the hyperparameters at the nodes."""
        return np.array([of(theta) for theta in self.thetas])

    def mean(self, of: Callable[[Theta], Array]) -> Array:
        """Posterior mean, of the function's shape; exactly the value of what is fixed."""
        values = self.values(of)
        return np.asarray(values[0] + np.tensordot(self.weights, values - values[0], axes=1))

    def sd(self, of: Callable[[Theta], Array]) -> Array:
        """Posterior standard deviation, of the function's shape; exactly 0 for what is fixed."""
        values = self.values(of)
        with np.errstate(over="ignore"):  # what is not determined may have no variance
            gap = values - values[0]
            gap = gap - np.tensordot(self.weights, gap, axes=1)
            return np.asarray(np.sqrt(np.tensordot(self.weights, gap**2, axes=1)))

    def quantile(self, of: Callable[[Theta], Array], levels: Array) -> Array:
        """(Q, ...) quantiles."""
        values = self.values(of)
        flat = values.reshape(len(values), -1)
        columns = [weighted_quantile(c, self.weights, levels) for c in flat.T]
        return np.array(columns).T.reshape(len(levels), *values.shape[1:])

    def density(
        self, of: Callable[[Theta], Array], size: int, ends: Ends | None = None
    ) -> tuple[Array, Array]:
        """(..., size) points between the `ends` of the function's range and the density there:
        NaN where the value is fixed."""
        values = self.values(of)
        lattice = self.z.shape[1] in LATTICE
        share = (
            lattice_share(self.z, self.weights) if lattice else sample_share(self.weights, NODES)
        )
        pairs = zip(*(np.ravel(e) for e in ends or ends_of_values(values)), strict=True)
        found = [
            kernel_density(column, self.weights, share, size, Range(float(low), float(high)))
            for column, (low, high) in zip(values.reshape(len(values), -1).T, pairs, strict=True)
        ]
        shape = (*values.shape[1:], size)
        x, p = (np.array([f[i] for f in found]).reshape(shape) for i in (0, 1))
        return x, p

    def draws(
        self, points: Sequence[Theta], shares: Array, chosen: IntArray, rng: Generator
    ) -> tuple[Theta, ...]:
        """Every hyperparameter in draws that belong to those of a mixture's points of `shares`
        (k,), of which `chosen` (size,) were drawn; in one and two dimensions anywhere in a node's
        cell."""
        plan = transport(self.z, self.weights, np.array([self.place(p) for p in points]), shares)
        z = self.z[drawn_nodes(plan, chosen, rng)]
        if self.z.shape[1] in LATTICE:
            cell = [np.diff(np.unique(c)).min(initial=np.inf) for c in self.z.T]
            away = rng.random(z.shape) - 0.5
            z = z + away * np.where(np.isfinite(cell), cell, 0.0)
        return tuple(self.coordinates.unpack(x) for x in self.frame.x(z))

    def place(self, theta: Theta) -> Array:
        """(d,) z of a point; the mean for one that rounding has moved to the edge of a range."""
        try:
            away = self.coordinates.pack(theta) - self.frame.mode
        except DataError:
            return self.weights @ self.z
        return np.asarray(np.linalg.solve(self.frame.axes, away), dtype=np.float64)

    def moments_z(self) -> tuple[Array, Array]:
        """Mean (d,) and second moment (d, d) of z."""
        mean = self.weights @ self.z
        return mean, np.einsum("m,mi,mj->ij", self.weights, self.z, self.z)


def hyper_posterior(
    coordinates: Coordinates, frame: Standardised, fitted: Surrogate
) -> HyperPosterior:
    """The posterior whose log density is the surrogate's. Where the nodes are draws of which few
    carry the weight, they are drawn again about the mean and covariance that they gave."""
    nodes, log_weight = _weighted(fitted, *quadrature_nodes(fitted))
    for _ in range(ADAPTATIONS):
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        if nodes.shape[1] in LATTICE or 1.0 / np.sum(weight**2) > ENOUGH * len(weight):
            break
        mean = weight @ nodes
        gap = nodes - mean
        spread = np.einsum("m,mi,mj->ij", weight, gap, gap) + 1e-6 * np.eye(nodes.shape[1])
        again = _weighted(fitted, *elliptical_nodes(mean, spread))
        if _effective(again[1]) <= _effective(log_weight):
            break
        nodes, log_weight = again
    top = float(log_weight.max())
    weight = np.exp(log_weight - top)
    total = float(weight.sum())
    kept = weight > 1e-12 * weight.max()
    return HyperPosterior(
        coordinates, frame, nodes[kept], weight[kept] / weight[kept].sum(), top + np.log(total)
    )


def _weighted(fitted: Surrogate, nodes: Array, log_measure: Array) -> tuple[Array, Array]:
    return nodes, fitted(nodes) + log_measure


def _effective(log_weight: Array) -> float:
    weight = np.exp(log_weight - log_weight.max())
    return float(weight.sum() ** 2 / np.sum(weight**2))


def doubtful(fitted: Surrogate) -> Array:
    """(k, d) places u far from every fit where the surrogate is high only because it extrapolates:
    where a fit should say whether it is."""
    nodes, log_measure = quadrature_nodes(fitted)
    value, scale = fitted(nodes), fitted.stretch.mean(axis=1)
    high = (value > fitted.top - MATTERS) & (value - fitted.normal(nodes)[0] > RAISED)
    mass = np.where(high, value + log_measure, -np.inf)
    taken, found = fitted.points / scale, []
    for k in np.argsort(-mass, kind="stable")[: int(high.sum())]:
        place = nodes[k] / scale
        if np.min(np.sum((taken - place) ** 2, axis=1)) > 1.0:
            found.append(nodes[k])
            taken = np.vstack([taken, place])
            if len(found) == nodes.shape[1] + 2:
                break
    return np.array(found).reshape(-1, nodes.shape[1])


def matched(posterior: HyperPosterior, z: Array, rule: Array) -> Array:
    """(n,) weights of design points z, (n, d), that give the total, the means and the second
    moments of the posterior: the least relative change of the weights `rule` of a normal density.
    """
    mean, second = posterior.moments_z()
    upper = np.triu_indices(z.shape[1])
    rows = np.vstack([np.ones(len(z)), z.T, (z[:, upper[0]] * z[:, upper[1]]).T])
    wanted = np.concatenate([[1.0], mean, second[upper]])
    weighted = rows * rule
    step = np.linalg.lstsq(weighted @ rows.T, wanted - rows @ rule, rcond=1e-10)[0]
    weights = rule + weighted.T @ step
    if weights.min() >= 0.0:
        return np.asarray(weights)
    from scipy.optimize import nnls

    # Where a weight would be negative: as near to the moments as weights can come that are not,
    # and near to the rule where that leaves a choice.
    near = 1e-3 / np.sqrt(rule)
    found, _ = nnls(np.vstack([rows, np.diag(near)]), np.concatenate([wanted, near * rule]))
    return np.asarray(found / found.sum())


def weighted_quantile(values: Array, weights: Array, levels: Array) -> Array:
    """(Q,) quantiles of weighted values (m,), linear between the middles of the weights' steps."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    middles = cumulative - 0.5 * weights[order]
    return np.interp(levels, middles, values[order])


def quadrature_nodes(fitted: Surrogate) -> tuple[Array, Array]:
    """Nodes (m, d) of u and the log of the measure that each stands for: a product lattice a
    little wider than the fits, or draws of a split Student-t along the split normal's axes."""
    size = fitted.points.shape[1]
    if size in LATTICE:
        along = zip(fitted.points.T, fitted.stretch, strict=True)
        ends = [(c.min() - MARGIN * s[0], c.max() + MARGIN * s[1]) for c, s in along]
        axes = [np.linspace(low, high, LATTICE[size]) for low, high in ends]
        nodes = np.stack([a.reshape(-1) for a in np.meshgrid(*axes, indexing="ij")], axis=1)
        cell = float(np.prod([a[1] - a[0] for a in axes]))
        return nodes, np.full(len(nodes), np.log(cell))
    standard, log_density = _student(size)
    lengths = SCALE * np.where(standard < 0.0, fitted.stretch[:, 0], fitted.stretch[:, 1])
    log_density -= np.log(lengths).sum(axis=1)
    return np.asarray(lengths * standard), -log_density - np.log(SEQUENCE)


def elliptical_nodes(mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Nodes (m, d) and the log of the measure of each: draws of independent Student-t variables
    along the axes of a covariance (d, d)."""
    standard, log_density = _student(len(mean))
    root = SCALE * np.linalg.cholesky(covariance)
    log_density -= np.log(np.diag(root)).sum()
    return np.asarray(mean + standard @ root.T), -log_density - np.log(SEQUENCE)


def _student(size: int) -> tuple[Array, Array]:
    """(m, size) draws of independent Student-t variables, and their log densities (m,)."""
    standard = np.asarray(special.stdtrit(DF, kronecker(SEQUENCE, size)), dtype=np.float64)
    constant = (
        special.gammaln(0.5 * (DF + 1.0)) - special.gammaln(0.5 * DF) - 0.5 * np.log(DF * np.pi)
    )
    log_density = constant - 0.5 * (DF + 1.0) * np.log1p(standard**2 / DF)
    return standard, log_density.sum(axis=1)


def kronecker(count: int, size: int) -> Array:
    """(count, size) of the additive sequence k alpha mod 1 whose alphas are the powers of the
    generalised golden ratio, g^(size+1) = g + 1: low discrepancy in any dimension."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (size + 1))
    alpha = ratio ** -np.arange(1.0, size + 1.0)
    u = (0.5 + np.outer(np.arange(1, count + 1), alpha)) % 1.0
    return np.clip(u, 1e-12, 1.0 - 1e-12)
