"""The elimination tree of a symmetric pattern in a given order, and the column counts of L.

A graph is (starts, neighbours), both triangles, without its diagonal; `order[k]` is the vertex
eliminated at step k and `place` its inverse.
"""

from __future__ import annotations

import numpy as np

from lgmdsl.arrays import IntArray
from lgmdsl.numerics.compiled import compiled


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
