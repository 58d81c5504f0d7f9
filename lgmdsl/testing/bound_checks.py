"""Conformance of a bound that gives Expected on scalar sites: slopes, and what it guarantees.

check_bound(MyBound(), MySite(y=...))       # raises AssertionError that lists what fails
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.bound import Bound
from lgmdsl.contract.questions import Expected
from lgmdsl.contract.site import Site
from lgmdsl.contract.status import Guarantee
from lgmdsl.testing.sites.question_checks import brute

_SDS = (0.15, 0.8, 2.5)
_STEP = 1e-5


def check_bound(bound: Bound, site: Site, seed: int = 0) -> None:
    """Run every check that applies. Raises AssertionError with one line for each failure."""
    failures = list(bound_failures(bound, site, seed))
    if failures:
        raise AssertionError(f"{bound.spec.name}:\n" + "\n".join(f"- {f}" for f in failures))


def bound_failures(bound: Bound, site: Site, seed: int = 0) -> Iterator[str]:
    """What is wrong with the lift of a few sites, one sentence each."""
    refusal = bound.applies_to(type(site))
    if refusal:
        yield f"it refuses {site.spec.name}: {refusal}"
        return
    lifted = bound.lift(site)
    if not isinstance(lifted, bound.spec.gives):
        yield f"its lift does not answer {bound.spec.gives.__name__}"
        return
    if bound.spec.gives is not Expected or site.spec.vector:
        return
    mean = np.random.default_rng(seed).uniform(-3.0, 3.0, len(site))
    for sd in _SDS:
        yield from _expected(bound, cast(Expected, lifted), site, mean, np.full(len(site), sd * sd))


def _expected(
    bound: Bound, lifted: Expected, site: Site, mean: Array, variance: Array
) -> Iterator[str]:
    answer = lifted.expected(mean, variance)
    _, t, l = brute(site, mean, variance)
    w = np.exp(-0.5 * t * t)
    exact = (w / w.sum() * l).sum(axis=0)
    size = 1e-8 * np.maximum(1.0, np.abs(exact))
    sd = float(np.sqrt(variance[0]))
    if bound.spec.guarantee is Guarantee.LOWER:
        if not (answer.value <= exact + size).all():
            yield f"sd {sd:g}: it is above the expectation, and declared LOWER"
        if not (answer.value >= exact - bound.spec.error - size).all():
            yield f"sd {sd:g}: its gap is above the largest that it declares"
    if bound.spec.guarantee is Guarantee.EXACT and not (np.abs(answer.value - exact) <= size).all():
        yield f"sd {sd:g}: it is not the expectation, and declared EXACT"
    up, down = (lifted.expected(mean + h, variance) for h in (_STEP, -_STEP))
    wide, thin = (lifted.expected(mean, variance * (1.0 + h)) for h in (_STEP, -_STEP))
    pairs = {
        "d_mean": (answer.d_mean, (up.value - down.value) / (2.0 * _STEP)),
        "d2f/dm2": (answer.curvature, (up.d_mean - down.d_mean) / (2.0 * _STEP)),
        "d_variance": (answer.d_variance, (wide.value - thin.value) / (2.0 * _STEP * variance)),
    }
    for name, (derivative, measured) in pairs.items():
        error = np.abs(derivative - measured) / np.maximum(1.0, np.abs(measured))
        if not (error <= 1e-5).all():
            yield f"sd {sd:g}: {name} is off by {float(error.max()):.1e}"
