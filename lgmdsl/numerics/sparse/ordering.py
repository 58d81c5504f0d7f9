"""The order of elimination, and what each candidate would cost.

The given order where L gains no entry in it; else minimum degree; else, where elimination is
expensive enough to repay it and pymetis is installed, nested dissection (Karypis and Kumar 1998),
if cheaper. Vertices of very high degree are set aside and come last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import BoolArray, IntArray
from lgmdsl.numerics.compiled import compiled
from lgmdsl.numerics.sparse.base import Pattern, too_large
from lgmdsl.numerics.sparse.supernodes import counts, inverse, postorder, tree

BYTES_AN_ENTRY = 24  # of L, at the least: two factors, and work for one or for its inverse
# Of the entries that may be: nested dissection saves less than this over minimum degree.
SLACK = 4.0
GIVEN_UP = " in the order given, and a better order was given up"
_DEAR = 100.0  # multiplications an entry of L from which nested dissection is tried


@dataclass(frozen=True, eq=False)
class Graph:
    """A symmetric pattern without its diagonal, both triangles, by vertices."""

    starts: IntArray
    neighbours: IntArray

    @property
    def size(self) -> int:
        return len(self.starts) - 1

    @property
    def degrees(self) -> IntArray:
        return np.diff(self.starts)

    @staticmethod
    def of(pattern: Pattern) -> Graph:
        strict = pattern.indices != pattern.columns
        rows, columns = pattern.indices[strict], pattern.columns[strict]
        both = (np.concatenate([rows, columns]), np.concatenate([columns, rows]))
        ones = np.ones(len(both[0]), dtype=np.int8)
        return _graph(sp.csr_array((ones, both), shape=(pattern.size, pattern.size)))

    def without(self, vertices: IntArray) -> tuple[Graph, IntArray]:
        """The graph of the other vertices, and their names here."""
        others = np.setdiff1d(np.arange(self.size), vertices)
        ones = np.ones(len(self.neighbours), dtype=np.int8)
        whole = sp.csr_array((ones, self.neighbours, self.starts), shape=(self.size, self.size))
        return _graph(sp.csr_array(whole[others][:, others])), others


def _graph(matrix: sp.csr_array[np.int8]) -> Graph:
    return Graph(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Elimination:
    """A postordered order of elimination with its tree and column counts."""

    order: IntArray
    parent: IntArray
    count: IntArray

    @staticmethod
    def of(graph: Graph, order: IntArray) -> Elimination:
        place = inverse(order)
        parent = tree(graph.starts, graph.neighbours, order, place)
        post = postorder(parent)
        rank = inverse(post)
        ranked = np.where(parent >= 0, rank[parent], -1)[post]
        order = order[post]
        count = counts(graph.starts, graph.neighbours, order, inverse(order), ranked)
        return Elimination(order, ranked, count)

    @property
    def fill(self) -> int:
        return int(self.count.sum())

    @property
    def flops(self) -> float:
        return float((self.count.astype(np.float64) ** 2).sum())


def eliminate(graph: Graph, nested: bool = True, most: float = np.inf) -> Elimination:
    """The cheapest of the candidates; without nested dissection where `nested` is False.

    Raises TooLarge where L would have more than `most` entries in each of those tried; where
    minimum degree is given up at SLACK times as many, nested dissection is not.
    """
    best = _cheapest(graph, nested, most)
    if best.fill > most:
        raise too_large(graph.size, best.fill, BYTES_AN_ENTRY * best.fill)
    return best


def _cheapest(graph: Graph, nested: bool, most: float) -> Elimination:
    natural = Elimination.of(graph, np.arange(graph.size))
    if natural.fill == graph.size + len(graph.neighbours) // 2:
        return natural
    aside = np.flatnonzero(graph.degrees > max(16.0, 10.0 * np.sqrt(graph.size)))
    aside = aside[np.argsort(graph.degrees[aside], kind="stable")]
    inner, names = graph.without(aside) if len(aside) else (graph, np.arange(graph.size))
    inside = minimum_degree(inner.starts, inner.neighbours, -1, SLACK * most)
    if len(inside) < inner.size:
        if natural.fill > most:
            taken = BYTES_AN_ENTRY * natural.fill
            raise too_large(graph.size, natural.fill, taken, GIVEN_UP)
        return natural
    order = np.concatenate([names[inside], aside])
    best = min(Elimination.of(graph, order), natural, key=_cost)
    if nested and inner.size and best.flops > _DEAR * best.fill:
        dissected = nested_dissection(inner)
        if dissected is not None:
            order = np.concatenate([names[dissected], aside])
            best = min(best, Elimination.of(graph, order), key=_cost)
    return best


def _cost(elimination: Elimination) -> float:
    return elimination.flops


def nested_dissection(graph: Graph) -> IntArray | None:
    """METIS's order; None where pymetis is not installed or the graph has no edge."""
    try:
        import pymetis
    except ImportError:
        return None
    if not len(graph.neighbours):
        return None
    starts, neighbours = graph.starts.astype(np.int32), graph.neighbours.astype(np.int32)
    if hasattr(pymetis, "CSRAdjacency"):
        order, _ = pymetis.nested_dissection(pymetis.CSRAdjacency(starts, neighbours))
    else:  # pymetis before 2025
        order, _ = pymetis.nested_dissection(xadj=starts, adjncy=neighbours)
    return np.asarray(order, dtype=np.int64)


