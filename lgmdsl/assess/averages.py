"""Averages over the Gaussian marginals of predictors: of densities, of log densities, of
distribution functions. All by quadrature (of vector sites: by fixed points) or in closed form.

Averages of vector sites over their Gaussian predictors, by a lattice up to three predictors (of
densities, `sites.vector.tilted`), else by quasi-Monte Carlo points.

s = m + R t with RR' = V and t standard normal, so V may be singular. Averages of l take the points
as they are; those of exp l take them about the maximum of l(m + R t) - |t|^2 / 2, with the
curvature there, and weigh them (importance sampling): what is left to average is nearly flat.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np

from lgmdsl.accuracy.limits import ENTRIES
from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.classes import OneClass
from lgmdsl.contract.questions import Expected, Pointwise, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.inference.routes import answering
from lgmdsl.numerics.expectations.expectation import REACH, expectations
from lgmdsl.numerics.expectations.log_sum_exp import normal_points
from lgmdsl.numerics.expectations.normal_product import averages
from lgmdsl.sites.quadrature import landmarks
from lgmdsl.sites.vector.nested import planes
from lgmdsl.sites.vector.tilted import MOST_COORDINATES, tilted_by_lattice

# Nodes on each side of a kink: 1e-12 for |s - y| and its square times the normal density.
SIDE = 96
PAIRS = 512  # with their negatives, 1024 points: errors of about 1e-3 of an average log density
NEWTONS, CUTS, CLOSE = 50, 30, 1e-6


def log_density(site: Site, mean: Array, variance: Array) -> Array:
    """log E[t(s)], s ~ N(mean, variance), (N,): the log predictive density of each response.

    Raises MethodError E501 for a scalar family that does not answer `Tilted`, as for all below.
    """
    if isinstance(site, OneClass):
        return site.log_mass(mean, variance)
    if site.spec.vector and isinstance(site, Pointwise):
        return vector_log_mass(site, mean, variance)
    asked = cast(Tilted, answering(type(site), Tilted)(site))
    return asked.tilted(mean, variance).log_mass


def expected_log(site: Site, mean: Array, variance: Array) -> Array:
    """E[l(s)], s ~ N(mean, variance), (N,)."""
    if site.spec.vector:
        return vector_log_moments(site, mean, variance)[0]
    return cast(Expected, answering(type(site), Expected)(site)).expected(mean, variance).value


def log_moments(site: Site, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of l(s), s ~ N(mean, variance), (N,) each; of vector sites to 1e-3."""
    if site.spec.vector:
        return vector_log_moments(site, mean, variance)
    first = expected_log(site, mean, variance)
    if Property.GAUSSIAN in site.spec.properties:
        return first, _of_quadratic(cast(Pointwise, site), mean, variance)
    index = np.arange(len(mean))

    def squared(some: Site, s: Array, where: IntArray) -> Array:
        return np.asarray((some.log_density(s) - first[where]) ** 2)[None]

    return first, _average(site, squared, mean, variance, index)[0]


def distribution(site: Site, mean: Array, variance: Array) -> tuple[Array, Array]:
    """P(Y < y) and P(Y <= y) of each response for s ~ N(mean, variance), (N,) each; of a censored
    one the same at the ends of what is known of it (`Site.known_between`)."""
    index = np.arange(len(mean))

    def both(some: Site, s: Array, where: IntArray) -> Array:
        return np.stack(some.known_between(s))

    def of_several(rows: IntArray, s: Array) -> Array:
        ends = site.take(np.repeat(rows, s.shape[1])).known_between(s.reshape(-1, s.shape[2]))
        return np.stack(ends).reshape(2, *s.shape[:2])

    if site.spec.vector:
        ends = averages(of_several, mean, variance)[0]
    else:
        ends = _average(site, both, mean, variance, index)
    lower, upper = np.clip(ends, 0.0, 1.0)
    return lower, np.maximum(lower, upper)


def _of_quadratic(site: Pointwise, mean: Array, variance: Array) -> Array:
    """Var of l = l(m) + g d + d^2 h / 2, d ~ N(0, v): g^2 v + h^2 v^2 / 2."""
    local = site.pointwise(mean)
    spread = local.slope**2 * variance + 0.5 * (local.curvature * variance) ** 2
    return np.asarray(spread)


def _average(
    site: Site,
    values: Callable[[Site, Array, IntArray], Array],
    mean: Array,
    variance: Array,
    index: IntArray,
) -> Array:
    """E[values], (q, N)."""
    centre, scale, _ = landmarks(site, len(mean))
    sd = np.maximum(np.sqrt(variance), 1e-12 * np.maximum(1.0, np.abs(mean)))

    def integrand(where: IntArray, s: Array, t: Array) -> Array:
        many = np.repeat(index[where], s.shape[1])
        averaged = values(site.take(many), s.reshape(-1), many)
        return averaged.reshape(len(averaged), *s.shape)

    if Property.KINKED in site.spec.properties:
        return _around_kink(integrand, mean, sd, centre, index)
    return expectations(integrand, mean, sd, centre, scale, checked=True)


