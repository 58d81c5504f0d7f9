"""The value of a declared name, and how messages speak of it."""

from __future__ import annotations

from lgmdsl.language.checked import Symbol
from lgmdsl.language.shapes.scope import Scope, place_of
from lgmdsl.language.shapes.shape import RANK, Context, Shape
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import in_line, with_dims


def name_shape(node: ast.Name, scope: Scope, context: Context) -> Shape | None:
    """The shape of a whole value, named without slots."""
    symbol = scope.resolve(node)
    if symbol is None:
        return None
    if symbol.kind == "index":
        scope.findings.error(
            "E108",
            f"`{node.id}` is an index, not a value",
            node.span,
            "a value is wanted",
            help=f"declare a datum over it: data {node.id}_value[{node.id}] : real",
        )
        return None
    return symbol_shape(symbol, node, scope, context)


def symbol_shape(symbol: Symbol, node: ast.Name, scope: Scope, context: Context) -> Shape | None:
    """The shape of a declared value; reports may be used in reports only."""
    if symbol.kind == "report" and not context.reports:
        scope.findings.error(
            "E108",
            f"`{node.id}` is a report, and may be used only in reports",
            node.span,
            f"declared{in_line(place_of(symbol))}",
            help=f"declare it with `let`: let {with_dims(symbol.name, symbol.dims)} = ...",
        )
        return None
    latent = symbol.name if symbol.kind == "latent" else scope.witness.get(symbol.name, "")
    if not latent and RANK[symbol.degree] >= RANK["affine"]:
        latent = symbol.name
    kind = "index" if symbol.target else symbol.type or "real"
    return Shape(symbol.dims, symbol.degree, kind, None, latent, atom=True)


def where(name: str, scope: Scope) -> str:
    """` (line 10)` of a declared name."""
    symbol = scope.symbols.get(name)
    return in_line(place_of(symbol)) if symbol else ""


def described(name: str, scope: Scope) -> str:
    """``the latent `z` (line 11)``."""
    return f"the latent `{name}`{where(name, scope)}"


def as_hyper(name: str, scope: Scope) -> str:
    """The declaration that would make a latent a hyper."""
    symbol = scope.symbols.get(name)
    dims = symbol.dims if symbol else ()
    return f"hyper {with_dims(name, dims)} : real ~ normal(sd = 1)"
