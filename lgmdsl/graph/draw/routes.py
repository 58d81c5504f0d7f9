"""The curves of the arrows, once all coordinates are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from lgmdsl.graph.draw.layers import Layers
from lgmdsl.graph.draw.place import Placed
from lgmdsl.graph.draw.ports import Ports
from lgmdsl.graph.draw.shapes import rim
from lgmdsl.graph.draw.styles import Shape

HEAD = 7.0
SAMPLES = 60

Point = tuple[float, float]


@dataclass(frozen=True)
class ArrowPath:
    """Points that the curve passes vertically; the arrowhead is at the last one."""

    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        """SVG path data: straight through each row, a cubic with vertical ends between rows."""
        (x, y), *rest = self.points
        text = f"M{x:.1f} {y:.1f}"
        tip = len(rest) - 1
        for i, (a, b) in enumerate(rest):
            # The line ends under the head, so that it does not show around the tip.
            end = b - HEAD + 1 if i == tip else b
            if abs(a - x) < 0.5:
                text += f"L{a:.1f} {end:.1f}"
            else:
                middle = (y + end) / 2
                text += f"C{x:.1f} {middle:.1f} {a:.1f} {middle:.1f} {a:.1f} {end:.1f}"
            x, y = a, end
        return text

    @property
    def head(self) -> str:
        """The arrowhead as polygon points, looking down."""
        x, y = self.points[-1]
        half = HEAD * 0.5
        return f"{x:.1f},{y:.1f} {x - half:.1f},{y - HEAD:.1f} {x + half:.1f},{y - HEAD:.1f}"

    def meets(self, left: float, top: float, right: float, bottom: float) -> bool:
        """Whether the curve runs through a rectangle (sampled every few pixels)."""
        for (a, y), (b, end) in pairwise(self.points):
            if end < top or y > bottom:
                continue
            for k in range(SAMPLES + 1):
                t = k / SAMPLES
                at_x = a + (b - a) * t * t * (3 - 2 * t)
                at_y = y + (end - y) * (1.5 * t * (1 - t) + t**3)
                if left <= at_x <= right and top <= at_y <= bottom:
                    return True
        return False


def routes(
    layers: Layers,
    placed: Placed,
    ports: Ports,
    sizes: Mapping[str, tuple[float, float]],
    shapes: Mapping[str, Shape],
) -> list[ArrowPath]:
    """One route for each path of the layers."""
    paths = []
    for path, (start, end) in zip(layers.paths, ports, strict=True):
        source, target = path[0], path[-1]
        points = [_at_rim(placed, sizes, shapes, source, start, 1)]
        for stop in path[1:-1]:
            top, bottom = placed.rows[layers.row[stop]]
            points += [(placed.x[stop], top), (placed.x[stop], bottom)]
        points.append(_at_rim(placed, sizes, shapes, target, end, -1))
        paths.append(ArrowPath(tuple(points)))
    return paths


def _at_rim(
    placed: Placed,
    sizes: Mapping[str, tuple[float, float]],
    shapes: Mapping[str, Shape],
    node: str,
    offset: float,
    side: int,
) -> Point:
    w, h = sizes[node]
    return placed.x[node] + offset, placed.y[node] + side * rim(shapes[node], offset, w, h)
