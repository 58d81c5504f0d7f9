"""Averages of vector sites over their Gaussian predictors, by a lattice up to three predictors (of
densities, `sites.vector.tilted`), else by quasi-Monte Carlo points.

s = m + R t with RR' = V and t standard normal, so V may be singular. Averages of l take the points
as they are; those of exp l take them about the maximum of l(m + R t) - |t|^2 / 2, with the
curvature there, and weigh them (importance sampling): what is left to average is nearly flat.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations.log_sum_exp import normal_points
from lgmdsl.sites.vector.nested import planes
from lgmdsl.sites.vector.tilted import MOST_COORDINATES, tilted_by_lattice

PAIRS = 512  # with their negatives, 1024 points: errors of about 1e-3 of an average log density
CHUNK = 1 << 20
NEWTONS, CUTS, CLOSE = 50, 30, 1e-6


def log_moments(site: Site, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of l(s), s ~ N(mean, variance), (N,) each."""
    t = normal_points(mean.shape[1], PAIRS)
    root, out = _root(variance), np.empty((2, len(mean)))
    for few in _pieces(mean, t):
        s = mean[few] + np.einsum("nij,pj->pni", root[few], t)
        l = _densities(site.take(few), s)
        out[0, few], out[1, few] = l.mean(axis=0), l.var(axis=0)
    return out[0], out[1]


def log_mass(site: Site, mean: Array, variance: Array) -> Array:
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
    return np.array_split(np.arange(n), max(1, n * k * len(t) // CHUNK))
