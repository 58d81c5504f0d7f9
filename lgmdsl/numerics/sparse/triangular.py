"""Solves with L and L' by supernodes, in place, for one right-hand side or many.

Many stand row by row, x (n, k) in C order, which BLAS reads as the transposed (k, n).
"""

from __future__ import annotations

from lgmdsl.arrays import Array
from lgmdsl.numerics.compiled import compiled
from lgmdsl.numerics.sparse.blas import Desk, gemm, trsm
from lgmdsl.numerics.sparse.multifrontal import Columns


@compiled
def forward(tree: Columns, panel: Array, x: Array, work: Array) -> None:
    """x (n,) becomes L^-1 x; `work` holds as many numbers as the longest column of rows."""
    first, starts, rows, panels = tree
    for s in range(len(first) - 1):
        start, r = first[s], starts[s]
        width, below = first[s + 1] - start, starts[s + 1] - r
        height, p = width + below, panels[s]
        work[:below] = 0.0
        for k in range(width):
            column = p + k * height
            f = x[start + k] / panel[column + k]
            x[start + k] = f
            for i in range(k + 1, width):
                x[start + i] -= f * panel[column + i]
            for i in range(below):
                work[i] += f * panel[column + width + i]
        for i in range(below):
            x[rows[r + i]] -= work[i]


@compiled
def backward(tree: Columns, panel: Array, x: Array, work: Array) -> None:
    """x (n,) becomes L^-T x."""
    first, starts, rows, panels = tree
    for s in range(len(first) - 2, -1, -1):
        start, r = first[s], starts[s]
        width, below = first[s + 1] - start, starts[s + 1] - r
        height, p = width + below, panels[s]
        for i in range(below):
            work[i] = x[rows[r + i]]
        for k in range(width - 1, -1, -1):
            column = p + k * height
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            i = 0
            while i + 4 <= below:  # four sums, or each addition waits for the one before
                q = column + width + i
                a += panel[q] * work[i]
                b += panel[q + 1] * work[i + 1]
                c += panel[q + 2] * work[i + 2]
                d += panel[q + 3] * work[i + 3]
                i += 4
            while i < below:
                a += panel[column + width + i] * work[i]
                i += 1
            for j in range(k + 1, width):
                b += panel[column + j] * x[start + j]
            x[start + k] = (x[start + k] - ((a + b) + (c + d))) / panel[column + k]


@compiled
def forward_many(tree: Columns, panel: Array, x: Array, work: Array, on: Desk) -> None:
    """x (n, k) becomes L^-1 x."""
    first, starts, rows, panels = tree
    count = x.shape[1]
    base, aside = x.ctypes.data, work.ctypes.data
    for s in range(len(first) - 1):
        start, r = first[s], starts[s]
        width, below = first[s + 1] - start, starts[s + 1] - r
        height = width + below
        a, top = panel.ctypes.data + 8 * panels[s], base + 8 * count * start
        trsm(on, True, count, width, a, height, top, count)
        if below:
            size, left = (count, below, width), (a + 8 * width, height)
            gemm(on, (False, True), size, (top, count), left, False, (aside, count))
            for i in range(below):
                row = rows[r + i]
                for j in range(count):
                    x[row, j] += work[i * count + j]


@compiled
def backward_many(tree: Columns, panel: Array, x: Array, work: Array, on: Desk) -> None:
    """x (n, k) becomes L^-T x."""
    first, starts, rows, panels = tree
    count = x.shape[1]
    base, aside = x.ctypes.data, work.ctypes.data
    for s in range(len(first) - 2, -1, -1):
        start, r = first[s], starts[s]
        width, below = first[s + 1] - start, starts[s + 1] - r
        height = width + below
        a, top = panel.ctypes.data + 8 * panels[s], base + 8 * count * start
        if below:
            for i in range(below):
                row = rows[r + i]
                for j in range(count):
                    work[i * count + j] = x[row, j]
            size, left = (count, width, below), (a + 8 * width, height)
            gemm(on, (False, False), size, (aside, count), left, True, (top, count))
        trsm(on, False, count, width, a, height, top, count)
