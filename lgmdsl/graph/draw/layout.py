"""Layered drawings: rows, the order within each, and coordinates.

Sugiyama, Tagawa and Toda (1981): rows by the shortest total length of arrows, long arrows cut by
invisible stops, order within rows by barycentres. Boxes stay whole: in each row that a box spans,
its members are adjacent, and the order of two boxes is the same in all rows.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from typing import TypeAlias

import networkx as nx
import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from lgmdsl.graph.draw.arrows import Arrow, Box, innermost
from lgmdsl.graph.draw.styles import Shape, port_room

SWEEPS, STARTS, LARGE = 12, 12, 1500
GAP, STOP_WIDTH = 24.0, 10.0
# Wider rows than this move their sources to a separate row above the boxes.
WIDEST = 1200.0


@dataclass(frozen=True)
class BoxItem:
    """A box as an item of a row."""

    box: int


Item = str | BoxItem


@dataclass
class Layers:
    """Nodes and stops with their row, width and innermost box; `paths` of the arrows over stops."""

    row: dict[str, int]
    width: dict[str, float]
    home: dict[str, int]
    boxes: tuple[Box, ...]
    paths: list[list[str]]
    spans: list[tuple[int, int]] = field(default_factory=list)
    items: dict[tuple[int, int | None], list[Item]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return 1 + max(self.row.values(), default=-1)

    def links(self) -> list[tuple[str, str]]:
        """All pairs of neighbours in adjacent rows."""
        return [pair for path in self.paths for pair in pairwise(path)]

    def flat(self, row: int, container: int | None = None) -> Iterable[str]:
        """Nodes and stops of a row from left to right."""
        for item in self.items[row, container]:
            if isinstance(item, BoxItem):
                yield from self.flat(row, item.box)
            else:
                yield item


def layer(widths: Mapping[str, float], arrows: Sequence[Arrow], boxes: tuple[Box, ...]) -> Layers:
    """Rows and the order within them, for acyclic arrows. The same input gives the same drawing."""
    row = _narrowed(_rows(widths, arrows), widths, arrows, boxes)
    layers = Layers(row, dict(widths), innermost(boxes), boxes, [], _spans(row, boxes))
    for arrow in arrows:
        layers.paths.append(_cut(layers, arrow))
    _order(layers)
    return layers


def _rows(nodes: Iterable[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """Longest path from the top; then nodes with neighbours on one side are moved towards them."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from((a.source, a.target) for a in arrows)
    row: dict[str, int] = {}
    order = list(nx.topological_sort(graph))
    for node in order:
        row[node] = max((row[p] + 1 for p in graph.predecessors(node)), default=0)
    for node in reversed(order):
        below = [row[s] for s in graph.successors(node)]
        if below and graph.in_degree(node) < len(below) + (graph.in_degree(node) == 0):
            row[node] = min(below) - 1
    return row


def _spans(row: Mapping[str, int], boxes: tuple[Box, ...]) -> list[tuple[int, int]]:
    """First and last row of each box."""
    inside = [[row[m] for m in box.members] for box in boxes]
    return [(min(rows), max(rows)) for rows in inside]


def _narrowed(
    row: dict[str, int],
    widths: Mapping[str, float],
    arrows: Sequence[Arrow],
    boxes: tuple[Box, ...],
) -> dict[str, int]:
    """Lift the sources of rows that are too wide above the boxes that they point into."""
    home, spans = innermost(boxes), _spans(row, boxes)
    wide = {
        r
        for r in set(row.values())
        if sum(widths[n] + GAP for n, level in row.items() if level == r) > WIDEST
    }
    if not wide:
        return row
    targets = {a.target for a in arrows}
    lifted = dict(row)
    for arrow in arrows:
        source, box = arrow.source, home.get(arrow.target)
        if box is None or source in home or source in targets or row[source] not in wide:
            continue
        while (parent := boxes[box].parent) is not None:
            box = parent
        lifted[source] = min(lifted[source], spans[box][0] - 1)
    first = min(lifted.values())
    return {n: r - first for n, r in lifted.items()}


