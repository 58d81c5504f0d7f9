"""Effects of joining cases other than their own observations, which a design does not model."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lgmdsl.canonical.expressions.reductions import reductions
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.errors import Diagnostic, MethodError, listed
from lgmdsl.graph.model_graph import FACTORS, ModelGraph, Node
from lgmdsl.graph.references import expressions, indices


def check_joining(new: GroundedModel) -> None:
    """Raise MethodError E501 where candidates bring members to an index that a potential or a
    constraint runs over, or along which an expression sums or applies an operator.

    A case joins by its own observation alone: terms of the others that change with it, and
    its potentials and constraints, would be left out. All are reported in one pass.
    """
    grown = frozenset({*new.replaced, *new.new_levels})
    problems: list[Diagnostic] = []
    for node in new.graph.of_kind("latent", *FACTORS):
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
    over += [
        i for reduction in reductions(_parts(node, graph), graph, grown) for i in reduction.along
    ]
    return tuple(dict.fromkeys(over))


def _parts(node: Node, graph: ModelGraph) -> tuple[Node, ...]:
    return (node, *graph.lets_of(node.id))


def _over(node: Node, graph: ModelGraph, grown: Collection[str]) -> Iterator[Diagnostic]:
    axes = runs_over(node, graph, grown)
    if axes and node.statement is not None:
        kind = "potential" if node.kind == "potential" else "constraint"
        over = listed([f"`{i}`" for i in axes])
        yield Diagnostic(
            "E501",
            f"no design takes a {kind} over {over}, to which the candidates add",
            node.statement.span,
            "a case joins by its observation alone",
            help=f"leave the {kind} out, or put it on latents that the candidates share",
        )


def _along(node: Node, graph: ModelGraph, grown: Collection[str]) -> Iterator[Diagnostic]:
    for reduction in reductions(_parts(node, graph), graph, grown):
        over = listed([f"`{i}`" for i in reduction.along])
        yield Diagnostic(
            "E501",
            f"no design takes `{reduction.name}` over {over}, to which the candidates add",
            reduction.span,
            "a case that joins would change it for the others",
            help="write the predictor of a case without the other cases",
        )
