"""Modes of p(z | y) by Newton's method from many points at once, and the mass of each.

Points: q's mean; where least squares, wide peaks and the rows that q gives up lead; the predictors
of random rows at their own landmarks (Rousseeuw 1984, elemental sets); draws of the prior, where it
has any; draws of q, three and ten times as far out. The mass of a mode is Laplace's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lgmdsl.accuracy.limits import FEW_LATENTS
from lgmdsl.arrays import Array
from lgmdsl.assess.modes.landscape import Landscape, smooth
from lgmdsl.contract.engine import Conditioned, Failed
from lgmdsl.contract.linear import LinearGaussian
from lgmdsl.contract.problem import Problem
from lgmdsl.inference.other_starts import landmark_starts

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
