"""The numeric factorisation: one dense front for each supernode, children before parents.

A front holds the panel (the supernode's columns, kept in L) and the update of the rows below. The
update of a child is added into its parent's front (Duff and Reid 1983). Updates lie on two stacks,
by the parity of the depth in the tree, so a parent's never lands on a child's that is still read.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray
from lgmdsl.numerics.compiled import compiled
from lgmdsl.numerics.sparse.blas import Desk, Size, potrf, syrk, trsm

Columns: TypeAlias = tuple[IntArray, IntArray, AnyArray, IntArray]
"""`first`, `starts`, `relative` (or `rows`) and `panels` of a `supernodal.Tree`."""

BY_HAND = 12  # panels up to this wide are eliminated by loops: a call of BLAS costs more


@compiled
def factorise(
    tree: Columns,
    children: tuple[IntArray, IntArray, IntArray],
    matrix: tuple[IntArray, IntArray, IntArray, Array],
    panel: Array,
    stack: Array,
    on: Desk,
) -> bool:
    """Fill `panel` with L; False at the first pivot that is not positive and finite. `children`:
    where updates lie, the last child and each one's sibling; `matrix`: of each supernode the runs
    of entries, where each is among the values, and in the panel; the values."""
    first, starts, relative, panels = tree
    (updates, child, sibling), (entries, source, position, values) = children, matrix
    for s in range(len(first) - 1):
        width, below = first[s + 1] - first[s], starts[s + 1] - starts[s]
        height, p, u = width + below, panels[s], updates[s]
        panel[p : p + height * width] = 0.0
        for e in range(entries[s], entries[s + 1]):
            panel[p + position[e]] = values[source[e]]
        c = child[s]
        assembled = c != -1
        if assembled:
            stack[u : u + below * below] = 0.0
        while c != -1:
            rows = relative[starts[c] : starts[c + 1]]
            _extend_add(rows, updates[c], panel, (p, height, width), stack, u, below)
            c = sibling[c]
        if width <= BY_HAND and height <= 4 * BY_HAND:
            if not _eliminate(panel, p, height, width):
                return False
            _subtract(panel, p, height, width, stack, u, below, assembled)
            continue
        a = panel.ctypes.data + 8 * p
        if potrf(on, width, a, height) != 0:
            return False
        for k in range(width):
            pivot = panel[p + k * height + k]
            if not (pivot > 0.0 and pivot < math.inf):  # LAPACK lets NaN through
                return False
        if below:
            trsm(on, True, below, width, a, height, a + 8 * width, height)
            update = stack.ctypes.data + 8 * u
            syrk(on, below, width, a + 8 * width, height, assembled, update, below)
    return True


@compiled
def _extend_add(
    rows: AnyArray, c: int, panel: Array, place: Size, stack: Array, u: int, below: int
) -> None:
    """Add the lower triangle of a child's update (count, count), at c, into its parent's front."""
    (p, height, width), count = place, len(rows)
    j = 0
    while j < count and rows[j] < width:
        column = p + rows[j] * height
        for i in range(j, count):
            panel[column + rows[i]] += stack[c + i]
        c += count
        j += 1
    while j < count:
        column = u + (rows[j] - width) * below - width
        for i in range(j, count):
            stack[column + rows[i]] += stack[c + i]
        c += count
        j += 1


@compiled
def _eliminate(panel: Array, p: int, height: int, width: int) -> bool:
    """The panel becomes its columns of L, column by column."""
    for k in range(width):
        column = p + k * height
        pivot = panel[column + k]
        if not (pivot > 0.0 and pivot < math.inf):
            return False
        root = math.sqrt(pivot)
        panel[column + k] = root
        scale = 1.0 / root
        for i in range(k + 1, height):
            panel[column + i] *= scale
        for j in range(k + 1, width):
            f = panel[column + j]
            target = p + j * height
            for i in range(j, height):
                panel[target + i] -= f * panel[column + i]
    return True


@compiled
def _subtract(
    panel: Array, p: int, height: int, width: int, stack: Array, u: int, below: int, keep: bool
) -> None:
    """The update's lower triangle loses the outer products of the panel's columns, four a pass."""
    for j in range(below):
        target = u + j * below
        if not keep:
            stack[target + j : target + below] = 0.0
        k = 0
        while k + 4 <= width:
            a = p + k * height + width
            b, c, d = a + height, a + 2 * height, a + 3 * height
            fa, fb, fc, fd = panel[a + j], panel[b + j], panel[c + j], panel[d + j]
            for i in range(j, below):
                stack[target + i] -= (
                    fa * panel[a + i] + fb * panel[b + i] + fc * panel[c + i] + fd * panel[d + i]
                )
            k += 4
        while k < width:
            a = p + k * height + width
            fa = panel[a + j]
            for i in range(j, below):
                stack[target + i] -= fa * panel[a + i]
            k += 1


@compiled
def update_offsets(
    above: IntArray, starts: IntArray, depth: IntArray, offsets: IntArray
) -> tuple[int, int]:
    """Where each update lies on the stack of its parity; the greatest height of both stacks."""
    top_even, top_odd, most_even, most_odd = 0, 0, 0, 0
    freed = offsets.copy()
    freed[:] = 0
    for s in range(len(above)):
        area = (starts[s + 1] - starts[s]) ** 2
        if depth[s] % 2 == 0:
            offsets[s] = top_even
            top_even += area
            most_even = max(most_even, top_even)
            top_odd -= freed[s]
        else:
            offsets[s] = top_odd
            top_odd += area
            most_odd = max(most_odd, top_odd)
            top_even -= freed[s]
        if above[s] >= 0:
            freed[above[s]] += area
    return most_even, most_odd


@compiled
def depths(above: IntArray, depth: IntArray, has_child: BoolArray) -> None:
    """Depth of each supernode in the tree, roots 0; whether it has a child."""
    for s in range(len(above) - 1, -1, -1):
        depth[s] = 0
        if above[s] >= 0:
            depth[s] = depth[above[s]] + 1
            has_child[above[s]] = True
