"""Checks of what a family says of y: its density sums to one, its draws follow it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, Site

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


# ---- censoring checks --------------------------------------------------------------------------
# Checks of censored sites: their mass is that of the distribution function, and observations made
# by the censoring scheme that a row implies have the score's identities.


def uncensored(site: Site) -> Site:
    """The sites, all of them observed exactly."""
    fields = {f.name for f in dataclasses.fields(site)}
    columns: dict[str, Any] = {"event": 1.0, "lower": np.nan, "upper": np.nan}
    return dataclasses.replace(
        site, **{k: np.full(len(site), v) for k, v in columns.items() if k in fields}
    )


def ends(site: Site) -> tuple[Array, Array]:
    """Where y is known to lie, (N,) each: [y, y] unless censored."""
    n = len(site)
    row: Any = site
    y, event = row.y, getattr(site, "event", np.ones(n))
    missing = np.full(n, np.nan)
    low, high = getattr(site, "lower", missing), getattr(site, "upper", missing)
    exact = np.isnan(low) & np.isnan(high) | (low == high)
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    low, high = np.where(exact, y, low), np.where(exact, y, high)
    return np.where(event == 0.0, y, low), np.where(event == 0.0, np.inf, high)


def censoring_failures(site: Site, seed: int = 0) -> Iterator[str]:
    """What is wrong with the censored rows of a site, one sentence each."""
    rows = np.flatnonzero(site.censored)
    if not len(rows):
        return
    some = site.take(rows)
    low, high = ends(some)
    positive = some.spec.observed[0] == "positive"
    for x in PREDICTORS:
        s = np.full(len(rows), x)
        start = np.maximum(low, 0.0) if positive else low
        below = np.where(start > (0.0 if positive else -np.inf), _upto(some, start, s), 0.0)
        above = np.where(np.isfinite(high), _upto(some, high, s), 1.0)
        if not np.allclose(np.exp(some.log_density(s)), above - below, rtol=1e-6, atol=1e-12):
            yield f"censored rows do not have the mass of their interval at s = {x:g}"
    rng = np.random.default_rng(seed)
    for i in range(min(len(rows), 6)):
        many = some.take(np.full(DRAWS, i))
        for x in PREDICTORS:
            yield from _scores(many, x, rng)


def _upto(site: Site, y: Array, s: Array) -> Array:
    """P(Y <= y | s), for y that may be infinite."""
    finite: dict[str, Any] = {"y": np.where(np.isfinite(y) & (y != 0.0), y, 1.0)}
    return dataclasses.replace(site, **finite).cdf(s)


def observed_by_scheme(many: Site, drawn: Array) -> Site:
    """Draws as the scheme of their rows shows them: followed up to y, or observed to lie below
    `lower`, between, or above `upper`."""
    low, high = ends(many)
    fields = {f.name for f in dataclasses.fields(many)}
    observed: dict[str, Any] = {"y": drawn}
    if "event" in fields and np.any(getattr(many, "event") == 0.0):  # noqa: B009
        observed = {"y": np.minimum(drawn, low), "event": (drawn <= low).astype(np.float64)}
        return dataclasses.replace(many, **observed)
    below, above = drawn < low, drawn > high
    observed["lower"] = np.where(below, -np.inf, np.where(above, high, low))
    observed["upper"] = np.where(below, low, np.where(above, np.inf, high))
    return dataclasses.replace(many, **observed)


def _scores(many: Site, x: float, rng: np.random.Generator) -> Iterator[str]:
    s = np.full(len(many), x)
    seen = observed_by_scheme(many, many.sample(s, rng))
    assert isinstance(seen, Pointwise)
    a = seen.pointwise(s)
    yield from is_zero(a.slope, f"E[l'] over censored draws at s = {x:g}")
    if Property.KINKED not in many.spec.properties:
        yield from is_zero(
            a.slope**2 + a.curvature, f"E[l'^2 + l''] over censored draws, s = {x:g}"
        )


# ---- standard errors ---------------------------------------------------------------------------
# Is a mean zero, as far as its draws can tell?


_STANDARD_ERRORS = 5.5


def is_zero(values: Array, label: str) -> Iterator[str]:
    """A sentence where the mean of `values` is further from 0 than 5.5 standard errors."""
    mean = float(np.mean(values))
    error = float(np.std(values)) / np.sqrt(len(values))
    # A rare value of up to 20 may be missing from the draws altogether.
    if abs(mean) > _STANDARD_ERRORS * error + 20.0 / len(values):
        yield f"{label} is {mean:.4g}, {abs(mean) / max(error, 1e-300):.1f} standard errors from 0"
