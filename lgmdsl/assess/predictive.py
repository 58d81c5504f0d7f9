"""Draws of new responses for the observed rows, and the densities of the responses at draws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.accuracy.limits import ENTRIES
from lgmdsl.arrays import Array, BoolArray, IntArray
from lgmdsl.assess.component import Component
from lgmdsl.assess.mixture import weights_of
from lgmdsl.contract.site import Site
from lgmdsl.errors import NumericalError

# Counts beyond this are not whole in float64 any more; real responses are never that large.
MOST = 2.0**53


@dataclass(frozen=True, eq=False)
class Drawn:
    """Some draws of one component: their places among all draws, and z, (k, n). `points`: the
    component of each of all draws."""

    points: IntArray
    component: Component
    places: IntArray
    z: Array


def joint_draws(components: Sequence[Component], size: int, seed: int) -> Iterator[Drawn]:
    """`size` joint draws of hyperparameter points and z, in pieces. The same seed gives the same
    draws."""
    rng = np.random.default_rng(seed)
    one = len(components) == 1
    point = (
        np.zeros(size, np.int64)
        if one
        else rng.choice(len(components), size=size, p=weights_of(components))
    )
    for k, component in enumerate(components):
        places = np.flatnonzero(point == k)
        step = pieces_of(component)
        for start in range(0, len(places), step):
            some = places[start : start + step]
            yield Drawn(point, component, some, component.conditioned.sample(rng, len(some)))


def pieces_of(component: Component) -> int:
    """How many draws of a component are held at once."""
    latents = len(component.conditioned.latent_mean)
    return max(1, ENTRIES // max(1, latents, sum(m.size for m in component.mean)))


def repeated(site: Site, draws: int) -> Site:
    """The sites once for each draw, draws first."""
    return site.take(np.tile(np.arange(len(site)), draws))


def log_densities(site: Site, s: Array) -> Array:
    """l of the sites of k draws, draws first, at predictors (k, N) or (k, N, K): (k, N)."""
    return site.log_density(s.reshape(-1, *s.shape[2:])).reshape(s.shape[:2])


def responses(site: Site, s: Array, rng: np.random.Generator, name: str) -> Array:
    """One draw of every response of the sites of k draws, draws first, at predictors (k, N) or
    (k, N, K): (k, N), or (k, N, K) of counts over classes.

    Raises NumericalError E602 where a family cannot be drawn at such extreme predictors.
    """
    try:
        y = site.sample(s.reshape(-1, *s.shape[2:]), rng)
    except ValueError:  # numpy's generators refuse rates beyond 1e18
        y = np.full(s.shape[:2], np.nan)
    if not ((np.abs(y) <= MOST) | _endless(site, s, y)).all():
        message = (
            f"`{name}` cannot be drawn: its predictor reaches {np.abs(s).max(initial=0.0):.3g}"
        )
        advice = "give the latents priors on the scale of the link, e.g. sd = 1"
        raise NumericalError.of("E602", message, help=advice)
    return np.asarray(y, dtype=np.float64).reshape(*s.shape[:2], *y.shape[1:])


def _endless(site: Site, s: Array, y: Array) -> BoolArray:
    """Which draws are infinite where some lifetimes never end."""
    out = np.isposinf(y)
    if out.any() and y.ndim == 1:
        out &= site.endless(s.reshape(-1, *s.shape[2:])) > 0.0
    return out