def _cut(layers: Layers, arrow: Arrow) -> list[str]:
    """The arrow's path, with a stop in every row between its ends."""
    first, last = layers.row[arrow.source], layers.row[arrow.target]
    path = [arrow.source]
    around = _common(layers, arrow.source, arrow.target)
    for row in range(first + 1, last):
        # No name has a space in front, so a stop is never taken for a node.
        stop = f" {arrow.source} > {arrow.target} {row}"
        layers.row[stop], layers.width[stop] = row, STOP_WIDTH
        inside = _entered(layers, arrow, row, around)
        if inside is not None:
            layers.home[stop] = inside
        path.append(stop)
    return [*path, arrow.target]


def _entered(layers: Layers, arrow: Arrow, row: int, around: int | None) -> int | None:
    """The box that an arrow from above runs in at a row: in through the top, not the side."""
    box = layers.home.get(arrow.target)
    while box != around and box is not None:
        first, _ = layers.spans[box]
        if layers.row[arrow.source] < first <= row:
            return box
        box = layers.boxes[box].parent
    return around


def _common(layers: Layers, a: str, b: str) -> int | None:
    """The innermost box around both."""
    chain = []
    box = layers.home.get(a)
    while box is not None:
        chain.append(box)
        box = layers.boxes[box].parent
    box = layers.home.get(b)
    while box is not None and box not in chain:
        box = layers.boxes[box].parent
    return box


