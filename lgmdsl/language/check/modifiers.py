"""Modifiers of an observation family (`vocabulary.modifiers`): which exclude one another, and what
a family observes with them."""

from __future__ import annotations

from collections.abc import Collection

from lgmdsl.language.check.binding import BoundDistribution
from lgmdsl.language.check.place import Place
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import RANK, Shape
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import quoted, text_of, with_dims
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.modifiers import EXCLUSIVE, HURDLES, WITH_ZEROS, ZEROS
from lgmdsl.vocabulary.signature import Parameter, Signature


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
    """Those of the given arguments that say how far a response was seen."""
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
