"""The predictive distribution of y where its predictor is Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.bounds.catalogue import bounds
from lgmdsl.canonical.blocks.sites import SiteBlock
from lgmdsl.contract.questions import Tilted
from lgmdsl.contract.site import Site

# A count's table of probabilities ends here, or where the rest is below 1e-4 for every row.
LONGEST_TABLE = 200
NODES = np.linspace(-9.0, 9.0, 401)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()


def response_moments(site: Site, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Mean and sd of y for s ~ N(mean, variance), (N,) each; NaN where y has none.

    Total variance: Var y = E Var(y | s) + Var E(y | s). The trapezoid rule is exact to rounding
    for the smooth links; a log link moves the centre to where e^s N(s) has its mass.
    """
    sd = np.sqrt(variance)
    first, second = np.zeros_like(mean), np.zeros_like(mean)
    shift = variance if site.spec.link == "log" else np.zeros_like(mean)
    with np.errstate(over="ignore", invalid="ignore"):
        for x, w in zip(NODES, WEIGHTS, strict=True):
            # s is drawn around mean + shift and reweighted to N(mean, variance).
            s = mean + shift + x * sd
            weight = w * np.exp(
                -np.where(variance > 0, shift * (x / np.where(sd > 0, sd, 1.0)), 0) - 0.5 * shift
            )
            centre = site.conditional_mean(s)
            first += weight * centre
            second += weight * (centre**2 + site.conditional_variance(s))
        return first, np.sqrt(np.maximum(second - first**2, 0.0))


def probabilities(
    block: SiteBlock,
    theta: Mapping[str, Array],
    mean: Array,
    variance: Array,
    first: Array,
    spread: Array,
) -> Array | None:
    """P(y = k), (N, values), for binary and count families; None for continuous ones."""
    last = last_value(block, first, spread)
    if last < 0:
        return None
    table = np.zeros((len(mean), last + 1))
    for k in range(last + 1):
        site = block.bind_family(theta, np.full(len(mean), float(k)))
        with np.errstate(all="ignore"):
            possible = np.isfinite(site.log_density(mean))  # not k successes of fewer trials
        if possible.any():
            tilted = tilting(site.take(possible)).tilted(mean[possible], variance[possible])
            table[possible, k] = np.exp(tilted.log_mass)
    return table


def last_value(block: SiteBlock, first: Array, spread: Array) -> int:
    """The last of the values 0, 1, ... whose probabilities are listed, for means and sds of y; -1
    of continuous families."""
    observed = block.family.spec.observed
    if "binary" in observed:
        return 1
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
