"""Draws from the densities of a lattice, axis after axis by inverse distribution functions.

Between nodes log densities are polynomials through six neighbours; along the finer points made of
them a density is linear, so that its distribution function is inverted in closed form.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array, IntArray
from lgmdsl.assess.grouped.lattice import FINE, Lattice, cardinal, floored

CHUNK = 1 << 21  # entries of one temporary


def drawn(
    lattice: Lattice, levels: Array, which: IntArray, kind: IntArray, uniform: Array
) -> Array:
    """(m, G, D) draws of the densities with `levels` (k, K, U): the one `which` (m,), sorted, says,
    of groups of these kinds (G,), by `uniform` (m, G, D)."""
    k, _, count = levels.shape
    n, width = lattice.n, lattice.width
    tensor = floored(levels).reshape(k, *[n] * width, count)
    per = n**width * max(FINE // n ** (width - 1), 1) * count
    draws = max(len(which) / k, 1.0) * n ** max(width - 1, 0) * len(kind)
    step, pieces = max(1, int(CHUNK / max(per, draws))), []
    for first in range(0, k, step):
        low, high = np.searchsorted(which, [first, first + step])
        if high > low:
            some = which[low:high] - first
            pieces.append(_axes(tensor[first : first + step], some, kind, uniform[low:high]))
    return np.asarray(lattice.low[kind] + np.concatenate(pieces) * lattice.step[kind])


def _axes(tensor: Array, which: IntArray, kind: IntArray, uniform: Array) -> Array:
    """(m, G, D) places among the nodes, of tensors (k, n, ..., n, U)."""
    n, width = tensor.shape[1], uniform.shape[2]
    whole = tensor.reshape(len(tensor), n, -1, tensor.shape[-1])
    top = whole.max(axis=2)
    marginal = top + np.log(np.exp(whole - top[:, :, None]).sum(axis=2))
    place = _along(marginal, which, kind, uniform[:, :, 0])
    if width == 1:
        return place[:, :, None]
    weights = cardinal(n, place)  # (m, G, n)
    rest = np.einsum("mgk,mkrg->mrg", weights, whole[which][..., kind], optimize=True)
    rest = rest.reshape(len(which), *tensor.shape[2:-1], len(kind))
    later = _axes(rest, np.arange(len(which)), np.arange(len(kind)), uniform[:, :, 1:])
    return np.concatenate([place[:, :, None], later], axis=2)


def _along(levels: Array, which: IntArray, kind: IntArray, uniform: Array) -> Array:
    """(m, G) places on lines whose log densities at nodes are `levels` (k, n, U)."""
    n = levels.shape[1]
    weights = cardinal(n, np.linspace(0.0, n - 1.0, FINE * (n - 1) + 1))
    fine = np.einsum("fn,kng->kgf", weights, levels, optimize=True)
    density = np.exp(fine - fine.max(axis=2, keepdims=True))
    steps = 0.5 * (density[:, :, 1:] + density[:, :, :-1])
    below = np.concatenate([np.zeros((*steps.shape[:2], 1)), np.cumsum(steps, axis=2)], axis=2)
    last, count = steps.shape[2], levels.shape[2]
    # Where each line begins among all, flat: `take` is several times as fast as three indices.
    begin = (which[:, None] * count + kind) * (last + 1)
    wanted = uniform * below.take(begin + last)
    low, high = np.zeros_like(begin), np.full_like(begin, last)
    for _ in range(int(np.ceil(np.log2(last + 1)))):
        middle = (low + high) >> 1
        under = below.take(begin + middle) <= wanted
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    low = np.minimum(low, last - 1)
    begin += low
    left, right = density.take(begin), density.take(begin + 1)
    rest = np.maximum(wanted - below.take(begin), 0.0)
    root = np.sqrt(np.maximum(left**2 + 2.0 * (right - left) * rest, 0.0))
    inside = 2.0 * rest / np.maximum(left + root, 1e-300)
    return np.asarray((low + np.clip(inside, 0.0, 1.0)) / FINE)
