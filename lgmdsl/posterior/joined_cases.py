"""What cases that join would change beside their own sites, which a design does not follow."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from lgmdsl.canonical.expressions.operators import TRANSFORMS, arguments
from lgmdsl.canonical.grounding.ground import GroundedModel
from lgmdsl.errors import Diagnostic, MethodError, Span, listed
from lgmdsl.graph.references import indices
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
    for statement in new.model.tree.statements:
        match statement:
            case ast.Potential(value=value, family=family):
                whole: list[ast.Value] = [value, *(a.value for a in family.arguments)]
                problems += _over("potential", statement.span, whole, new.model, grown)
            case ast.Constrain(left=left, right=right):
                problems += _over("constraint", statement.span, [left, right], new.model, grown)
            case ast.Observe(family=family):
                parts = [a.value for a in family.arguments]
                problems += _along(parts, new.model, grown)
            case ast.Latent(factors=factors):
                parts = [a.value for f in factors for a in f.arguments]
                problems += _along(parts, new.model, grown)
    if problems:
        raise MethodError(list(dict.fromkeys(problems)))


def runs_over(
    parts: Iterable[ast.Value], model: CheckedModel, grown: Collection[str]
) -> tuple[str, ...]:
    """The index sets of `grown` that expressions have entries for, or sum or operate along."""
    whole = list(parts)
    over = [i for part in whole for i in indices(part, model.symbols) if i in grown]
    over += [i for _, _, dims in _reductions(whole, model, grown) for i in dims]
    return tuple(dict.fromkeys(over))


def _over(
    what: str, span: Span, parts: list[ast.Value], model: CheckedModel, grown: Collection[str]
) -> Iterator[Diagnostic]:
    found = runs_over(parts, model, grown)
    if found:
        over = listed([f"`{i}`" for i in found])
        yield Diagnostic(
            "E501", f"no design takes a {what} over {over}, to which the candidates add", span,
            "a case joins by its observation alone",
            help=f"leave the {what} out, or put it on latents that the candidates share",
        )  # fmt: skip


def _along(
    parts: list[ast.Value], model: CheckedModel, grown: Collection[str]
) -> Iterator[Diagnostic]:
    for name, span, over in _reductions(parts, model, grown):
        told = listed([f"`{i}`" for i in over])
        yield Diagnostic(
            "E501", f"no design takes `{name}` over {told}, to which the candidates add", span,
            "a case that joins would change it for the others",
            help="write the predictor of a case without the other cases",
        )  # fmt: skip


def _reductions(
    parts: list[ast.Value], model: CheckedModel, grown: Collection[str]
) -> Iterator[tuple[str, Span, tuple[str, ...]]]:
    """Sums, contractions and operators along `grown`, by way of lets too: what the text calls
    them, where, and the indices."""
    symbols, seen = model.symbols, set[str]()
    waiting = list(reversed(parts))
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name):
                statement = symbols[name].statement if name in symbols else None
                if isinstance(statement, ast.Let) and name not in seen:
                    seen.add(name)
                    waiting.append(statement.value)
            case ast.Indexed(base=base):
                waiting.append(base)
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
