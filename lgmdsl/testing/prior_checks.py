"""Conformance of a hyperprior: density, slopes, quantiles, draws and bounds agree with each other.

check_prior(MyPrior(scale=2.0), "positive")       # raises AssertionError that lists what fails
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import integrate

from lgmdsl.arrays import Array
from lgmdsl.priors.prior import VALUE, Elementwise, Prior, natural_bounds

LEVELS = (0.01, 0.05, 0.2, 0.4, 0.5, 0.6, 0.8, 0.95, 0.99)
DRAWS = 4000
_STEP = 1e-5


def check_prior(
    prior: Prior, type_: str = "real", shape: tuple[int, ...] = (), seed: int = 0
) -> None:
    """Run every check that applies, for a hyper of a type and shape (two indices of one size for
    a covariance). Raises AssertionError with one line for each failure."""
    failures = list(prior_failures(prior, type_, shape, seed))
    if failures:
        raise AssertionError(f"{prior.name}:\n" + "\n".join(f"- {f}" for f in failures))


def prior_failures(
    prior: Prior, type_: str, shape: tuple[int, ...] = (), seed: int = 0
) -> Iterator[str]:
    """What is wrong with a prior, one sentence each."""
    signature = type(prior).signature
    if signature is not None and type_ not in signature.observed:
        yield f"its signature does not name `{type_}` among the types that it is for"
    lower, upper = prior.bounds
    low, high = natural_bounds(type_)
    if not ((lower >= low).all() and (upper <= high).all() and (lower < upper).all()):
        yield f"its bounds leave those of `{type_}`, or are the wrong way round"
    middle = prior.typical(shape)
    if middle.shape != shape or not np.isfinite(prior.log_density(middle)):
        yield "`typical` has another shape, or the density is 0 there"
    yield from _slopes(prior, type_, middle)
    if isinstance(prior, Elementwise):
        yield from _distribution(prior)
    if not prior.proper:
        return
    yield from _draws(prior, type_, shape, seed)


def _direction(rng: np.random.Generator, type_: str, value: Array) -> Array:
    """Along which values stay of their type."""
    turn: Array = np.asarray(rng.normal(size=value.shape)) * (0.1 + 0.1 * np.abs(value))
    if type_ == "covariance":
        return 0.5 * (turn + np.swapaxes(turn, -1, -2))
    return turn - turn.mean(axis=-1, keepdims=True) if type_ == "simplex" else turn


def _slopes(prior: Prior, type_: str, middle: Array) -> Iterator[str]:
    """`gradient` in the value and in each argument, against central differences."""
    rng, gradient = np.random.default_rng(1), prior.gradient(middle)
    turn = _direction(rng, type_, middle)
    if VALUE not in gradient or gradient[VALUE].shape != middle.shape:
        yield "`gradient` has no entry `value` of the value's shape"
        return
    yield from _agree(
        "the value",
        float(np.sum(gradient[VALUE] * turn)),
        [prior.log_density(middle + t * _STEP * turn) for t in (1, -1)],
    )
    for field in fields(prior):
        if field.name == "type":
            continue
        argument: Any = getattr(prior, field.name)
        if field.name not in gradient or gradient[field.name].shape != argument.shape:
            yield f"`gradient` has no entry `{field.name}` of its shape"
            continue
        change = _direction(rng, "real", argument)
        ends = [replace(prior, **{field.name: argument + t * _STEP * change}) for t in (1, -1)]
        yield from _agree(
            f"`{field.name}`",
            float(np.sum(gradient[field.name] * change)),
            [end.log_density(middle) for end in ends],
        )


def _agree(quantity: str, slope: float, ends: list[float]) -> Iterator[str]:
    measured = (ends[0] - ends[1]) / (2.0 * _STEP)
    if not abs(slope - measured) <= 1e-5 * max(1.0, abs(measured)):
        yield f"the slope in {quantity} is {slope:.8g}, measured {measured:.8g}"


def _distribution(prior: Elementwise) -> Iterator[str]:
    """The density between two quantiles has the mass between their levels."""
    points = prior.quantile(np.array(LEVELS).reshape(-1, *(1 for _ in _shape(prior))))
    if not (np.diff(points, axis=0) > 0).all():
        yield "`quantile` does not increase"
        return
    lower, upper = prior.bounds
    if not ((points >= lower) & (points <= upper)).all():
        yield "`quantile` leaves the bounds"
    if _shape(prior):
        return  # the mass is checked for single numbers
    density = lambda x: float(np.exp(prior.log_density(np.asarray(x))))  # noqa: E731
    for (a, p), (b, q) in pairwise(zip(points, LEVELS, strict=True)):
        mass = integrate.quad(density, float(a), float(b), limit=200)[0]
        if not abs(mass - (q - p)) <= 1e-6:
            yield f"the density has mass {mass:.6g} between the quantiles of {p:g} and {q:g}"
    for bound, beyond in ((lower, -1.0), (upper, 1.0)):
        outside = bound + beyond * (1.0 + abs(bound))
        if np.isfinite(bound) and prior.log_density(np.asarray(outside)) != -np.inf:
            yield f"the density is not 0 at {float(outside):g}, beyond the bounds"


def _shape(prior: Prior) -> tuple[int, ...]:
    values = [np.shape(getattr(prior, f.name)) for f in fields(prior) if f.name != "type"]
    return np.broadcast_shapes(*values)


def _draws(prior: Prior, type_: str, shape: tuple[int, ...], seed: int) -> Iterator[str]:
    rng = np.random.default_rng(seed)
    one, again = prior.sample(rng, shape), prior.sample(np.random.default_rng(seed), shape)
    if one.shape != shape or not np.array_equal(one, again):
        yield "`sample` has another shape, or the same seed gives other draws"
    if not np.isfinite(prior.log_density(one)):
        yield "the density is 0 at a draw"
    if not isinstance(prior, Elementwise) or _shape(prior):
        return
    drawn = prior.sample(rng, (DRAWS,))
    for level in LEVELS:
        share = float(np.mean(drawn < prior.quantile(np.asarray(level))))
        if abs(share - level) > 5.0 * np.sqrt(level * (1.0 - level) / DRAWS):
            yield f"a share {share:.3f} of the draws is below the quantile of {level:g}"
