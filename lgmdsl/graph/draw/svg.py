"""A model graph as SVG, without external programs: for light and dark pages, with tooltips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lgmdsl.errors import listed
from lgmdsl.graph.draw.arrows import Arrow, arrows, boxes, caption
from lgmdsl.graph.draw.layout import Layers, PlacedDrawing, Ports, Rectangle, layer, place, ports
from lgmdsl.graph.draw.styles import (
    DETAIL_SIZE,
    EM,
    LABEL_SIZE,
    STYLES,
    Look,
    Shape,
    columns,
    detail,
    look_of,
    outline,
    rim,
    size,
    xml,
)
from lgmdsl.graph.model_graph import ModelGraph, NodeKind

MARGIN = 20.0
FACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

Sizes = Mapping[str, tuple[float, float]]


def to_svg(graph: ModelGraph) -> str:
    """The drawing as one SVG document.

    Every node has a `<title>`, its statement and description, which browsers show as a tooltip and
    screen readers read; colours follow the reader's light or dark scheme.
    """
    plates, pairs = boxes(graph), arrows(graph)
    looks = {node.id: look_of(graph, node) for node in graph.nodes}
    sizes: Sizes = {node.id: size(graph, node) for node in graph.nodes}
    captions = [caption(graph, box) for box in plates]
    layers = layer({n: w for n, (w, _) in sizes.items()}, pairs, plates)
    wanted = tuple(columns(text) * DETAIL_SIZE * EM for text in captions)
    shapes = {n: STYLES[look].shape for n, look in looks.items()}
    meets = ports(layers, layers.width, shapes)
    placed = place(layers, {n: h for n, (_, h) in sizes.items()}, meets, wanted)
    curves = routes(layers, placed, meets, sizes, shapes)
    left, right, height = _extent(placed, sizes)
    present = tuple(look for look in STYLES if look in looks.values())
    keys = legend(present, bool(plates), any(a.dashed for a in pairs), max(right - left, 420.0))
    width = max(right - left, keys.width)
    shift = MARGIN + (width - (right - left)) / 2 - left
    wide, high = width + 2 * MARGIN, height + keys.height + 2 * MARGIN
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="model-title '
        f'model-text" viewBox="0 0 {wide:.0f} {high:.0f}" width="{wide:.0f}" height="{high:.0f}" '
        f'font-family="{FACE}" font-size="{LABEL_SIZE:g}">',
        '<title id="model-title">Model graph</title>',
        f'<desc id="model-text">{xml(in_words(graph))}</desc>',
        f"<style>{dark_style()}</style>",
        f'<rect class="page" width="{wide:.0f}" height="{high:.0f}" fill="{PAGE}"/>',
        f'<g transform="translate({shift:.1f} {MARGIN:g})">',
        *_plates(placed.boxes),
        *_arrows(pairs, curves),
        *_captions(placed.boxes, captions, wanted, curves),
        *_nodes(graph, placed, sizes),
        "</g>",
        f'<g transform="translate({MARGIN:g} {MARGIN + height:.1f})" font-size="{DETAIL_SIZE:g}">',
        *keys.parts,
        "</g>",
        "</svg>",
        "",
    ])  # fmt: skip


def in_words(graph: ModelGraph) -> str:
    """What is in the graph, for those who cannot see it."""
    kinds: list[tuple[NodeKind, str]] = [
        ("hyper", "hyperparameters"), ("data", "data"), ("latent", "latents"),
        ("let", "predictors and other lets"), ("observe", "likelihood sites"),
        ("potential", "potentials"), ("constrain", "constraints"), ("report", "reports"),
    ]  # fmt: skip
    parts = [
        f"{words}: {', '.join(n.id if kind == 'observe' else n.shown for n in graph.of_kind(kind))}"
        for kind, words in kinds
        if graph.of_kind(kind)
    ]
    touched = [
        f"{site} depends on {listed(names) or 'no latent'}" for site, names in graph.touched.items()
    ]
    return ". ".join([*parts, *touched]) + "."


def _extent(placed: PlacedDrawing, sizes: Sizes) -> tuple[float, float, float]:
    lefts = [placed.x[n] - w / 2 for n, (w, _) in sizes.items()] + [b.left for b in placed.boxes]
    rights = [placed.x[n] + w / 2 for n, (w, _) in sizes.items()] + [b.right for b in placed.boxes]
    # Stops of long arrows may run outside of every node.
    lefts += [x - 4 for n, x in placed.x.items() if n not in sizes]
    rights += [x + 4 for n, x in placed.x.items() if n not in sizes]
    bottoms = [bottom for _, bottom in placed.rows] + [b.bottom for b in placed.boxes]
    return min(lefts, default=0.0), max(rights, default=0.0), max(bottoms, default=0.0)


def _plates(rectangles: Sequence[Rectangle]) -> Iterator[str]:
    for box in rectangles:
        yield (
            f'<rect class="plate" x="{box.left:.1f}" y="{box.top:.1f}" rx="12" '
            f'width="{box.right - box.left:.1f}" height="{box.bottom - box.top:.1f}" {PLATE_LINE}/>'
        )


def _captions(
    rectangles: Sequence[Rectangle],
    captions: Sequence[str],
    widths: Sequence[float],
    curves: Sequence[ArrowPath],
) -> Iterator[str]:
    """Each caption where fewest arrows run: in a lower corner, or else above an upper one."""
    for box, text, wide in zip(rectangles, captions, widths, strict=True):
        places = [
            (x, y)
            for y in (box.bottom - 8, box.top - 5)
            for x in (box.right - 10 - wide, box.left + 10)
        ]
        x, y = min(places, key=lambda p: _meeting(curves, p[0], p[1], wide))
        yield (
            f'<text class="soft" x="{x:.1f}" y="{y:.1f}" font-size="{DETAIL_SIZE:g}" '
            f'fill="{LINE}">{xml(text)}</text>'
        )


def _meeting(curves: Sequence[ArrowPath], x: float, y: float, wide: float) -> int:
    return sum(curve.meets(x - 3, y - 11, x + wide + 3, y + 4) for curve in curves)


def _arrows(pairs: Sequence[Arrow], curves: Sequence[ArrowPath]) -> Iterator[str]:
    solid = f'fill="none" stroke="{LINE}" stroke-width="1.2"'
    for arrow, curve in zip(pairs, curves, strict=True):
        line = MAP_LINE if arrow.dashed else solid
        yield f'<path class="line" d="{curve.path}" {line}/>'
        yield f'<polygon class="head" points="{curve.head}" fill="{LINE}"/>'


def _nodes(graph: ModelGraph, placed: PlacedDrawing, sizes: Sizes) -> Iterator[str]:
    for node in graph.nodes:
        look = look_of(graph, node)
        (w, h), x, y = sizes[node.id], placed.x[node.id], placed.y[node.id]
        tip = f"{STYLES[look].words}: {node.text}" + (f"\n{node.doc}" if node.doc else "")
        second = detail(node)
        lines = [
            f'<text class="ink" x="{x:.1f}" y="{y - 3 if second else y + 4.5:.1f}" '
            f'text-anchor="middle" fill="{INK}">{xml(node.shown)}</text>'
        ]
        if second:
            lines.append(
                f'<text class="soft" x="{x:.1f}" y="{y + 12:.1f}" text-anchor="middle" '
                f'font-size="{DETAIL_SIZE:g}" fill="#3f4853">{xml(second)}</text>'
            )
        body = outline(STYLES[look].shape, x, y, w, h, attributes(look))
        yield f"<g><title>{xml(tip)}</title>{body}{''.join(lines)}</g>"


# ---- legend ------------------------------------------------------------------------------------
# The legend of a drawing: one key for each look in it.


ROW, KEY, BETWEEN, TOP = 24.0, 26.0, 18.0, 26.0


@dataclass(frozen=True)
class Legend:
    """Elements from (0, 0) downwards, and the room they take."""

    width: float
    height: float
    parts: tuple[str, ...]


def legend(looks: tuple[Look, ...], boxed: bool, mapped: bool, room: float) -> Legend:
    """Keys in rows no wider than `room` (or than one key), with a line each on boxes and dashes."""
    keys: list[tuple[str, str]] = [
        (outline(STYLES[k].shape, KEY / 2, 0, KEY, 15.0, attributes(k)), STYLES[k].words)
        for k in looks
    ]
    if boxed:
        plate = f'<rect class="plate" y="-7.5" width="{KEY:g}" height="15" rx="5" {PLATE_LINE}/>'
        keys.append((plate, "repeats over an index set"))
    if mapped:
        line = f'<path class="line" d="M0 0H{KEY:g}" {MAP_LINE}/>'
        keys.append((line, "map: says which entry"))
    parts: list[str] = []
    x, y, widest = 0.0, TOP, 0.0
    for key, words in keys:
        wide = KEY + 8 + columns(words) * DETAIL_SIZE * EM
        if x > 0 and x + wide > room:
            x, y = 0.0, y + ROW
        parts.append(
            f'<g transform="translate({x:.1f} {y:.1f})">{key}'
            f'<text class="ink" x="{KEY + 8:g}" y="3.5" fill="{INK}">{xml(words)}</text></g>'
        )
        widest = max(widest, x + wide)
        x += wide + BETWEEN
    return Legend(widest, y + 10 if parts else 0.0, tuple(parts))


INK, PAGE, LINE, PLATE = "#1b2027", "#ffffff", "#5b6673", "#8a94a0"
PLATE_LINE = f'fill="none" stroke="{PLATE}" stroke-width="1.2"'
MAP_LINE = f'fill="none" stroke="{LINE}" stroke-width="1.2" stroke-dasharray="5 3"'


def attributes(look: Look) -> str:
    """Class, colours and line of a node's outline."""
    style = STYLES[look]
    dashes = ' stroke-dasharray="5 3"' if style.dashed else ""
    return (
        f'class="k-{look}" fill="{style.fill}" stroke="{style.stroke}" stroke-width="1.4"{dashes}'
    )


def dark_style() -> str:
    """The colours of a dark page; on a light one the elements' own attributes hold."""
    rules = [
        ".page{fill:#14181d}",
        ".ink{fill:#e6eaf0}",
        ".soft{fill:#b4bdc8}",
        ".line{stroke:#9aa5b1}",
        ".head{fill:#9aa5b1}",
        ".plate{stroke:#76818d}",
    ]
    rules += [
        f".k-{look}{{fill:{style.dark_fill};stroke:{style.dark_stroke}}}"
        for look, style in STYLES.items()
    ]
    return "@media (prefers-color-scheme: dark){" + "".join(rules) + "}"


# ---- routes ------------------------------------------------------------------------------------
# The curves of the arrows, once all coordinates are known.


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
    placed: PlacedDrawing,
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
    placed: PlacedDrawing,
    sizes: Mapping[str, tuple[float, float]],
    shapes: Mapping[str, Shape],
    node: str,
    offset: float,
    side: int,
) -> Point:
    w, h = sizes[node]
    return placed.x[node] + offset, placed.y[node] + side * rim(shapes[node], offset, w, h)
