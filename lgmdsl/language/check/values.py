"""Check one argument against its parameter: kind of value, type, degree and indices."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lgmdsl.errors import meant
from lgmdsl.language.check.argument_indices import ArgumentIndices
from lgmdsl.language.check.binding import BoundDistribution, Place, example_of
from lgmdsl.language.check.kernels import check_kernel
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import RANK, Context, Shape, usable, where
from lgmdsl.language.shapes.shapes import Inference
from lgmdsl.language.shapes.types import numeric_fits
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import bracketed, has_indices, quoted, text_of, with_dims
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.modifiers import EXCLUSIVE, HURDLES, WITH_ZEROS, ZEROS
from lgmdsl.vocabulary.signature import Parameter, Signature, literal


@dataclass(frozen=True)
class CheckedArguments:
    """The shapes of a distribution's arguments; `valid` is False after a complaint."""

    shapes: dict[str, Shape]
    valid: bool


def check_values(bound: BoundDistribution, place: Place, scope: Scope) -> CheckedArguments:
    """Check every argument of a distribution in its place."""
    shapes: dict[str, Shape] = {}
    valid = bound.complete
    for name, (parameter, argument) in bound.matched.items():
        shape = check_value(argument.value, parameter, place, scope, shapes)
        if shape is None:
            valid = False
        else:
            shapes[name] = shape
    return CheckedArguments(shapes, valid)


def check_value(
    value: ast.Value, parameter: Parameter, place: Place, scope: Scope, earlier: dict[str, Shape]
) -> Shape | None:
    """The shape of one argument's value, or None after a complaint."""
    owner = f"`{parameter.name}` of `{place.name}`"
    match parameter.type:
        case "string":
            return _string(value, parameter, owner, scope)
        case "bool":
            return _bool(value, parameter, owner, scope)
    if isinstance(value, ast.String | ast.Bool):
        kind = "a string" if isinstance(value, ast.String) else "true or false"
        wanted = _in_words(parameter)
        scope.findings.error(
            "E108",
            f"{owner} must be {wanted}, not {kind}",
            value.span,
            f"{wanted} is wanted",
            help=_unquoted(value, parameter, scope),
        )
        return None
    match parameter.type:
        case "kernel":
            return check_kernel(value, place, scope, check_value)
        case "group":
            return Shape()  # checked with the place of the others, by `group_dims`
        case "graph":
            return _graph(value, parameter, owner, place, scope)
        case "covariance" | "matrix":
            return _matrix(value, parameter, owner, place, scope)
    return _number(value, parameter, owner, place, scope, earlier)


def _unquoted(value: ast.String | ast.Bool, parameter: Parameter, scope: Scope) -> str:
    if isinstance(value, ast.String) and value.value in scope.symbols:
        return f"write the name without quotes: {parameter.name} = {value.value}"
    inside = value.value if isinstance(value, ast.String) else ""
    if inside.replace(".", "", 1).isdecimal():
        return f"write the number without quotes: {parameter.name} = {inside}"
    return f"write {_in_words(parameter)}: {parameter.name} = {example_of(parameter)}"


def _in_words(parameter: Parameter) -> str:
    return {
        "latent": "an expression", "real": "a number", "kernel": "a kernel", "graph": "a graph",
        "covariance": "a covariance matrix", "matrix": "a matrix", "group": "an index or a map",
        "simplex": "a simplex", "ordered": "an ordered hyper",
    }.get(parameter.type, f"a {parameter.type} number")  # fmt: skip


def _string(value: ast.Value, parameter: Parameter, owner: str, scope: Scope) -> Shape | None:
    choices = [literal(c) for c in parameter.choices]
    listed = " or ".join(choices) if choices else "a string"
    if not isinstance(value, ast.String):
        quoted = f'"{value.id}"' if isinstance(value, ast.Name) else ""
        fits = quoted in choices
        scope.findings.error(
            "E108",
            f"{owner} must be a string",
            value.span,
            f"found {text_of(value)}",
            help=f"write {parameter.name} = {quoted}" if fits else f"write {listed}",
        )
        return None
    if parameter.choices and value.value not in parameter.choices:
        close = scope.closest(value.value, [str(c) for c in parameter.choices])
        scope.findings.error(
            "E104",
            f'{owner} cannot be "{value.value}"',
            value.span,
            "not one of its choices",
            note=f"{parameter.name} = {listed}",
            help=meant(close, f"write {listed}", quote='"'),
        )
        return None
    return Shape()


def _bool(value: ast.Value, parameter: Parameter, owner: str, scope: Scope) -> Shape | None:
    if isinstance(value, ast.Bool):
        return Shape()
    scope.findings.error(
        "E108",
        f"{owner} must be true or false",
        value.span,
        f"found {text_of(value)}",
        help=f"write {parameter.name} = true",
    )
    return None


