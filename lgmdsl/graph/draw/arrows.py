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
