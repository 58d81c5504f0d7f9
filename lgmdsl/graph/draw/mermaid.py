"""A model graph as a mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lgmdsl.graph.draw.arrows import arrows
from lgmdsl.graph.draw.boxes import Box, boxes, caption, innermost
from lgmdsl.graph.draw.styles import STYLES, detail, look_of
from lgmdsl.graph.draw.text import mermaid
from lgmdsl.graph.model_graph import ModelGraph, Node


def to_mermaid(graph: ModelGraph) -> str:
    """The graph as mermaid text, plates as subgraphs. Nodes are n0, n1, ... in declared order.

    Names are not used as ids: `end`, `graph` or `class` would end a statement there.
    """
    ids = {node.id: f"n{i}" for i, node in enumerate(graph.nodes)}
    plates = boxes(graph)
    home = innermost(plates)
    lines = ["flowchart TB"]
    lines += _nodes(graph, ids, (n for n in graph.nodes if n.id not in home), "  ")
    lines += _subgraphs(graph, ids, plates, home, None, "  ")
    for arrow in arrows(graph):
        lines.append(
            f"  {ids[arrow.source]} {'-.->' if arrow.dashed else '-->'} {ids[arrow.target]}"
        )
    used = {look_of(graph, node) for node in graph.nodes}
    for look, style in STYLES.items():
        if look in used:
            dashes = ",stroke-dasharray:4 3" if style.dashed else ""
            lines.append(
                f"  classDef {look} fill:{style.fill},stroke:{style.stroke},color:#1b2027{dashes}"
            )
    return "\n".join(lines) + "\n"


def _subgraphs(
    graph: ModelGraph,
    ids: dict[str, str],
    plates: tuple[Box, ...],
    home: dict[str, int],
    parent: int | None,
    pad: str,
) -> Iterator[str]:
    for i, box in enumerate(plates):
        if box.parent != parent:
            continue
        yield f"{pad}subgraph p{i} [{mermaid(caption(graph, box))}]"
        inside = (n for n in graph.nodes if home.get(n.id) == i)
        yield from _nodes(graph, ids, inside, pad + "  ")
        yield from _subgraphs(graph, ids, plates, home, i, pad + "  ")
        yield f"{pad}end"


def _nodes(
    graph: ModelGraph, ids: dict[str, str], nodes: Iterable[Node], pad: str
) -> Iterator[str]:
    for node in nodes:
        look = look_of(graph, node)
        left, right = STYLES[look].mermaid
        parts = [node.shown, detail(node), node.doc]
        # mermaid shows no tooltips on a static page, so the description is in the label.
        label = "<br/>".join(mermaid(part)[1:-1] for part in parts if part)
        yield f'{pad}{ids[node.id]}{left}"{label}"{right}:::{look}'
