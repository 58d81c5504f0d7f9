"""The model graph: what a model contains, what depends on what, and what follows from that.

Plates (index sets), the latents that a site touches and the parts that do not interact are read
off the declarations here, before any data are seen. The compiler orders its work by this graph, and
whoever asks what depends on what asks it here. Reachability is a pass over the edges,
so that checking a model does not wait for networkx; `ModelGraph.digraph` is the graph in networkx.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from lgmdsl.errors import NO_SOURCE, NOWHERE, Span
from lgmdsl.graph.references import Role
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast

if TYPE_CHECKING:
    import networkx as nx

    Digraph: TypeAlias = nx.MultiDiGraph[str]

NodeKind = Literal["data", "hyper", "latent", "let", "observe", "potential", "constrain", "report"]
SITES: tuple[NodeKind, ...] = ("observe", "potential")
# What multiplies the prior of the latents.
FACTORS: tuple[NodeKind, ...] = (*SITES, "constrain")
LETS: tuple[NodeKind, ...] = ("let",)


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
    anything, so the graph has no cycle even where y is also an input (an autoregression).
    `operand`: every mention is a whole operand of `@`, or the matrix of a structure. `span`: the
    first mention.
    """

    source: str
    target: str
    role: Role = "value"
    argument: str = ""
    operand: bool = False
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class IndexSet:
    """An index set; `size` is None and `labels` empty where they come with the data. `users`: the
    nodes, and other index sets, that name it."""

    name: str
    size: int | None = None
    labels: tuple[str, ...] = ()
    doc: str = ""
    users: tuple[str, ...] = ()
    statement: ast.Index | None = None


NOTHING = CheckedModel(ast.Ast(()), {}, NO_SOURCE)


