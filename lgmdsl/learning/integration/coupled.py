"""Draws of hyperparameters that belong to draws of the mixture's points.

A point of the mixture, where latents are drawn, stands for the part of the hyperparameters'
posterior around it. Which part: the transport plan from the posterior's nodes to the points that
moves mass least, made smooth by its entropy (Cuturi 2013, Sinkhorn distances, algorithm 1):

    P(node m, point k) = w_m R_mk a_k / sum_j R_mj a_j,   R = exp(-|z_m - u_k|^2 / (2 blur^2))

with a such that each point's total is its weight. So hyperparameters of draws have the posterior's
own distribution, latents that of the mixture, and both move together.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from lgmdsl.arrays import Array, IntArray

# Of the distance between neighbouring points: a node between two goes to either.
BLUR = 0.3
ROUNDS, CLOSE = 500, 1e-4  # of the totals, and their relative error at which they end
# Logs of R below which a point is so far from all nodes that its a would overflow.
FAR = -200.0
SPAN, STAGES = 50.0, 12  # logs of R span this in the first of so many blurs


def transport(nodes: Array, weights: Array, places: Array, shares: Array) -> Array:
    """(m, k) joint probabilities of nodes (m, d), of `weights` (m,), and points at `places` (k, d),
    of `shares` (k,); both sum to 1."""
    if len(places) == 1:
        return weights[:, None]
    square = np.sum((nodes[:, None, :] - places) ** 2, axis=2)
    gaps = np.sum((places[:, None, :] - places) ** 2, axis=2)
    np.fill_diagonal(gaps, np.inf)
    blur = BLUR**2 * float(np.median(gaps.min(axis=1)))
    logs = -0.5 * (square - square.min(axis=1, keepdims=True)) / blur
    if float(logs.max(axis=0).min()) < FAR:
        return _by_logs(logs, weights, shares)
    kernel = np.exp(logs)
    factor = shares.copy()
    for _ in range(ROUNDS):
        total = factor * ((weights / (kernel @ factor)) @ kernel)
        if np.abs(total - shares).max() <= CLOSE * shares.max():
            break
        factor *= shares / np.maximum(total, 1e-300)
    return np.asarray(kernel * factor * (weights / (kernel @ factor))[:, None])


def _by_logs(logs: Array, weights: Array, shares: Array) -> Array:
    """(m, k) joint probabilities by the logs of R and a, first for wider blurs, where a few rounds
    reach the totals (epsilon-scaling, Schmitzer 2019)."""
    kept = shares > 0.0
    logs, wanted = logs[:, kept], np.log(shares[kept])
    factor, wider = np.zeros_like(wanted), math.inf
    for width in np.geomspace(max(1.0, float(-logs.min()) / SPAN), 1.0, STAGES).tolist():
        factor *= wider / width if math.isfinite(wider) else 1.0
        wider = width
        for _ in range(ROUNDS):
            total = _log_total(logs / width + factor, weights)
            if np.abs(np.exp(total) - shares[kept]).max() <= CLOSE * shares.max():
                break
            factor += wanted - total
    plan = np.zeros((len(weights), len(shares)))
    plan[:, kept] = weights[:, None] * special.softmax(logs + factor, axis=1)
    return plan


def _log_total(logs: Array, weights: Array) -> Array:
    """log sum_m w_m exp(logs_mk) / sum_j exp(logs_mj)."""
    part = logs - special.logsumexp(logs, axis=1, keepdims=True)
    return np.asarray(special.logsumexp(part, axis=0, b=weights[:, None]))


def drawn_nodes(plan: Array, chosen: IntArray, rng: np.random.Generator) -> IntArray:
    """(size,) a node for each draw, whose point is `chosen` (size,)."""
    out = np.empty(len(chosen), dtype=np.int64)
    for k in np.unique(chosen):
        here = np.flatnonzero(chosen == k)
        cumulative = np.cumsum(plan[:, k])
        at = rng.random(len(here)) * cumulative[-1]
        out[here] = np.minimum(np.searchsorted(cumulative, at), len(plan) - 1)
    return out
