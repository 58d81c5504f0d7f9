"""Modes of p(z | y) by Newton's method from many points at once, and the mass of each.

Points: q's mean; where least squares, wide peaks and the rows that q gives up lead; the predictors
of random rows at their own landmarks (Rousseeuw 1984, elemental sets); draws of the prior, where it
has any; draws of q, three and ten times as far out. The mass of a mode is Laplace's.

log p(y, z) with its derivatives at many points at once, in coordinates where q is standard.

With z = E_q z + R u, Cov_q = RR', and r_i(s) = l_i(s) + 1/2 s'w_i s - b_i's,

    log p(y, z(u)) = -|u|^2 / 2 + sum_i r_i(s_i(u)) + constant,   s(u) = E_q s + BR u.

No prior density is evaluated, so flat, constrained and singular priors are no special case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lgmdsl.accuracy.density_ratio import DensityRatio
from lgmdsl.accuracy.limits import FEW_LATENTS
from lgmdsl.arrays import Array, BoolArray
from lgmdsl.assess.sampling.products import Formed, Products
from lgmdsl.contract import rows
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, Site
from lgmdsl.inference.other_starts import landmark_starts

FEWEST = 0.05  # of q's curvature, what a step takes for the curvature where there is less
SHORTEST = 1e-6  # of a step, before it is given up
STEEPEST = 1e100
FLAT = 1e-8  # of q's precision, the prior's, below which rounding leaves no digits of it


def smooth(sites: Sequence[Site]) -> bool:
    """Whether every site has the two derivatives that Newton's method asks for."""
    return all(isinstance(s, Pointwise) and Property.KINKED not in s.spec.properties for s in sites)


class Landscape:
    """`root`, (n, r): R; `mean`, (n,): E_q z; `size`: r."""

    def __init__(self, sites: Sequence[Site], linear: LinearGaussian, q: Conditioned) -> None:
        formed = Formed(q)
        self.sites, self.mean, self.root = sites, formed.latent_mean, formed.root
        self.size = formed.root.shape[1]
        self.rows = Products(linear).moves(np.ascontiguousarray(formed.root.T))  # (r, P) each
        self.ratio = DensityRatio(sites, q)
        self.constant = -0.5 * self.size * math.log(2.0 * math.pi)

    def coordinates(self, z: Array) -> Array:
        """u, (k, r), of z, (k, n); the nearest, where none leads to z."""
        return np.asarray((z - self.mean) @ np.linalg.pinv(self.root).T)

    def latents(self, u: Array) -> Array:
        """z, (k, n)."""
        return np.asarray(self.mean + u @ self.root.T)

    def moves(self, u: Array) -> list[Array]:
        """s(u) - E_q s of each site block, (k, P)."""
        return [u @ r for r in self.rows]

    def level(self, u: Array) -> Array:
        """(k,) the log density of (y, u)."""
        return np.asarray(self.ratio(self.moves(u)) - 0.5 * (u * u).sum(axis=1) + self.constant)

    @cached_property
    def prior(self) -> tuple[Array, Array] | None:
        """Mean, (r,), and root, (r, r), of the prior of u: q without its sites. None where the
        rounding of q leaves nothing of it, as where it is flat."""
        precision, slope = np.eye(self.size), np.zeros(self.size)
        for root, w, alpha in zip(self.rows, self.ratio.weight, self.ratio.alpha, strict=True):
            precision -= root @ rows.times_rows(w, root.T)
            slope += root @ alpha.reshape(-1)
        values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
        if not self.size or values[0] < FLAT:
            return None
        root = vectors / np.sqrt(values)
        return -root @ (root.T @ slope), root

    @np.errstate(all="ignore")
    def derivatives(self, u: Array) -> tuple[Array, Array]:
        """The slope, (k, r), and minus the second derivatives, (k, r, r), of `level`."""
        points = len(u)
        slope, bent = -u, np.tile(np.eye(self.size), (points, 1, 1))
        for number, (flat, root) in enumerate(zip(self.moves(u), self.rows, strict=True)):
            site, s, d, w, alpha = self.ratio.tiled(number, flat)
            assert isinstance(site, Pointwise)
            answer, mean = site.pointwise(s), self.ratio.mean[number]
            first = _finite(answer.slope + rows.times(w, d) - alpha)
            second = -_finite(answer.curvature + w)
            slope = slope + first.reshape(points, -1) @ root.T
            if mean.ndim == 1:
                weighted = second.reshape(points, 1, -1) * root
            else:
                block = root.T.reshape(*mean.shape, self.size)  # (N, K, r)
                pairs = second.reshape(points, -1, *w.shape[1:])
                weighted = np.einsum("pnij,njr->prni", pairs, block)
                weighted = weighted.reshape(points, self.size, -1)
            bent = bent + weighted @ root.T
        return slope, 0.5 * (bent + bent.swapaxes(1, 2))

    def climbed(self, u: Array, steps: int, enough: float) -> tuple[Array, BoolArray, Array]:
        """Where Newton's steps, turned and halved until they climb, lead from each u, (k, r): the
        points, which of them are within `enough` of a maximum by the step's promise, in nats, and
        minus the second derivatives there."""
        level = self.level(u)
        usable = np.isfinite(level)
        u, level = u[usable].copy(), level[usable]
        top = np.zeros(len(u), dtype=np.bool_)
        bent = np.zeros((*u.shape, self.size))
        open_ = np.arange(len(u))
        for step in range(steps + 1 if len(u) else 0):  # no usable start: nothing to climb
            slope, bent[open_] = self.derivatives(u[open_])
            values, vectors = np.linalg.eigh(bent[open_])
            along = np.einsum("kji,kj->ki", vectors, slope)
            curved = np.maximum(np.abs(values), FEWEST)
            promise = (along**2 / curved).sum(axis=1)
            top[open_] = (promise < enough) & (values.min(axis=1, initial=1.0) > 0.0)
            if top[open_].all() or step == steps:
                break
            move = np.einsum("kij,kj->ki", vectors, along / curved)
            left, length = np.flatnonzero(~top[open_]), 1.0
            while len(left) and length > SHORTEST:
                there = u[open_[left]] + length * move[left]
                reached = self.level(there)
                up = reached > level[open_[left]]
                u[open_[left[up]]], level[open_[left[up]]] = there[up], reached[up]
                left, length = left[~up], 0.25 * length
            if 2 * np.count_nonzero(~top[open_]) <= len(open_):
                open_ = open_[~top[open_]]
        return u, top, bent


