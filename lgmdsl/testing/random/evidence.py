"""log p(y) of a model of one to three latents by brute force, for checks of what methods claim.

The posterior is integrated in coordinates that whiten it roughly (the mode, and site curvatures by
second differences at the width of the posterior, so that kinks are nothing special).

One or two latents: boxes graded geometrically from the mode, bisected along their worst axis until
nested Clenshaw-Curtis rules of 9 and 5 points agree. Where all sites are log-concave, they cover
all within REACH prior sds of the mode, beyond which less than exp(-REACH^2 / 2) of the peak is
left; else all where the prior times the sites' largest values is above that.

Three latents, smooth and log-concave sites: the trapezoidal rule, exponentially accurate for
analytic integrands, on a box outside which they are below exp(-REACH^2 / 2), its step cut until
it settles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise, product

import numpy as np
from scipy import optimize

from lgmdsl.arrays import Array
from lgmdsl.contract.site import Property
from lgmdsl.sites.quadrature import NodeSites
from lgmdsl.testing.random.model import RandomModel

REACH = 9.5
CUT = 0.6  # of the trapezoidal rule's step
_EDGES = (1.5, 4.0, 9.0, 27.0, 81.0)
_ENTRIES_PER_PASS = 1 << 21  # predictors x nodes at a time
_MAX_ENTRIES = 2e8  # predictors x nodes in all


def brute_log_evidence(case: RandomModel, tolerance: float = 1e-9) -> float:
    """log p(y), to about `tolerance`. Latents that the prior knows exactly do not count.

    Raises ValueError for a flat prior, for more than three latents, and for three with sites that
    have kinks or are not log-concave; ArithmeticError where the tolerance is out of reach.
    """
    root = _root(case.covariance)
    size = root.shape[1]
    rough = any(Property.KINKED in s.family.spec.properties for s in case.sites)
    if size > 3 or (size == 3 and (rough or not case.concave)):
        raise ValueError(f"{size} latents are too many for brute force with these sites")
    joint = _Joint(case, root)
    if size == 0:
        return float(joint(np.zeros((1, 0)))[0])
    mode, scale = joint.whitening()
    peak = float(joint(mode[None])[0])

    def density(u: Array) -> Array:
        return np.asarray(np.exp(joint(mode + u @ scale.T) - peak))

    cost = case.rows * len(case.sites)
    if size == 3:
        total = _trapezoid(density, tolerance, cost)
    else:
        turned = np.linalg.inv(scale)
        reach, finest, middle = REACH + 1.0, math.inf, np.zeros(size)
        if not case.concave:
            reach, finest, middle = joint.reach(peak), 2.0, -turned @ mode
        half = np.linalg.norm(turned, axis=1) * reach
        edges = [_edges(a - h, a + h, finest) for a, h in zip(middle, half, strict=True)]
        total = _cubature(density, edges, tolerance, cost)
    log_det = float(np.linalg.slogdet(scale)[1])
    return float(peak + math.log(total) + log_det - 0.5 * size * math.log(2.0 * math.pi))


class _Joint:
    """log prod t(s) - |x|^2 / 2 at points x (k, r), z = mean + root x."""

    def __init__(self, case: RandomModel, root: Array) -> None:
        self.design: list[Array] = []
        self.start: list[Array] = []
        self.sites: list[NodeSites] = []
        for s in case.sites:
            self.design.append((case.design @ root)[s.present])
            self.start.append((case.offset + case.design @ case.mean)[s.present])
            self.sites.append(NodeSites(s.bound))

    def __call__(self, x: Array) -> Array:
        level = -0.5 * np.sum(x * x, axis=1)
        for a, s0, site in zip(self.design, self.start, self.sites, strict=True):
            s = s0[:, None] + a @ x.T
            level = level + site.log_density(np.arange(len(s0)), s).sum(axis=0)
        return np.asarray(np.where(np.isnan(level), -np.inf, level))

    def whitening(self) -> tuple[Array, Array]:
        """The mode, and C with CC' near the posterior covariance of x."""
        size = self.design[0].shape[1]
        mode, covariance = np.zeros(size), np.eye(size)
        for _ in range(4):
            scale = np.asarray(np.linalg.cholesky(covariance))
            below: Callable[[Array], float] = partial(self._below, mode, scale)
            best = optimize.minimize(
                below,
                [0.0] * size,
                method="Nelder-Mead",
                options={"xatol": 1e-3, "fatol": 1e-6, "maxiter": 1000},
            )
            mode = mode + scale @ best.x
            precision = np.eye(size)
            for a, s0, site in zip(self.design, self.start, self.sites, strict=True):
                s, h = s0 + a @ mode, np.sqrt(np.einsum("ij,jk,ik->i", a, covariance, a)) + 1e-9
                near = np.stack([s - h, s, s + h], axis=1)
                level = site.log_density(np.arange(len(s0)), near)
                bend = (2.0 * level[:, 1] - level[:, 0] - level[:, 2]) / h**2
                precision += a.T @ (np.clip(bend, 0.0, 1e12)[:, None] * a)
            inverse = np.linalg.inv(precision)
            covariance = np.asarray((inverse + inverse.T) / 2.0)
        return mode, np.asarray(np.linalg.cholesky(covariance))

    def _below(self, mode: Array, scale: Array, u: Array) -> float:
        return -float(self((mode + scale @ u)[None])[0])

    def reach(self, peak: float) -> float:
        """|x| beyond which even the sites' largest values leave nothing."""
        largest = 0.0
        for a, s0, site in zip(self.design, self.start, self.sites, strict=True):
            width = 40.0 * np.linalg.norm(a, axis=1)
            s = s0[:, None] + width[:, None] * np.linspace(-1.0, 1.0, 8001)
            largest += float(site.log_density(np.arange(len(s0)), s).max(axis=1).sum())
        return math.sqrt(max(2.0 * (largest - peak), 0.0) + REACH**2)


