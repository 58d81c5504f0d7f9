"""Which index sets need an order, and for whom: read off what structures, families and operators
declare (`ordered_axis`, `spacing`), never off their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from lgmdsl.errors import Span
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Category, Numbers, Signature


@dataclass(frozen=True)
class Need:
    """`user` (a name of the language) needs an order of `index`; `numbers` is what labels that are
    numbers or dates mean to it; `span` is its place in the text."""

    index: str
    user: str
    numbers: Numbers
    span: Span


def needs_of(model: CheckedModel) -> Mapping[str, tuple[Need, ...]]:
    """All needs, by index set."""
    needs: dict[str, tuple[Need, ...]] = {}
    for need in _needs(model):
        needs[need.index] = (*needs.get(need.index, ()), need)
    return needs


def spacing_of(factor: ast.Dist) -> tuple[Signature, Numbers] | None:
    """The structure of a factor and what labels mean along its axis; None where the axis needs no
    order, because it has none or because an argument gives the positions."""
    signature = _ordered("structure", factor.name.id)
    if signature is None or (signature.spacing.at and factor.get(signature.spacing.at) is not None):
        return None
    circle = factor.get(signature.spacing.circle) if signature.spacing.circle else None
    closed = isinstance(circle, ast.Bool) and circle.value
    return signature, "steps" if closed else signature.spacing.numbers


def _needs(model: CheckedModel) -> Iterator[Need]:
    for statement in model.tree.statements:
        if isinstance(statement, ast.Index) and isinstance(statement.definition, ast.Head):
            yield Need(statement.definition.of.id, "head", "order", statement.definition.span)
        elif isinstance(statement, ast.Latent):
            for dim, factor in zip(statement.dims, statement.factors, strict=False):
                spaced = spacing_of(factor)
                if spaced is not None:
                    yield Need(dim.id, spaced[0].name, spaced[1], factor.span)
        elif isinstance(statement, ast.Observe):
            symbol, family = model.symbols.get(statement.name.id), statement.family.name
            target = symbol.target if symbol is not None else None
            if target is not None and _ordered("family", family.id) is not None:
                yield Need(target, family.id, "order", family.span)
        for call in calls_in(statement):
            signature = _ordered("operator", call.function.id)
            if signature is not None:
                yield from _along(call, signature)


def _along(call: ast.Call, signature: Signature) -> Iterator[Need]:
    from lgmdsl.canonical.expressions.operators import arguments

    by_name = arguments(call)
    for parameter in signature.parameters:
        value = by_name.get(parameter.name)
        if parameter.type == "index" and isinstance(value, ast.Name):
            yield Need(value.id, signature.name, "order", call.function.span)


def _ordered(category: Category, name: str) -> Signature | None:
    signature = lookup(category, name)
    return signature if signature is not None and signature.ordered_axis else None


def calls_in(node: ast.Node) -> Iterator[ast.Call]:
    """The operators and functions that are called under a node."""
    stack: list[object] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, ast.Call):
            yield item
        if isinstance(item, tuple):
            stack.extend(item)
        elif isinstance(item, ast.Node):
            stack.extend(getattr(item, f.name) for f in fields(item) if f.name != "span")
