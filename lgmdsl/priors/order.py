"""The probability that independent normals increase: what an ordered hyper's prior is divided by.

    P(X_1 < ... < X_K) = int phi_j(t) F_{j-1}(t) G_{j+1}(t) dt  for every j,

F_j(t) = int_{-inf}^t phi_j F_{j-1} the probability that the first j increase and end below t, and G
the same from above. The derivative in an argument of entry j falls on phi_j alone.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import special

from lgmdsl.arrays import Array

_REACH = 9.0  # sds on either side; beyond lies 1e-19
_ORDER = 16  # points of each panel
_PANELS_PER_SD = 1.5


def log_order_probability(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """(...) log P and its slopes in mean and sd, (..., K), for means and sds (..., K)."""
    lead, count = mean.shape[:-1], mean.shape[-1]
    same = np.ptp(mean, axis=-1).max(initial=0.0) == 0.0 == np.ptp(sd, axis=-1).max(initial=0.0)
    if same:
        # every order is equally likely; the slopes still differ between entries
        value = np.full(lead, -special.gammaln(count + 1.0))
        standard = _standard(count)
        return value, standard[1] / sd, standard[2] / sd
    rows = [_row(m, s) for m, s in zip(mean.reshape(-1, count), sd.reshape(-1, count), strict=True)]
    logs, in_mean, in_sd = (np.stack(part) for part in zip(*rows, strict=True))
    return logs.reshape(lead), in_mean.reshape(mean.shape), in_sd.reshape(sd.shape)


@cache
def _standard(count: int) -> tuple[Array, Array, Array]:
    """`_row` of standard normals."""
    return _row(np.zeros(count), np.ones(count))


def _row(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    nodes, weights, below = _panels(mean, sd)
    z = (nodes - mean[:, None]) / sd[:, None]  # (K, points)
    density = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * sd[:, None])
    count = len(mean)
    up, down = np.ones_like(z), np.ones_like(z)
    for j in range(1, count):
        up[j] = _below(density[j - 1] * up[j - 1], weights, below)
    for j in range(count - 2, -1, -1):
        product = density[j + 1] * down[j + 1]
        down[j] = float(product @ weights) - _below(product, weights, below)
    shares = density * up * down * weights
    whole = shares.sum(axis=1)
    middle = float(whole.mean())
    in_mean = (shares * z).sum(axis=1) / (sd * middle)
    in_sd = (shares * (z * z - 1.0)).sum(axis=1) / (sd * middle)
    return np.log(np.asarray(middle)), in_mean, in_sd


def _panels(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """Gauss-Legendre nodes over all the masses, fine enough for the narrowest where it lies."""
    cuts = [
        m + s * np.linspace(-_REACH, _REACH, int(2 * _REACH * _PANELS_PER_SD) + 1)
        for m, s in {(float(m), float(s)) for m, s in zip(mean, sd, strict=True)}
    ]
    edges = np.unique(np.concatenate(cuts))
    t, w, running = _rule()
    half = 0.5 * np.diff(edges)
    nodes = (edges[:-1, None] + half[:, None] * (t + 1.0)).reshape(-1)
    return nodes, (half[:, None] * w).reshape(-1), running


@cache
def _rule() -> tuple[Array, Array, Array]:
    """Nodes and weights of a panel, and the integrals of the interpolant from its left end to each
    node."""
    t, w = np.polynomial.legendre.leggauss(_ORDER)
    vander = np.polynomial.legendre.legvander(t, _ORDER - 1)
    basis = [np.polynomial.legendre.Legendre.basis(k).integ(lbnd=-1)(t) for k in range(_ORDER)]
    return t, w, np.stack(basis, axis=1) @ np.linalg.inv(vander)


def _below(values: Array, weights: Array, running: Array) -> Array:
    """The integral from the left up to each node."""
    panels = values.reshape(-1, _ORDER)
    width = weights.reshape(-1, _ORDER)
    whole = (panels * width).sum(axis=1)
    half = width.sum(axis=1) / 2.0
    before = np.concatenate([[0.0], np.cumsum(whole)[:-1]])
    return np.asarray(before[:, None] + half[:, None] * (panels @ running.T)).reshape(-1)
