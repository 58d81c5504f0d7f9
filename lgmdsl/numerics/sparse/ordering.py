"""The order of elimination, and what each candidate would cost.

The given order where L gains no entry in it; else minimum degree; else, where elimination is
expensive enough to repay it and pymetis is installed, nested dissection (Karypis and Kumar 1998),
if cheaper. Vertices of very high degree are set aside and come last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lgmdsl.arrays import IntArray
from lgmdsl.numerics.sparse.base import Pattern, too_large
from lgmdsl.numerics.sparse.elimination import counts, inverse, postorder, tree
from lgmdsl.numerics.sparse.minimum_degree import minimum_degree

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