# ---- minimum degree ----------------------------------------------------------------------------
# Approximate minimum degree ordering on a quotient graph (Amestoy, Davis and Duff 1996).
#
# An eliminated pivot becomes an element, whose variables are pairwise adjacent. Elements inside a
# new one are absorbed, variables with equal neighbourhoods are merged, and those adjacent to
# nothing but the new element are eliminated with it.


# Entries of lists read for each edge of the graph: lattices of two to four dimensions take 4 to 10,
# random graphs of up to 50,000 vertices 30, beyond that the longer the more hopeless the factor.
EFFORT, FREE_EFFORT = 20, 20_000_000
# Rise of the graph's edges for each vertex that it loses, on log scales, from which on the graph is
# closing into a clique: random graphs end at 10 to 50; lattices of two dimensions stay below 1, of
# three below 4.
CLOSING = 8.0


@compiled
def minimum_degree(
    starts: IntArray, neighbours: IntArray, spare: int = -1, most: float = np.inf
) -> IntArray:
    """The order (n,) of elimination of a graph without loops, both triangles given.

    The list of vertex i lies at pool[start[i]]: `elements[i]` elements, then variables, `length[i]`
    in all; of an element, its variables. weight[i] is the number of vertices merged into i, 0 once
    i is eliminated or merged, negative while i lies in the new element. The pool has room for
    `spare` entries beyond the graph (default: a fifth and n) before lists are moved together.
    Where L gains more than `most` entries, or the quotient graph itself more than EFFORT, the order
    is given up, and none (0,) is returned. What is left of the graph counts by its edges, all of
    which are L's, and where they rise steeply by the clique that they are about to be (`_to_come`).
    """
    n = len(starts) - 1
    edges = len(neighbours)
    if spare < 0:
        spare = edges // 5 + n
    pool = np.empty(edges + spare, dtype=np.int64)
    for q in range(edges):
        pool[q] = neighbours[q]
    start, length = starts[:-1].copy(), starts[1:] - starts[:-1]
    degree = length.copy()
    elements = np.zeros(n, dtype=np.int64)
    weight = np.ones(n, dtype=np.int64)
    alive = np.zeros(n, dtype=np.bool_)  # of elements
    outside = np.zeros(n, dtype=np.int64)  # stamp + variables of an element not in the new one
    head = np.full(n + 1, -1, dtype=np.int64)  # vertices of each degree, doubly linked
    after = np.full(n, -1, dtype=np.int64)
    before = np.full(n, -1, dtype=np.int64)
    bucket = np.full(n + 1, -1, dtype=np.int64)  # candidates for merging, by hash
    hashes = np.zeros(n, dtype=np.int64)
    mark = np.full(n, -1, dtype=np.int64)
    follower, tail = np.full(n, -1, dtype=np.int64), np.arange(n)
    for i in range(n - 1, -1, -1):
        _insert(i, degree[i], head, after, before)
    order = np.empty(n, dtype=np.int64)
    done, free, least, stamp, tag = 0, edges, 0, 1, 0
    filled, work, effort = 0.0, 0, FREE_EFFORT + EFFORT * edges
    check, remaining, joined = (
        2 * edges,
        float(n),
        0.5 * edges,
    )  # where the graph was last looked at
    while done < n:
        while head[least] == -1:
            least += 1
        pivot = head[least]
        _remove(pivot, least, head, after, before)
        # The new element: the variables of the pivot and of its elements.
        room = _bound(pivot, pool, start, length, elements, alive)
        if free + room > len(pool):
            free = _compact(pool, free, start, length, weight, alive)
            if free + room > len(pool):
                larger = np.empty(2 * len(pool) + room, dtype=np.int64)
                for q in range(free):
                    larger[q] = pool[q]
                pool = larger
        heavy = weight[pivot]
        weight[pivot] = 0
        begin, size = free, 0
        for q in range(start[pivot], start[pivot] + length[pivot]):
            e = pool[q]
            lists_element = q < start[pivot] + elements[pivot]
            low = start[e] if lists_element else q
            high = low + (length[e] if lists_element else 1)
            if lists_element and not alive[e]:
                continue
            for p in range(low, high):
                i = pool[p]
                if weight[i] > 0:
                    size += weight[i]
                    weight[i] = -weight[i]
                    pool[free] = i
                    free += 1
                    _remove(i, degree[i], head, after, before)
            if lists_element:
                alive[e] = False
        alive[pivot] = True
        start[pivot], length[pivot], elements[pivot] = begin, free - begin, 0
        # How much of each touched element lies outside the new one.
        for p in range(begin, free):
            i = pool[p]
            for q in range(start[i], start[i] + elements[i]):
                e = pool[q]
                if alive[e]:
                    if outside[e] < stamp:
                        outside[e] = stamp + degree[e]
                    outside[e] += weight[i]
        # Shorten the lists of the element's variables and bound their degrees.
        for p in range(begin, free):
            i = pool[p]
            keep, bound, hashed = start[i], 0, pivot
            work += length[i]
            kept_elements = 1
            end = start[i] + length[i]
            # One slot is needed for the new element; one entry at least (the pivot itself, or an
            # element now absorbed) leaves the list, so writing may lag behind reading by one.
            write = keep
            for q in range(start[i], start[i] + elements[i]):
                e = pool[q]
                if alive[e]:
                    beyond = outside[e] - stamp
                    if beyond > 0:
                        bound += beyond
                        pool[write] = e
                        write += 1
                        kept_elements += 1
                        hashed += e
                    else:
                        alive[e] = False  # aggressive absorption: it lies inside the new one
            first_variable = write
            for q in range(start[i] + elements[i], end):
                j = pool[q]
                if weight[j] > 0:
                    bound += weight[j]
                    pool[write] = j
                    write += 1
                    hashed += j
            if bound == 0:  # mass elimination
                size += weight[i]
                heavy -= weight[i]
                weight[i] = 0
                follower[tail[pivot]] = i
                tail[pivot] = tail[i]
                continue
            # Put the new element first: the entries it displaces move to the ends of their runs.
            if first_variable < write:
                pool[write] = pool[first_variable]
            if keep < first_variable:
                pool[first_variable] = pool[keep]
            pool[keep] = pivot
            elements[i], length[i] = kept_elements, write - keep + 1
            degree[i] = min(degree[i], bound)
            hashes[i] = hashed % n
            after[i] = bucket[hashes[i]]
            bucket[hashes[i]] = i
        stamp += n + 1
        # Merge variables with equal lists.
        for p in range(begin, free):
            if weight[pool[p]] == 0:
                continue
            key = hashes[pool[p]]
            i = bucket[key]
            bucket[key] = -1
            while i != -1:
                tag += 1
                for q in range(start[i], start[i] + length[i]):
                    mark[pool[q]] = tag
                previous, j = i, after[i]
                while j != -1:
                    same = length[j] == length[i] and elements[j] == elements[i]
                    if same:
                        for q in range(start[j], start[j] + length[j]):
                            if mark[pool[q]] != tag:
                                same = False
                                break
                    if same:
                        weight[i] += weight[j]
                        weight[j] = 0
                        follower[tail[i]] = j
                        tail[i] = tail[j]
                        after[previous] = after[j]
                    else:
                        previous = j
                    j = after[j]
                i = after[i]
        # Back to the lists of degrees; the element keeps its living variables alone.
        order_at = done
        done += heavy
        filled += heavy * (size + 0.5 * (heavy + 1))
        if filled > most or work > effort:
            return order[:0]
        live = begin
        for p in range(begin, free):
            i = pool[p]
            if weight[i] == 0:
                continue
            weight[i] = -weight[i]
            degree[i] = max(min(degree[i] + size - weight[i], n - done - weight[i]), 0)
            _insert(i, degree[i], head, after, before)
            least = min(least, degree[i])
            pool[live] = i
            live += 1
        free = live
        if work > check and done < n:
            check = work + edges
            before_remaining, before_joined = remaining, joined
            remaining, joined = float(n - done), _edges(weight, degree)
            if filled + _to_come(remaining, joined, before_remaining, before_joined) > most:
                return order[:0]
        length[pivot] = live - begin
        degree[pivot] = size
        alive[pivot] = length[pivot] > 0
        k = pivot
        while k != -1:
            order[order_at] = k
            order_at += 1
            k = follower[k]
    return order


