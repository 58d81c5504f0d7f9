"""The selected inverse by supernodes: A^-1 on the pattern of L, parents before children.

For a supernode with columns S and rows R below: G = L_RS L_SS^-1, Z_RR from the parent's front,
Z_RS = -Z_RR G, Z_SS = L_SS^-T L_SS^-1 - Z_RS'G (Takahashi, Fagan and Chin 1973; Campbell and Davis
1995). Each front Z is held only until its last child has read it, on two stacks by parity of depth.
"""

from __future__ import annotations

from lgmdsl.arrays import AnyArray, Array, BoolArray, IntArray
from lgmdsl.numerics.compiled import compiled
from lgmdsl.numerics.sparse.blas import Desk, Size, gemm, potri, symm, trsm
from lgmdsl.numerics.sparse.multifrontal import Columns

BY_HAND = 8  # panels up to this wide are inverted by loops
BLOCK = 64
NARROW = 32  # up to this wide L_SS^-1 is formed by loops: LAPACK's triangular kernels cost more


@compiled
def invert(
    tree: Columns,
    above: IntArray,
    fronts: IntArray,
    panel: Array,
    entries: tuple[IntArray, IntArray, IntArray],
    scratch: tuple[Array, Array],
    on: Desk,
    inverse: Array,
) -> None:
    """inverse[target[e]] becomes the entry of A^-1 at `position[e]` in its supernode's panel, the
    `entries` being wanted[s]..wanted[s + 1] of each; `scratch`: the fronts' stack, and work."""
    first, starts, relative, panels = tree
    (wanted, position, target), (stack, work) = entries, scratch
    for s in range(len(first) - 2, -1, -1):
        width, below = first[s + 1] - first[s], starts[s + 1] - starts[s]
        height, p, z = width + below, panels[s], fronts[s]
        by_hand = width <= BY_HAND and height <= 6 * BY_HAND
        if below:
            t = above[s]
            tall = first[t + 1] - first[t] + starts[t + 1] - starts[t]
            corner = z + width * height + width
            rows = relative[starts[s] : starts[s + 1]]
            _gather(rows, stack, fronts[t], tall, corner, height, by_hand)
        if by_hand:
            _columns(panel, p, height, width, stack, z, work)
        elif width <= NARROW:
            _narrow(panel, p, (height, width, below), stack, z, work, on)
        else:
            _wide(panel, p, (height, width, below), stack, z, work, on)
        for e in range(wanted[s], wanted[s + 1]):
            inverse[target[e]] = stack[z + position[e]]


@compiled
def _gather(
    rows: AnyArray, stack: Array, z: int, tall: int, corner: int, height: int, both: bool
) -> None:
    """Z_RR from the parent's front: its lower triangle, and the upper one where asked for."""
    count = len(rows)
    for j in range(count):
        source = z + rows[j] * tall
        column = corner + j * height
        for i in range(j, count):
            stack[column + i] = stack[source + rows[i]]
    if both:
        for j in range(count):
            for i in range(j):
                stack[corner + j * height + i] = stack[corner + i * height + j]


@compiled
def _columns(
    panel: Array, p: int, height: int, width: int, stack: Array, z: int, work: Array
) -> None:
    """Column by column, last to first: Z_.j = -Z l_j, Z_jj = 1/L_jj^2 - l_j'Z_.j."""
    for j in range(width - 1, -1, -1):
        column = p + j * height
        scale = 1.0 / panel[column + j]
        target = z + j * height
        for i in range(j + 1, height):
            stack[target + i] = 0.0
        for k in range(j + 1, height):
            f = panel[column + k] * scale
            work[k] = f
            source = z + k * height
            for i in range(j + 1, height):
                stack[target + i] -= f * stack[source + i]
        total = scale * scale
        for i in range(j + 1, height):
            total -= work[i] * stack[target + i]
        stack[target + j] = total
        for i in range(j + 1, height):
            stack[z + i * height + j] = stack[target + i]


