"""Relaxed supernodes: columns of L eliminated together as one dense front.

Columns with nested patterns form a supernode; a child is then merged into its parent where the
explicit zeros that this stores are few (Ashcraft and Grimes 1989). Supernode s has columns
first[s]..first[s + 1] and rows rows[starts[s]:starts[s + 1]] below them.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import AnyArray, IntArray
from lgmdsl.numerics.compiled import compiled


@compiled
def _entries(width: int, below: int) -> int:
    return width * (width + 1) // 2 + width * below


@compiled
def _few_zeros(width: int, zeros: int, entries: int) -> bool:
    if width <= 4:
        return True
    share = zeros / entries
    return share < 0.02 or (width <= 32 and share < 0.1) or (width <= 16 and share < 0.3)


@compiled
def amalgamate(parent: IntArray, count: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Supernodes of a postordered tree: (columns, first, above, below).

    `columns` (n,) lists the old columns in their new order, `first` (s + 1,) cuts it into
    supernodes, in postorder; `above` (s,) is each one's parent, -1 at a root; `below` (s,) the
    number of rows under its columns.
    """
    n = len(parent)
    children = np.zeros(n, dtype=np.int64)
    for k in range(n):
        if parent[k] >= 0:
            children[parent[k]] += 1
    # Maximal sets of columns with nested patterns.
    of = np.empty(n, dtype=np.int64)
    size = 0
    for k in range(n):
        if not (k and parent[k - 1] == k and count[k - 1] == count[k] + 1):
            size += 1
        of[k] = size - 1
    head = np.empty(size, dtype=np.int64)  # a linked list of columns for each supernode
    tail = np.empty(size, dtype=np.int64)
    following = np.full(n, -1, dtype=np.int64)
    width = np.zeros(size, dtype=np.int64)
    below = np.empty(size, dtype=np.int64)
    above = np.empty(size, dtype=np.int64)
    for k in range(n):
        s = of[k]
        if width[s] == 0:
            head[s] = k
        else:
            following[tail[s]] = k
        tail[s] = k
        width[s] += 1
        below[s] = count[k] - 1
        above[s] = of[parent[k]] if parent[k] >= 0 else -1
    # Merge children into parents, the last child (nearest in pattern) first.
    child = np.full(size, -1, dtype=np.int64)
    sibling = np.full(size, -1, dtype=np.int64)
    zeros = np.zeros(size, dtype=np.int64)
    into = np.full(size, -1, dtype=np.int64)
    for s in range(size):
        c = child[s]
        while c != -1:
            both = width[c] + width[s]
            entries = _entries(both, below[s])
            added = entries - _entries(width[c], below[c]) - _entries(width[s], below[s])
            if _few_zeros(both, zeros[c] + zeros[s] + added, entries):
                zeros[s] += zeros[c] + added
                width[s] = both
                following[tail[c]] = head[s]
                head[s] = head[c]
                into[c] = s
            c = sibling[c]
        if above[s] >= 0:
            sibling[s] = child[above[s]]
            child[above[s]] = s
    # The remaining supernodes, in a postorder of their tree.
    roots = np.empty(size, dtype=np.int64)
    number = np.full(size, -1, dtype=np.int64)
    stand = 0
    for s in range(size):
        if into[s] < 0:
            roots[stand] = s
            number[s] = stand
            stand += 1
    for s in range(size - 1, -1, -1):
        if into[s] >= 0:
            number[s] = number[into[s]]
    first = np.zeros(stand + 1, dtype=np.int64)
    columns = np.empty(n, dtype=np.int64)
    up = np.empty(stand, dtype=np.int64)
    under = np.empty(stand, dtype=np.int64)
    for t in range(stand):
        s = roots[t]
        up[t] = number[above[s]] if above[s] >= 0 else -1
        under[t] = below[s]
    return _in_postorder(up, under, roots, head, following, first, columns)


