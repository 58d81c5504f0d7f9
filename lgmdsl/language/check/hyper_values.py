"""Check `hyper s : type = value`: a number, or an expression in earlier hypers."""

from __future__ import annotations

from lgmdsl.language.shapes.scope import Scope, place_of
from lgmdsl.language.shapes.shape import RANK, Context, Shape
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.shapes.stray_indices import complain_outside
from lgmdsl.language.shapes.types import ACCEPTED, RANGE, literal_fits
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.mentions import names_in
from lgmdsl.language.tree.wording import KIND_IN_WORDS, in_line, text_of, with_dims
from lgmdsl.vocabulary.operators import ELEMENTWISE


def check_hyper_value(
    statement: ast.Hyper, value: ast.Expr, dims: tuple[str, ...], scope: Scope
) -> bool:
    """Whether the value is an expression in earlier hypers of the right type and indices."""
    name, kind = statement.name.id, statement.type.name
    inference = Inference(scope, Context(f"the value of `{name}`"))
    if not _only_hypers(name, value, dims, scope):
        return False
    shape = inference.infer(value)
    if shape is None:
        return False
    if kind in ("covariance", "simplex", "ordered"):
        return _whole(name, kind, value, shape, dims, scope)
    if not _suits(name, kind, value, shape, scope):
        return False
    if shape.repeated:
        scope.findings.error(
            "E108",
            f"`{text_of(value)}` is a matrix, and `{name}` is {kind}",
            value.span,
            help="pick an entry by its labels",
        )
        return False
    extra = [i for i in shape.indices if i not in dims]
    if extra:
        shown = with_dims(name, dims)
        complain_outside(value, extra, dims, shown, inference, scope, may_add=True)
    return not extra


def _only_hypers(name: str, value: ast.Expr, dims: tuple[str, ...], scope: Scope) -> bool:
    valid = True
    stack: list[ast.Expr] = [value]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        match node:
            case ast.Binary():
                stack += (node.right, node.left)
                if node.op == "@":
                    valid = _not_here("`@`", name, node, scope)
            case ast.Unary():
                stack.append(node.operand)
            case ast.Call():
                if node.function.id not in ELEMENTWISE:
                    valid = _not_here(f"`{node.function.id}`", name, node, scope)
                stack += node.positional
    reported: set[str] = set()
    for used in names_in(value):
        symbol = scope.symbols.get(used.id)
        if symbol is None or used.id in reported or used.id in scope.broken:
            continue
        reported.add(used.id)
        if symbol.kind in ("hyper", "index") or symbol.target:
            continue
        declared = in_line(place_of(symbol))
        scope.findings.error(
            "E108",
            f"the value of `{name}` takes numbers and earlier hypers, not `{used.id}`",
            used.span,
            f"`{used.id}` is {KIND_IN_WORDS[symbol.kind]}{declared}",
            help="write a `let` in place of the hyper: "
            f"let {with_dims(name, dims)} = {text_of(value)}",
        )
        valid = False
    return valid


def _not_here(subject: str, name: str, node: ast.Expr, scope: Scope) -> bool:
    scope.findings.error(
        "E108",
        f"{subject} cannot appear in the value of a hyper",
        node.span,
        f"the value of `{name}`",
        help="it takes + - * / ^ sqrt log exp of earlier hypers",
    )
    return False


def _suits(name: str, kind: str, value: ast.Expr, shape: Shape, scope: Scope) -> bool:
    if shape.value is not None and not literal_fits(shape.value, kind):
        scope.findings.error(
            "E108",
            f"`{name}` is {kind}, and its value is not",
            value.span,
            f"found {text_of(value)}; wanted a number {RANGE[kind]}",
            help=f"declare `{name}` as real, or give it another value",
        )
        return False
    if shape.atom and shape.type not in ACCEPTED[kind] and shape.type != "covariance":
        scope.findings.error(
            "E108",
            f"`{name}` is {kind}, and `{text_of(value)}` is {shape.type}",
            value.span,
            f"{kind} is wanted",
            help=f"write exp({text_of(value)})"
            if kind == "positive"
            else f"declare `{name}` as {shape.type}",
        )
        return False
    return True


def _whole(
    name: str, kind: str, value: ast.Expr, shape: Shape, dims: tuple[str, ...], scope: Scope
) -> bool:
    """A matrix, simplex or ordered hyper takes a prior, or the whole of another one like it."""
    if shape.type == kind and shape.indices == dims and RANK[shape.degree] == RANK["hyper"]:
        return True
    scope.findings.error(
        "E108",
        f"the {kind} `{name}` takes a prior, or another {kind} over the same indices",
        value.span,
        f"found {text_of(value)}",
        help=f"hyper {with_dims(name, dims)} : {kind} ~ "
        + {
            "covariance": "lkj_cov(eta = 2, u = 1, alpha = 0.05)",
            "simplex": "dirichlet(alpha = 1)",
        }.get(kind, "normal(sd = 3)"),
    )
    return False
