"""softmax of the rows of a matrix, to full relative accuracy, and its covariances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lgmdsl.arrays import Array, BoolArray


@dataclass(frozen=True, slots=True)
class Shares:
    """p = softmax(s), 1 - p and log p, each to full relative accuracy, (N, K)."""

    p: Array
    rest: Array
    log_p: Array


def shares(s: Array, offered: BoolArray) -> Shares:
    """Softmax of s (N, K) among the classes offered, (N, K); where none is, no p is above 0."""
    masked = np.where(offered, s, -np.inf)
    first = masked.argmax(axis=1)[:, None]
    top = np.take_along_axis(masked, first, axis=1)
    some = np.isfinite(top)
    d = masked - np.where(some, top, 0.0)
    others = np.exp(d)
    np.put_along_axis(others, first, 0.0, axis=1)
    odds = others.sum(axis=1, keepdims=True)  # of all but the largest, relative to it
    p = others / (1.0 + odds)
    np.put_along_axis(p, first, some / (1.0 + odds), axis=1)
    rest = 1.0 - p
    np.put_along_axis(rest, first, odds / (1.0 + odds), axis=1)
    return Shares(p, rest, d - np.log1p(odds))


def covariances(shares: Shares) -> Array:
    """diag(p) - pp', (N, K, K), its diagonal p (1 - p) without cancellation."""
    out = -shares.p[:, :, None] * shares.p[:, None, :]
    k = np.arange(shares.p.shape[1])
    out[:, k, k] = shares.p * shares.rest
    return np.asarray(out)
