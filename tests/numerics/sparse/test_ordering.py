"""Orders of elimination: permutations, with the fill that theory or brute force gives."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from lgmdsl.arrays import Array, IntArray
from lgmdsl.numerics.sparse import ordering
from lgmdsl.numerics.sparse import ordering as quotient
from lgmdsl.numerics.sparse.base import Pattern
from lgmdsl.numerics.sparse.ordering import (
    Elimination,
    Graph,
    eliminate,
    minimum_degree,
    nested_dissection,
)
from tests.numerics.sparse.conftest import KINDS, adjacency, lattice


def graph(kind: str, n: int, seed: int) -> tuple[Graph, Array]:
    edges = adjacency(kind, n, np.random.default_rng(seed))
    return Graph.of(Pattern.of(sp.csr_array(edges))), edges


def grid(side: int, dimensions: int = 2) -> Graph:
    return Graph.of(Pattern.of(lattice(side, dimensions)))


def eliminated(edges: Array, order: IntArray) -> tuple[IntArray, IntArray]:
    """(parent, count) by the elimination game on a dense matrix."""
    filled = edges[np.ix_(order, order)] != 0
    n = len(filled)
    parent, count = np.full(n, -1), np.ones(n, dtype=int)
    for k in range(n):
        later = k + 1 + np.flatnonzero(filled[k + 1 :, k])
        filled[np.ix_(later, later)] = True
        count[k] += len(later)
        if len(later):
            parent[k] = later[0]
    return parent, count


@pytest.mark.parametrize("kind", KINDS)
def test_tree_and_counts_by_the_elimination_game(kind: str) -> None:
    for seed in range(10):
        g, edges = graph(kind, 3 + 5 * seed, seed)
        found = Elimination.of(g, np.random.default_rng(seed).permutation(g.size))
        assert sorted(found.order) == list(range(g.size))
        parent, count = eliminated(edges, found.order)
        np.testing.assert_array_equal(found.parent, parent)
        np.testing.assert_array_equal(found.count, count)


@pytest.mark.parametrize("kind", KINDS)
def test_minimum_degree_is_a_permutation_of_little_fill(kind: str) -> None:
    """Exact minimum degree, played by hand, has about as much fill."""
    for seed in range(12):
        g, edges = graph(kind, 2 + 6 * seed, seed)
        order = minimum_degree(g.starts, g.neighbours)
        assert sorted(order) == list(range(g.size))
        approximate = int(eliminated(edges, order)[1].sum())
        assert approximate <= 1.15 * eliminated(edges, by_least_degree(edges))[1].sum() + 3


def by_least_degree(edges: Array) -> IntArray:
    left, order = edges != 0, []
    alive = np.ones(len(edges), dtype=bool)
    for _ in range(len(edges)):
        degree = np.where(alive, left.sum(axis=0), len(edges))
        k = int(degree.argmin())
        near = np.flatnonzero(left[k])
        left[np.ix_(near, near)] = True
        left[near, near] = False
        left[k], left[:, k], alive[k] = False, False, False
        order.append(k)
    return np.array(order)


@pytest.mark.parametrize("kind", ["forest", "arrow", "diagonal", "blocks"])
def test_minimum_degree_leaves_no_fill_where_there_need_be_none(kind: str) -> None:
    g, _ = graph(kind, 200, 4)
    found = Elimination.of(g, minimum_degree(g.starts, g.neighbours))
    assert found.fill == g.size + len(g.neighbours) // 2


def test_lists_are_moved_together_where_room_runs_out() -> None:
    """Just the room of the graph itself gives the same order as plenty."""
    for side in (5, 12, 25):
        g = grid(side)
        order = minimum_degree(g.starts, g.neighbours)
        tight = minimum_degree(g.starts, g.neighbours, 1)
        np.testing.assert_array_equal(order, tight)


def test_minimum_degree_on_a_large_grid() -> None:
    """31 n log2 n / 4 entries is nested dissection's bound (George 1973); degrees do as well."""
    g = grid(60)
    found = Elimination.of(g, minimum_degree(g.starts, g.neighbours))
    assert found.fill <= 31 / 4 * g.size * np.log2(60)
    assert found.fill < 0.4 * Elimination.of(g, np.arange(g.size)).fill


def test_the_given_order_where_it_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> IntArray:
        raise AssertionError("no other order is needed")

    monkeypatch.setattr(ordering, "minimum_degree", never)
    found = eliminate(grid(50, dimensions=1))
    np.testing.assert_array_equal(found.order, np.arange(50))


def test_vertices_of_high_degree_come_last() -> None:
    n, rng = 400, np.random.default_rng(0)
    edges = adjacency("grid", n, rng)
    high = np.array([17, 230])
    edges[high], edges[:, high] = 1.0, 1.0
    np.fill_diagonal(edges, 0.0)
    found = eliminate(Graph.of(Pattern.of(sp.csr_array(edges))), nested=False)
    assert set(found.order[-2:]) == set(high)


def test_nested_dissection_where_it_is_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymetis")
    g = grid(40)
    dissected = nested_dissection(g)
    assert dissected is not None and sorted(dissected) == list(range(g.size))
    monkeypatch.setattr(ordering, "_DEAR", 0.0)
    alone, both = eliminate(g, nested=False), eliminate(g)
    assert both.flops == min(alone.flops, Elimination.of(g, dissected).flops)
    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert nested_dissection(g) is None
    np.testing.assert_array_equal(eliminate(g).order, alone.order)


def test_no_edges() -> None:
    g = Graph.of(Pattern.of(sp.csr_array((5, 5))))
    assert nested_dissection(g) is None
    assert sorted(minimum_degree(g.starts, g.neighbours)) == list(range(5))
    assert (
        quotient.minimum_degree(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)).size == 0
    )
