"""Checks of what a family says of y: its density sums to one, its draws follow it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, Site
from lgmdsl.testing.sites.censoring_checks import censoring_failures, uncensored
from lgmdsl.testing.sites.standard_errors import is_zero

PREDICTORS = (-1.3, 0.4, 1.6)
DRAWS = 4000
_MOST_COUNTS = 20000
_NORMALISED = 1e-7


def sampling_failures(site: Site, seed: int = 0) -> Iterator[str]:
    """Normalisation over y; draws against conditional_mean and against the score identities.

    For potentials: the density integrates to one over s, if it is declared `normalised`, and y has
    neither mean nor draws.
    """
    if site.spec.potential:
        yield from _potential(site, seed)
        return
    yield from censoring_failures(site, seed)
    site = uncensored(site)
    rows = range(min(len(site), 6))
    rng = np.random.default_rng(seed)
    for i in rows:
        one = site.take(np.array([i]))
        for x in PREDICTORS:
            total = _total(one, x)
            if abs(total - 1.0) > _NORMALISED:
                yield f"the density of y sums to {total:.9g} at s = {x:g} (site {i})"
            yield from _draws(site.take(np.full(DRAWS, i)), x, rng)
    try:
        site.cdf(np.zeros(len(site)))
    except TypeError:
        return  # a family need not have one
    for x in PREDICTORS:
        yield from _distribution(site, x)


def _distribution(site: Site, x: float) -> Iterator[str]:
    """P(Y < y) and P(Y <= y) against the density: their difference or their slope in y."""
    s = np.full(len(site), x)
    below, upto = site.distribution(s)
    if np.any(below < 0.0) or np.any(upto > 1.0):
        yield f"distribution() leaves [0, 1] at s = {x:g}"
    if not site.spec.discrete:
        h = 1e-3 * np.minimum(1.0, np.abs(site.y) + 1e-3)  # type: ignore[attr-defined]
        h = h * (1.0 - site.y) if "unit" in site.spec.observed else h  # type: ignore[attr-defined]
        values = [_observing(site, site.y + k * h).cdf(s) for k in (-2, -1, 1, 2)]  # type: ignore[attr-defined]
        mass = (values[0] - 8.0 * values[1] + 8.0 * values[2] - values[3]) / (12.0 * h)
        if "nonnegative" in site.spec.observed:  # a mass of its own at 0
            zero = (np.asarray(vars(site)["y"]) == 0.0) & (upto > 0.0)
            mass = np.where(zero, upto - below, mass)
    else:
        mass = upto - below
    if not np.allclose(mass, np.exp(site.log_density(s)), rtol=1e-6, atol=1e-9):
        yield f"cdf() does not follow the density of y at s = {x:g}"


def _total(one: Site, x: float) -> float:
    """Sum or integral of the density over y, for a single site at s = x."""
    kind = one.spec.observed[0]
    if kind == "binary":
        y, weight = np.array([0.0, 1.0]), np.ones(2)
    elif kind == "index":
        y = np.arange(one.cuts.shape[-1] + 1.0)  # type: ignore[attr-defined]
        weight = np.ones_like(y)
    elif kind in ("count", "integer"):
        top = int(one.n[0]) if hasattr(one, "n") else _MOST_COUNTS
        y = np.arange(top + 1.0)
        weight = np.ones_like(y)
    else:
        u = np.arange(-90.0, 45.0, 0.02)
        half = np.exp(u)
        y, weight = half, 0.02 * half
        if kind == "real":
            # Both sides of the centre on exponential grids: a kink there does no harm.
            centre = x if one.spec.places else float(one.conditional_mean(np.array([x]))[0])
            y = np.concatenate([centre - half, centre + half])
            weight = np.concatenate([weight, weight])
        elif kind == "nonnegative" and _mass_at_zero(one, x):
            y, weight = np.append(y, 0.0), np.append(weight, 1.0)
        elif kind == "unit":
            y, weight = half / (1.0 + half), 0.02 * half / (1.0 + half) ** 2
            inside = (y > 0.0) & (y < 1.0)
            y, weight = y[inside], weight[inside]
    with np.errstate(over="ignore"):  # a density that is not normalised may sum to infinity
        return float(np.sum(weight * np.exp(_at(one, y).log_density(np.full(len(y), x)))))


def _mass_at_zero(one: Site, x: float) -> bool:
    """Whether y is 0 with a probability of its own, which a density from 0 on has not."""
    try:
        return float(_at(one, np.zeros(1)).cdf(np.array([x]))[0]) > 0.0
    except TypeError:
        return True


def _at(one: Site, y: Array) -> Site:
    """The single site with other observations."""
    return _observing(one.take(np.zeros(len(y), dtype=np.int64)), y)


def _observing(site: Site, y: Array) -> Site:
    """The sites with other observations (the field y is the families', not the base's)."""
    changed: dict[str, Any] = {"y": y}
    return dataclasses.replace(site, **changed)


def _draws(many: Site, x: float, rng: np.random.Generator) -> Iterator[str]:
    s = np.full(len(many), x)
    y = many.sample(s, rng)
    if y.shape != s.shape or not np.all(np.isfinite(y)):
        yield f"sample() gives shape {y.shape} or values that are not finite at s = {x:g}"
        return
    yield from is_zero(y - many.conditional_mean(s), f"mean of y less conditional_mean, s = {x:g}")
    if isinstance(many, Pointwise):
        drawn = _observing(many, y)
        assert isinstance(drawn, Pointwise)
        a = drawn.pointwise(s)
        yield from is_zero(a.slope, f"E[l'] over draws at s = {x:g}")
        if Property.KINKED not in many.spec.properties:
            yield from is_zero(a.slope**2 + a.curvature, f"E[l'^2 + l''] over draws at s = {x:g}")


def _potential(site: Site, seed: int) -> Iterator[str]:
    u = np.arange(-90.0, 45.0, 0.02)
    half = np.exp(u)
    for i in range(min(len(site), 6) if site.normalised else 0):
        many = site.take(np.full(len(u), i))
        total = sum(
            float(np.sum(0.02 * half * np.exp(many.log_density(side * half)))) for side in (1, -1)
        )
        if abs(total - 1.0) > _NORMALISED:
            yield f"the density integrates to {total:.9g} over s (site {i})"
    s = np.zeros(len(site))
    calls: dict[str, Callable[[], Array]] = {
        "conditional_mean": lambda: site.conditional_mean(s),
        "sample": lambda: site.sample(s, np.random.default_rng(seed)),
    }
    for name, call in calls.items():
        try:
            call()
        except TypeError:
            continue
        yield f"a potential observes nothing, but {name}() gives something"