def _graph(
    value: ast.Expr, parameter: Parameter, owner: str, place: Place, scope: Scope
) -> Shape | None:
    name = value if isinstance(value, ast.Name) else None
    shape = _infer(value, owner, place, scope)
    if shape is None:
        return None
    if shape.type != "graph" or name is None:
        axis = place.axis or "region"
        type = "an expression" if not shape.atom else shape.type
        scope.findings.error(
            "E108",
            f"{owner} must be a graph",
            value.span,
            f"`{text_of(value)}` is {type}",
            help=f"declare one: data adj[{axis}, {axis}] : graph",
        )
        return None
    if parameter.over == "axis" and shape.indices != (place.axis, place.axis):
        _off_axis(value, shape, place, scope)
        return None
    return shape


def _matrix(
    value: ast.Expr, parameter: Parameter, owner: str, place: Place, scope: Scope
) -> Shape | None:
    shape = _infer(value, owner, place, scope)
    if shape is None or not _free(value, shape, owner, scope):
        return None
    axis = (place.axis, place.axis) if parameter.over == "axis" else place.dims[-2:]
    if shape.type in ("graph", "index") or not shape.atom:
        # A multiple of the identity may be written as a number where the size is known anyway.
        if parameter.over != "axis" and not shape.indices and shape.type not in ("graph", "index"):
            return shape
        kind = "a graph" if shape.type == "graph" else "a map" if shape.atom else "an expression"
        scope.findings.error(
            "E108",
            f"{owner} must be {_in_words(parameter)}",
            value.span,
            f"`{text_of(value)}` is {kind}",
            help=_declare_matrix(parameter, axis),
        )
        return None
    if parameter.over != "axis" and not shape.indices:
        return shape
    if shape.indices == axis:
        return shape
    if parameter.over == "axis" and shape.repeated and len(shape.indices) == 2:
        _off_axis(value, shape, place, scope)
        return None
    scope.findings.error(
        "E108",
        f"{owner} must be a matrix over {bracketed([a or '' for a in axis])}",
        value.span,
        f"`{text_of(value)}` {has_indices(shape.indices)}",
        help=_declare_matrix(parameter, axis),
    )
    return None


def _declare_matrix(parameter: Parameter, axis: tuple[str | None, ...]) -> str:
    over = f"[{', '.join(a or 'term' for a in axis)}]"
    if parameter.type == "covariance":
        prior = "lkj_cov(eta = 2, u = 1, alpha = 0.05)"
        return f"declare one: hyper S{over} : covariance ~ {prior}"
    return f"declare one: data Q{over} : real"


def _off_axis(value: ast.Expr, shape: Shape, place: Place, scope: Scope) -> None:
    text = text_of(value)
    scope.findings.error(
        "E205",
        f"`{place.name}` stands for the axis `{place.axis}`, but `{text}` is over "
        f"{bracketed(shape.indices)}",
        value.span,
        f"[{place.axis}, {place.axis}] is wanted",
        help=f"factors follow the order of the axes: {', '.join(place.dims)}"
        if shape.indices and shape.indices[0] in place.dims
        else f"declare it over the axis: {with_dims(text, (str(place.axis),) * 2)}",
    )


def _infer(value: ast.Expr, owner: str, place: Place, scope: Scope) -> Shape | None:
    return Inference(scope, Context(owner, potential=place.potential)).infer(value)


def _free(value: ast.Expr, shape: Shape, owner: str, scope: Scope) -> bool:
    """Whether a value is free of latents; complains E108."""
    if RANK[shape.degree] < RANK["affine"]:
        return True
    latent = f"`{shape.latent}`{where(shape.latent, scope)} is latent"
    text = text_of(value)
    scope.findings.error(
        "E108",
        f"{owner} must be free of latents",
        value.span,
        latent if text == shape.latent else f"it depends on {latent.removesuffix(' is latent')}",
        help="give it a number, data or a hyper: "
        f"hyper {shape.latent if text == shape.latent else 's'} : positive ~ ...",
    )
    return False


