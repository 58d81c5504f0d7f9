"""More fits where those that were made leave the integral uncertain.

A node of the integral, of share w, whose log density is known up to s nats, leaves w (exp(s) - 1)
of the integral open. Fits are made where the density times (exp(s) - 1) is highest, a few at a time
and apart from each other, until all nodes together leave TOLERANCE of the integral, and of second
moments, open: first for few nodes, then for those that the posterior is made of, of which a single
one far out may hold most of a variance. How far the new values are from what was predicted, in
units of the sd that they had, corrects the sds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.learning.integration.landscape import Landscape
from lgmdsl.learning.integration.visited import Visited

NODES = 1024
TOLERANCE = 0.02
ROUNDS = 8
APART = (0.8, 0.4, 0.2)  # half-axes between fits; the first that leaves a place
BEST = 2.5  # nats of the criterion below the best: what is chosen from
INFLATION = (0.3, 3.0)  # of the sds, at most
CAP = 20.0  # of logs
MOST = 2.0  # nats that a log density may be uncertain by, for the choice of a place


@dataclass(frozen=True)
class Refined:
    """`open`: the share of the integral that is still uncertain; `missing`: the share of it nearest
    to places where there was no fit."""

    landscape: Landscape
    open: float
    missing: float


def refined(regions: Sequence[Visited], most: int = ROUNDS) -> Refined:
    """Make fits until little of the integral is uncertain, in `most` rounds."""
    inflation, landscape, rounds, final = 1.0, Landscape.of(regions), 0, False
    while True:
        nodes, log_weight = landscape.nodes() if final else landscape.drawn(NODES, 1)
        share = np.exp(log_weight - log_weight.max())
        share /= share.sum()
        factor = _factor(landscape, nodes, share)
        if final:  # of those that count most
            top = np.argsort(-share * factor, kind="stable")[:NODES]
            nodes, share, factor = nodes[top], share[top], factor[top]
        sd = inflation * landscape.sd(nodes)
        error = np.expm1(np.minimum(sd, MOST))
        places = _chosen(landscape, nodes, factor, sd) if rounds < most else nodes[:0]
        if (share * factor) @ error < TOLERANCE * (share @ factor) or not len(places):
            if final or not most:
                break
            final, landscape = True, Landscape.of(regions)
            continue
        predicted, uncertain = landscape(places), landscape.sd(places)
        found = _fitted(landscape, places)
        kept = np.isfinite(found)
        if kept.any():
            away = np.abs(found - predicted)[kept] / np.maximum(uncertain[kept], 1e-6)
            inflation = float(np.clip(np.sqrt(np.mean(away**2)), *INFLATION))
        landscape = Landscape.of(regions, landscape if rounds % 3 else None)
        rounds += 1
    return Refined(Landscape.of(regions), float(share @ error), _missing(landscape, nodes, share))


def _factor(landscape: Landscape, nodes: Array, share: Array) -> Array:
    """(m,) how much more each node counts in second moments of the hyperparameters on their natural
    scales (exp(x) of logs) than in the integral."""
    away = landscape.frame.x(nodes) - landscape.frame.mode
    scaled = landscape.regions[0].objective.coordinates.scaled
    natural = np.where(scaled, np.exp(np.clip(away, -CAP, CAP)), away)
    square = (natural - share @ natural) ** 2
    return np.asarray(1.0 + np.max(square / np.maximum(share @ square, 1e-300), axis=1))


def _chosen(landscape: Landscape, nodes: Array, factor: Array, sd: Array) -> Array:
    """(k, d) nodes for a round of fits; `factor` (m,): how much more each counts than by its
    density."""
    gain = landscape(nodes) + np.log(factor) + np.log(np.expm1(np.clip(sd, 1e-12, MOST)))
    owner, out = landscape.owner(nodes), list[Array]()
    order = np.argsort(-gain, kind="stable")
    own = landscape.places(nodes)
    for apart in APART:
        taken = [np.array(list(r.known)).reshape(-1, nodes.shape[1]) for r in landscape.regions]
        for k in order:
            if gain[k] < gain[order[0]] - BEST or len(out) == nodes.shape[1] + 2:
                break
            region = int(owner[k])
            scale = landscape.regions[region].stretch.mean(axis=1)
            place = own[region][k]
            if np.min(np.sum(((taken[region] - place) / scale) ** 2, axis=1)) > apart**2:
                out.append(nodes[k])
                taken[region] = np.vstack([taken[region], place])
        if out:
            break
    return np.array(out).reshape(-1, nodes.shape[1])


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
