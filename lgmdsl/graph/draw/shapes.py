"""Outlines of nodes as SVG elements."""

from __future__ import annotations

from math import sqrt

from lgmdsl.graph.draw.styles import Shape


def outline(shape: Shape, x: float, y: float, w: float, h: float, attributes: str) -> str:
    """The outline of a shape centred at (x, y), w wide and h high."""
    left, top, right, bottom = x - w / 2, y - h / 2, x + w / 2, y + h / 2
    if shape == "ellipse":
        return (
            f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{w / 2:.1f}" ry="{h / 2:.1f}" {attributes}/>'
        )
    if shape in ("pill", "box", "round"):
        radius = {"pill": h / 2, "box": 2.0, "round": 9.0}[shape]
        return (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'rx="{radius:.1f}" {attributes}/>'
        )
    # Small ones, as in the legend, keep their looks.
    cut = min({"hexagon": 13.0, "octagon": 9.0, "note": 9.0}[shape], 0.45 * h, 0.28 * w)
    if shape == "octagon":
        cut = min(cut, 0.3 * h)
    corners = {
        "hexagon": [(left, y), (left + cut, top), (right - cut, top), (right, y),
                    (right - cut, bottom), (left + cut, bottom)],
        "octagon": [(left, top + cut), (left + cut, top), (right - cut, top), (right, top + cut),
                    (right, bottom - cut), (right - cut, bottom), (left + cut, bottom),
                    (left, bottom - cut)],
        "note": [(left, top), (right - cut, top), (right, top + cut), (right, bottom),
                 (left, bottom)],
    }[shape]  # fmt: skip
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)
    return f'<polygon points="{points}" {attributes}/>'


def rim(shape: Shape, offset: float, w: float, h: float) -> float:
    """How far above the centre the outline runs at a horizontal offset from it."""
    if shape == "ellipse":
        return h / 2 * sqrt(max(0.0, 1 - (2 * offset / w) ** 2))
    return h / 2


def port_room(shape: Shape, w: float) -> float:
    """The width over which arrows may meet the outline at its top or bottom."""
    return w * 0.5 if shape == "ellipse" else max(0.0, w - 44.0)
