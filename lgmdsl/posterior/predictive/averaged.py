"""The distribution function of y, averaged over its predictors and hyperparameters:

    F(y) = sum_k w_k int N(s; m_k, v_k) P(Y <= y | s, theta_k) ds

by rules that every row chooses by itself, from a ladder of finer and finer ones: two Gauss-Hermite
rules, for predictors that are known well, then trapezoid rules, which converge exponentially for
smooth functions. Draws of s take the place of nodes where the posterior is made of draws.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations.normal_product import product_rule, root_of, rung_for, rungs
from lgmdsl.posterior.normal_mixtures import mixed_moments
from lgmdsl.sites.quadrature import NodeSites

# Nodes of the Gauss-Hermite rules, and the widths of the step of P(Y <= y | s), in sds of s, from
# which they average it to 1e-10.
FEW, WIDTHS = (5, 9), (8.0, 3.5)
# Reach of the other nodes in sds, and their steps h. Where P(Y <= y | s) rises over w sds, its
# product with the normal has a spectrum of exp(-k^2 w^2 / (2 + 2 w^2)), and the rule's error is
# what that is at k = 2 pi / h: 1e-6 for h = 1.2 w / sqrt(1 + w^2), 1e-12 for half of it.
REACH, STEPS, PER_WIDTH = 6.5, (0.8, 0.4, 0.2, 0.1, 0.05, 0.025), 1.2
LIKELY = 3.0  # sds of s within which widths matter
BUCKET = 1.2  # numbers of nodes of a mixture are rounded up to powers of this

Predictors = Sequence[tuple[Mapping[str, Array], Array, Array]]


@dataclass(frozen=True, eq=False)
class GivenPredictors:
    """y given its predictors at nodes: `site` has the rows; `s` is (nodes, rows), or (nodes, rows,
    K) of K predictors; `weight` (nodes, rows)."""

    site: Site
    s: Array
    weight: Array

    def below(self, y: Array, rows: IntArray) -> Array:
        """The weighted sum of P(Y <= y | s) over the nodes, for y of `rows`."""
        at, s = self._at(y, rows)
        return self._sum(at.cdf(s), rows)

    def likely(self, y: Array, rows: IntArray) -> Array:
        """The weighted sum of P(Y = y | s), or of densities; 0 where y is impossible at all
        nodes."""
        if self.site.broadcasts and self.s.ndim == 2:
            changed: dict[str, Any] = {"y": y}
            site = NodeSites(dataclasses.replace(self.site.take(rows), **changed))
            log = site.log_density(np.arange(len(rows)), self.s.T[rows])
            density, weight = np.exp(log), self.weight.T[rows]
            total = np.einsum("nk,nk->n", density, weight)
            lost = np.isnan(total)
            total[lost & np.isnan(density).all(axis=1)] = 0.0
            return np.asarray(total)
        at, s = self._at(y, rows)
        density = np.exp(at.log_density(s)).reshape(len(self.s), -1)
        return np.where(np.isnan(density).all(axis=0), 0.0, self._sum(density, rows))

    def endless(self) -> Array:
        """The weighted sum of P(Y = inf | s)."""
        rows = np.arange(len(self.site))
        at, s = self._at(None, rows)
        return self._sum(at.endless(s), rows)

    def inner(self) -> tuple[Array, Array]:
        """E[y | s] and Var[y | s] at the nodes, (nodes, rows)."""
        at, s = self._at(None, np.arange(len(self.site)))
        shape = self.weight.shape
        return at.conditional_mean(s).reshape(shape), at.conditional_variance(s).reshape(shape)

    def _at(self, y: Array | None, rows: IntArray) -> tuple[Site, Array]:
        count = len(self.s)
        site = self.site.take(np.tile(rows, count))
        if y is not None:
            changed: dict[str, Any] = {"y": np.tile(y, count)}
            site = dataclasses.replace(site, **changed)
        return site, self.s[:, rows].reshape(-1, *self.s.shape[2:])

    def _sum(self, values: Array, rows: IntArray) -> Array:
        weight = self.weight[:, rows]
        return np.asarray(np.sum(weight * values.reshape(weight.shape), axis=0))


class Averaged(ABC):
    """What y is averaged over, for all rows: rungs of a ladder of rules, from the coarsest."""

    last: int  # the finest rung
    tolerance: float  # of P(Y <= y) by a rung and the next one
    sites: Sequence[Site]

    @property
    def counts(self) -> bool:
        """Whether y is a count from 0."""
        return "count" in self.sites[0].spec.observed

    @cached_property
    @abstractmethod
    def first(self) -> IntArray:
        """(N,) the rung that each row begins at."""

    @abstractmethod
    def kinds(self, rung: int, rows: IntArray) -> IntArray:
        """(n,) the number of nodes of each row: rows that share it are averaged together."""

    @abstractmethod
    def given(self, rung: int, rows: IntArray) -> tuple[GivenPredictors, ...]:
        """y given the nodes of rows of one kind."""


def together(law: Averaged, rung: int, rows: IntArray, values: int, most: int) -> list[IntArray]:
    """Rows that one rule averages, as many at a time as have up to `most` entries of so many values
    at all nodes."""
    out, kinds = [], law.kinds(rung, rows)
    for kind in np.unique(kinds).tolist():
        some = rows[kinds == kind]
        nodes = sum(len(g.s) for g in law.given(rung, some[:1]))
        size = max(1, most // (nodes * values))
        out += [some[k : k + size] for k in range(0, len(some), size)]
    return out


class OverMixture(Averaged):
    """Predictors of a mixture of normals with weights (M,), means and sds (M, N): `sites` for each
    part, or one that all share. Parts share nodes where that takes fewer of them."""

    last, tolerance = len(FEW) + len(STEPS) - 1, 1e-9

    def __init__(self, sites: Sequence[Site], weights: Array, means: Array, sds: Array) -> None:
        self.sites, self.weights, self.means, self.sds = sites, weights, means, sds

    @cached_property
    def first(self) -> IntArray:
        centre, spread = mixed_moments(self.weights / self.weights.sum(), self.means, self.sds)
        x = STEPS[0] * np.arange(-int(LIKELY / STEPS[0]) - 1, int(LIKELY / STEPS[0]) + 2)[:, None]
        steep = np.zeros(len(centre))
        for site in self.sites:
            many = site.take(np.tile(np.arange(len(site)), len(x)))
            s = centre + spread * x
            with np.errstate(all="ignore"):
                inner = many.conditional_mean(s.reshape(-1)).reshape(s.shape)
                noise = many.conditional_variance(s.reshape(-1)).reshape(s.shape)
                # P(Y <= y | s) rises where E[y | s] passes y, over this part of an sd of s.
                per_width = np.abs(np.gradient(inner, x[:, 0], axis=0)) / np.sqrt(noise)
            steep = np.maximum(steep, np.where(np.isfinite(per_width), per_width, 0.0).max(axis=0))
        step = PER_WIDTH / np.hypot(1.0, steep)
        by_step = len(FEW) + np.searchsorted(-np.array(STEPS), -step)
        rung = np.minimum(by_step, self.last)
        for k in reversed(range(len(FEW))):
            rung = np.where(steep * WIDTHS[k] <= 1.0, k, rung)
        return np.asarray(rung, dtype=np.int64)

    def kinds(self, rung: int, rows: IntArray) -> IntArray:
        own = len(self.weights) * len(_normal(rung)[0])
        shared = self._shared(rung, rows)
        return np.where(shared < own, shared, 0.0).astype(np.int64)

    def given(self, rung: int, rows: IntArray) -> tuple[GivenPredictors, ...]:
        m, sd = self.means[:, rows], self.sds[:, rows]
        nodes = int(self.kinds(rung, rows[:1])[0])
        if nodes:
            return (self._mixed(nodes, m, sd, rows),)
        x, share = _normal(rung)
        sites = [self.sites[k % len(self.sites)].take(rows) for k in range(len(self.weights))]
        if len(self.sites) > 1 or len(self.weights) == 1:
            return tuple(
                GivenPredictors(
                    site, m[k] + sd[k] * x[:, None], np.repeat(w * share[:, None], len(rows), 1)
                )
                for k, (site, w) in enumerate(zip(sites, self.weights, strict=True))
            )
        s = (m[:, None] + sd[:, None] * x[:, None]).reshape(-1, len(rows))
        weight = np.repeat((self.weights[:, None] * share).reshape(-1, 1), len(rows), axis=1)
        return (GivenPredictors(sites[0], s, weight),)

    def _shared(self, rung: int, rows: IntArray) -> Array:
        """How many nodes the parts of a mixture take together, at a step of the narrowest; infinity
        where they share none."""
        m, sd = self.means[:, rows], self.sds[:, rows]
        if len(self.sites) > 1 or len(m) == 1:
            return np.full(len(rows), np.inf)
        step = STEPS[max(rung - len(FEW), 0)] * sd.min(axis=0)
        span = (m + REACH * sd).max(axis=0) - (m - REACH * sd).min(axis=0)
        with np.errstate(all="ignore"):
            power = np.ceil(np.log(span / step + 1.0) / np.log(BUCKET))
            count = np.ceil(BUCKET**power)
        return np.where(np.isnan(count), np.inf, count)

    def _mixed(self, nodes: int, m: Array, sd: Array, rows: IntArray) -> GivenPredictors:
        low, high = (m - REACH * sd).min(axis=0), (m + REACH * sd).max(axis=0)
        s = low + (high - low) * np.linspace(0.0, 1.0, nodes)[:, None]
        weight = np.zeros_like(s)
        for w, mean, spread in zip(self.weights, m, sd, strict=True):
            weight += w / spread * np.exp(-0.5 * ((s - mean) / spread) ** 2)
        weight *= self.weights.sum() / weight.sum(axis=0)
        return GivenPredictors(self.sites[0].take(rows), s, weight)


def _normal(rung: int) -> tuple[Array, Array]:
    """Nodes and weights of a rule of the standard normal."""
    if rung < len(FEW):
        points, weight, _ = product_rule(FEW[rung], 1)
        return points[:, 0], weight
    step = STEPS[rung - len(FEW)]
    half = int(np.ceil(REACH / step))
    x = np.asarray(step * np.arange(-half, half + 1), dtype=np.float64)
    share = np.exp(-0.5 * x**2)
    share /= share.sum()
    return x, np.asarray(share, dtype=np.float64)


class OverSeveral(Averaged):
    """Several predictors of each row: product rules for each part of a mixture."""

    tolerance = 1e-7

    def __init__(self, sites: Sequence[Site], weights: Array, predictors: Predictors) -> None:
        self.sites, self.weights, self.predictors = sites, weights, predictors
        self.dimension = predictors[0][1].shape[1]
        self.rules = rungs(self.dimension)
        self.last = len(self.rules) - 1

    @cached_property
    def first(self) -> IntArray:
        widest = np.max(
            [np.einsum("nkk->nk", v).max(axis=1) for _, _, v in self.predictors], axis=0
        )
        return rung_for(np.sqrt(np.maximum(widest, 0.0)), self.dimension)

    def kinds(self, rung: int, rows: IntArray) -> IntArray:
        return np.zeros(len(rows), dtype=np.int64)

    def given(self, rung: int, rows: IntArray) -> tuple[GivenPredictors, ...]:
        t, share, _ = self.rules[rung]
        parts = []
        for site, (_, m, v), weight in zip(self.sites, self.predictors, self.weights, strict=True):
            s = m[rows] + np.einsum("nij,pj->pni", root_of(v[rows]), t)
            parts.append(
                GivenPredictors(
                    site.take(rows), s, np.repeat(weight * share[:, None], len(rows), axis=1)
                )
            )
        return tuple(parts)


class OverDraws(Averaged):
    """Draws of predictors at sites, (k, N) or (k, N, K) for each site: one rule, of equal
    weights."""

    last, tolerance = 0, 0.0

    def __init__(self, kept: Sequence[tuple[Site, Array]], rows: int) -> None:
        self.kept, self.rows, self.sites = kept, rows, [site for site, _ in kept]
        self.count = sum(len(s) for _, s in kept)

    @cached_property
    def first(self) -> IntArray:
        return np.zeros(self.rows, dtype=np.int64)

    def kinds(self, rung: int, rows: IntArray) -> IntArray:
        return np.zeros(len(rows), dtype=np.int64)

    def given(self, rung: int, rows: IntArray) -> tuple[GivenPredictors, ...]:
        return tuple(
            GivenPredictors(
                site.take(rows), s[:, rows], np.full((len(s), len(rows)), 1.0 / self.count)
            )
            for site, s in self.kept
        )
