"""Check `hyper` statements: a type, and a prior for that type or a value."""

from __future__ import annotations

from lgmdsl.errors import meant
from lgmdsl.language.check.binding import Place, bind, find
from lgmdsl.language.check.declarations import check_dims, check_name
from lgmdsl.language.check.values import check_values
from lgmdsl.language.checked import Symbol
from lgmdsl.language.shapes.other_names import TYPES
from lgmdsl.language.shapes.scope import Scope, place_of
from lgmdsl.language.shapes.shape import RANK, Context, Shape
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.shapes.stray_indices import complain_outside
from lgmdsl.language.shapes.types import ACCEPTED, RANGE, literal_fits
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import names_in
from lgmdsl.language.tree.wording import KIND_IN_WORDS, in_line, text_of, with_dims
from lgmdsl.vocabulary.lookup import DATA_TYPES, HYPER_TYPES, suited
from lgmdsl.vocabulary.operators import ELEMENTWISE


def check_hyper(statement: ast.Hyper, scope: Scope) -> None:
    """Check a hyper's type, dims, and prior or value, and declare it."""
    name, type_ = statement.name, statement.type
    new = check_name(name, scope)
    valid = _hyper_type(type_, scope)
    dims = check_dims(statement.dims, scope, matrix=type_.name == "covariance")
    shape = dims or tuple(d.id for d in statement.dims)
    shaped = valid and dims is not None and _type_dims(statement, dims, scope)
    if shaped and dims is not None:
        if statement.prior is not None:
            _prior(statement, statement.prior, dims, scope)
        elif statement.value is not None:
            check_hyper_value(statement, statement.value, dims, scope)
    if new:
        # A hyper with a wrong prior still has its type and dims, so its uses can be judged.
        symbol = Symbol(name.id, "hyper", statement, shape, type_.name, degree="hyper")
        scope.declare(symbol, broken=not shaped)


def _hyper_type(type_: ast.Type, scope: Scope) -> bool:
    known = f"types of hypers: {' '.join(HYPER_TYPES)}"
    if type_.name not in HYPER_TYPES:
        if type_.name in DATA_TYPES or type_.name in scope.symbols:
            scope.findings.error(
                "E108",
                f"`{type_.name}` is not a type of hypers",
                type_.span,
                "a type of hypers is wanted",
                help=known,
            )
        elif scope.mention(type_.name):
            close = TYPES.get(type_.name.lower())
            if close not in HYPER_TYPES:
                close = scope.closest(type_.name, HYPER_TYPES)
            scope.findings.error(
                "E103",
                f"unknown type `{type_.name}`",
                type_.span,
                help=meant(close, known, known.capitalize()),
            )
        return False
    if type_.missing:
        scope.findings.error(
            "E108",
            "a hyper has no missing entries",
            type_.span,
            "`?` on a hyper",
            help=f"write {type_.name}",
        )
        return False
    return True


def _type_dims(statement: ast.Hyper, dims: tuple[str, ...], scope: Scope) -> bool:
    """Whether the dims suit the type: covariance [..., a, a], simplex and ordered at least one."""
    name, kind = statement.name, statement.type.name
    help = ""
    if kind == "covariance" and (len(dims) < 2 or dims[-1] != dims[-2]):
        axis = dims[-1] if dims else "term"
        help = f"hyper {name.id}[{axis}, {axis}] : covariance"
        message = f"the covariance `{name.id}` is over one index twice"
    elif kind in ("simplex", "ordered") and not dims:
        index = "class" if kind == "simplex" else "cut"
        help = f"hyper {name.id}[{index}] : {kind}"
        message = f"`{name.id}` is {'a simplex' if kind == 'simplex' else 'ordered'} over an index"
    if help:
        scope.findings.error(
            "E108", message, name.span, f"declared {with_dims(name.id, dims)}", help=help
        )
    return not help


def _prior(statement: ast.Hyper, dist: ast.Dist, dims: tuple[str, ...], scope: Scope) -> bool:
    kind = statement.type.name
    signature = find(dist, "prior", scope, kind)
    if signature is None:
        return False
    shown = with_dims(statement.name.id, dims)
    if kind not in signature.observed:
        fits = f"Hyperpriors for `{kind}`: {' '.join(suited(kind))}"
        scope.findings.error(
            "E108",
            f"`{signature.name}` is a prior for {' or '.join(signature.observed)} hypers, "
            f"and `{statement.name.id}` is {kind}",
            dist.name.span,
            f"`{statement.name.id}` is {kind}",
            help=fits,
        )
        return False
    place = Place(signature.name, dims, shown)
    checked = check_values(bind(dist, signature, scope), place, scope)
    lower, upper = checked.shapes.get("lower"), checked.shapes.get("upper")
    low = lower.value if lower else None
    high = upper.value if upper else None
    if low is not None and high is not None and low >= high:
        scope.findings.error(
            "E108",
            f"`lower` of `{signature.name}` is below `upper`",
            dist.span,
            f"lower is {low:g}, upper is {high:g}",
            help=f"write {signature.name}(lower = {text_of(_given(dist, 'upper'))}, "
            f"upper = {text_of(_given(dist, 'lower'))})",
        )
        return False
    return checked.valid


def _given(dist: ast.Dist, name: str) -> ast.Value:
    return dist.get(name) or ast.Number(0.0)


# ---- hyper values ------------------------------------------------------------------------------


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