@dataclass(frozen=True)
class ModelGraph:
    """Nodes in the order of the text, edges in the order of mention, and the index sets.

    Acyclic: in a checked model every name is declared before it is used, and data depend on
    nothing. `model` is what the graph was read off.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    index_sets: tuple[IndexSet, ...] = ()
    model: CheckedModel = field(default=NOTHING, compare=False, repr=False)

    @cached_property
    def by_id(self) -> Mapping[str, Node]:
        """Nodes by their id."""
        return {node.id: node for node in self.nodes}

    @cached_property
    def digraph(self) -> Digraph:
        """The graph in networkx: ids as nodes with their kind, dims and label, and every edge with
        its role and argument."""
        import networkx as nx

        graph: Digraph = nx.MultiDiGraph()
        for node in self.nodes:
            graph.add_node(node.id, kind=node.kind, dims=node.dims, label=node.label)
        for edge in self.edges:
            graph.add_edge(edge.source, edge.target, role=edge.role, argument=edge.argument)
        return graph

    def of_kind(self, *kinds: NodeKind) -> tuple[Node, ...]:
        """The nodes of some kinds, in the order of the text."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    # ---- what depends on what ------------------------------------------------------------------

    @cached_property
    def sources(self) -> Mapping[str, tuple[Edge, ...]]:
        """For each node, the edges into it, in the order of mention; what it observes is none."""
        incoming: dict[str, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            if edge.role != "observed":
                incoming[edge.target].append(edge)
        return {id: tuple(edges) for id, edges in incoming.items()}

    @cached_property
    def targets(self) -> Mapping[str, tuple[Edge, ...]]:
        """For each node, the edges out of it, in the order of mention; to the site that observes it
        is none."""
        outgoing: dict[str, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            if edge.role != "observed":
                outgoing[edge.source].append(edge)
        return {id: tuple(edges) for id, edges in outgoing.items()}

    @cached_property
    def order(self) -> tuple[Node, ...]:
        """The nodes, each after all that it depends on, and otherwise in the order of the text;
        those on a cycle, and behind it, are left out."""
        place = {node.id: k for k, node in enumerate(self.nodes)}
        waits = {node.id: len(self.sources[node.id]) for node in self.nodes}
        ready = [k for k, node in enumerate(self.nodes) if not waits[node.id]]
        out: list[Node] = []
        while ready:
            node = self.nodes[heappop(ready)]
            out.append(node)
            for edge in self.targets[node.id]:
                waits[edge.target] -= 1
                if not waits[edge.target]:
                    heappush(ready, place[edge.target])
        return tuple(out)

    def ordered(self, *kinds: NodeKind) -> tuple[Node, ...]:
        """The nodes of some kinds, each after all that it depends on."""
        return tuple(node for node in self.order if node.kind in kinds)

    @cached_property
    def _ancestors(self) -> Mapping[str, int]:
        """For each node the set of those that it depends on, bit k for the k-th of the text."""
        place = {node.id: k for k, node in enumerate(self.nodes)}
        ancestors: dict[str, int] = {}
        for node in self.order:
            bits = 0
            for edge in self.sources[node.id]:
                bits |= ancestors[edge.source] | (1 << place[edge.source])
            ancestors[node.id] = bits
        return ancestors

    @cached_property
    def _kinds(self) -> Mapping[NodeKind, int]:
        """For each kind the set of its nodes, in the same bits."""
        kinds: dict[NodeKind, int] = dict.fromkeys(get_args(NodeKind), 0)
        for k, node in enumerate(self.nodes):
            kinds[node.kind] |= 1 << k
        return kinds

    def depends(self, id: str, *kinds: NodeKind) -> tuple[str, ...]:
        """What a node depends on, through anything: the nodes of some kinds (all, if none is named)
        in the order of the text, the node itself not among them."""
        bits, names = self._ancestors[id], []
        if kinds:
            bits &= sum(self._kinds[kind] for kind in set(kinds))
        while bits:
            lowest = bits & -bits
            names.append(self.nodes[lowest.bit_length() - 1].id)
            bits ^= lowest
        return tuple(names)

    def behind(
        self,
        ids: Iterable[str],
        through: tuple[NodeKind, ...] = LETS,
        stop: Collection[str] = (),
    ) -> tuple[str, ...]:
        """What some nodes depend on by themselves and by way of nodes of the kinds `through`, in
        the order of the text, these among it: data and hypers in a predictor, lets followed, or the
        hypers that hypers are made of. Nodes of `stop` are not followed."""
        return self._closure(ids, through, stop, forward=False)

    def ahead(self, ids: Iterable[str], through: tuple[NodeKind, ...] = LETS) -> tuple[str, ...]:
        """What depends on some nodes, by themselves and by way of nodes of the kinds `through`, in
        the order of the text."""
        return self._closure(ids, through, (), forward=True)

    def lets_of(self, *ids: str) -> tuple[Node, ...]:
        """The lets that the expressions of some nodes are made of, in the order of the text."""
        return tuple(self.by_id[id] for id in self.behind(ids) if self.by_id[id].kind == "let")

    def _closure(
        self,
        ids: Iterable[str],
        through: tuple[NodeKind, ...],
        stop: Collection[str],
        forward: bool,
    ) -> tuple[str, ...]:
        waiting, reached = [id for id in ids if id not in stop], set[str]()
        while waiting:
            id = waiting.pop()
            edges = self.targets[id] if forward else self.sources[id]
            for other in (e.target if forward else e.source for e in edges):
                if other not in reached:
                    reached.add(other)
                    if self.by_id[other].kind in through and other not in stop:
                        waiting.append(other)
        return tuple(node.id for node in self.nodes if node.id in reached)

    # ---- what follows for latents and sites ----------------------------------------------------

    def latents_of(self, id: str) -> tuple[str, ...]:
        """The latents that a node depends on, through any number of lets, in declared order.

        A latent depends on itself.
        """
        itself = (id,) if self.by_id[id].kind == "latent" else ()
        return (*self.depends(id, "latent"), *itself)

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
    def responses(self) -> frozenset[str]:
        """The observed data that nothing depends on."""
        return frozenset(name for name in self.observed if not self.targets[name])

    @cached_property
    def plates(self) -> Mapping[str, tuple[str, ...]]:
        """For each index set that something has, the nodes that it repeats."""
        repeated: dict[str, tuple[str, ...]] = {}
        for index in self.index_sets:
            members = tuple(node.id for node in self.nodes if index.name in node.dims)
            if members:
                repeated[index.name] = members
        return repeated

    @cached_property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """Groups of latents that no site and no constraint connects: independent in the posterior.

        In declared order, each group by its first latent; hyperparameters are taken as given.
        """
        group = {node.id: [node.id] for node in self.of_kind("latent")}
        for factor in self.of_kind(*FACTORS):
            first, *others = self.latents_of(factor.id) or ("",)
            for other in others:
                mine, its = group[first], group[other]
                if mine is not its:
                    mine += its
                    group |= dict.fromkeys(its, mine)
        parts = {id(members): set(members) for members in group.values()}
        order = [node.id for node in self.of_kind("latent")]
        groups = [tuple(name for name in order if name in part) for part in parts.values()]
        return tuple(sorted(groups, key=lambda part: order.index(part[0])))
