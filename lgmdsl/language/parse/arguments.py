"""E102: an argument without its name. The help line puts the names in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from lgmdsl.errors import Diagnostic, Span, listed
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import show
from lgmdsl.language.tree.statements import BY_WORD
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Category, Parameter, Signature


def _categories(role: str) -> tuple[Category, ...]:
    """What may stand as a distribution in a statement, or as a call."""
    return ("operator", "function", "kernel") if role == "call" else BY_WORD[role].categories


def unnamed_arguments(
    function: str,
    role: str,
    values: Sequence[ast.Value],
    named: Sequence[ast.Argument],
    span: Span,
) -> tuple[Diagnostic, list[str | None] | None]:
    """`values` stand without names in `function(...)`, in a statement or call of this role.

    Returned with the diagnostic: the names that were most likely meant (None for an argument that
    needs none), so that checking can go on; None where there is no telling.
    """
    signature = _signature(function, role)
    label = "expected `name = value`"
    comma = _decimal_comma(function, values, named)
    if comma is not None:
        return comma, None
    message = f"the arguments of `{function}` are named"
    if signature is None:
        example = f"{function}({', '.join(['... = ' + show(v) for v in values])})"
        help = f"each argument has a name: {example}"
        return Diagnostic("E102", message, span, label, help=help), []
    if role == "call":
        message = f"this argument of `{function}` is named"
    parameters = _guess(signature, len(values), {a.name for a in named}, role)
    note = signature.show()
    if parameters is None:
        help = f"name each argument: {_names(signature)}"
        if not signature.parameters:
            message = f"`{function}` takes no arguments"
            label, help = "nothing is here", f"write {function}"
        return Diagnostic("E102", message, span, label, note=note, help=help), None
    pairs = [
        show(v) if p is None else f"{p.name} = {show(v)}"
        for p, v in zip(parameters, values, strict=True)
    ]
    pairs += [f"{a.name} = {show(a.value)}" for a in named]
    help = f"{function}({', '.join(pairs)})"
    others = _alternatives(signature, [p for p in parameters if p])
    if others:
        help += f", or {listed(others, 'or')} in place of `{_linked(signature, parameters)}`"
    names = [None if p is None else p.name for p in parameters]
    return Diagnostic("E102", message, span, label, note=note, help=help), names


def _decimal_comma(
    function: str, values: Sequence[ast.Value], named: Sequence[ast.Argument]
) -> Diagnostic | None:
    """`sd = 2,5`: two whole numbers with nothing but a comma between them."""
    ahead = next((a for a in reversed(named) if a.value.span.end < values[0].span.start), None)
    row = [ahead.value, *values] if ahead else [*values]
    for first, second in pairwise(row):
        if not isinstance(first, ast.Number) or not isinstance(second, ast.Number):
            continue
        span = first.span.to(second.span)
        whole, _, fraction = span.source.text[span.start : span.end].partition(",")
        if span.known and whole.isdigit() and fraction.isdigit():
            name = f"{ahead.name} = " if ahead and first is ahead.value else ""
            return Diagnostic(
                "E102",
                f"an argument of `{function}` has a decimal comma",
                span,
                f"expected {whole}.{fraction}",
                help=f"write {name}{whole}.{fraction}",
            )
    return None


def _signature(function: str, role: str) -> Signature | None:
    signatures = (lookup(category, function) for category in _categories(role))
    return next((s for s in signatures if s is not None), None)


def _guess(
    signature: Signature, count: int, taken: set[str], role: str
) -> list[Parameter | None] | None:
    """The parameters that `count` unnamed values most likely mean: the required ones where that
    is enough of them, else all in order. None where there are not so many. In a call the leading
    arguments may go without names, and are given as None."""
    free: list[Parameter] = []
    groups: set[str] = {p.one_of for p in signature.parameters if p.one_of and p.name in taken}
    leading = signature.positional if role == "call" else 0
    for p in signature.parameters[leading:]:
        if p.name not in taken and (not p.one_of or p.one_of not in groups):
            free.append(p)
            groups |= {p.one_of} - {""}
    unnamed: list[Parameter | None] = [None] * min(leading, count)
    count -= len(unnamed)
    required = [p for p in free if p.required]
    if count <= len(required):
        return [*unnamed, *required[:count]]
    return [*unnamed, *free[:count]] if count <= len(free) else None


def _alternatives(signature: Signature, chosen: Sequence[Parameter]) -> list[str]:
    groups = {p.one_of for p in chosen if p.one_of}
    names = {p.name for p in chosen}
    return [
        f"`{p.name}`"
        for p in signature.parameters
        if p.one_of in groups - {""} and p.name not in names
    ]


def _linked(signature: Signature, chosen: Sequence[Parameter | None]) -> str:
    return next(p.name for p in chosen if p is not None and p.one_of)


def _names(signature: Signature) -> str:
    return " ".join(p.name for p in signature.parameters)
