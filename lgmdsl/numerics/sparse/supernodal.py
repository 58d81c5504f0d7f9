"""Supernodal sparse Cholesky on compiled kernels. Importing this module imports numba."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar
from weakref import WeakKeyDictionary, finalize

import numpy as np

from lgmdsl.arrays import AnyArray, Array, IntArray
from lgmdsl.memory import budget
from lgmdsl.numerics.sparse import triangular
from lgmdsl.numerics.sparse.base import Factor, Pattern, Symbolic
from lgmdsl.numerics.sparse.blas import desk
from lgmdsl.numerics.sparse.multifrontal import Columns, depths, factorise, update_offsets
from lgmdsl.numerics.sparse.ordering import (
    BYTES_AN_ENTRY,
    Elimination,
    Graph,
    eliminate,
)
from lgmdsl.numerics.sparse.supernodes import (
    amalgamate,
    group,
    inverse,
    locate,
    relative_rows,
    structure,
)
from lgmdsl.numerics.sparse.takahashi import front_offsets, invert


@dataclass(frozen=True, eq=False)
class Tree:
    """Supernodes in postorder: columns first[s]..first[s + 1], rows below starts[s]..starts[s + 1].

    `relative` says where each row stands in the front of the parent `above[s]`; panel s of L is
    column-major from panels[s], its height the columns and rows together.
    """

    first: IntArray
    starts: IntArray
    above: IntArray
    rows: AnyArray
    relative: AnyArray
    panels: IntArray
    owner: IntArray  # (n,) the supernode of each column

    @staticmethod
    def of(graph: Graph, elimination: Elimination) -> tuple[Tree, IntArray]:
        """The supernodes, and the order of elimination as they renumber it."""
        columns, first, above, below = amalgamate(elimination.parent, elimination.count)
        order = elimination.order[columns]
        starts = _running(below)
        unsorted = structure(
            graph.starts, graph.neighbours, order, inverse(order), first, above, starts
        )
        below_of = np.repeat(np.arange(len(above)), below) * len(order)
        rows = (np.sort(unsorted + below_of) - below_of).astype(np.int32)
        relative = relative_rows(first, above, starts, rows)
        width = np.diff(first)
        panels = _running((width + below) * width)
        owner = np.repeat(np.arange(len(above)), width)
        return Tree(first, starts, above, rows, relative, panels, owner), order

    @property
    def size(self) -> int:
        return len(self.above)

    @property
    def columns(self) -> Columns:
        """What the triangular solves read."""
        return self.first, self.starts, self.rows, self.panels

    @cached_property
    def widths(self) -> IntArray:
        return np.diff(self.first)

    @cached_property
    def heights(self) -> IntArray:
        return np.asarray(self.widths + np.diff(self.starts))

    @cached_property
    def diagonal(self) -> IntArray:
        """(n,) where L's diagonal lies among the panels."""
        within = np.arange(len(self.owner)) - self.first[self.owner]
        return np.asarray(self.panels[self.owner] + within * (self.heights[self.owner] + 1))