@compiled
def _in_postorder(
    up: IntArray,
    under: IntArray,
    roots: IntArray,
    head: IntArray,
    following: IntArray,
    first: IntArray,
    columns: IntArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    stand = len(up)
    place = np.empty(stand, dtype=np.int64)
    above = np.empty(stand, dtype=np.int64)
    below = np.empty(stand, dtype=np.int64)
    listed = 0
    for done, t in enumerate(postorder(up)):
        place[t] = done
        below[done] = under[t]
        k = head[roots[t]]
        while k != -1:
            columns[listed] = k
            listed += 1
            k = following[k]
        first[done + 1] = listed
    for t in range(stand):
        above[place[t]] = place[up[t]] if up[t] >= 0 else -1
    return columns, first, above, below


@compiled
def structure(
    graph_starts: IntArray,
    neighbours: IntArray,
    order: IntArray,
    place: IntArray,
    first: IntArray,
    above: IntArray,
    starts: IntArray,
) -> AnyArray:
    """The rows below each supernode, int64, in no order."""
    size = len(above)
    rows = np.empty(starts[size], dtype=np.int64)
    mark = np.full(len(order), -1, dtype=np.int64)
    child = np.full(size, -1, dtype=np.int64)
    sibling = np.full(size, -1, dtype=np.int64)
    for s in range(size):
        end = first[s + 1]
        free = starts[s]
        for k in range(first[s], end):
            vertex = order[k]
            for p in range(graph_starts[vertex], graph_starts[vertex + 1]):
                i = place[neighbours[p]]
                if i >= end and mark[i] != s:
                    mark[i] = s
                    rows[free] = i
                    free += 1
        c = child[s]
        while c != -1:
            for p in range(starts[c], starts[c + 1]):
                i = rows[p]
                if i >= end and mark[i] != s:
                    mark[i] = s
                    rows[free] = i
                    free += 1
            c = sibling[c]
        if above[s] >= 0:
            sibling[s] = child[above[s]]
            child[above[s]] = s
    return rows


@compiled
def relative_rows(first: IntArray, above: IntArray, starts: IntArray, rows: AnyArray) -> AnyArray:
    """Where each row stands in the parent's front: its columns, then its rows; int32."""
    relative = np.empty(len(rows), dtype=np.int32)
    for s in range(len(above)):
        t = above[s]
        if t < 0:
            continue
        end = first[t + 1]
        r = starts[t]
        for p in range(starts[s], starts[s + 1]):
            i = rows[p]
            if i < end:
                relative[p] = i - first[t]
            else:
                while rows[r] < i:
                    r += 1
                relative[p] = end - first[t] + r - starts[t]
    return relative


@compiled
def locate(
    rows_of: IntArray,
    columns_of: IntArray,
    place: IntArray,
    first: IntArray,
    owner: IntArray,
    starts: IntArray,
    rows: AnyArray,
) -> tuple[IntArray, IntArray]:
    """(supernode, position in its panel) of entries of A or L; position -1 outside L's pattern."""
    supernode = np.empty(len(rows_of), dtype=np.int64)
    position = np.empty(len(rows_of), dtype=np.int64)
    for e in range(len(rows_of)):
        i, j = place[rows_of[e]], place[columns_of[e]]
        high, low = max(i, j), min(i, j)
        s = owner[low]
        supernode[e] = s
        width = first[s + 1] - first[s]
        height = width + starts[s + 1] - starts[s]
        if high < first[s + 1]:
            local = high - first[s]
        else:
            left, right = starts[s], starts[s + 1]
            while left < right:
                middle = (left + right) // 2
                if rows[middle] < high:
                    left = middle + 1
                else:
                    right = middle
            local = width + left - starts[s]
            if left == starts[s + 1] or rows[left] != high:
                position[e] = -1
                continue
        position[e] = (low - first[s]) * height + local
    return supernode, position


@compiled
def group(supernode: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """A stable counting sort: (starts (size + 1,), the entries in order of their supernode)."""
    starts = np.zeros(size + 1, dtype=np.int64)
    for e in range(len(supernode)):
        starts[supernode[e] + 1] += 1
    for s in range(size):
        starts[s + 1] += starts[s]
    free = starts[:-1].copy()
    order = np.empty(len(supernode), dtype=np.int64)
    for e in range(len(supernode)):
        order[free[supernode[e]]] = e
        free[supernode[e]] += 1
    return starts, order


# ---- elimination -------------------------------------------------------------------------------
# The elimination tree of a symmetric pattern in a given order, and the column counts of L.
#
# A graph is (starts, neighbours), both triangles, without its diagonal; `order[k]` is the vertex
# eliminated at step k and `place` its inverse.


@compiled
def inverse(order: IntArray) -> IntArray:
    """The inverse permutation."""
    place = np.empty_like(order)
    for k in range(len(order)):
        place[order[k]] = k
    return place


@compiled
def tree(starts: IntArray, neighbours: IntArray, order: IntArray, place: IntArray) -> IntArray:
    """parent[k]: the first step after k whose pivot row k fills; -1 at a root (Liu 1986)."""
    n = len(order)
    parent = np.full(n, -1, dtype=np.int64)
    ancestor = np.full(n, -1, dtype=np.int64)
    for k in range(n):
        vertex = order[k]
        for p in range(starts[vertex], starts[vertex + 1]):
            i = place[neighbours[p]]
            while i != -1 and i < k:
                above = ancestor[i]
                ancestor[i] = k
                if above == -1:
                    parent[i] = k
                i = above
    return parent


@compiled
def postorder(parent: IntArray) -> IntArray:
    """Children before parents, each subtree in one run, children in ascending order."""
    n = len(parent)
    child = np.full(n, -1, dtype=np.int64)
    sibling = np.full(n, -1, dtype=np.int64)
    for k in range(n - 1, -1, -1):
        if parent[k] >= 0:
            sibling[k] = child[parent[k]]
            child[parent[k]] = k
    post = np.empty(n, dtype=np.int64)
    done = 0
    for root in range(n):
        if parent[root] >= 0:
            continue
        k = root
        while True:
            while child[k] != -1:  # down to the first leaf; a visited child is unhooked
                below = child[k]
                child[k] = sibling[below]
                k = below
            post[done] = k
            done += 1
            if k == root:
                break
            k = parent[k]
    return post


@compiled
def counts(
    starts: IntArray, neighbours: IntArray, order: IntArray, place: IntArray, parent: IntArray
) -> IntArray:
    """(n,) entries of each column of L with the diagonal, for an order that is a postorder.

    Row subtrees by their leaves and least common ancestors (Gilbert, Ng and Peyton 1994).
    """
    n = len(order)
    first = np.arange(n)  # the first descendant
    for k in range(n):
        if parent[k] >= 0:
            first[parent[k]] = min(first[parent[k]], first[k])
    total = np.zeros(n, dtype=np.int64)
    for k in range(n):
        if first[k] == k:
            total[k] = 1
    furthest = np.full(n, -1, dtype=np.int64)  # the greatest first descendant seen in each row
    leaf = np.full(n, -1, dtype=np.int64)  # the latest leaf of each row's subtree
    ancestor = np.arange(n)
    for k in range(n):
        if parent[k] >= 0:
            total[parent[k]] -= 1
        vertex = order[k]
        for p in range(starts[vertex], starts[vertex + 1]):
            i = place[neighbours[p]]
            if i <= k or first[k] <= furthest[i]:
                continue
            furthest[i] = first[k]
            before = leaf[i]
            leaf[i] = k
            total[k] += 1
            if before >= 0:
                common = before
                while common != ancestor[common]:
                    common = ancestor[common]
                while before != common:  # compress the path
                    above = ancestor[before]
                    ancestor[before] = common
                    before = above
                total[common] -= 1
        if parent[k] >= 0:
            ancestor[k] = parent[k]
    for k in range(n):
        if parent[k] >= 0:
            total[parent[k]] += total[k]
    return total
