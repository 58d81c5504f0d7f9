"""Coordinates for an ordered layered drawing.

Horizontally a linear programme: the shortest total horizontal distance of all arrows, subject to
the order in each row, room between neighbours, and boxes that hold their members only. Gansner,
Koutsofios, North and Vo (1993) solve the same programme by network simplex.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from lgmdsl.graph.draw.layers import GAP, BoxItem, Layers
from lgmdsl.graph.draw.ports import Ports

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
class Placed:
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
) -> Placed:
    """Coordinates of everything; `captions` are the least widths of the boxes."""
    x = _horizontal(layers, ports, captions)
    rows, rectangles = _vertical(layers, heights, x)
    y = {n: sum(rows[r]) / 2 for n, r in layers.row.items()}
    return Placed({n: x[n] for n in layers.row}, y, rows, rectangles)


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
