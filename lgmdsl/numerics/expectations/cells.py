"""Integrals over boxes of few dimensions by cells that are halved where they are not smooth yet.

A cell has Gauss-Legendre nodes on each axis. The Legendre coefficients of its two highest degrees
say along which axis it is rough, and whether the rule, exact to twice that degree, may be trusted.
The cells of all rows are one queue, so that numpy sees thousands at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np

from lgmdsl.arrays import Array, BoolArray, IntArray

# rows (b,), u (b, p, r) -> (q, b, p)
Integrands = Callable[[IntArray, Array], Array]

NODES = {1: 10, 2: 8, 3: 6}
# What the coefficients may be, of a cell, relative to the whole.
ROUGHEST = 1e-6
NODES_PER_PASS = 1 << 18  # nodes times axes that are held at once
ROUNDS = 60  # halvings, all axes together


def integrate(
    f: Integrands,
    edges: list[Array],
    size: Callable[[Array], Array],
    count: int,
    most: int,
) -> tuple[Array, BoolArray]:
    """`count` integrals of each row, (q, N), and which rows are settled.

    `edges`: of each axis the breaks of the first cells, (N, c); `size`: what errors of the
    estimates (q, n) are relative to; `most`: evaluations of f after which a row is given up.
    """
    dimension, n = len(edges), len(edges[0])
    owner, low, width = _first(edges)
    total = np.zeros((count, n))
    spent = np.zeros(n)
    for _ in range(ROUNDS):
        if not len(owner):
            break
        value, rough = _evaluate(f, owner, low, width, count)
        spent += np.bincount(owner, minlength=n) * NODES[dimension] ** dimension
        here = total + _sums(value, owner, n)
        scale = np.maximum(size(here), 1e-300)[:, owner]
        with np.errstate(invalid="ignore"):
            worst = (rough / scale[:, :, None]).max(axis=0)  # (b, r)
        # NaN is not rough: no halving cures it, and the sum shows it.
        split = (worst > ROUGHEST).any(axis=1)
        total += _sums(value[:, ~split], owner[~split], n)
        split &= spent[owner] < most
        owner, low, width = _halved(owner[split], low[split], width[split], worst[split])
    settled = spent < most
    settled[owner] = False
    return total, settled


def breaks(first: Array, other: Array, reach: Array, growth: float) -> Array:
    """Breaks of the first cells on an axis, (n, c): 0, `first` and on in steps that grow, as far as
    `reach` from 0 on either side and from `other`."""
    steps, edge = [np.zeros_like(first)], first
    farthest = reach + np.abs(other)
    while True:
        steps.append(np.minimum(edge, farthest))
        if (edge >= farthest).all():
            break
        edge = edge * growth
    up = np.stack(steps, axis=1)
    high = np.minimum(up, np.maximum(reach, other + reach)[:, None])
    low = np.minimum(up, np.maximum(reach, reach - other)[:, None])
    return np.concatenate([-low[:, :0:-1], high], axis=1)


def _first(edges: list[Array]) -> tuple[IntArray, Array, Array]:
    """Row, low corner and width of each first cell; empty ones are left out."""
    n = len(edges[0])
    lows, widths = [], []
    for corner in product(*(range(e.shape[1] - 1) for e in edges)):
        low = np.stack([e[:, i] for e, i in zip(edges, corner, strict=True)], axis=1)
        high = np.stack([e[:, i + 1] for e, i in zip(edges, corner, strict=True)], axis=1)
        lows.append(low)
        widths.append(high - low)
    owner = np.tile(np.arange(n), len(lows))
    low, width = np.concatenate(lows), np.concatenate(widths)
    solid = (width > 0.0).all(axis=1)
    return owner[solid], low[solid], width[solid]


def _evaluate(
    f: Integrands, owner: IntArray, low: Array, width: Array, count: int
) -> tuple[Array, Array]:
    """The integrals over cells, (q, b), and the roughness along each axis, (q, b, r)."""
    dimension = low.shape[1]
    nodes, weights, top = _legendre(NODES[dimension])
    grid = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1)
    grid = grid.reshape(-1, dimension)
    weight = _outer([weights] * dimension)
    value = np.empty((count, len(owner)))
    rough = np.empty((count, len(owner), dimension))
    size = max(1, NODES_PER_PASS // (len(grid) * dimension))
    shape = (count, -1, *[len(nodes)] * dimension)
    for start in range(0, len(owner), size):
        some = slice(start, start + size)
        u = low[some, None, :] + width[some, None, :] * grid
        y = f(owner[some], u)
        volume = width[some].prod(axis=1)
        value[:, some] = (y @ weight) * volume
        cube = y.reshape(shape)
        for i in range(dimension):
            along = np.moveaxis(cube, 2 + i, -1) @ top.T  # (q, b, n, ..., 2)
            left = np.abs(along).sum(axis=-1)
            rough[:, some, i] = _mean(left, weights) * volume
    return value, rough


def _mean(values: Array, weights: Array) -> Array:
    """Averages over the trailing axes of nodes, (q, b)."""
    while values.ndim > 2:
        values = values @ weights
    return values


def _outer(parts: list[Array]) -> Array:
    out = parts[0]
    for part in parts[1:]:
        out = np.multiply.outer(out, part).reshape(-1)
    return out


@cache
def _legendre(count: int) -> tuple[Array, Array, Array]:
    """Nodes on [0, 1], weights that add up to 1, and what takes values at the nodes to their
    Legendre coefficients of the two highest degrees, (2, n)."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    basis = np.polynomial.legendre.legvander(nodes, count - 1)
    degrees = np.arange(count - 2, count)
    top = (2 * degrees[:, None] + 1) / 2.0 * basis.T[degrees] * weights
    return 0.5 * (nodes + 1.0), 0.5 * weights, top


def _sums(value: Array, owner: IntArray, n: int) -> Array:
    return np.stack([np.bincount(owner, weights=v, minlength=n) for v in value])


def _halved(
    owner: IntArray, low: Array, width: Array, rough: Array
) -> tuple[IntArray, Array, Array]:
    """Each cell as two, along its roughest axis."""
    axis = rough.argmax(axis=1)
    index = np.arange(len(owner))
    thin, above = width.copy(), low.copy()
    thin[index, axis] *= 0.5
    above[index, axis] += thin[index, axis]
    return np.tile(owner, 2), np.concatenate([low, above]), np.concatenate([thin, thin])
