"""What each kind of node looks like, and how much room its text takes."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from math import sqrt
from typing import Literal
from xml.sax.saxutils import escape

from lgmdsl.graph.model_graph import ModelGraph, Node

# ---- text --------------------------------------------------------------------------------------
# Escaping for the three formats. Any text goes in; what comes out is always well formed.


# What XML 1.0 cannot hold even as a reference, and no drawing can show.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Characters that mean something inside a quoted mermaid label, or to the HTML that it becomes.
_MERMAID = re.compile(r"[\"#;&<>`\\\n\r\t]")


def printable(text: str) -> str:
    """The text with characters that no format can hold replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def xml(text: str) -> str:
    """Text for an element or for an attribute in double quotes."""
    entities = {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
    return escape(printable(text), entities)


def dot(text: str) -> str:
    """A quoted string of the dot language; a line break becomes `\\n`, and `&` its entity."""
    inner = printable(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + inner.replace("\r", "").replace("\n", "\\n") + '"'


def mermaid(text: str) -> str:
    """A quoted mermaid label: special characters become its `#number;` references."""
    return '"' + _MERMAID.sub(lambda m: f"#{ord(m.group())};", printable(text)) + '"'


# ---- styles ------------------------------------------------------------------------------------

Look = Literal[
    "hyper", "input", "latent", "let", "site", "potential", "constrain", "observed", "report"
]  # fmt: skip
Shape = Literal["pill", "box", "round", "ellipse", "hexagon", "octagon", "note"]

LABEL_SIZE, DETAIL_SIZE = 13.0, 10.5
# A monospaced face is 0.6 em wide; a little more covers the faces that are wider.
EM = 0.615
LONGEST_DETAIL = 34


@dataclass(frozen=True)
class Style:
    """A shape with its colours on a light and on a dark page, and its names for the writers."""

    shape: Shape
    words: str
    fill: str
    stroke: str
    dark_fill: str
    dark_stroke: str
    dot: str
    mermaid: tuple[str, str]
    dashed: bool = False


STYLES: dict[Look, Style] = {
    "hyper": Style(
        "pill", "hyperparameter", "#fff3d6", "#a86a00", "#3d2f10", "#e0a53c",
        'shape=box style="rounded,filled"', ("([", "])"),
    ),
    "input": Style(
        "box", "data", "#eceff3", "#6b7684", "#2b323b", "#98a4b3",
        'shape=box style="filled"', ("[", "]"),
    ),
    "latent": Style(
        "ellipse", "latent", "#e3effd", "#1f6fc4", "#12304f", "#6fb1f5",
        'shape=ellipse style="filled"', ("([", "])"),
    ),
    "let": Style(
        "round", "let", "#ffffff", "#6b7684", "#1c2229", "#98a4b3",
        'shape=box style="rounded,filled,dashed"', ("(", ")"), dashed=True,
    ),
    "site": Style(
        "hexagon", "likelihood site", "#efe6fb", "#7a3fc0", "#33204d", "#b98df0",
        'shape=hexagon style="filled"', ("{{", "}}"),
    ),
    "potential": Style(
        "hexagon", "potential", "#fdeaf3", "#bb3d7e", "#471c31", "#f08cbd",
        'shape=hexagon style="filled,dashed"', ("{{", "}}"), dashed=True,
    ),
    "constrain": Style(
        "octagon", "constraint", "#fde8e4", "#c0432b", "#481d15", "#f2917d",
        'shape=octagon style="filled"', ("[/", "/]"),
    ),
    "observed": Style(
        "ellipse", "observed data", "#c9d0d9", "#3f4853", "#48525e", "#c3ccd6",
        'shape=ellipse style="filled"', ("([", "])"),
    ),
    "report": Style(
        "note", "report", "#e4f6ea", "#2a8a4c", "#143a22", "#6fd093",
        'shape=note style="filled"', (">", "]"),
    ),
}  # fmt: skip


def look_of(graph: ModelGraph, node: Node) -> Look:
    """How a node is drawn; data that a site observes are shaded."""
    match node.kind:
        case "observe":
            return "site"
        case "data":
            return "observed" if node.id in graph.observed else "input"
        case kind:
            return kind


def detail(node: Node) -> str:
    """The second line of a node, cut to a length."""
    text = node.detail
    return text if len(text) <= LONGEST_DETAIL else text[: LONGEST_DETAIL - 1].rstrip() + "…"


def columns(text: str) -> int:
    """How many columns a text takes in a monospaced face; wide letters take two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def size(graph: ModelGraph, node: Node) -> tuple[float, float]:
    """Width and height of a node in pixels, so that its text stays inside its shape."""
    second = detail(node)
    text = max(columns(node.shown) * LABEL_SIZE, columns(second) * DETAIL_SIZE) * EM
    height = 42.0 if second else 30.0
    match STYLES[look_of(graph, node)].shape:
        case "ellipse":
            # The text's corners must lie inside: a wide text needs little more, a short one does.
            return max(64.0, text + 44.0), height + 6.0
        case "hexagon" | "octagon" | "pill":
            return max(56.0, text + 32.0), height
        case _:
            return max(52.0, text + 22.0), height


# ---- shapes ------------------------------------------------------------------------------------
# Outlines of nodes as SVG elements.


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
