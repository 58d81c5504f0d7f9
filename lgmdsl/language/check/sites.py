"""Check `observe` and `potential` statements: the likelihood sites."""

from __future__ import annotations

from dataclasses import replace

from lgmdsl.language.check.binding import Place, bind, find
from lgmdsl.language.check.values import (
    check_modifiers,
    check_values,
    observed_with,
    seen_by,
    zeros_remedy,
)
from lgmdsl.language.shapes.scope import Scope, place_of
from lgmdsl.language.shapes.shape import Context, usable
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import names_in
from lgmdsl.language.tree.wording import KIND_IN_WORDS, has_indices, in_line, text_of, with_dims
from lgmdsl.vocabulary.lookup import lookup, observing
from lgmdsl.vocabulary.signature import Signature

APART = ("weight", "event", "lower", "upper")  # of one row by itself


def check_observe(statement: ast.Observe, scope: Scope) -> None:
    """Check that a datum is observed once, through a family of its type."""
    name, dist = statement.name, statement.family
    symbol = scope.resolve(name, "data")
    if symbol is not None and symbol.kind != "data":
        scope.findings.error(
            "E108",
            f"`{name.id}` is {KIND_IN_WORDS[symbol.kind]}, and only data are observed",
            name.span,
            f"declared{in_line(place_of(symbol))}" if place_of(symbol).known else "",
            help=f"declare a datum: data y{_dims(symbol.dims)} : real, or write "
            f"potential {name.id} ~ ..."
            if symbol.kind in ("latent", "let")
            else f"declare a datum: data y{_dims(symbol.dims)} : real",
        )
        symbol = None
    if symbol is not None:
        first = scope.observed.setdefault(name.id, statement)
        if first is not statement:
            scope.findings.error(
                "E106",
                f"`{name.id}` is observed twice",
                name.span,
                f"first observed{in_line(first.name.span)}",
                help="one datum has one likelihood; declare another datum for the second",
            )
    if symbol is None:
        _only_names(dist, scope)
        return
    kind = "index" if symbol.target else symbol.type
    signature = find(dist, "family", scope, kind)
    if signature is None:
        _only_names(dist, scope)
        return
    bound = bind(dist, signature, scope)
    check_modifiers(bound, scope)
    if kind not in observed_with(bound):
        _wrong_data(statement, signature, kind, scope)
        _only_names(dist, scope)
        return
    shown = with_dims(name.id, symbol.dims)
    place = Place(signature.name, symbol.dims, shown, observed=symbol.target)
    check_values(bound, place, scope)
    for parameter, argument in bound.matched.values():
        if parameter.noise:
            _check_noise(argument, dist, scope)


def _check_noise(argument: ast.Argument, dist: ast.Dist, scope: Scope) -> None:
    """Complain E108 of a residual that is no latent, E104 of what rows with one cannot have."""
    value, owner = argument.value, f"`{argument.name}` of `{dist.name.id}`"
    symbols = [scope.symbols[n.id] for n in names_in(value) if n.id in scope.symbols]
    latents = [s for s in symbols if s.kind == "latent"]
    hidden = [s for s in symbols if s.kind == "let" and s.degree in ("affine", "nonlinear")]
    if len(latents) != 1 or hidden:
        scope.findings.error(
            "E108",
            f"{owner} must be a latent, or one times a positive number",
            value.span,
            f"`{text_of(value)}` {'names several' if len(latents) > 1 else 'names none'}",
            help="declare one: latent e[obs] ~ ar1(sd = s, rho = r), then "
            f"{argument.name} = e; independent noise is sd = s",
        )
        return
    other = next((a for a in dist.arguments if a.name in APART), None)
    if other is not None:
        scope.findings.error(
            "E104",
            f"`{dist.name.id}` takes no `{other.name}` next to `{argument.name}`",
            other.name_span if other.name_span.known else other.span,
            "rows whose residuals are correlated have no log density each",
            help=f"leave out `{other.name}`, or give the rows independent noise: sd = s",
        )


def residual_of(statement: ast.AnyStatement) -> ast.Value | None:
    """The latent that an observe statement has for its noise; None of another statement."""
    if not isinstance(statement, ast.Observe):
        return None
    signature = lookup("family", statement.family.name.id)
    for argument in statement.family.arguments:
        parameter = None if signature is None else signature.parameter(argument.name)
        if parameter is not None and parameter.noise:
            return argument.value
    return None


def residual_names(tree: ast.Ast) -> frozenset[str]:
    """The latents of a checked model that are residuals."""
    latents = {s.name.id for s in tree.statements if isinstance(s, ast.Latent)}
    given = [v for v in map(residual_of, tree.statements) if v is not None]
    return frozenset(n.id for v in given for n in names_in(v) if n.id in latents)


def _dims(dims: tuple[str, ...]) -> str:
    return with_dims("", dims)


def _only_names(dist: ast.Dist, scope: Scope) -> None:
    """Check only names and algebra of the arguments, where nothing else can be judged."""
    for argument in dist.arguments:
        value = argument.value
        if isinstance(value, ast.Name):
            scope.resolve(value)
        elif not isinstance(value, ast.String | ast.Bool):
            context = Context(f"`{argument.name}`", reports=True, potential=True)
            Inference(scope, context).infer(value)


def _wrong_data(statement: ast.Observe, signature: Signature, kind: str, scope: Scope) -> None:
    name = statement.name.id
    shown = "an index set" if kind == "index" else kind
    wanted = " or ".join(
        "the name of an index" if o == "index" else o for o in signature.observed[:3]
    )
    families = observing(kind, seen_by([a.name for a in statement.family.arguments]))
    remedy = zeros_remedy(statement.family, signature, kind)
    if remedy:
        help = remedy
    elif not families:
        help = f"declare `{name}` as {wanted}"
    else:
        help = f"families for {'categorical' if kind == 'index' else kind} data: "
        help += " ".join(families) + f"; or declare `{name}` as {wanted}"
    scope.findings.error(
        "E108",
        f"`{signature.name}` observes {wanted} data, and `{name}` is {shown}",
        statement.family.name.span,
        f"`{name}` is {shown}",
        help=help,
    )


def check_potential(statement: ast.Potential, scope: Scope) -> None:
    """Check that a potential is on an affine expression of the latents."""
    inference = Inference(scope, Context("the potential", potential=True))
    shape = inference.infer(statement.value)
    signature = find(statement.family, "potential", scope)
    text = text_of(statement.value)
    if shape is not None and usable(shape, statement.value, scope) and not shape.latent:
        scope.findings.error(
            "E108",
            "a potential is on latents, and this expression has none",
            statement.value.span,
            "no latent here",
            help=f"for data write observe {text} ~ ..., for a hyper give it a prior",
        )
    if signature is None or shape is None:
        _only_names(statement.family, scope)
        return
    bound = bind(statement.family, signature, scope)
    place = Place(signature.name, shape.indices, text, potential=True)
    grouping = bound.matched.get("group")
    if (
        grouping is not None
        and grouping[0].type == "group"
        and not isinstance(grouping[1].value, ast.String | ast.Bool)
    ):
        within = group_dims(grouping[1].value, place, scope)
        if within is None:
            _only_names(statement.family, scope)
            return
        by = text_of(grouping[1].value)
        place = replace(place, dims=within, entries=shape.indices, group=by)
    check_values(bound, place, scope)


# ---- groups ------------------------------------------------------------------------------------
# Check the `group` of a potential: an index of its expression, or a map from its indices.


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
