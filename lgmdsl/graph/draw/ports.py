"""Where arrows meet their nodes: side by side, in the order of where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from lgmdsl.graph.draw.layers import Layers
from lgmdsl.graph.draw.shapes import port_room
from lgmdsl.graph.draw.styles import Shape

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