def _number(
    value: ast.Expr,
    parameter: Parameter,
    owner: str,
    place: Place,
    scope: Scope,
    earlier: dict[str, Shape],
) -> Shape | None:
    if isinstance(value, ast.Name) and value.id in scope.symbols:
        symbol = scope.symbols[value.id]
        if symbol.type == "graph" and value.id not in scope.broken:
            scope.findings.error(
                "E108",
                f"{owner} must be {_in_words(parameter)}",
                value.span,
                f"`{value.id}` is a graph",
                help="a graph is given as graph = " + value.id,
            )
            return None
    inference = Inference(scope, Context(owner, potential=place.potential))
    shape = inference.infer(value)
    if shape is None or not usable(shape, value, scope):
        return None
    if parameter.type != "latent":
        predictor = predictor_of(parameter, place)
        if predictor is not None and RANK[shape.degree] >= RANK["affine"]:
            want_predictor(value, shape, owner, predictor, scope)
            return None
        if not _free(value, shape, owner, scope):
            return None
        if parameter.known and not check_known(value, shape, parameter, owner, place, scope):
            return None
        if not numeric_fits(value, shape, parameter, owner, scope):
            return None
    has = shape.indices
    asked = ArgumentIndices(value, has, parameter, owner, place, inference, scope, earlier)
    return shape if asked.check() else None


# ---- modifiers ---------------------------------------------------------------------------------


def check_modifiers(bound: BoundDistribution, scope: Scope) -> None:
    """Complain E104 of the second of two modifiers that exclude one another."""
    given = [name for name, (_, argument) in bound.matched.items() if _on(argument.value)]
    for group in EXCLUSIVE:
        both = [name for name in given if name in group]
        if len(both) > 1:
            _, second = bound.matched[both[1]]
            scope.findings.error(
                "E104",
                f"`{bound.dist.name.id}` takes one of {quoted(both)}",
                second.name_span if second.name_span.known else second.span,
                "a second one",
                note=_why(both),
                help=f"leave out `{both[1]}` or `{both[0]}`",
            )
            return


def _on(value: ast.Value) -> bool:
    return not (isinstance(value, ast.Bool) and not value.value)


def _why(names: list[str]) -> str:
    if set(names) <= set(EXCLUSIVE[0]):
        return "each says where the zeros of y come from"
    return "where a hurdle is, every y is observed: 0 or above it"


def observed_with(bound: BoundDistribution) -> tuple[str, ...]:
    """The data types that a family observes with the modifiers given: zeros too with a hurdle."""
    observed = bound.signature.observed
    if bound.matched.keys() & set(HURDLES) and "positive" in observed:
        return (*WITH_ZEROS, *observed)
    return observed


def takes_hurdle(signature: Signature, given: Collection[str]) -> bool:
    """Whether a family of positive data may have a hurdle beside the arguments that are given."""
    if signature.parameter(HURDLES[0]) is None or "positive" not in signature.observed:
        return False
    return not {*seen_by(given), *ZEROS} & {*given}


def seen_by(given: Collection[str]) -> tuple[str, ...]:
    """The given arguments that say how far a response was seen."""
    return tuple(n for n in given if n not in ZEROS and any(n in group for group in EXCLUSIVE))


def zeros_remedy(family: ast.Dist, signature: Signature, kind: str) -> str:
    """The help for zeros in what a family has above 0 alone; "" where it is about something
    else, or the family takes no hurdle."""
    if kind not in WITH_ZEROS or not takes_hurdle(signature, {a.name for a in family.arguments}):
        return ""
    written = ", ".join(f"{a.name} = {text_of(a.value)}" for a in family.arguments)
    return (
        f"{family.name.id}({written}, hurdle = p) with hyper p : unit ~ beta(a = 1, b = 1) for "
        "zeros of probability p; or declare the datum as positive"
    )


def check_known(
    value: ast.Expr, shape: Shape, parameter: Parameter, owner: str, place: Place, scope: Scope
) -> bool:
    """Whether a value is free of hypers; complains E108."""
    if RANK[shape.degree] < RANK["hyper"]:
        return True
    text = text_of(value)
    symbol = scope.symbols.get(value.id) if isinstance(value, ast.Name) else None
    finding = "is a hyper" if symbol is not None and symbol.kind == "hyper" else "has a hyper in it"
    scope.findings.error(
        "E108",
        f"{owner} must be known: data or a number",
        value.span,
        f"`{text}` {finding}",
        help=f"declare data: data {parameter.name[0]}{with_dims('', place.dims)} : "
        f"{parameter.type}, then {parameter.name} = {parameter.name[0]}",
    )
    return False


def predictor_of(parameter: Parameter, place: Place) -> Parameter | None:
    """The argument that is a predictor of this one; None where there is none."""
    family = lookup("family", place.name)
    others = () if family is None else family.accepted
    return next((p for p in others if p.of == parameter.name), None)


def want_predictor(
    value: ast.Expr, shape: Shape, owner: str, predictor: Parameter, scope: Scope
) -> None:
    """Complain E108 of latents in a parameter that has a predictor for them."""
    scope.findings.error(
        "E108",
        f"{owner} must be free of latents",
        value.span,
        f"it depends on `{shape.latent}`",
        help=f"a predictor of it is on the {predictor.link} scale: "
        f"{predictor.name} = {text_of(value)}",
    )
