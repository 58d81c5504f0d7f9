"""A model graph in the dot language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator

from lgmdsl.graph.draw.arrows import arrows
from lgmdsl.graph.draw.boxes import Box, boxes, caption, innermost
from lgmdsl.graph.draw.styles import STYLES, detail, look_of
from lgmdsl.graph.draw.text import dot
from lgmdsl.graph.model_graph import ModelGraph, Node


def to_dot(graph: ModelGraph) -> str:
    """The graph as dot text, plates as clusters; descriptions become tooltips."""
    plates = boxes(graph)
    home = innermost(plates)
    lines = [
        "digraph model {",
        '  graph [rankdir=TB fontname="monospace" fontsize=10 style="rounded" color="#8a94a0"];',
        '  node [fontname="monospace" fontsize=11];',
        '  edge [color="#5b6673" arrowsize=0.7];',
    ]
    lines += [f"  {line}" for line in _nodes(graph, (n for n in graph.nodes if n.id not in home))]
    lines += _clusters(graph, plates, home, None, "  ")
    for arrow in arrows(graph):
        dashed = " [style=dashed]" if arrow.dashed else ""
        lines.append(f"  {dot(arrow.source)} -> {dot(arrow.target)}{dashed};")
    return "\n".join([*lines, "}"]) + "\n"


def _clusters(
    graph: ModelGraph, plates: tuple[Box, ...], home: dict[str, int], parent: int | None, pad: str
) -> Iterator[str]:
    for i, box in enumerate(plates):
        if box.parent != parent:
            continue
        yield f"{pad}subgraph cluster_{i} {{"
        yield f'{pad}  label={dot(caption(graph, box))}; labelloc="b"; labeljust="r";'
        inside = (n for n in graph.nodes if home.get(n.id) == i)
        yield from (f"{pad}  {line}" for line in _nodes(graph, inside))
        yield from _clusters(graph, plates, home, i, pad + "  ")
        yield f"{pad}}}"


def _nodes(graph: ModelGraph, nodes: Iterator[Node]) -> Iterator[str]:
    for node in nodes:
        style = STYLES[look_of(graph, node)]
        second = detail(node)
        label = f"{node.shown}\n{second}" if second else node.shown
        tip = f"{node.text}\n{node.doc}" if node.doc else node.text
        yield (
            f"{dot(node.id)} [label={dot(label)} tooltip={dot(tip)} {style.dot} "
            f'fillcolor="{style.fill}" color="{style.stroke}"];'
        )
