"""Latent draws shifted and rescaled to the hyperparameters of their draw.

The latents of a mixture over hyperparameter points are drawn at the points, the hyperparameters
from the part of their posterior that each point stands for. What a model makes of both, s u where
u has sd 1, is often known far better than either, and would be as wide as that part of the
posterior. So each draw is shifted by the change of the mean of z from the point to the draw's
hyperparameters, and rescaled by the change of its sds, both by quadratics through their values at
neighbouring points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.predictive import repeated
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.canonical.expressions.coefficient import Theta
from lgmdsl.canonical.lowering import derived
from lgmdsl.canonical.lowering.derived import Derived
from lgmdsl.contract.site import Site
from lgmdsl.learning.coordinates.hyper_marginals import HyperMarginals

# Draws are carried so far from their point at most, in units of the standardised hyperparameters,
# and stretched or shrunk by e at most.
FARTHEST, MOST = 2.5, 1.0
# Functions of latents and hyperparameters are evaluated once for each value of the latter; draws
# share hyperparameters where there are more draws than this.
DISTINCT = 500


def hypers_of(tree: Derived) -> frozenset[str]:
    """The hyperparameters that a let or report depends on."""
    return frozenset[str]().union(*(leaf.form.depends for leaf in derived.leaves(tree)))


@dataclass(frozen=True, eq=False)
class DrawShift:
    """`places` (P, d) of the points, `mean` (P, n) of z at each, and the logs of its sds on average
    over each of the `blocks` of z, (P, b), so that what sums to zero in a block still does."""

    places: Array
    mean: Array
    log_sd: Array
    blocks: tuple[slice, ...]

    @classmethod
    def of(
        cls, places: Array, moments: Sequence[tuple[Array, Array]], blocks: Sequence[slice]
    ) -> DrawShift:
        """From means and variances of z at each point."""
        variance = np.array([v for _, v in moments])
        varying = tuple(b for b in blocks if b.stop > b.start and (variance[:, b] > 0.0).any())
        with np.errstate(divide="ignore"):
            logs = [
                np.mean(0.5 * np.log(v), axis=1)
                for b in varying
                for v in [variance[:, b][:, (variance[:, b] > 0.0).all(axis=0)]]
            ]
        log_sd = np.array(logs).T.reshape(len(places), len(varying))
        return cls(places, np.array([m for m, _ in moments]), log_sd, varying)

    def __call__(self, point: int, z: Array, targets: Array) -> Array:
        """Draws z (k, n) of one point, shifted to their places (k, d)."""
        away = self.places - self.places[point]
        squares = np.sum(away**2, axis=1)
        design = _quadratic(away)
        reach = np.sort(squares)[min(len(squares), 2 * design.shape[1]) - 1]
        root = np.exp(-0.5 * squares / max(float(reach), 1e-300))[:, None]
        wanted = np.concatenate([self.mean, self.log_sd], axis=1)
        slopes = np.linalg.lstsq(design * root, (wanted - wanted[point]) * root, rcond=1e-8)[0]
        step = _quadratic(np.clip(targets - self.places[point], -FARTHEST, FARTHEST)) @ slopes
        n = self.mean.shape[1]
        spread = z - self.mean[point]
        for block, stretch in zip(self.blocks, step[:, n:].T, strict=True):
            spread[:, block] *= np.exp(np.clip(stretch, -MOST, MOST))[:, None]
        return np.asarray(self.mean[point] + step[:, :n] + spread)


def _quadratic(x: Array) -> Array:
    """(k, terms) linear and quadratic terms of x (k, d): nothing at 0."""
    i, j = np.triu_indices(x.shape[1])
    return np.concatenate([x, x[:, i] * x[:, j]], axis=1)


@dataclass
class DrawnHypers:
    """The hyperparameters of joint draws: found when the points of all draws are known.

    `points` and `shares`: those of the mixture. `carried`, where latents are shifted to the
    hyperparameters of their draw (`mixing`), makes the shift.
    """

    hypers: HyperMarginals | None
    points: Sequence[Theta]
    shares: Array
    seed: int
    mixing: bool = False
    carried: Callable[[], DrawShift] | None = None
    thetas: tuple[Theta, ...] | None = None

    def at(self, chosen: IntArray, places: IntArray) -> tuple[Theta, ...]:
        """Hyperparameters of the draws at `places`, where the points of all draws are `chosen`;
        none where draws have the hyperparameters of their points."""
        if self.thetas is None:
            self.thetas = ()
            if self.hypers is not None:
                rng = np.random.default_rng([self.seed, 2])
                self.thetas = self.hypers.draws(self.points, self.shares, chosen, rng)
            if self.mixing and len(self.thetas) > DISTINCT:
                self.thetas = _fewer(self.thetas, chosen)
        return tuple(self.thetas[i] for i in places) if self.thetas else ()

    def carry(self, chosen: IntArray, places: IntArray, z: Array) -> Array:
        """Draws z of one point, at their own hyperparameters."""
        thetas, hypers = self.at(chosen, places), self.hypers
        if not (self.mixing and thetas) or len(self.points) == 1:
            return z
        targets = None if hypers is None else hypers.places(thetas)
        if targets is None or self.carried is None:
            return z
        return self.carried()(int(chosen[places[0]]), z, targets)


def _fewer(thetas: Sequence[Theta], chosen: IntArray) -> tuple[Theta, ...]:
    """About DISTINCT of the thetas, shared by the draws of each point."""
    out = list(thetas)
    for k in np.unique(chosen):
        places = np.flatnonzero(chosen == k)
        distinct = max(1, round(DISTINCT * len(places) / len(thetas)))
        for j, place in enumerate(places):
            out[place] = thetas[places[j % distinct]]
    return tuple(out)


def by_theta(thetas: Sequence[Theta]) -> Iterator[tuple[Theta, IntArray]]:
    """Each distinct value with the positions of the draws that have it."""
    where: dict[int, list[int]] = {}
    for k, theta in enumerate(thetas):
        where.setdefault(id(theta), []).append(k)
    for places in where.values():
        yield thetas[places[0]], np.array(places)


# ---- site draws --------------------------------------------------------------------------------


def drawn_sites(
    block: SiteBlock,
    theta: Theta,
    thetas: Sequence[Theta],
    count: int,
    y: Array,
    all_rows: bool = False,
) -> Iterator[tuple[slice, Site]]:
    """The family as written with observations y, once for each of `count` draws, draws first: at
    `thetas` (one for each draw), or all at `theta` where there are none. In parts, with the draws
    that each is of: one draw each where parameters that all rows share differ between draws."""
    free = [n for n, node in block.parameters.items() if node.depends]
    if not thetas or not free:
        same: dict[str, Any] = {**block.parameter_values(theta, all_rows), "y": y}
        yield slice(0, count), repeated(block.family(**same), count)
        return
    parameters = [block.parameter_values(t, all_rows) for t in thetas]
    shared = block.family.spec.shared
    if any(n in shared for n in free):
        for k, each in enumerate(parameters):
            arguments: dict[str, Any] = {**each, "y": y}
            yield slice(k, k + 1), block.family(**arguments)
        return
    whole: dict[str, Any] = {
        n: value if n in shared else np.concatenate([each[n] for each in parameters])
        for n, value in parameters[0].items()
    }
    whole["y"] = np.concatenate([y] * count)
    yield slice(0, count), block.family(**whole)


def parameter_rows(block: SiteBlock, theta: Theta, all_rows: bool = False) -> Array:
    """(N, P) the parameters of each row that depend on hyperparameters."""
    values = block.parameter_values(theta, all_rows)
    count = math.prod(block.data_shape) if all_rows else len(block.data.rows)
    rows = [
        np.broadcast_to(v.reshape(1, -1), (count, v.size))
        if n in block.family.spec.shared
        else v.reshape(count, -1)
        for n, v in values.items()
        if block.parameters[n].depends
    ]
    return np.concatenate([np.zeros((count, 0)), *rows], axis=1)