class SupernodalSymbolic(Symbolic):
    """Ordering, supernodes and the place of every entry; made once for a pattern."""

    kernel: ClassVar[str] = "supernodal"

    def __init__(self, pattern: Pattern, nested: bool = True) -> None:
        self.pattern = pattern
        graph = Graph.of(pattern)
        self.tree, self.order = Tree.of(graph, eliminate(graph, nested, budget() / BYTES_AN_ENTRY))
        self.place = inverse(self.order)
        tree = self.tree
        width, height = tree.widths.astype(np.float64), tree.heights.astype(np.float64)
        self.fill = int(tree.panels[-1] - (tree.widths * (tree.widths - 1) // 2).sum())
        below = height - width
        self.flops = float((width**3 / 3 + width**2 * below + width * below**2).sum())
        supernode, position = self.locate(pattern.indices, pattern.columns)
        self.entries, self.source = group(supernode, tree.size)
        self.position = position[self.source]
        depth, parents = np.zeros(tree.size, dtype=np.int64), np.zeros(tree.size, dtype=np.bool_)
        depths(tree.above, depth, parents)
        self.child, self.sibling = _children(tree.above)
        self.updates, self.fronts = np.zeros_like(depth), np.zeros_like(depth)
        even, odd = update_offsets(tree.above, tree.starts, depth, self.updates)
        self.updates[depth % 2 == 1] += even
        self.update_stack = even + odd
        even, odd = front_offsets(tree.first, tree.above, tree.starts, depth, parents, self.fronts)
        self.fronts[depth % 2 == 1] += even
        self.front_stack = even + odd
        self.largest = int(((tree.heights + tree.widths) * tree.widths).max(initial=0))
        work = max(self.update_stack, self.front_stack + self.largest)
        self.held = 2.0 * float(tree.panels[-1]) + float(work)

    def locate(self, rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray]:
        """Supernode and position in its panel of each entry; -1 outside L's pattern."""
        tree = self.tree
        return locate(rows, columns, self.place, tree.first, tree.owner, tree.starts, tree.rows)

    def factor(self, values: Array) -> Factor | None:
        kept = np.array(values, dtype=np.float64)
        panel = self.panel(kept)
        return None if panel is None else SupernodalFactor(self, kept, panel)

    def panel(self, values: Array) -> Array | None:
        """L by panels; None unless A is finite and positive definite."""
        tree = self.tree
        panel = blank(self, int(tree.panels[-1]))
        columns = (tree.first, tree.starts, tree.relative, tree.panels)
        children = (self.updates, self.child, self.sibling)
        matrix = (self.entries, self.source, self.position, values)
        if factorise(columns, children, matrix, panel, np.empty(self.update_stack), desk()):
            return panel
        give_back(self, Numbers(panel))
        return None


class SupernodalFactor(Factor):
    """L by panels, made again of A's `values` where memory was short."""

    def __init__(self, symbolic: SupernodalSymbolic, values: Array, panel: Array) -> None:
        self._symbolic, self._values = symbolic, values
        self._numbers = Numbers(panel)
        use(self._numbers)
        finalize(self, give_back, symbolic, self._numbers).atexit = False
        self._diagonal = panel[symbolic.tree.diagonal]
        self.half_log_det = float(np.log(self._diagonal).sum())

    @property
    def _panel(self) -> Array:
        panel = self._numbers.panel
        if panel is None:
            panel = self._symbolic.panel(self._values)
            assert panel is not None, "the same numbers were positive definite before"
            self._numbers.panel = panel
        use(self._numbers)
        return panel

    @property
    def pivots(self) -> Array:
        return np.asarray(self._diagonal[self._symbolic.place] ** 2)

    def solve(self, rhs: Array) -> Array:
        x = self._ordered(rhs)
        self._forward(x)
        self._backward(x)
        return np.asarray(x[self._symbolic.place])

    def forward(self, rhs: Array) -> Array:
        x = self._ordered(rhs)
        self._forward(x)
        return x

    def backward(self, rhs: Array) -> Array:
        x = np.array(rhs, dtype=np.float64, order="C")
        self._backward(x)
        return np.asarray(x[self._symbolic.place])

    def _ordered(self, rhs: Array) -> Array:
        return np.ascontiguousarray(rhs[self._symbolic.order], dtype=np.float64)

    def _work(self, x: Array) -> Array:
        longest = int(np.diff(self._symbolic.tree.starts).max(initial=0))
        return np.empty(longest * (x.shape[1] if x.ndim == 2 else 1))

    def _forward(self, x: Array) -> None:
        if x.ndim == 1:
            triangular.forward(self._symbolic.tree.columns, self._panel, x, self._work(x))
        elif x.shape[1]:
            tree, work = self._symbolic.tree, self._work(x)
            triangular.forward_many(tree.columns, self._panel, x, work, desk())

    def _backward(self, x: Array) -> None:
        if x.ndim == 1:
            triangular.backward(self._symbolic.tree.columns, self._panel, x, self._work(x))
        elif x.shape[1]:
            tree, work = self._symbolic.tree, self._work(x)
            triangular.backward_many(tree.columns, self._panel, x, work, desk())

    def selected(self) -> Array:
        s = self._symbolic
        values = np.empty(s.pattern.nnz)
        self._invert(s.entries, s.position, s.source, values)
        return values

    def entries(self, rows: IntArray, columns: IntArray) -> Array:
        s = self._symbolic
        supernode, position = s.locate(
            np.asarray(rows, dtype=np.int64), np.asarray(columns, dtype=np.int64)
        )
        inside = np.flatnonzero(position >= 0)
        values = np.full(len(position), np.nan)
        wanted, order = group(supernode[inside], s.tree.size)
        target = inside[order]
        self._invert(wanted, position[target], target, values)
        return values

    def _invert(self, wanted: IntArray, position: IntArray, target: IntArray, out: Array) -> None:
        s, tree = self._symbolic, self._symbolic.tree
        columns = (tree.first, tree.starts, tree.relative, tree.panels)
        scratch = (np.empty(s.front_stack), np.empty(s.largest))
        entries = (wanted, position, target)
        invert(columns, tree.above, s.fronts, self._panel, entries, scratch, desk(), out)


def _running(sizes: IntArray) -> IntArray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _children(above: IntArray) -> tuple[IntArray, IntArray]:
    """Linked lists: the last child of each supernode, and each child's sibling before it."""
    child = np.full(len(above), -1, dtype=np.int64)
    sibling = np.full(len(above), -1, dtype=np.int64)
    within = np.flatnonzero(above >= 0)
    by_parent = within[np.argsort(above[within], kind="stable")]
    parents = above[by_parent]
    child[parents] = by_parent  # the last assignment stands
    again = np.flatnonzero(parents[1:] == parents[:-1])
    sibling[by_parent[again + 1]] = by_parent[again]
    return child, sibling


# ---- panels ------------------------------------------------------------------------------------
# The numbers of the factors that are alive, within a share of the memory budget.
#
# A search keeps posteriors where it began and where it stands, each with a factor. Beyond the share
# the least recently used give up their numbers, and make them again, to the same digits, when they
# are asked for something.


SHARE = 0.25  # of the budget, for the panels of all factors and those ready to be used again


class Numbers:
    """The panel of one factor, None once it was given up."""

    __slots__ = ("panel",)

    def __init__(self, panel: Array) -> None:
        self.panel: Array | None = panel


_alive: OrderedDict[int, Numbers] = OrderedDict()  # the least recently used first
# A panel of a factor that is gone: fresh memory costs as much time as the arithmetic.
_spare: WeakKeyDictionary[Symbolic, Array] = WeakKeyDictionary()
_lock = threading.RLock()  # of which a collection of garbage may come upon itself


def blank(symbolic: Symbolic, size: int) -> Array:
    """A panel to be written to."""
    with _lock:
        panel = _spare.pop(symbolic, None)
        if panel is None:
            _make_room(8.0 * size)
    return np.empty(size) if panel is None else panel


def use(numbers: Numbers) -> None:
    """Note that a factor is in use."""
    with _lock:
        _alive[id(numbers)] = numbers
        _alive.move_to_end(id(numbers))


def give_back(symbolic: Symbolic, numbers: Numbers) -> None:
    """Take back the panel of a factor that is gone."""
    with _lock:
        _alive.pop(id(numbers), None)
        panel, numbers.panel = numbers.panel, None
        if panel is not None:
            _spare[symbolic] = panel


def held() -> int:
    """Bytes of all panels."""
    with _lock:
        alive = (n.panel for n in list(_alive.values()))
        return sum(p.nbytes for p in (*alive, *list(_spare.values())) if p is not None)


def _make_room(wanted: float) -> None:
    """The latest factor in use keeps its panel in any case: where two take turns, neither would be
    there when it is asked."""
    most = SHARE * budget()
    while _spare and held() + wanted > most:
        _spare.popitem()
    while len(_alive) > 1 and held() + wanted > most:
        _, oldest = _alive.popitem(last=False)
        oldest.panel = None
