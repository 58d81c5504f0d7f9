"""The predictive distribution of y where its predictor is Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.site import Site
from lgmdsl.numerics.expectations.normal_product import averages

# A count's table of probabilities ends here, or where the rest is below 1e-4 for every row.
LONGEST_TABLE = 200


def _mass(site: Site, mean: Array, variance: Array) -> Array:
    """E[t(s)], s ~ N(mean, variance), (N,)."""
    if mean.ndim == 1:
        return np.asarray(np.exp(tilting(site).tilted(mean, variance).log_mass))

    def density(rows: IntArray, s: Array) -> Array:
        many = site.take(np.repeat(rows, s.shape[1]))
        log = many.log_density(s.reshape(-1, s.shape[2]))
        return np.exp(log).reshape(1, *s.shape[:2])

    return np.asarray(averages(density, mean, variance)[0][0])


def probabilities(
    block: SiteBlock,
    theta: Mapping[str, Array],
    mean: Array,
    variance: Array,
    first: Array,
    spread: Array,
) -> Array | None:
    """P(y = k), (N, values), for binary and count families, and P(y = 0) of nonnegative numbers;
    None for other continuous ones."""
    last = last_value(block, first, spread)
    if last < 0:
        return None
    table = np.zeros((len(mean), last + 1))
    for k in range(last + 1):
        site = block.bind_family(theta, np.full(len(mean), float(k)))
        with np.errstate(all="ignore"):
            possible = np.isfinite(site.log_density(mean))  # not k successes of fewer trials
        if possible.any():
            table[possible, k] = _mass(site.take(possible), mean[possible], variance[possible])
    return table


def last_value(block: SiteBlock, first: Array, spread: Array) -> int:
    """The last of the values 0, 1, ... whose probabilities are listed, for means and sds of y: 0
    of continuous families with zeros, -1 of others."""
    observed = block.family.spec.observed
    if "binary" in observed:
        return 1
    if "nonnegative" in observed:
        return 0
    if "count" not in observed:
        return -1
    reach = np.nanmax(first + 8.0 * spread, initial=1.0)
    return int(min(LONGEST_TABLE, np.ceil(reach) if np.isfinite(reach) else LONGEST_TABLE))


def tilting(site: Site) -> Tilted:
    """The site as Tilted: itself, or through the first bound that gives it."""
    if isinstance(site, Tilted):
        return site
    lifts = (b for b in bounds() if b.spec.gives is Tilted and not b.applies_to(type(site)))
    return cast(Tilted, next(lifts).lift(site))
