"""What cases that join would change beside their own sites, which a design does not follow."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lgmdsl.canonical.expressions.operators import TRANSFORMS, arguments
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.errors import Diagnostic, MethodError, Span, listed
from lgmdsl.graph.model_graph import ModelGraph, Node
from lgmdsl.graph.references import expressions, indices
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast


def check_joining(new: GroundedModel) -> None:
    """Raise MethodError E501 where candidates bring members to an index that a potential or a
    constraint runs over, or along which an expression sums or applies an operator.

    A case joins by its own observation alone: terms of the others that change with it, and
    potentials and constraints of its own, would be left out. All are told in one pass.
    """
    grown = frozenset({*new.replaced, *new.new_levels})
    problems: list[Diagnostic] = []
    for node in new.graph.of_kind("latent", "observe", "potential", "constrain"):
        if node.kind in ("latent", "observe"):
            problems += _along(node, new.graph, grown)
        else:
            problems += _over(node, new.graph, grown)
    if problems:
        raise MethodError(list(dict.fromkeys(problems)))


def runs_over(node: Node, graph: ModelGraph, grown: Collection[str]) -> tuple[str, ...]:
    """The index sets of `grown` that a node's expressions have entries for, or sum or operate
    along."""
    symbols = graph.model.symbols
    over = [i for e in expressions(node.statement) for i in indices(e, symbols) if i in grown]
    over += [i for _, _, dims in _reductions(node, graph, grown) for i in dims]
    return tuple(dict.fromkeys(over))


def _over(node: Node, graph: ModelGraph, grown: Collection[str]) -> Iterator[Diagnostic]:
    found = runs_over(node, graph, grown)
    if found and node.statement is not None:
        what = "potential" if node.kind == "potential" else "constraint"
        over = listed([f"`{i}`" for i in found])
        yield Diagnostic(
            "E501", f"no design takes a {what} over {over}, to which the candidates add",
            node.statement.span, "a case joins by its observation alone",
            help=f"leave the {what} out, or put it on latents that the candidates share",
        )  # fmt: skip


def _along(node: Node, graph: ModelGraph, grown: Collection[str]) -> Iterator[Diagnostic]:
    for name, span, over in _reductions(node, graph, grown):
        told = listed([f"`{i}`" for i in over])
        yield Diagnostic(
            "E501", f"no design takes `{name}` over {told}, to which the candidates add", span,
            "a case that joins would change it for the others",
            help="write the predictor of a case without the other cases",
        )  # fmt: skip


def _reductions(
    node: Node, graph: ModelGraph, grown: Collection[str]
) -> Iterator[tuple[str, Span, tuple[str, ...]]]:
    """Sums, contractions and operators along `grown` in a node's expressions and in those of the
    lets behind it: what the text calls them, where, and the indices."""
    for part in (node, *graph.lets_of(node.id)):
        for value in expressions(part.statement):
            yield from _within(value, graph.model, grown)


def _within(
    value: ast.Value, model: CheckedModel, grown: Collection[str]
) -> Iterator[tuple[str, Span, tuple[str, ...]]]:
    symbols, waiting = model.symbols, [value]
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Unary(operand=operand):
                waiting.append(operand)
            case ast.Binary(op=op, left=left, right=right):
                if op == "@":
                    both = set(indices(left, symbols)) & set(indices(right, symbols))
                    if over := tuple(i for i in grown if i in both):
                        yield "@", node.span, over
                waiting += [right, left]
            case ast.Call(function=function, positional=positional, named=named):
                if over := tuple(i for i in _axes(node, model) if i in grown):
                    yield function.id, node.span, over
                waiting += [*(a.value for a in named), *positional]


def _axes(call: ast.Call, model: CheckedModel) -> tuple[str, ...]:
    """The indices that a call runs along."""
    name = call.function.id
    if name == "sum":
        return tuple(part.id for part in call.positional[1:] if isinstance(part, ast.Name))
    if name not in TRANSFORMS:
        return ()
    given = arguments(call)
    along = given.get("index")
    return (along.id,) if isinstance(along, ast.Name) else indices(given["expr"], model.symbols)
