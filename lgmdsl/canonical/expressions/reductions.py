"""Where expressions join the members of an index: sums, contractions and operators along it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from lgmdsl.canonical.expressions.operators import TRANSFORMS, arguments
from lgmdsl.errors import Span
from lgmdsl.graph.model_graph import ModelGraph, Node
from lgmdsl.graph.references import expressions, indices
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast


@dataclass(frozen=True)
class Reduction:
    """Where an expression joins members: the name in the text, the span, and the index sets along
    which it runs."""

    name: str
    span: Span
    along: tuple[str, ...]


def reductions(
    nodes: Iterable[Node], graph: ModelGraph, among: Collection[str]
) -> Iterator[Reduction]:
    """The reductions along index sets of `among` in the expressions of some nodes."""
    for node in nodes:
        for value in expressions(node.statement):
            yield from _within(value, graph.model, among)


def picks(nodes: Iterable[Node], graph: ModelGraph) -> frozenset[str]:
    """The index sets of which an expression of the nodes names one member: `u["a"]`."""
    symbols, picked = graph.model.symbols, set[str]()
    waiting = [value for node in nodes for value in expressions(node.statement)]
    while waiting:
        value = waiting.pop()
        match value:
            case ast.Indexed(base=base, slots=slots):
                pairs = zip(slots, symbols[base.id].dims, strict=True)
                picked |= {dim for slot, dim in pairs if not isinstance(slot, ast.Name)}
            case ast.Unary(operand=operand):
                waiting.append(operand)
            case ast.Binary(left=left, right=right):
                waiting += [left, right]
            case ast.Call(positional=positional, named=named):
                waiting += [*positional, *(a.value for a in named)]
    return frozenset(picked)


def _within(value: ast.Value, model: CheckedModel, among: Collection[str]) -> Iterator[Reduction]:
    symbols, waiting = model.symbols, [value]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Unary(operand=operand):
                waiting.append(operand)
            case ast.Binary(op=op, left=left, right=right):
                if op == "@":
                    both = set(indices(left, symbols)) & set(indices(right, symbols))
                    if over := tuple(i for i in among if i in both):
                        yield Reduction("@", node.span, over)
                waiting += [right, left]
            case ast.Call(function=function, positional=positional, named=named):
                if over := tuple(i for i in _axes(node, model) if i in among):
                    yield Reduction(function.id, node.span, over)
                waiting += [*(a.value for a in named), *positional]


def _axes(call: ast.Call, model: CheckedModel) -> tuple[str, ...]:
    """The indices that a call runs along."""
    name = call.function.id
    if name == "sum":
        return tuple(part.id for part in call.positional[1:] if isinstance(part, ast.Name))
    if name not in TRANSFORMS:
        return ()
    by_name = arguments(call)
    along = by_name.get("index")
    return (along.id,) if isinstance(along, ast.Name) else indices(by_name["expr"], model.symbols)
