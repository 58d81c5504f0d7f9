"""What is known of a value: its indices, its degree in the latents, its type."""

from __future__ import annotations

from dataclasses import dataclass

from lgmdsl.language.checked import Degree, Symbol
from lgmdsl.language.shapes.scope import Scope, place_of
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import bracketed, in_line, text_of, with_dims

RANK: dict[Degree, int] = {"constant": 0, "hyper": 1, "affine": 2, "nonlinear": 3}


@dataclass(frozen=True, slots=True)
class Shape:
    """`value` is that of an expression of numbers only; `latent` is one latent it depends on;
    `atom` says that `type` is as declared, not inferred from an expression."""

    indices: tuple[str, ...] = ()
    degree: Degree = "constant"
    type: str = "real"
    value: float | None = None
    latent: str = ""
    atom: bool = False

    @property
    def repeated(self) -> str:
        """An index that appears twice, as in `S[term, term]`, or an empty string."""
        return next((i for k, i in enumerate(self.indices) if i in self.indices[:k]), "")


@dataclass(frozen=True, slots=True)
class Context:
    """Where an expression stands. `subject` names it in messages; `reports` lets it be nonlinear;
    `potential` lets `diff` shorten an axis."""

    subject: str
    reports: bool = False
    potential: bool = False


def higher(a: Degree, b: Degree) -> Degree:
    """The degree of a sum."""
    return a if RANK[a] >= RANK[b] else b


def join(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The union of two sets of indices in order of appearance, and an index at which they clash
    (one side has the whole axis, the other a shortened one), or an empty string."""
    if left == right or not right:
        return left, ""
    new = tuple(i for i in right if i not in left)
    joined = left + new
    # Only a shortened axis can clash, and only then are the bases worth comparing.
    if any("~" in i for i in joined):
        bases = [i.partition("~")[0] for i in joined]
        clash = next((i for k, i in enumerate(bases) if i in bases[:k]), "")
        return joined, clash
    return joined, ""


def usable(shape: Shape, node: ast.Expr, scope: Scope) -> bool:
    """Whether a value may enter arithmetic; complains (E108) of graphs, maps and whole matrices."""
    if shape.type not in ("graph", "index") and not shape.repeated:
        return True
    text = text_of(node)
    if shape.type == "graph":
        scope.findings.error(
            "E108",
            f"`{text}` is a graph, and arithmetic wants numbers",
            node.span,
            "a graph",
            help=f"a graph is given to a structure: besag(graph = {text}, sd = s)",
        )
    elif shape.type == "index":
        symbol = scope.symbols.get(node.id if isinstance(node, ast.Name) else "")
        target = symbol.target if symbol and symbol.target else "an index"
        scope.findings.error(
            "E108",
            f"`{text}` maps to {target}, and arithmetic wants numbers",
            node.span,
            "a map",
            help=f"use it as a slot: u[{text}], for a value u[{target}]",
        )
    else:
        again = shape.repeated
        scope.findings.error(
            "E108",
            f"`{text}` is a matrix over `{again}` twice, and the algebra is by index name",
            node.span,
            f"has {bracketed(shape.indices)}",
            help="pick an entry by its labels, or give the whole matrix to an argument such as cov",
        )
    return False


# ---- naming ------------------------------------------------------------------------------------
# The value of a declared name, and how messages speak of it.


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
