"""A model graph in the dot language of Graphviz, and as a mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lgmdsl.graph.draw.arrows import Box, arrows, boxes, caption, innermost
from lgmdsl.graph.draw.styles import STYLES, detail, dot, look_of, mermaid
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
    lines += [
        f"  {line}" for line in _dot_nodes(graph, (n for n in graph.nodes if n.id not in home))
    ]
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
        yield from (f"{pad}  {line}" for line in _dot_nodes(graph, inside))
        yield from _clusters(graph, plates, home, i, pad + "  ")
        yield f"{pad}}}"


def _dot_nodes(graph: ModelGraph, nodes: Iterator[Node]) -> Iterator[str]:
    for node in nodes:
        style = STYLES[look_of(graph, node)]
        second = detail(node)
        label = f"{node.shown}\n{second}" if second else node.shown
        tip = f"{node.text}\n{node.doc}" if node.doc else node.text
        yield (
            f"{dot(node.id)} [label={dot(label)} tooltip={dot(tip)} {style.dot} "
            f'fillcolor="{style.fill}" color="{style.stroke}"];'
        )


# ---- mermaid -----------------------------------------------------------------------------------
# A model graph as a mermaid flowchart.


def to_mermaid(graph: ModelGraph) -> str:
    """The graph as mermaid text, plates as subgraphs. Nodes are n0, n1, ... in declared order.

    Names are not used as ids: `end`, `graph` or `class` would end a statement there.
    """
    ids = {node.id: f"n{i}" for i, node in enumerate(graph.nodes)}
    plates = boxes(graph)
    home = innermost(plates)
    lines = ["flowchart TB"]
    lines += _mermaid_nodes(graph, ids, (n for n in graph.nodes if n.id not in home), "  ")
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
        yield from _mermaid_nodes(graph, ids, inside, pad + "  ")
        yield from _subgraphs(graph, ids, plates, home, i, pad + "  ")
        yield f"{pad}end"


def _mermaid_nodes(
    graph: ModelGraph, ids: dict[str, str], nodes: Iterable[Node], pad: str
) -> Iterator[str]:
    for node in nodes:
        look = look_of(graph, node)
        left, right = STYLES[look].mermaid
        parts = [node.shown, detail(node), node.doc]
        # mermaid shows no tooltips on a static page, so the description is in the label.
        label = "<br/>".join(mermaid(part)[1:-1] for part in parts if part)
        yield f'{pad}{ids[node.id]}{left}"{label}"{right}:::{look}'
