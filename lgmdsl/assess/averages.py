"""Averages over the Gaussian marginals of predictors: of densities, of log densities, of
distribution functions. All by quadrature (of vector sites: by fixed points) or in closed form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess import vector_averages as vectors
from lgmdsl.contract.classes import OneClass
from lgmdsl.contract.questions import Expected, Pointwise, Tilted
from lgmdsl.contract.site import Property, Site
from lgmdsl.inference.routes import answering
from lgmdsl.numerics.expectations.expectation import REACH, expectations
from lgmdsl.numerics.expectations.normal_product import averages
from lgmdsl.sites.quadrature import landmarks

# Nodes on each side of a kink: 1e-12 for |s - y| and its square times the normal density.
SIDE = 96


def log_density(site: Site, mean: Array, variance: Array) -> Array:
    """log E[t(s)], s ~ N(mean, variance), (N,): the log predictive density of each response.

    Raises MethodError E501 for a scalar family that does not answer `Tilted`, as for all below.
    """
    if isinstance(site, OneClass):
        return site.log_mass(mean, variance)
    if site.spec.vector and isinstance(site, Pointwise):
        return vectors.log_mass(site, mean, variance)
    asked = cast(Tilted, answering(type(site), Tilted)(site))
    return asked.tilted(mean, variance).log_mass


def expected_log(site: Site, mean: Array, variance: Array) -> Array:
    """E[l(s)], s ~ N(mean, variance), (N,)."""
    if site.spec.vector:
        return vectors.log_moments(site, mean, variance)[0]
    return cast(Expected, answering(type(site), Expected)(site)).expected(mean, variance).value


def log_moments(site: Site, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and variance of l(s), s ~ N(mean, variance), (N,) each; of vector sites to 1e-3."""
    if site.spec.vector:
        return vectors.log_moments(site, mean, variance)
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
