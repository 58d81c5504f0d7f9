"""Rows of a layered drawing, and the order within each row.

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

import networkx as nx

from lgmdsl.graph.draw.arrows import Arrow
from lgmdsl.graph.draw.boxes import Box, innermost

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