@compiled
def _narrow(panel: Array, p: int, size: Size, stack: Array, z: int, work: Array, on: Desk) -> None:
    """With M = L_SS^-1, -M above Z_RS and M above G: Z_SS is one product of the two. `size`: the
    panel's height, its width, and the rows below."""
    height, width, below = size
    for j in range(width):
        column, scratch = z + j * height, j * height
        work[scratch : scratch + width] = 0.0
        work[scratch + j] = 1.0
        for k in range(j, width):
            f = work[scratch + k] / panel[p + k * height + k]
            work[scratch + k] = f
            for i in range(k + 1, width):
                work[scratch + i] -= f * panel[p + k * height + i]
        for i in range(width):
            stack[column + i] = -work[scratch + i]
    front, g = stack.ctypes.data + 8 * z, work.ctypes.data
    if below:
        a, side = panel.ctypes.data + 8 * (p + width), front + 8 * width
        shape, to = (below, width, width), (g + 8 * width, height)
        gemm(on, (False, False), shape, (a, height), (front, height), False, to)
        corner = front + 8 * (width * height + width)
        symm(on, below, width, corner, height, g + 8 * width, height, side, height)
    square = height * width
    shape, to = (width, width, height), (g + 8 * square, width)
    gemm(on, (True, False), shape, (front, height), (g, height), False, to)
    for j in range(width):
        for i in range(j, width):
            stack[z + j * height + i] = work[square + j * width + i]


@compiled
def _wide(panel: Array, p: int, size: Size, stack: Array, z: int, work: Array, on: Desk) -> None:
    height, width, below = size
    for j in range(width):
        source, target = p + j * height, z + j * height
        for i in range(j, width):
            stack[target + i] = panel[source + i]
        for i in range(below):
            work[j * below + i] = panel[source + width + i]
    front = stack.ctypes.data + 8 * z
    potri(on, width, front, height)
    if below:
        g = work.ctypes.data
        trsm(on, False, below, width, panel.ctypes.data + 8 * p, height, g, below)
        corner, side = front + 8 * (width * height + width), front + 8 * width
        symm(on, below, width, corner, height, g, below, side, height)
        for j in range(0, width, BLOCK):  # the lower triangle alone, by blocks of columns
            left, right = side + 8 * j * height, g + 8 * j * below
            shape = (width - j, min(BLOCK, width - j), below)
            to = (front + 8 * (j * height + j), height)
            gemm(on, (True, False), shape, (left, height), (right, below), True, to)


@compiled
def front_offsets(
    first: IntArray,
    above: IntArray,
    starts: IntArray,
    depth: IntArray,
    has_child: BoolArray,
    offsets: IntArray,
) -> tuple[int, int]:
    """Where each front lies on the stack of its parity; the greatest height of both stacks.

    A leaf's front is read by none: the next one of its parity takes its place.
    """
    top_even, top_odd, most_even, most_odd = 0, 0, 0, 0
    size = len(above)
    last = offsets.copy()  # the child that is inverted last, after which the front is free
    last[:] = -1
    for s in range(size - 1, -1, -1):
        if above[s] >= 0:
            last[above[s]] = s
    for s in range(size - 1, -1, -1):
        area = (first[s + 1] - first[s] + starts[s + 1] - starts[s]) ** 2
        reserved = area if has_child[s] else 0
        t = above[s]
        freed = 0
        if t >= 0 and last[t] == s:
            freed = (first[t + 1] - first[t] + starts[t + 1] - starts[t]) ** 2
        if depth[s] % 2 == 0:
            offsets[s] = top_even
            most_even = max(most_even, top_even + area)
            top_even += reserved
            top_odd -= freed
        else:
            offsets[s] = top_odd
            most_odd = max(most_odd, top_odd + area)
            top_odd += reserved
            top_even -= freed
    return most_even, most_odd
