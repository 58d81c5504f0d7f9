"""How far off an evidence is whose sites are averaged over quasi-random points.

Points that are scrambled again give another, independent estimate of the same quality, so that the
spread over a few of them is the standard error of the one that the fit used. At a fit's optimum the
evidence moves with sum_i E[l_i] alone, to first order, whatever the points do to q.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.weighted import WeightedBound
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Site
from lgmdsl.inference.routes import Route

SCRAMBLES = 8
# Sites that are looked at of each block: all share the points, so that their errors go together and
# those of some stand for those of all.
MOST = 2000
# Standard errors below this are rounding.
ROUNDING = 1e-9


@runtime_checkable
class Seeded(Protocol):
    """A bound whose points have a seed."""

    @property
    def seed(self) -> int: ...


def standard_error(
    routes: Iterable[Route], sites: Iterable[Site], mean: Sequence[Array], variance: Sequence[Array]
) -> float:
    """Standard error of sum E[l] at the predictors' marginals; 0 where no points are random."""
    total = np.zeros(SCRAMBLES)
    for route, site, m, v in zip(routes, sites, mean, variance, strict=True):
        bound = route.bound
        if bound is None or _seeded(bound) is None:
            continue
        size = len(m)
        if size > MOST:
            rows = np.linspace(0, size - 1, MOST).astype(np.int64)
            site, m, v = site.take(rows), m[rows], v[rows]
        estimates = [_value(bound, site, m, v, k) for k in (1, 2)]
        if abs(estimates[1] - estimates[0]) <= ROUNDING * (1.0 + abs(estimates[0])):
            continue  # so few classes that the rule has no random points
        estimates += [_value(bound, site, m, v, k) for k in range(3, SCRAMBLES + 1)]
        total += np.array(estimates) * (size / len(m))
    return float(total.std(ddof=1))


def _seeded(bound: Bound) -> Seeded | None:
    """The bound whose points have a seed: itself, or that of the family that is weighted."""
    inner: object = bound.inner if isinstance(bound, WeightedBound) else bound
    return inner if isinstance(inner, Seeded) else None


def _value(bound: Bound, site: Site, mean: Array, variance: Array, later: int) -> float:
    """sum E[l] by the points of another seed."""
    seeded = _seeded(bound)
    assert seeded is not None
    other: Any = replace(cast(Any, seeded), seed=seeded.seed + later)
    answers = WeightedBound(other) if isinstance(bound, WeightedBound) else other
    return float(cast(Expected, answers.lift(site)).expected(mean, variance).value.sum())
