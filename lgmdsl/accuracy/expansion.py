"""The sites under a Gaussian: E_q[l] and the expectations of its first three derivatives.

Of scalar sites from their `Expected` answers, of vector sites by points of N(m, V) at which the
family answers Pointwise. The third derivatives are what is wrong with a variational Gaussian, to
first order: its optimum leaves no slope and no curvature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.engine import Rows
from lgmdsl.contract.questions import Expected, Pointwise
from lgmdsl.contract.site import Property, Site
from lgmdsl.errors import MethodError
from lgmdsl.inference.routes import answering
from lgmdsl.numerics.expectations.normal_lattice import level, rule

PAIRS = 32  # of quasi-random points of N(m, V), where there are many classes
FINEST = 3  # level of the lattice, where there are few


@dataclass(frozen=True, eq=False)
class Expansion:
    """Of each site block: E[l], (N,); E[l'], (N,) or (N, K); E[l''], (N,) or (N, K, K);
    E[l'''], (N,) or (N, K, K, K)."""

    value: Rows
    slope: Rows
    curvature: Rows
    third: Rows

    @property
    def finite(self) -> bool:
        """Whether all of them are numbers."""
        every = (*self.value, *self.slope, *self.curvature, *self.third)
        return all(bool(np.isfinite(a).all()) for a in every)


class Unanswered(Exception):
    """No expectations of a family's sites are to be had: its name."""


@np.errstate(all="ignore")
def expansion(sites: Sequence[Site], mean: Rows, variance: Rows) -> Expansion:
    """Under s ~ N(mean, variance), site by site. Raises Unanswered for a family of which nobody
    gives expectations."""
    parts = [
        (_scalar if m.ndim == 1 else _vector)(site, m, v)
        for site, m, v in zip(sites, mean, variance, strict=True)
    ]
    value, slope, curvature, third = zip(*parts, strict=True) if parts else ((), (), (), ())
    return Expansion(value, slope, curvature, third)


def _scalar(site: Site, m: Array, v: Array) -> tuple[Array, ...]:
    if Property.GAUSSIAN in site.spec.properties:
        variance = np.maximum(v, 0.0)
    else:
        variance = np.maximum(v, 1e-300)
    try:
        answer = cast(Expected, answering(type(site), Expected)(site))
    except MethodError:
        raise Unanswered(site.spec.name) from None
    found = answer.expected(m, variance, second=True)
    if found.d_mean_variance is None or found.d_mean2 is not None:
        raise Unanswered(site.spec.name)
    return found.value, found.d_mean, 2.0 * found.d_variance, 2.0 * found.d_mean_variance


def _vector(site: Site, m: Array, v: Array) -> tuple[Array, ...]:
    if not isinstance(site, Pointwise):
        raise Unanswered(site.spec.name)
    size, k = m.shape
    values, vectors = np.linalg.eigh(v)
    widest = float(np.sqrt(max(values.max(initial=0.0), 0.0)))
    points, weights = rule(k, min(level(widest, k), FINEST), PAIRS)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    pairs = [(i, j) for i in range(k) for j in range(i, k)]
    value, slope = np.zeros(size), np.zeros((size, k))
    curvature, third = np.zeros((size, k, k)), np.zeros((size, k, k, k))
    for x, w in zip(points, weights, strict=True):
        s = m + root @ x
        for number, (i, j) in enumerate(pairs):
            unit = np.zeros((size, k, k))
            unit[:, i, j] = unit[:, j, i] = 1.0 if i == j else 0.5
            answer = site.pointwise(s, unit)
            third[:, :, i, j] += w * answer.third
            if i != j:
                third[:, :, j, i] += w * answer.third
            if number == 0:
                value += w * answer.value
                slope += w * answer.slope
                curvature += w * answer.curvature
    return value, slope, curvature, third
