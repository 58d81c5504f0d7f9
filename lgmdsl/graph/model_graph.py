"""The model graph: what stands in a model, what depends on what, and what follows from that.

Plates (index sets), the latents that a site touches and the parts that do not interact are read
off the declarations here, before any data are seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import networkx as nx

from lgmdsl.graph.references import Role
from lgmdsl.language.tree import ast

if TYPE_CHECKING:
    Digraph: TypeAlias = nx.DiGraph[str]

NodeKind = Literal[
    "data", "hyper", "latent", "let", "observe", "potential", "constrain", "report"
]  # fmt: skip
SITES: tuple[NodeKind, ...] = ("observe", "potential")


@dataclass(frozen=True)
class Node:
    """One declaration or one site.

    `id` is unique: the name of what is declared, else the statement's word and subject (`observe
    y`), which no name can equal. `dims` are its index sets, so its plates. `detail` is its type,
    distribution, site or expression in a few words; `text` the whole statement as it is written.
    """

    id: str
    kind: NodeKind
    label: str
    dims: tuple[str, ...] = ()
    type: str = ""
    detail: str = ""
    doc: str = ""
    text: str = ""
    statement: ast.AnyStatement | None = None

    @property
    def shown(self) -> str:
        """The label with its index sets: `w[feat]`."""
        return f"{self.label}[{', '.join(self.dims)}]" if self.dims else self.label


@dataclass(frozen=True)
class Edge:
    """`target` depends on `source`; `argument` names the distribution's argument, if it is in one.

    The role `observed` runs from a datum to the site that observes it: a datum never depends on
    anything, so the graph has no circle even where y is also an input (an autoregression).
    """

    source: str
    target: str
    role: Role = "value"
    argument: str = ""


@dataclass(frozen=True)
class IndexSet:
    """An index set; `size` is None and `labels` empty where they come with the data."""

    name: str
    size: int | None = None
    labels: tuple[str, ...] = ()
    doc: str = ""


@dataclass(frozen=True)
class ModelGraph:
    """Nodes in the order of the text, edges in the order of mention, and the index sets.

    Acyclic: every name is declared before it is used, and data depend on nothing.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    index_sets: tuple[IndexSet, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        """Nodes by their id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def digraph(self) -> Digraph:
        """The graph for networkx: ids as nodes, one edge for each pair."""
        graph: Digraph = nx.DiGraph()
        graph.add_nodes_from(node.id for node in self.nodes)
        graph.add_edges_from((edge.source, edge.target) for edge in self.edges)
        return graph

    def of_kind(self, *kinds: NodeKind) -> tuple[Node, ...]:
        """The nodes of some kinds, in the order of the text."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    @property
    def acyclic(self) -> bool:
        """Whether the dependences have no circle; a checked model's never have one."""
        return nx.is_directed_acyclic_graph(self.digraph)

    def latents_of(self, id: str) -> tuple[str, ...]:
        """The latents that a node depends on, through any number of lets, in declared order.

        A latent depends on itself.
        """
        reached = nx.ancestors(self.digraph, id) | {id}
        return tuple(node.id for node in self.of_kind("latent") if node.id in reached)

    @cached_property
    def touched(self) -> Mapping[str, tuple[str, ...]]:
        """For each site, the latents that it touches."""
        return {site.id: self.latents_of(site.id) for site in self.of_kind(*SITES)}

    @cached_property
    def observed(self) -> tuple[str, ...]:
        """The data that a site observes, in declared order."""
        seen = {edge.source for edge in self.edges if edge.role == "observed"}
        return tuple(node.id for node in self.of_kind("data") if node.id in seen)

    @cached_property
    def plates(self) -> Mapping[str, tuple[str, ...]]:
        """For each index set that something has, the nodes that it repeats."""
        found: dict[str, tuple[str, ...]] = {}
        for index in self.index_sets:
            members = tuple(node.id for node in self.nodes if index.name in node.dims)
            if members:
                found[index.name] = members
        return found

    @cached_property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """Groups of latents that no site and no constraint connects: independent in the posterior.

        In declared order, each group by its first latent; hyperparameters are taken as given.
        """
        groups: nx.Graph[str] = nx.Graph()
        order = {node.id: place for place, node in enumerate(self.of_kind("latent"))}
        groups.add_nodes_from(order)
        for factor in self.of_kind(*SITES, "constrain"):
            nx.add_path(groups, self.latents_of(factor.id))
        parts = (sorted(part, key=order.__getitem__) for part in nx.connected_components(groups))
        return tuple(tuple(part) for part in sorted(parts, key=lambda p: order[p[0]]))

    @cached_property
    def untouched(self) -> tuple[str, ...]:
        """Latents that no site touches: their posterior is their prior."""
        reached = {name for names in self.touched.values() for name in names}
        return tuple(node.id for node in self.of_kind("latent") if node.id not in reached)