@compiled
def _edges(weight: IntArray, degree: IntArray) -> float:
    """Edges between the vertices that are left, by the bounds on their degrees."""
    total = 0.0
    for i in range(len(weight)):
        if weight[i] > 0:
            total += 0.5 * weight[i] * degree[i]
    return total


@compiled
def _to_come(remaining: float, edges: float, before_remaining: float, before_edges: float) -> float:
    """Entries of L that are still to come, at the least: the edges between the `remaining` vertices
    (r of them); or where those rose as r^-e, e being steep and rising still, the entries of the
    clique in which that ends: r (2 edges / r^2)^(1/(e + 2)) vertices."""
    lost = np.log(before_remaining / remaining)
    density = 2.0 * edges / (remaining * remaining)
    if lost <= 0.0 or density >= 1.0:
        return edges
    steep = np.log(edges / before_edges) / lost
    if steep < CLOSING:
        return edges
    clique = remaining * density ** (1.0 / (steep + 2.0))
    return float(max(edges, 0.5 * clique * clique))


@compiled
def _insert(i: int, d: int, head: IntArray, after: IntArray, before: IntArray) -> None:
    after[i], before[i] = head[d], -1
    if head[d] != -1:
        before[head[d]] = i
    head[d] = i


@compiled
def _remove(i: int, d: int, head: IntArray, after: IntArray, before: IntArray) -> None:
    if before[i] == -1:
        head[d] = after[i]
    else:
        after[before[i]] = after[i]
    if after[i] != -1:
        before[after[i]] = before[i]


@compiled
def _bound(
    pivot: int,
    pool: IntArray,
    start: IntArray,
    length: IntArray,
    elements: IntArray,
    alive: BoolArray,
) -> int:
    """At most this many entries the new element takes."""
    room = int(length[pivot] - elements[pivot])
    for q in range(start[pivot], start[pivot] + elements[pivot]):
        if alive[pool[q]]:
            room += length[pool[q]]
    return room


@compiled
def _compact(
    pool: IntArray, end: int, start: IntArray, length: IntArray, weight: IntArray, alive: BoolArray
) -> int:
    """Move the lists of living vertices and elements together; the first free place."""
    for i in range(len(start)):
        if (weight[i] != 0 or alive[i]) and length[i] > 0:
            first = pool[start[i]]  # the list's first place names its owner instead
            pool[start[i]] = -1 - i
            start[i] = first
    free, q = 0, 0
    while q < end:
        if pool[q] >= 0:
            q += 1  # between lists
            continue
        i = -1 - pool[q]
        pool[free] = start[i]
        start[i] = free
        for k in range(1, length[i]):
            pool[free + k] = pool[q + k]
        free += length[i]
        q += length[i]
    return free