def _finite(x: Array) -> Array:
    return np.clip(np.nan_to_num(x), -STEEPEST, STEEPEST)


POINTS, FEWEST_POINTS = 48, 12  # at most, and at least
STEPS, ENOUGH = 40, 1e-6
SCALES = (0.1, 0.3)  # sds of q
FAR = (3.0, 10.0)  # times q's own sds
SITE = 100.0  # operations of a site at a point
ALIKE = 0.1  # sds of a mode within which another one is the same
SLACK = 1e-3  # of a latent's information, what holds the random rows' solutions near q


@dataclass(frozen=True, eq=False)
class Modes:
    """The heaviest first: `u`, (k, r), in the coordinates of `landscape`; `log_mass`, (k,): of
    (y, z) around each; `root`, (k, r, r): of Laplace's covariances. `points`: that were climbed
    from."""

    landscape: Landscape
    u: Array
    log_mass: Array
    root: Array
    points: int

    def __len__(self) -> int:
        return len(self.u)

    @property
    def z(self) -> Array:
        """(k, n)."""
        return self.landscape.latents(self.u)

    @property
    def share(self) -> Array:
        """(k,) of the mass of all."""
        weight = np.exp(self.log_mass - self.log_mass.max(initial=-np.inf))
        return np.asarray(weight / weight.sum())


def modes(
    problem: Problem,
    q: Conditioned,
    allowance: float = math.inf,
    seed: int = 0,
    begin: Array | None = None,
) -> Modes | None:
    """The modes that are found from up to 48 points, as many as so many floating-point operations
    allow; None where these are too few, latents too many, or sites have no derivatives. `begin`,
    (k, n): modes of a posterior nearby, which are then all that is climbed from."""
    if not searchable(problem, q):
        return None
    count = int(min(POINTS, allowance / cost(problem.engine.linear)))
    if begin is None and count < FEWEST_POINTS:
        return None
    with np.errstate(all="ignore"):
        landscape = Landscape(problem.sites, problem.engine.linear, q)
        if not landscape.size:
            return None
        if begin is None:
            rng = np.random.default_rng([seed, count])
            points = _points(problem, landscape, q, count, rng)
        else:
            points = landscape.coordinates(begin)
        ends, top, bent = landscape.climbed(points, STEPS, ENOUGH)
        return _distinct(landscape, ends[top], bent[top], len(points))


def modes_or_scales(
    problem: Problem,
    q: Conditioned,
    allowance: float = math.inf,
    seed: int = 0,
    begin: Array | None = None,
) -> Modes | None:
    """What to draw from: the modes; where sites have kinks or no derivatives, in their place q's
    mean several times, with narrower Gaussians for peaks."""
    if searchable(problem, q):
        return modes(problem, q, allowance, seed, begin)
    if not few(problem.engine.linear, q):
        return None
    landscape = Landscape(problem.sites, problem.engine.linear, q)
    size, count = landscape.size, len(SCALES)
    root = np.array(SCALES)[:, None, None] * np.eye(size)
    return Modes(landscape, np.zeros((count, size)), np.zeros(count), root, 0) if size else None


