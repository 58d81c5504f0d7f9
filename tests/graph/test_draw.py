"""The three drawings: well formed for any text, complete, and laid out without overlaps."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.graph.build import model_graph
from lgmdsl.graph.draw.arrows import arrows, boxes
from lgmdsl.graph.draw.layout import layer, place, ports
from lgmdsl.graph.draw.styles import STYLES, dot, look_of, mermaid, printable, size, xml
from lgmdsl.graph.draw.svg import in_words, to_svg
from lgmdsl.graph.draw.text_formats import to_dot, to_mermaid
from lgmdsl.graph.model_graph import Edge, IndexSet, ModelGraph, Node, NodeKind
from lgmdsl.language.load import load

SVG = "{http://www.w3.org/2000/svg}"
KINDS: tuple[NodeKind, ...] = get_args(NodeKind)
anything = st.text(max_size=30)


@st.composite
def graphs(draw: st.DrawFn) -> ModelGraph:
    """Acyclic graphs with any text in them and plates that cross in every way."""
    sets = [IndexSet(n, draw(st.none() | st.integers(1, 9)), (draw(anything),)) for n in "ijk"]
    count = draw(st.integers(0, 9))
    nodes = tuple(
        Node(
            id=f"v{i}",
            kind=draw(st.sampled_from(KINDS)),
            label=draw(anything) or "x",
            dims=tuple(draw(st.lists(st.sampled_from("ijk"), max_size=3, unique=True))),
            detail=draw(anything),
            doc=draw(anything),
            text=draw(anything),
        )
        for i in range(count)
    )
    pairs = list(combinations(range(count), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = tuple(
        Edge(f"v{a}", f"v{b}", draw(st.sampled_from(["value", "map", "argument"])))
        for a, b in chosen
    )
    return ModelGraph(nodes, edges, tuple(sets))


def undot(quoted: str) -> str:
    """Read a quoted string as the dot language does."""
    assert quoted[0] == quoted[-1] == '"'
    text = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], quoted[1:-1])
    assert not re.search("&(?!amp;)", text)
    return text.replace("&amp;", "&")


def unmermaid(quoted: str) -> str:
    assert quoted[0] == quoted[-1] == '"'
    return re.sub(r"#(\d+);", lambda m: chr(int(m[1])), quoted[1:-1])


@given(anything)
def test_each_format_gives_a_text_back(text: str) -> None:
    shown = printable(text)
    assert undot(dot(text)) == shown.replace("\r", "")
    assert '"' not in re.sub(r"\\.", "", dot(text)[1:-1])
    assert unmermaid(mermaid(text)) == shown
    assert not set('"<>`\n') & set(mermaid(text)[1:-1])
    element = ElementTree.fromstring(f'<a b="{xml(text)}">{xml(text)}</a>')
    assert (element.text or "") == shown
    assert element.get("b") == shown
    shown.encode("utf-8")


@given(graphs())
def test_any_graph_draws_in_every_format(graph: ModelGraph) -> None:
    root = ElementTree.fromstring(to_svg(graph))
    assert root.tag == f"{SVG}svg"
    titles = [t.text for t in root.iter(f"{SVG}title")]
    assert len(titles) == 1 + len(graph.nodes)
    assert to_dot(graph).count(" -> ") >= len(arrows(graph))
    assert to_mermaid(graph).startswith("flowchart TB\n")
    assert to_svg(graph) == to_svg(graph)


@given(graphs())
def test_nothing_overlaps(graph: ModelGraph) -> None:
    assert_tidy(graph)


def assert_tidy(graph: ModelGraph) -> None:
    """Nodes apart, arrows downwards, boxes around their members and nobody else."""
    found = boxes(graph)
    sizes = {n.id: size(graph, n) for n in graph.nodes}
    layers = layer({n: w for n, (w, _) in sizes.items()}, arrows(graph), found)
    meets = ports(
        layers, layers.width, {n.id: STYLES[look_of(graph, n)].shape for n in graph.nodes}
    )
    placed = place(layers, {n: h for n, (_, h) in sizes.items()}, meets, (20.0,) * len(found))
    rectangles = {
        n: (placed.x[n] - w / 2, placed.y[n] - h / 2, placed.x[n] + w / 2, placed.y[n] + h / 2)
        for n, (w, h) in sizes.items()
    }
    for (a, one), (b, two) in combinations(rectangles.items(), 2):
        apart = one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
        assert apart, (a, b)
    for arrow in arrows(graph):
        assert rectangles[arrow.source][3] < rectangles[arrow.target][1]
    for box, frame in zip(found, placed.boxes, strict=True):
        for n, (left, top, right, bottom) in rectangles.items():
            inside = frame.left < left and right < frame.right
            inside = inside and frame.top < top and bottom < frame.bottom
            outside = right <= frame.left or frame.right <= left
            outside = outside or bottom <= frame.top or frame.bottom <= top
            assert inside if n in box.members else outside, (box, n)
    framed = zip(found, placed.boxes, strict=True)
    for (one_box, one_frame), (two_box, two_frame) in combinations(framed, 2):
        if not one_box.members & two_box.members:
            beside = one_frame.right <= two_frame.left or two_frame.right <= one_frame.left
            above = one_frame.bottom <= two_frame.top or two_frame.bottom <= one_frame.top
            assert beside or above


def test_every_example_draws_tidily(shared: Path) -> None:
    for file in sorted((shared / "examples").glob("*.lgm")):
        graph = model_graph(load(file).checked)
        assert_tidy(graph)
        root = ElementTree.fromstring(to_svg(graph))
        texts = {t.text for t in root.iter(f"{SVG}text")}
        assert {n.shown for n in graph.nodes} <= texts, file.name
        assert len(list(root.iter(f"{SVG}polygon"))) >= len(arrows(graph))
        as_dot, as_mermaid = to_dot(graph), to_mermaid(graph)
        for node in graph.nodes:
            assert dot(node.id) in as_dot
            assert mermaid(node.shown)[1:-1] in as_mermaid
        wide = float(root.attrib["width"])
        assert wide < 1600, f"{file.name} is {wide} px wide"


def test_plates_that_cross_are_not_both_boxes() -> None:
    nodes = (
        Node("X", "data", "X", ("obs", "feat")),
        Node("w", "latent", "w", ("feat",)),
        Node("eta", "let", "eta", ("obs",)),
        Node("observe y", "observe", "bernoulli.logit", ("obs",)),
        Node("y", "data", "y", ("obs",)),
    )
    edges = (
        Edge("X", "eta"),
        Edge("w", "eta"),
        Edge("eta", "observe y", "argument", "logit"),
        Edge("y", "observe y", "observed"),
    )
    graph = ModelGraph(nodes, edges, (IndexSet("obs"), IndexSet("feat")))
    (box,) = boxes(graph)
    assert box.indices == ("obs",)
    assert box.members == {"X", "eta", "observe y", "y"}
    assert look_of(graph, graph.by_id["y"]) == "observed"
    assert look_of(graph, graph.by_id["X"]) == "input"


def test_nested_plates_are_nested_boxes() -> None:
    nodes = (
        Node("a", "latent", "a", ("i",)),
        Node("b", "let", "b", ("i", "j")),
        Node("c", "report", "c", ("i", "j")),
    )
    graph = ModelGraph(nodes, (Edge("a", "b"), Edge("b", "c")), (IndexSet("i"), IndexSet("j", 3)))
    outer, inner = boxes(graph)
    assert (outer.indices, inner.indices, inner.parent) == (("i",), ("j",), 0)
    assert_tidy(graph)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_node_is_drawn_and_told_in_words(kind: NodeKind) -> None:
    graph = ModelGraph((Node(f"{kind} it", kind, "it"),), ())
    assert "it" in in_words(graph)
    for drawn in (to_dot(graph), to_mermaid(graph), to_svg(graph)):
        assert "it" in drawn


@pytest.mark.parametrize("rows", [40])
def test_long_chains_draw_in_reasonable_time(rows: int) -> None:
    nodes = tuple(Node(f"a{i}", "let", f"a{i}", ("i",)) for i in range(rows))
    edges = tuple(
        Edge(f"a{i - back}", f"a{i}") for i in range(rows) for back in (1, 5) if i >= back
    )
    assert_tidy(ModelGraph(nodes, edges, (IndexSet("i"),)))
