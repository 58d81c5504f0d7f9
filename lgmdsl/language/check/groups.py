"""Check the `group` of a potential: an index of its expression, or a map from its indices."""

from __future__ import annotations

from lgmdsl.language.check.place import Place
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import has_indices, text_of


def group_dims(value: ast.Value, place: Place, scope: Scope) -> tuple[str, ...] | None:
    """The indices of the groups that `group = value` makes of an expression: its indices but for
    the one that is named, or the labels of a map; None after a complaint."""
    if isinstance(value, ast.Name):
        symbol = scope.resolve(value, "index or map")
        if symbol is None:
            return None
        if symbol.kind == "index" and symbol.name in place.dims:
            return tuple(d for d in place.dims if d != symbol.name)
        if symbol.target and symbol.dims and set(symbol.dims) <= set(place.dims):
            return (symbol.target,)
    last = f"write group = {place.dims[-1]}" if place.dims else ""
    maps = scope.maps_to(value.id, place.dims) if isinstance(value, ast.Name) else []
    if maps:
        last = f"`{maps[0]}` maps the entries to `{text_of(value)}`: write group = {maps[0]}"
    scope.findings.error(
        "E108",
        f"`group` of `{place.name}` must be an index of the expression, or a map from its indices",
        value.span,
        f"found {text_of(value)}; the expression {has_indices(place.dims)}",
        help=last or "leave `group` out: there is one entry",
    )
    return None