def _root(covariance: Array) -> Array:
    values, vectors = np.linalg.eigh(covariance)
    positive = values > 1e-14 * max(float(values.max(initial=0.0)), 1e-300)
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive]))


def _trapezoid(density: Callable[[Array], Array], tolerance: float, cost: int) -> float:
    """The integral over all of space of a log-concave function that peaks near 0."""
    step, low, high = 0.75, np.full(3, -6.0), np.full(3, 6.0)
    before = math.inf
    while True:
        axes = [
            np.arange(math.floor(a / step), math.ceil(b / step) + 1) * step
            for a, b in zip(low, high, strict=True)
        ]
        nodes = float(np.prod([len(a) for a in axes]))
        if nodes * cost > _MAX_ENTRIES:
            raise ArithmeticError("the trapezoidal rule does not settle")
        values = _on_grid(density, axes, cost)
        edge = math.exp(-0.5 * REACH**2)
        grown = False
        for k in range(3):
            faces = np.moveaxis(values, k, 0)
            if faces[0].max() > edge:
                low[k], grown = 1.5 * low[k], True
            if faces[-1].max() > edge:
                high[k], grown = 1.5 * high[k], True
        if grown:
            continue
        total = float(values.sum()) * step**3
        # The error falls as exp(-c / step), so the last one is the one before to the power 1 / CUT.
        if abs(total - before) <= tolerance**CUT * total:
            return total
        before, step = total, CUT * step


