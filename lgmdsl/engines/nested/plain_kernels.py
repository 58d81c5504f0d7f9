"""Compiled passes over rows by chunks, column by column: products with B, and all of a conditioning
where every row is one site of one inner latent and dense columns. Importing this module imports
numba.

The loops run along rows, so that they vectorise however few columns there are.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import Array
from lgmdsl.engines.nested.nest import Lines
from lgmdsl.numerics.compiled import reordering

CHUNK = 512  # rows whose columns stay in the nearest cache


@reordering
def gather(lines: Lines, weight: Array, lower: Array, cross: Array, square: Array) -> None:
    """Z'WZ, (G,), Z'WX, (G, d) in a row, and X'WX, its lower triangle, are added."""
    d, rows = lines.dense.shape
    own, column = np.empty(CHUNK), np.empty(CHUNK)
    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        for i in range(size):
            own[i] = weight[start + i] * lines.value[start + i]
        for i in range(size):
            lower[lines.latent[start + i]] += own[i] * lines.value[start + i]
        for a in range(d):
            for i in range(size):
                column[i] = weight[start + i] * lines.dense[a, start + i]
            for b in range(a + 1):
                value = 0.0
                for i in range(size):
                    value += column[i] * lines.dense[b, start + i]
                square[a, b] += value
            for i in range(size):
                cross[lines.latent[start + i] * d + a] += own[i] * lines.dense[a, start + i]


@reordering
def row_variances(lines: Lines, lower: Array, cross: Array, sigma: Array, out: Array) -> None:
    """|L^-1 z|^2 + q'S^-1 q of each row, q = x - T'L^-1 z."""
    d, rows = lines.dense.shape
    own, moved, value = np.empty(CHUNK), np.empty((d, CHUNK)), np.empty(CHUNK)
    for start in range(0, rows, CHUNK):
        size = min(CHUNK, rows - start)
        for i in range(size):
            own[i] = lines.value[start + i] / lower[lines.latent[start + i]]
        for a in range(d):
            for i in range(size):
                of_group = cross[lines.latent[start + i] * d + a]
                moved[a, i] = lines.dense[a, start + i] - own[i] * of_group
        for i in range(size):
            value[i] = own[i] * own[i]
        for a in range(d):
            for i in range(size):
                value[i] += sigma[a, a] * moved[a, i] * moved[a, i]
            for b in range(a):
                twice = 2.0 * sigma[a, b]
                for i in range(size):
                    value[i] += twice * moved[a, i] * moved[b, i]
        for i in range(size):
            out[start + i] = value[i]


@reordering
def pull(lines: Lines, y: Array, inner: Array, border: Array) -> None:
    """Z'y and X'y are added to `inner` and `border`."""
    d, rows = lines.dense.shape
    for start in range(0, rows, CHUNK):
        end = min(start + CHUNK, rows)
        for i in range(start, end):
            for e in range(lines.start[i], lines.start[i + 1]):
                if lines.latent[e] >= 0:
                    inner[lines.latent[e]] += y[i] * lines.value[e]
                else:
                    border[-1 - lines.latent[e]] += y[i] * lines.value[e]
        for b in range(d):
            value = 0.0
            for i in range(start, end):
                value += y[i] * lines.dense[b, i]
            border[b] += value


@reordering
def lift(lines: Lines, inner: Array, border: Array, out: Array) -> None:
    """Zu + X beta is added to `out`."""
    d, rows = lines.dense.shape
    for start in range(0, rows, CHUNK):
        end = min(start + CHUNK, rows)
        for i in range(start, end):
            value = 0.0
            for e in range(lines.start[i], lines.start[i + 1]):
                if lines.latent[e] >= 0:
                    value += inner[lines.latent[e]] * lines.value[e]
                else:
                    value += border[-1 - lines.latent[e]] * lines.value[e]
            out[i] += value
        for b in range(d):
            for i in range(start, end):
                out[i] += border[b] * lines.dense[b, i]