def _around_kink(
    values: Callable[[IntArray, Array, Array], Array],
    mean: Array,
    sd: Array,
    kink: Array,
    index: IntArray,
) -> Array:
    """Gauss-Legendre on both sides of a kink, as far as the normal density reaches."""
    nodes, weights = _legendre(SIDE)
    boundary = np.clip((kink - mean) / sd, -REACH, REACH)
    total: Array | None = None
    for low, high in (
        (np.full_like(boundary, -REACH), boundary),
        (boundary, np.full_like(boundary, REACH)),
    ):
        half = 0.5 * (high - low)
        t = 0.5 * (high + low)[:, None] + half[:, None] * nodes
        mass = half[:, None] * weights * np.exp(-0.5 * t * t) / np.sqrt(2.0 * np.pi)
        part = (values(index, mean[:, None] + sd[:, None] * t, t) * mass).sum(axis=-1)
        total = part if total is None else total + part
    assert total is not None
    return total


@cache
def _legendre(count: int) -> tuple[Array, Array]:
    """Nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes, weights


def vector_log_moments(site: Site, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of l(s), s ~ N(mean, variance), (N,) each."""
    t = normal_points(mean.shape[1], PAIRS)
    root, out = _root(variance), np.empty((2, len(mean)))
    for few in _pieces(mean, t):
        s = mean[few] + np.einsum("nij,pj->pni", root[few], t)
        l = _densities(site.take(few), s)
        out[0, few], out[1, few] = l.mean(axis=0), l.var(axis=0)
    return out[0], out[1]


def vector_log_mass(site: Site, mean: Array, variance: Array) -> Array:
    """log E[exp l(s)], s ~ N(mean, variance), (N,), of sites that answer Pointwise: to 1e-7 up to
    three predictors, or four classes, where their rule settles, else by points."""
    out = np.empty(len(mean))
    for rows, plane in planes(site, mean, variance):
        m, v = mean[rows], variance[rows]
        few = plane.dimension <= MOST_COORDINATES
        known = tilted_by_lattice(plane.site, m, v).log_mass if few else np.full(len(m), np.nan)
        left = np.flatnonzero(np.isnan(known))
        known[left] = _by_points(plane.site.take(left), m[left], v[left])
        out[rows] = known
    return out


def _by_points(site: Site, mean: Array, variance: Array) -> Array:
    t = normal_points(mean.shape[1], PAIRS)
    root, out = _root(variance), np.empty(len(mean))
    for few in _pieces(mean, t):
        some, r = site.take(few), root[few]
        centre, half = _peak(some, mean[few], r)
        x = centre + np.einsum("nij,pj->pni", half, t)
        l = _densities(some, mean[few] + np.einsum("nij,pnj->pni", r, x))
        l += 0.5 * ((t * t).sum(axis=1)[:, None] - (x * x).sum(axis=2))
        top = l.max(axis=0)
        size = np.linalg.slogdet(half)[1]
        out[few] = top + np.log(np.exp(l - top).mean(axis=0)) + size
    return out


def _densities(site: Site, s: Array) -> Array:
    """l at s, (P, N, K): (P, N)."""
    many = site.take(np.tile(np.arange(s.shape[1]), len(s)))
    return many.log_density(s.reshape(-1, s.shape[2])).reshape(s.shape[:2])


def _peak(site: Site, mean: Array, root: Array) -> tuple[Array, Array]:
    """The maximum in t, (N, K), and a root of the inverse curvature there, (N, K, K): that of l
    as far as it is concave."""
    asked, t = cast(Pointwise, site), np.zeros_like(mean)

    def height(point: Array) -> Array:
        s = mean + np.einsum("nij,nj->ni", root, point)
        return np.asarray(site.log_density(s) - 0.5 * (point * point).sum(axis=1))

    now = height(t)
    for _ in range(NEWTONS):
        slope, values, turn = _curve(asked, mean, root, t)
        step = np.einsum("nij,nj->ni", turn, np.einsum("nji,nj->ni", turn, slope) / values)
        if np.abs(step).max(initial=0.0) < CLOSE:
            break
        share = np.ones(len(t))
        for _ in range(CUTS):
            tried = height(t + share[:, None] * step)
            low = ~(tried >= now - 1e-12 * (1.0 + np.abs(now)))
            if not low.any():
                break
            share = np.where(low, 0.5 * share, share)
        uphill = tried >= now
        t, now = np.where(uphill[:, None], t + share[:, None] * step, t), np.maximum(now, tried)
    _, values, turn = _curve(asked, mean, root, t)
    return t, turn / np.sqrt(values)[:, None, :]


def _curve(site: Pointwise, mean: Array, root: Array, t: Array) -> tuple[Array, Array, Array]:
    """The slope in t; eigenvalues (at least 1) and vectors of the curvature, its sign turned."""
    local = site.pointwise(mean + np.einsum("nij,nj->ni", root, t))
    bend = np.eye(t.shape[1]) - root @ local.curvature @ root
    values, turn = np.linalg.eigh(0.5 * (bend + bend.transpose(0, 2, 1)))
    return np.einsum("nij,nj->ni", root, local.slope) - t, np.maximum(values, 1.0), turn


def _root(variance: Array) -> Array:
    """The symmetric root of each variance."""
    values, turn = np.linalg.eigh(variance)
    root = turn * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(root @ turn.transpose(0, 2, 1))


def _pieces(mean: Array, t: Array) -> list[IntArray]:
    n, k = mean.shape
    return np.array_split(np.arange(n), max(1, n * k * len(t) // ENTRIES))
