"""Checks of censored sites: their mass is that of the distribution function, and observations made
by the censoring scheme that a row implies have the score's identities."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.contract.questions import Pointwise
from lgmdsl.contract.site import Property, Site
from lgmdsl.testing.sites.standard_errors import is_zero

PREDICTORS = (-1.3, 0.4, 1.6)
DRAWS = 4000


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
