"""Which numbers fit which type."""

from __future__ import annotations

from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.shapes.shape import Shape
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import text_of
from lgmdsl.vocabulary.signature import Parameter, literal

_ANY = frozenset(
    (
        "real", "positive", "nonnegative", "unit", "correlation", "count", "integer", "binary",
        "simplex", "ordered",
    )
)  # fmt: skip
ACCEPTED: dict[str, frozenset[str]] = {
    "real": _ANY,
    "positive": frozenset(("positive", "unit")),
    "nonnegative": frozenset(("nonnegative", "positive", "unit", "count", "binary")),
    "unit": frozenset(("unit", "simplex")),
    "correlation": frozenset(("correlation", "unit")),
    "count": frozenset(("count", "binary")),
    "integer": frozenset(("integer", "count", "binary")),
    "binary": frozenset(("binary",)),
    "simplex": frozenset(("simplex",)),
    "ordered": frozenset(("ordered",)),
}
RANGE = {
    "positive": "above 0",
    "nonnegative": "0 or above",
    "unit": "from 0 to 1",
    "correlation": "between -1 and 1",
    "count": "a whole number from 0",
    "integer": "a whole number",
    "binary": "0 or 1",
}


def literal_fits(value: float, type_name: str) -> bool:
    """Whether a number lies in the range of a type."""
    match type_name:
        case "positive":
            return value > 0
        case "nonnegative":
            return value >= 0
        case "unit":
            return 0 <= value <= 1
        case "correlation":
            return -1 < value < 1
        case "count":
            return value >= 0 and value.is_integer()
        case "integer":
            return value.is_integer()
        case "binary":
            return value in (0, 1)
    return type_name == "real"


def numeric_fits(
    value: ast.Expr, shape: Shape, parameter: Parameter, owner: str, scope: Scope
) -> bool:
    """Whether a value's type or number suits a parameter; complains E104 (choices) and E108.

    The type of an expression is not judged where its sign depends on the values.
    """
    wanted = parameter.type
    text = text_of(value)
    if parameter.choices:
        if shape.value in parameter.choices:
            return True
        listed = " or ".join(literal(c) for c in parameter.choices)
        scope.findings.error(
            "E104",
            f"{owner} cannot be {text}",
            value.span,
            "not one of its choices",
            note=f"{parameter.name} = {listed}",
            help=f"write {listed}",
        )
        return False
    if shape.value is not None:
        if literal_fits(shape.value, wanted):
            return True
        if wanted in ("simplex", "ordered"):
            return _complain(
                value,
                f"{owner} must be {_a(wanted)} hyper",
                f"found {text}",
                scope,
                f"declare one: hyper h[...] : {wanted} ~ ...",
            )
        return _complain(
            value, f"{owner} must be {RANGE[wanted]}", f"found {text}", scope, _help_number(wanted)
        )
    strict = shape.atom or wanted in ("binary", "simplex", "ordered")
    if not strict or shape.type in ACCEPTED[wanted]:
        return True
    finding = f"`{text}` is {shape.type}" if shape.atom else f"`{text}` is an expression"
    message = f"{owner} must be {wanted}, and {finding}"
    help = _help_type(value, wanted, shape, scope)
    return _complain(value, message, f"{wanted} is wanted", scope, help)


def _a(type_name: str) -> str:
    return f"{'an' if type_name[0] in 'aeiou' else 'a'} {type_name}"


def _complain(value: ast.Expr, message: str, label: str, scope: Scope, help: str) -> bool:
    scope.findings.error("E108", message, value.span, label, help=help)
    return False


def _help_number(wanted: str) -> str:
    return f"write a number {RANGE[wanted]}".replace("number a whole number", "whole number")


def _help_type(value: ast.Expr, wanted: str, shape: Shape, scope: Scope) -> str:
    text = text_of(value)
    symbol = scope.symbols.get(value.id) if isinstance(value, ast.Name) else None
    hyper = symbol is None or symbol.kind != "data"
    if wanted == "positive" and hyper and shape.type in ("real", "ordered"):
        return f"declare `{text}` as positive, or write exp({text})"
    if isinstance(value, ast.Name):
        return f"declare `{text}` as {wanted}"
    return f"declare a {wanted} datum or hyper for it"
