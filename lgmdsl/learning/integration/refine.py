"""More fits where those that were made leave the integral, or what is reported of it, uncertain.

How uncertain the log evidence, means, sds and tail quantiles are follows from the covariance of the
log density at all nodes (`sensitivities`); a log evidence known up to s nats leaves exp(s) - 1 of
the integral open. Fits are made where they lower these most, a few at a time, until all are within
ENOUGH of what is tolerated: first for few nodes, then for those that the posterior is made of.
Where one of them is more than is tolerated after ROUNDS (a cliff of a prior, a plateau, corners of
several sds that may be 0), so that a warning would follow, more rounds are spent. How far the
new values are from what was predicted, in units of the sd that they had, corrects the sds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray
from lgmdsl.learning.integration.landscape import Landscape, shares
from lgmdsl.learning.integration.sensitivities import (
    EVIDENCE,
    bent,
    chosen,
    reported,
    sensitivities,
    uncertainties,
)
from lgmdsl.learning.integration.visited import Visited

NODES = 1024
HEAVIEST = 512  # nodes at which the covariance is evaluated: those that matter most
ENOUGH, DOUBT = 0.4, 1.0  # of what is tolerated, by sds
ROUNDS, LONGER = 12, 36  # the second while something is in DOUBT
APART, FAILED = 0.2, 0.8  # half-axes of a new fit from others, and from where there was none
INFLATION = (1.0, 3.0)  # of the sds, at most
MOST = 2.0  # nats that the log evidence may be uncertain by


@dataclass(frozen=True)
class Refined:
    """`open`: the share of the integral that its uncertainty leaves open; `doubt`: the largest
    uncertainty of the log evidence, a mean, an sd or a quantile, in units of what is tolerated,
    `doubtful` in words; `missing`: the share of the integral nearest to places where there was no
    fit."""

    landscape: Landscape
    open: float
    doubt: float
    doubtful: str
    missing: float


def refined(regions: Sequence[Visited], explore: bool = True) -> Refined:
    """Make fits until little is uncertain; none unless `explore`."""
    inflation, landscape, rounds, final = 1.0, Landscape.of(regions), 0, False
    whole = True  # whether the landscape's lengths are those that suit all fits
    coordinates, theta = regions[0].objective.coordinates, regions[0].mode.theta
    while True:
        nodes, log_weight = landscape.nodes() if final else landscape.drawn(NODES, 1)[:2]
        share = shares(log_weight)[0]
        sd = inflation * landscape.sd(nodes)
        natural = coordinates.natural(landscape.frame.x(nodes), theta)
        effects = bent(sensitivities(natural, share, coordinates.squared), sd)
        top = np.argsort(-np.abs(effects).max(axis=0) * sd, kind="stable")[:HEAVIEST]
        covariance = inflation**2 * landscape.covariance(nodes[top])
        doubts = uncertainties(effects[:, top], covariance)
        places = nodes[:0]
        allowance = LONGER if doubts.max() > DOUBT else ROUNDS
        if explore and doubts.max() > ENOUGH and rounds < allowance:
            allowed = _apart(landscape, nodes[top])
            picked = chosen(effects[:, top], covariance, nodes.shape[1] + 2, allowed)
            places = nodes[top][picked]
        if not len(places):
            if final or not explore:
                break
            final, landscape = True, landscape if whole else Landscape.of(regions)
            whole = True
            continue
        predicted, uncertain = landscape(places), landscape.sd(places)
        found = _fitted(landscape, places)
        kept = np.isfinite(found)
        if kept.any():
            error = np.abs(found - predicted)[kept] / np.maximum(uncertain[kept], 1e-6)
            inflation = float(np.clip(np.sqrt(np.mean(error**2)), *INFLATION))
        whole = rounds % 3 == 0
        landscape = Landscape.of(regions, None if whole else landscape)
        rounds += 1
    open_ = float(np.expm1(min(EVIDENCE * float(doubts[0]), MOST)))
    worst = int(doubts.argmax())
    doubt = float(doubts[worst])
    words = reported(coordinates.names, coordinates.squared, worst, doubt)
    missing = _missing(landscape, nodes, share)
    landscape = landscape if whole else Landscape.of(regions)
    return Refined(landscape, open_, doubt, words, missing)


def _apart(landscape: Landscape, nodes: Array) -> BoolArray:
    """(m,) whether nodes are APART from all fits, and farther from where there was none."""
    owner, out = landscape.owner(nodes), np.ones(len(nodes), dtype=bool)
    for k, (region, own) in enumerate(zip(landscape.regions, landscape.places(nodes), strict=True)):
        scale = region.stretch.mean(axis=1)
        for u, fit in region.known.items():
            gap = np.linalg.norm((own - np.array(u)) / scale, axis=1)
            out &= (owner != k) | (gap > (FAILED if fit is None else APART))
    return out


def _fitted(landscape: Landscape, places: Array) -> Array:
    """(k,) log densities of new fits, each warm from its own mode."""
    owner, own, out = landscape.owner(places), landscape.places(places), np.empty(len(places))
    for k, region in enumerate(landscape.regions):
        if (owner == k).any():
            out[owner == k] = region.at_u(own[k][owner == k])
    return out


def _missing(landscape: Landscape, nodes: Array, share: Array) -> float:
    """The share of nodes that are nearer to a place without a fit than to any fit."""
    owner, total = landscape.owner(nodes), 0.0
    for k, (region, own) in enumerate(zip(landscape.regions, landscape.places(nodes), strict=True)):
        failed = np.array([u for u, f in region.known.items() if f is None])
        if len(failed) and (owner == k).any():
            scale = region.stretch.mean(axis=1)
            gap = np.linalg.norm((own[owner == k][:, None, :] - failed) / scale, axis=2).min(axis=1)
            nearer = gap < landscape.distance(k, own[owner == k])
            total += float(share[owner == k][nearer].sum())
    return total