def few(linear: LinearGaussian, q: Conditioned) -> bool:
    """Whether latents are few, and q exact."""
    return linear.size <= FEW_LATENTS and q.errors is None


def searchable(problem: Problem, q: Conditioned) -> bool:
    """Whether latents are few, q exact, and sites smooth."""
    return few(problem.engine.linear, q) and smooth(problem.sites)


def cost(linear: LinearGaussian) -> float:
    """Floating-point operations of one point, about."""
    return STEPS * (linear.rows * (SITE + 2.0 * linear.size**2) + 20.0 * linear.size**3)


def _distinct(landscape: Landscape, u: Array, bent: Array, points: int) -> Modes | None:
    """Each mode once."""
    level = landscape.level(u)
    kept: list[int] = []
    for i in np.argsort(-level, kind="stable"):
        gaps = [u[i] - u[k] for k in kept]
        if all(g @ bent[k] @ g > ALIKE**2 for g, k in zip(gaps, kept, strict=True)):
            kept.append(int(i))
    if not kept:
        return None
    values, vectors = np.linalg.eigh(bent[kept])
    half = 0.5 * landscape.size * math.log(2.0 * math.pi)
    mass = level[kept] + half - 0.5 * np.log(values).sum(axis=1)
    root = vectors / np.sqrt(values)[:, None, :]
    order = np.argsort(-mass, kind="stable")
    return Modes(landscape, u[kept][order], mass[order], root[order], points)


def _points(
    problem: Problem, landscape: Landscape, q: Conditioned, count: int, rng: np.random.Generator
) -> Array:
    """(k, r) to climb from, up to `count`."""
    size = landscape.size
    fixed = [np.zeros((1, size))]
    for _, start in landmark_starts(problem, q):
        fixed.append(landscape.coordinates(start.conditioned.latent_mean[None]))
    prior = _of_prior(problem, landscape, count, rng)
    left = count - len(fixed)
    third = left // 3
    rows = _of_rows(problem, landscape, third, rng)
    far = [f * rng.standard_normal((max(third // 2, 1), size)) for f in FAR]
    drawn = [rows, prior[:third], *far]
    return np.concatenate([*fixed, *drawn])[:count]


def _of_prior(
    problem: Problem, landscape: Landscape, count: int, rng: np.random.Generator
) -> Array:
    """Draws of the prior; none where it has no density."""
    nothing = tuple(np.zeros_like(m) for m in problem.engine.prior_mean)
    flat = tuple(np.zeros((*m.shape, *m.shape[1:])) for m in nothing)
    try:
        prior = problem.engine.condition(flat, nothing)
        if isinstance(prior, Failed):
            return np.zeros((0, landscape.size))
        z = prior.sample(rng, count)
    except np.linalg.LinAlgError:
        return np.zeros((0, landscape.size))
    return landscape.coordinates(z[np.isfinite(z).all(axis=1)])


def _of_rows(problem: Problem, landscape: Landscape, count: int, rng: np.random.Generator) -> Array:
    """Where as many random rows as there are latents, fewer in every other one, are at their
    landmarks."""
    centres, roots = _landmarks(problem, landscape)
    out = []
    for j in range(count if len(centres) else 0):
        some = min(landscape.size if j % 2 else 1, len(centres))
        rows = rng.choice(len(centres), some, replace=False)
        a = roots[:, rows]  # (r, rows)
        ridge = SLACK * np.trace(a @ a.T) / landscape.size + 1e-300
        system = a @ a.T + ridge * np.eye(landscape.size)
        out.append(np.linalg.solve(system, a @ centres[rows]))
    return np.array(out).reshape(-1, landscape.size)


def _landmarks(problem: Problem, landscape: Landscape) -> tuple[Array, Array]:
    """Landmarks of scalar rows that declare one: centre - E_q s, (P,), and their part of BR, (r,
    P)."""
    centres, roots = [np.zeros(0)], [np.zeros((landscape.size, 0))]
    for site, mean, root in zip(problem.sites, landscape.ratio.mean, landscape.rows, strict=True):
        declared = None if mean.ndim > 1 else site.landmark()
        if declared is not None:
            centres.append(declared[0] + np.zeros_like(mean) - mean)
            roots.append(root)
    return np.concatenate(centres), np.concatenate(roots, axis=1)
