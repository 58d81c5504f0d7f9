"""E201: an index that is not on the left, with the term that brings it in."""

from __future__ import annotations

from collections.abc import Sequence

from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import has_indices, shown_index, text_of, with_dims


def complain_outside(
    value: ast.Expr,
    extra: Sequence[str],
    allowed: Sequence[str],
    shown: str,
    inference: Inference,
    scope: Scope,
    *,
    may_add: bool = False,
) -> None:
    """One error for each term that brings in an index that is not among those on the left.

    `may_add` says that the left side is a declaration whose indices can be changed.
    """
    reported: set[int] = set()
    for index in extra:
        term = offender(value, index, inference)
        if id(term) in reported:
            continue
        reported.add(id(term))
        if not allowed and _datum(shown, scope) and not scope.mention(f"{shown}[{index}]"):
            continue  # the datum lacks an index, and that is said once
        shape = inference.shapes.get(id(term))
        label = has_indices(shape.indices) if shape else f"has index [{shown_index(index)}]"
        scope.findings.error(
            "E201",
            f"index `{shown_index(index)}` does not belong to `{shown}`",
            term.span,
            label,
            help=_help(term, index, allowed, shown, inference, scope, may_add),
        )


def offender(value: ast.Expr, index: str, inference: Inference) -> ast.Expr:
    """The smallest part of an expression that brings in an index."""
    while True:
        match value:
            case ast.Binary():
                children: tuple[ast.Expr, ...] = (value.left, value.right)
            case ast.Unary():
                children = (value.operand,)
            case _:
                return value
        if isinstance(value, ast.Binary) and value.op == "*" and _both(children, index, inference):
            return value
        for child in children:
            shape = inference.shapes.get(id(child))
            if shape is not None and index in shape.indices:
                value = child
                break
        else:
            return value


def _both(children: Sequence[ast.Expr], index: str, inference: Inference) -> bool:
    shapes = [inference.shapes.get(id(c)) for c in children]
    return all(s is not None and index in s.indices for s in shapes)


def _help(
    term: ast.Expr,
    index: str,
    allowed: Sequence[str],
    shown: str,
    inference: Inference,
    scope: Scope,
    may_add: bool,
) -> str:
    text = text_of(term)
    if "~" in index:
        return 'give `diff` a boundary, which keeps the length: boundary = "zero"'
    maps = scope.maps_to(index, allowed)
    base = term.id if isinstance(term, ast.Name) else ""
    slots: list[str] = []
    if isinstance(term, ast.Indexed):
        base = term.base.id
        slots = [s.id if isinstance(s, ast.Name) else text_of(s) for s in term.slots]
    symbol = scope.symbols.get(base)
    if maps and symbol is not None:
        dims = slots or list(symbol.dims)
        picked = with_dims(base, [maps[0] if d == index else d for d in dims])
        frm = ", ".join(scope.symbols[maps[0]].dims) or "a label"
        return f"`{maps[0]}` maps {frm} to {index}: write {picked}"
    if isinstance(term, ast.Binary) and term.op == "*":
        pair = (text_of(term.left), text_of(term.right))
        shapes = [inference.shapes.get(id(c)) for c in (term.left, term.right)]
        shared = set.intersection(*(set(s.indices) for s in shapes if s is not None))
        if shared == {index}:
            return f"`@` multiplies and sums over the shared index: {pair[0]} @ {pair[1]}"
    over = ", ".join(allowed)
    summed = f"sum over it: sum({text}, {index})"
    if may_add:
        name = shown.partition("[")[0]
        return f"add it on the left: {with_dims(name, [*allowed, index])}, or {summed}"
    if not allowed and _datum(shown, scope):
        return f"declare the datum over it: data {shown}[{index}] : {scope.symbols[shown].type}"
    if not allowed:
        return f"pick one label of it, or {summed}"
    return f"declare a map, data {index}_of[{over}] : {index}, or {summed}"


def _datum(name: str, scope: Scope) -> bool:
    return name in scope.symbols and scope.symbols[name].kind == "data"