def _on_grid(density: Callable[[Array], Array], axes: list[Array], cost: int) -> Array:
    plane = np.array(list(product(axes[1], axes[2])))
    lines = max(1, _ENTRIES_PER_PASS // (len(plane) * max(cost, 1)))
    parts = []
    for i in range(0, len(axes[0]), lines):
        first = axes[0][i : i + lines]
        u = np.column_stack([np.repeat(first, len(plane)), np.tile(plane, (len(first), 1))])
        parts.append(density(u))
    return np.concatenate(parts).reshape([len(a) for a in axes])


def _edges(low: float, high: float, finest: float) -> Array:
    """Breaks from low to high, graded from 0, none further apart than `finest`."""
    graded = [*(-e for e in reversed(_EDGES)), 0.0, *_EDGES]
    breaks = np.array([low, *(e for e in graded if low < e < high), high])
    if math.isinf(finest):
        return breaks
    parts = [np.linspace(a, b, 1 + math.ceil((b - a) / finest))[:-1] for a, b in pairwise(breaks)]
    return np.concatenate([*parts, [high]])


def _clenshaw_curtis(panels: int) -> tuple[Array, Array]:
    """Nodes on [-1, 1] and weights, panels + 1 of them, panels even."""
    k = np.arange(panels + 1)
    nodes = np.cos(np.pi * k / panels)
    j = np.arange(1, panels // 2 + 1)
    share = np.where(j == panels // 2, 1.0, 2.0) / (4.0 * j**2 - 1.0)
    weights = 1.0 - np.cos(2.0 * np.pi * np.outer(k, j) / panels) @ share
    weights *= np.where((k == 0) | (k == panels), 1.0, 2.0) / panels
    return nodes, weights


def _cubature(
    density: Callable[[Array], Array], edges: list[Array], tolerance: float, cost: int
) -> float:
    """The integral over the grid of boxes, bisected where two rules differ."""
    size = len(edges)
    nodes, fine = _clenshaw_curtis(8)
    coarse = np.zeros_like(fine)
    coarse[::2] = _clenshaw_curtis(4)[1]
    grid = np.array(list(product(nodes, repeat=size)))
    low = np.array(list(product(*(e[:-1] for e in edges))))
    high = np.array(list(product(*(e[1:] for e in edges))))
    done, spent = 0.0, 0.0
    while len(low):
        spent += float(len(low) * len(grid) * cost)
        if spent > _MAX_ENTRIES:
            raise ArithmeticError("the cubature does not settle")
        value, error = _estimates(density, grid, fine, coarse, low, high, cost)
        # A box may leave its share of what all may leave together.
        share = tolerance * (done + float(value.sum())) / (8.0 * len(low) + 64.0)
        split = error.max(axis=1) > share
        done += float(value[~split].sum())
        low, high, worst = low[split], high[split], error[split].argmax(axis=1)
        index = np.arange(len(low))
        upper, lower = high.copy(), low.copy()
        upper[index, worst] = lower[index, worst] = 0.5 * (low + high)[index, worst]
        low, high = np.concatenate([low, lower]), np.concatenate([upper, high])
    return done


def _estimates(
    density: Callable[[Array], Array],
    grid: Array,
    fine: Array,
    coarse: Array,
    low: Array,
    high: Array,
    cost: int,
) -> tuple[Array, Array]:
    """The fine rule's value of each box, and along each axis its difference from the coarse one."""
    size = low.shape[1]
    weights = []
    for axis in range(-1, size):
        w = np.ones(1)
        for k in range(size):
            w = np.multiply.outer(w, coarse if k == axis else fine).reshape(-1)
        weights.append(w)
    weight = np.array(weights).T
    step = max(1, _ENTRIES_PER_PASS // (len(grid) * max(cost, 1)))
    parts = []
    for i in range(0, len(low), step):
        half, middle = (high - low)[i : i + step] / 2.0, (high + low)[i : i + step] / 2.0
        u = middle[:, None, :] + half[:, None, :] * grid
        values = density(u.reshape(-1, size)).reshape(len(half), -1)
        parts.append((values @ weight) * half.prod(axis=1)[:, None])
    integrals = np.concatenate(parts)
    return integrals[:, 0], np.abs(integrals[:, 1:] - integrals[:, :1])