def _order(layers: Layers) -> None:
    """Sweep down and up from several starts, and keep the order with the fewest crossings."""
    links = layers.links()
    above: dict[str, list[str]] = {n: [] for n in layers.row}
    below: dict[str, list[str]] = {n: [] for n in layers.row}
    for a, b in links:
        below[a].append(b)
        above[b].append(a)
    members: dict[tuple[int, int | None], list[str]] = {}
    in_row: list[list[str]] = [[] for _ in range(layers.rows)]
    for n, r in layers.row.items():
        members.setdefault((r, layers.home.get(n)), []).append(n)
        in_row[r].append(n)
    best: tuple[float, dict[tuple[int, int | None], list[Item]]] | None = None
    # Large drawings get fewer starts: the time stays about the same.
    for start in range(max(1, min(STARTS, LARGE // max(1, len(layers.row))))):
        rng = random.Random(start)
        place = {n: float(i) for i, n in enumerate(layers.row)}
        if start:
            place = {n: rng.random() * len(place) for n in place}
        keys = dict(place)
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            rows = range(layers.rows) if down else reversed(range(layers.rows))
            for r in rows:
                for n in in_row[r]:
                    near = above[n] if down else below[n]
                    # Without neighbours on this side the node keeps its place.
                    keys[n] = fmean(place[m] for m in near) if near else place[n]
                _arrange(layers, members, r, keys, place)
            for r in range(layers.rows):
                _arrange(layers, members, r, keys, place)
            cost = _cost(layers, links, place)
            if best is None or cost < best[0]:
                best = cost, {k: list(v) for k, v in layers.items.items()}
    if best is not None:
        layers.items = best[1]


def _arrange(
    layers: Layers,
    members: Mapping[tuple[int, int | None], list[str]],
    r: int,
    keys: Mapping[str, float],
    place: dict[str, float],
) -> None:
    """Sort one row, container by container, and give each node a rough x."""
    weight = [fmean(keys[m] for m in box.members) for box in layers.boxes]
    containers: list[int | None] = [None, *range(len(layers.boxes))]
    for container in containers:
        keyed: list[tuple[float, Item]] = [(keys[n], n) for n in members.get((r, container), ())]
        keyed += [
            (weight[i], BoxItem(i))
            for i, box in enumerate(layers.boxes)
            if box.parent == container and layers.spans[i][0] <= r <= layers.spans[i][1]
        ]
        keyed.sort(key=lambda pair: pair[0])
        layers.items[r, container] = [item for _, item in keyed]
    row = list(layers.flat(r))
    x = -sum(layers.width[n] + GAP for n in row) / 2
    for n in row:
        place[n] = x + layers.width[n] / 2
        x += layers.width[n] + GAP


def _cost(layers: Layers, links: Sequence[tuple[str, str]], place: Mapping[str, float]) -> float:
    """Crossings, and a little for length."""
    by_row: dict[int, list[tuple[float, float]]] = {}
    for a, b in links:
        by_row.setdefault(layers.row[a], []).append((place[a], place[b]))
    crossings = sum(
        (a - c) * (b - d) < 0
        for pairs in by_row.values()
        for i, (a, b) in enumerate(pairs)
        for c, d in pairs[i + 1 :]
    )
    return crossings + 1e-4 * sum(abs(place[a] - place[b]) for a, b in links)


# ---- place -------------------------------------------------------------------------------------
# Coordinates for an ordered layered drawing.
#
# Horizontally a linear programme: the shortest total horizontal distance of all arrows, subject to
# the order in each row, room between neighbours, and boxes that hold their members only. Gansner,
# Koutsofios, North and Vo (1993) solve the same programme by network simplex.


BOX_SIDE, BOX_TOP, BOX_BOTTOM = 14.0, 12.0, 24.0
ROW_GAP = 46.0
STOP_GAP = 12.0
# A bend between two stops is uglier than one at a node: Gansner et al., section 4.
NODE_NODE, NODE_STOP, STOP_STOP = 1.0, 2.0, 8.0
# What belongs together is aligned, wherever the arrows from outside come from.
SAME_BOX = 3.0
TIGHT_BOX, TIGHT_ALL = 0.2, 0.02


@dataclass(frozen=True)
class Rectangle:
    """Left, top, right and bottom in pixels."""

    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class PlacedDrawing:
    """Centres of nodes and stops, the rows' top and bottom, and the boxes' rectangles."""

    x: Mapping[str, float]
    y: Mapping[str, float]
    rows: tuple[tuple[float, float], ...]
    boxes: tuple[Rectangle, ...]


class _LinearProgramme:
    """Variables and `a - b >= d` rows of the linear programme."""

    def __init__(self) -> None:
        self.names: dict[object, int] = {}
        self.rows: list[tuple[dict[int, float], float]] = []
        self.cost: dict[int, float] = {}

    def variable(self, name: object) -> int:
        return self.names.setdefault(name, len(self.names))

    def apart(self, left: object, right: object, distance: float) -> None:
        """right - left >= distance."""
        self.rows.append(({self.variable(left): 1.0, self.variable(right): -1.0}, -distance))

    def pull(self, a: object, b: object, weight: float, offset: float) -> None:
        """Pay weight * |a - b - offset|."""
        t = self.variable(("way", a, b))
        self.cost[t] = self.cost.get(t, 0.0) + weight
        ia, ib = self.variable(a), self.variable(b)
        self.rows.append(({ia: 1.0, ib: -1.0, t: -1.0}, offset))
        self.rows.append(({ia: -1.0, ib: 1.0, t: -1.0}, -offset))

    def pay(self, name: object, weight: float) -> None:
        i = self.variable(name)
        self.cost[i] = self.cost.get(i, 0.0) + weight

    def solve(self) -> dict[object, float]:
        n = len(self.names)
        if not self.rows:
            return dict.fromkeys(self.names, 0.0)
        cost = np.zeros(n)
        for i, c in self.cost.items():
            cost[i] = c
        entries = [(r, i, v) for r, (row, _) in enumerate(self.rows) for i, v in row.items()]
        rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
        matrix = csr_array((values.astype(float), (rows, columns)), shape=(len(self.rows), n))
        limits = np.array([b for _, b in self.rows])
        # The stubs know no sparse matrix here; HiGHS takes one.
        result = linprog(cost, A_ub=matrix, b_ub=limits, bounds=(0, None))  # type: ignore[call-overload]
        return {name: float(result.x[i]) for name, i in self.names.items()}


def place(
    layers: Layers, heights: Mapping[str, float], ports: Ports, captions: tuple[float, ...]
) -> PlacedDrawing:
    """Coordinates of everything; `captions` are the least widths of the boxes."""
    x = _horizontal(layers, ports, captions)
    rows, rectangles = _vertical(layers, heights, x)
    y = {n: sum(rows[r]) / 2 for n, r in layers.row.items()}
    return PlacedDrawing({n: x[n] for n in layers.row}, y, rows, rectangles)


def _horizontal(layers: Layers, ports: Ports, captions: tuple[float, ...]) -> dict[object, float]:
    programme = _LinearProgramme()
    for n in layers.row:
        programme.apart(("side", 0), n, layers.width[n] / 2)
        programme.apart(n, ("side", 1), layers.width[n] / 2)
    for i, caption in enumerate(captions):
        programme.apart(("left", i), ("right", i), caption + 2 * BOX_SIDE)
        programme.apart(("side", 0), ("left", i), 0.0)
        programme.apart(("right", i), ("side", 1), 0.0)
        programme.pay(("right", i), TIGHT_BOX)
        programme.pay(("left", i), -TIGHT_BOX)
    for (_, container), items in layers.items.items():
        if container is not None and items:
            first, last = _edges(layers, items[0])[0], _edges(layers, items[-1])[1]
            programme.apart(("left", container), first[0], BOX_SIDE + first[1])
            programme.apart(last[0], ("right", container), BOX_SIDE + last[1])
        for a, b in pairwise(items):
            (left, before), (right, after) = _edges(layers, a)[1], _edges(layers, b)[0]
            stops = sum(isinstance(i, str) and i.startswith(" ") for i in (a, b))
            programme.apart(left, right, before + after + (STOP_GAP if stops else GAP))
    for path, (start, end) in zip(layers.paths, ports, strict=True):
        for a, b in pairwise(path):
            stops = a.startswith(" ") + b.startswith(" ")
            weight = (NODE_NODE, NODE_STOP, STOP_STOP)[stops]
            if stops == 0 and layers.home.get(a) == layers.home.get(b):
                weight = SAME_BOX
            offset = (end if b == path[-1] else 0.0) - (start if a == path[0] else 0.0)
            programme.pull(a, b, weight, offset)
    programme.pay(("side", 1), TIGHT_ALL)
    return programme.solve()


def _edges(
    layers: Layers, item: str | BoxItem
) -> tuple[tuple[object, float], tuple[object, float]]:
    """The variables of an item's left and right edge, each with its distance from the edge."""
    if isinstance(item, BoxItem):
        return (("left", item.box), 0.0), (("right", item.box), 0.0)
    half = layers.width[item] / 2
    return (item, half), (item, half)


def _vertical(
    layers: Layers, heights: Mapping[str, float], x: Mapping[object, float]
) -> tuple[tuple[tuple[float, float], ...], tuple[Rectangle, ...]]:
    above = [_depth(layers, i, 0) for i in range(len(layers.boxes))]
    below = [_depth(layers, i, 1) for i in range(len(layers.boxes))]
    rows: list[tuple[float, float]] = []
    height = 0.0
    for r in range(layers.rows):
        height += BOX_TOP * max(
            (a for a, s in zip(above, layers.spans, strict=True) if s[0] == r), default=0
        )
        high = max(
            (heights[n] for n, row in layers.row.items() if row == r and n in heights), default=0.0
        )
        rows.append((height, height + high))
        height += high + ROW_GAP
        height += BOX_BOTTOM * max(
            (b for b, s in zip(below, layers.spans, strict=True) if s[1] == r), default=0
        )
    rectangles = tuple(
        Rectangle(
            x["left", i],
            rows[first][0] - BOX_TOP * above[i],
            x["right", i],
            rows[last][1] + BOX_BOTTOM * below[i],
        )
        for i, (first, last) in enumerate(layers.spans)
    )
    return tuple(rows), rectangles


def _depth(layers: Layers, box: int, side: int) -> int:
    """How many borders, this box's and those inside it, lie at its first or last row."""
    inner = [
        _depth(layers, i, side)
        for i, b in enumerate(layers.boxes)
        if b.parent == box and layers.spans[i][side] == layers.spans[box][side]
    ]
    return 1 + max(inner, default=0)


# ---- ports -------------------------------------------------------------------------------------
# Where arrows meet their nodes: side by side, in the order of where they come from.


STEP = 14.0

# For each path, the sideways offset of its first and of its last point from the node's centre.
Ports: TypeAlias = list[tuple[float, float]]


def ports(layers: Layers, widths: Mapping[str, float], shapes: Mapping[str, Shape]) -> Ports:
    """The ports of all paths; they need the order in the rows only, not yet the coordinates."""
    order = {n: i for r in range(layers.rows) for i, n in enumerate(layers.flat(r))}
    sides = []
    for end, neighbour in ((0, 1), (-1, -2)):
        meeting: dict[str, list[int]] = {}
        for k, path in enumerate(layers.paths):
            meeting.setdefault(path[end], []).append(k)
        offset: dict[int, float] = {}
        for node, paths in meeting.items():
            paths.sort(key=lambda k: order[layers.paths[k][neighbour]])
            step = min(STEP, port_room(shapes[node], widths[node]) / max(1, len(paths) - 1))
            for i, k in enumerate(paths):
                offset[k] = step * (i - (len(paths) - 1) / 2)
        sides.append(offset)
    return [(sides[0][k], sides[1][k]) for k in range(len(layers.paths))]
