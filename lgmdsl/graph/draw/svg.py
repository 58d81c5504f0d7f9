"""A model graph as SVG, without external programs: for light and dark pages, with tooltips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lgmdsl.errors import listed
from lgmdsl.graph.draw.arrows import Arrow, arrows
from lgmdsl.graph.draw.boxes import boxes, caption
from lgmdsl.graph.draw.layers import layer
from lgmdsl.graph.draw.legend import (
    INK,
    LINE,
    MAP_LINE,
    PAGE,
    PLATE_LINE,
    attributes,
    dark_style,
    legend,
)
from lgmdsl.graph.draw.place import Placed, Rectangle, place
from lgmdsl.graph.draw.ports import ports
from lgmdsl.graph.draw.routes import ArrowPath, routes
from lgmdsl.graph.draw.shapes import outline
from lgmdsl.graph.draw.styles import (
    DETAIL_SIZE,
    EM,
    LABEL_SIZE,
    STYLES,
    columns,
    detail,
    look_of,
    size,
)
from lgmdsl.graph.draw.text import xml
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


def _extent(placed: Placed, sizes: Sizes) -> tuple[float, float, float]:
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


def _nodes(graph: ModelGraph, placed: Placed, sizes: Sizes) -> Iterator[str]:
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
