"""The arrows of a drawing: one for each pair of nodes, data below the site that observes them."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.graph.model_graph import ModelGraph


@dataclass(frozen=True)
class Arrow:
    """An arrow from `source` to `target`; dashed where it only selects an entry."""

    source: str
    target: str
    dashed: bool = False


def arrows(graph: ModelGraph) -> tuple[Arrow, ...]:
    """One arrow for each pair, in the order of the edges, and never a cycle.

    A site generates its datum, so that arrow points at the datum; where the datum is an input
    elsewhere as well, it keeps the direction of the dependence.
    """
    used = {edge.source for edge in graph.edges if edge.role != "observed"}
    dashed_by_pair: dict[tuple[str, str], bool] = {}
    for edge in graph.edges:
        pair = edge.source, edge.target
        if edge.role == "observed" and edge.source not in used:
            pair = edge.target, edge.source
        dashed_by_pair[pair] = dashed_by_pair.get(pair, True) and edge.role == "map"
    return tuple(
        Arrow(source, target, dashed) for (source, target), dashed in dashed_by_pair.items()
    )


# ---- boxes -------------------------------------------------------------------------------------
# Which plates can be drawn as boxes: nested or disjoint sets of nodes.
#
# Two plates that cross (`X[obs, feat]` is in both `obs` and `feat`) cannot both be rectangles that
# hold just their members; the more informative one is drawn, and the other is read from the nodes'
# brackets.


@dataclass(frozen=True)
class Box:
    """A box around nodes; `indices` repeat the same nodes. `parent` is the next box around it."""

    indices: tuple[str, ...]
    members: frozenset[str]
    parent: int | None = None


def boxes(graph: ModelGraph) -> tuple[Box, ...]:
    """The boxes of a graph, outer ones first; a laminar family: each two are nested or disjoint."""
    groups: dict[frozenset[str], list[str]] = {}
    for name, plate in graph.plates.items():
        groups.setdefault(frozenset(plate), []).append(name)
    kinds = {node.id: node.kind for node in graph.nodes}

    def worth(members: frozenset[str]) -> tuple[bool, bool, int]:
        # What repeats sites and latents together says most about the model.
        inside = {kinds[m] for m in members}
        return "observe" in inside, "latent" in inside, len(members)

    # A box around one node says no more than its bracket, and takes room.
    ranked = sorted((m for m in groups if len(m) > 1), key=worth, reverse=True)
    chosen: list[frozenset[str]] = []
    for members in ranked:
        if all(members < o or o < members or not members & o for o in chosen):
            chosen.append(members)
    chosen.sort(key=len, reverse=True)
    plates: list[Box] = []
    for members in chosen:
        around = [i for i, box in enumerate(plates) if members < box.members]
        plates.append(Box(tuple(groups[members]), members, around[-1] if around else None))
    return tuple(plates)


def innermost(plates: tuple[Box, ...]) -> dict[str, int]:
    """For each boxed node, the smallest box that holds it."""
    return {node: i for i, box in enumerate(plates) for node in box.members}


def caption(graph: ModelGraph, box: Box) -> str:
    """`obs`, `day: 366`, `class: walk, bike, bus, car`: what a box repeats over."""
    by_name = {index.name: index for index in graph.index_sets}
    parts = []
    for name in box.indices:
        index = by_name[name]
        if index.labels and sum(map(len, index.labels)) <= 28:
            parts.append(f"{name}: {', '.join(index.labels)}")
        else:
            parts.append(name if index.size is None else f"{name}: {index.size}")
    return "; ".join(parts)
