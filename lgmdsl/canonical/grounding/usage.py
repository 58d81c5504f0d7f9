"""How a model uses its data: what is observed, what `@` contracts, what new rows may replace."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from lgmdsl.canonical.grounding.order import spacing_of
from lgmdsl.contract.censoring import ENDS, OBSERVING
from lgmdsl.contract.structure import Members
from lgmdsl.graph.model_graph import Edge, ModelGraph
from lgmdsl.language.check.values import takes_hurdle
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.structures.catalogue import members_of
from lgmdsl.vocabulary.lookup import DATA_TYPES, lookup
from lgmdsl.vocabulary.signature import Category

RESTRICTED = frozenset(DATA_TYPES) - {"real"}
# Where an end of an interval is when it is open.
OPEN = dict(zip(ENDS, (-math.inf, math.inf), strict=True))


@dataclass(frozen=True)
class Usage:
    """`observed`: responses of `observe` statements. `referenced`: those in expressions.
    `contracted`: those that are only operands of `@`, or the matrix of a structure. `outcome`: data
    on how a response was observed (`event`, `lower`, `upper`, `entry`, `weight`) and nothing else.
    `unused`: those that nothing depends on. `bounded`: responses that `lower` or `upper` stand in
    for where they are not known themselves. `typed`: data in arguments that want their type.
    `hurdles`: responses of families that may have a hurdle for zeros. `seen`: the arguments that
    say how each response was observed. `ends`: the value of an open end, of data that are nothing
    but ends of intervals.
    `rows`: index sets new data may replace. `steps`: those of which new data may name the members,
    known and new ones, as the order of their labels gives each a place. `growing`: those that take
    new labels."""

    observed: frozenset[str]
    referenced: frozenset[str]
    contracted: frozenset[str]
    outcome: frozenset[str]
    unused: frozenset[str]
    bounded: frozenset[str]
    typed: frozenset[str]
    hurdles: frozenset[str]
    seen: Mapping[str, tuple[str, ...]]
    ends: Mapping[str, float]
    rows: frozenset[str]
    steps: frozenset[str]
    growing: frozenset[str]

    @property
    def responses(self) -> frozenset[str]:
        """What predictions do without: responses that no predictor has in it, how they were
        observed, and what is not used."""
        return (self.observed - self.referenced) | self.outcome | self.unused


def usage_of(graph: ModelGraph) -> Usage:
    """Read the use of every name off the graph."""
    observed = frozenset(graph.observed)
    used = {node.id: graph.targets[node.id] for node in graph.of_kind("data")}
    rows, steps, growing = _index_sets(graph.model, observed)
    statements = [node.statement for node in graph.of_kind("observe")]
    families = {s.name.id: s.family for s in statements if isinstance(s, ast.Observe)}
    return Usage(
        observed=observed,
        referenced=frozenset(name for name, edges in used.items() if edges),
        contracted=frozenset(
            name for name, edges in used.items() if edges and all(e.operand for e in edges)
        ),
        outcome=frozenset(
            name
            for name, edges in used.items()
            if edges and all(_of_observing(graph, e) for e in edges)
        ),
        unused=frozenset(name for name, edges in used.items() if not edges) - observed,
        bounded=frozenset(
            name
            for name, family in families.items()
            if any(a.name in ENDS for a in family.arguments)
        ),
        typed=frozenset(
            name for name, edges in used.items() if any(_of_type(graph, e) for e in edges)
        ),
        hurdles=frozenset(name for name, family in families.items() if _may_have_hurdle(family)),
        seen={
            name: tuple(a.name for a in family.arguments if a.name in OBSERVING)
            for name, family in families.items()
        },
        ends={
            name: OPEN[end]
            for name, edges in used.items()
            for end in OPEN
            if edges and all(_of_observing(graph, e) and e.argument == end for e in edges)
        },
        rows=frozenset(rows),
        steps=frozenset(steps),
        growing=frozenset(growing),
    )


def _may_have_hurdle(family: ast.Dist) -> bool:
    signature = lookup("family", family.name.id)
    return signature is not None and takes_hurdle(signature, {a.name for a in family.arguments})


def _of_observing(graph: ModelGraph, edge: Edge) -> bool:
    """Whether a datum appears in an argument about how a response was observed."""
    return graph.by_id[edge.target].kind == "observe" and edge.argument in OBSERVING


def _of_type(graph: ModelGraph, edge: Edge) -> bool:
    """Whether a mention stands in an argument of a site that takes data of some type alone."""
    statement = graph.by_id[edge.target].statement
    if not isinstance(statement, ast.Observe | ast.Potential) or not edge.argument:
        return False
    category: Category = "family" if isinstance(statement, ast.Observe) else "potential"
    signature = lookup(category, statement.family.name.id)
    parameter = signature.parameter(edge.argument) if signature else None
    return parameter is not None and parameter.type in RESTRICTED


def _index_sets(
    model: CheckedModel, observed: Collection[str]
) -> tuple[set[str], set[str], set[str]]:
    """`rows`: axes of a response that nothing else ties down: undeclared, without hyperparameters,
    graphs or ordered structures over them. `steps`: those with an ordered structure. `growing`."""
    axes = {dim for name in observed if name in model.symbols for dim in model.symbols[name].dims}
    declared: set[str] = set()
    counted: set[str] = set()
    whole: set[str] = set()
    ordered: set[str] = set()
    targets: set[str] = set()
    for symbol in model.symbols.values():
        statement = symbol.statement
        if isinstance(statement, ast.Index) and statement.definition is not None:
            plain = isinstance(statement.definition, ast.Size | ast.Range)
            (counted if plain else declared).add(symbol.name)
            if isinstance(statement.definition, ast.Head):
                whole.add(statement.definition.of.id)
        elif symbol.kind == "hyper" or symbol.type == "graph":
            whole |= set(symbol.dims)
        elif isinstance(statement, ast.Latent):
            for dim, factor in latent_axes(statement):
                members = members_of(factor.name.id)
                if members is Members.FIXED:
                    whole.add(dim)
                elif members is Members.ORDERED and spacing_of(factor) is not None:
                    ordered.add(dim)
        if symbol.target is not None:
            targets.add(symbol.target)
    growing = {s.name for s in model.of_kind("index")} - declared - whole - (counted - ordered)
    rows = axes - declared - counted - whole - ordered - targets
    return rows, (axes & ordered & growing) - targets, growing - rows


def latent_axes(statement: ast.Latent) -> Iterator[tuple[str, ast.Dist]]:
    """Each index of a latent with the structure over it."""
    dims = [dim.id for dim in statement.dims]
    if len(statement.factors) == 1:
        yield from ((dim, statement.factors[0]) for dim in dims)
    else:
        yield from zip(dims, statement.factors, strict=False)
