"""Operators and functions in expressions: match their arguments. E102, E103, E104, E108."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lgmdsl.errors import meant
from lgmdsl.language.shapes.other_names import FUNCTIONS
from lgmdsl.language.shapes.scope import Scope
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.wording import text_of
from lgmdsl.vocabulary.lookup import IN_WORDS, elsewhere, links, lookup, names
from lgmdsl.vocabulary.signature import Parameter, Signature, literal

# A literal count (an order, a number of levels) beyond this is a slip.
MOST = 1000


@dataclass(frozen=True)
class BoundCall:
    """A call with its arguments matched: `operands` are the expressions to infer, `settings` the
    indices, strings and counts. `ok` is False after a complaint."""

    signature: Signature | None
    operands: tuple[ast.Expr, ...] = ()
    settings: dict[str, ast.Value] = field(default_factory=dict)
    ok: bool = True


def bind_call(node: ast.Call, scope: Scope) -> BoundCall:
    """Match a call with its signature; complains E102, E103, E104, E108."""
    name = node.function.id
    signature = lookup("operator", name) or lookup("function", name)
    if signature is None:
        _unknown_function(node, scope)
        return BoundCall(None, _values(node, scope), ok=False)
    ok = True
    bound: dict[str, ast.Value] = {}
    for place, expr in enumerate(node.positional):
        if place < signature.positional:
            bound[signature.parameters[place].name] = expr
        elif ok:
            rest = [p.name for p in signature.parameters[signature.positional :]]
            ok = _complain_extra(node, expr, signature, rest, scope)
    for argument in node.named:
        parameter = signature.parameter(argument.name)
        if parameter is None or argument.name in bound:
            twice = "given twice" if parameter else "not an argument"
            scope.findings.error(
                "E104",
                f"`{name}` takes `{argument.name}` once"
                if parameter
                else f"`{name}` has no argument `{argument.name}`",
                argument.name_span if argument.name_span.known else argument.span,
                twice,
                note=signature.show(),
                help=_did_you_mean(argument.name, signature, scope),
            )
            ok = False
        else:
            bound[argument.name] = argument.value
    operands: list[ast.Expr] = []
    settings: dict[str, ast.Value] = {}
    for parameter in signature.parameters:
        value = bound.get(parameter.name)
        if value is None:
            if parameter.required:
                scope.findings.error(
                    "E104",
                    f"`{name}` wants `{parameter.name}`",
                    node.span,
                    f"no `{parameter.name}` is given",
                    note=signature.show(),
                    help=_missing_help(node, parameter, scope),
                )
                ok = False
        elif parameter.type in ("any", "binary"):
            if isinstance(value, ast.String | ast.Bool):
                _wrong_kind(node, parameter, value, scope)
                ok = False
            else:
                operands.append(value)
        else:
            ok = _setting(node, parameter, value, scope) and ok
            settings[parameter.name] = value
    return BoundCall(signature, tuple(operands), settings, ok)


def _values(node: ast.Call, scope: Scope) -> tuple[ast.Expr, ...]:
    """The arguments of an unknown function that look like values."""
    values: list[ast.Expr] = []
    for value in (*node.positional, *(a.value for a in node.named)):
        if isinstance(value, ast.String | ast.Bool):
            continue
        symbol = scope.symbols.get(value.id) if isinstance(value, ast.Name) else None
        if symbol is None or symbol.kind != "index":
            values.append(value)
    return tuple(values)


def _unknown_function(node: ast.Call, scope: Scope) -> None:
    name = node.function.id
    if not scope.mention(f"{name}()"):
        return
    known = (*names("operator"), *names("function"))
    close = scope.closest(name, known)
    other = elsewhere("function", name)
    if name in links():
        message = f"`{name}` is a link, not a function"
        help = f"a link is the name of an argument: {links()[name]}({name} = eta)"
    elif other:
        message = f"`{name}` is {_a(IN_WORDS[other])}, not a function"
        help = f"functions and operators: {' '.join(known)}"
        if other == "kernel":
            help = f"a kernel is an argument of gp: gp(at = x, kernel = {name}(...))"
    elif name.lower() in FUNCTIONS:
        message, help = f"unknown function `{name}`", FUNCTIONS[name.lower()]
    else:
        message = f"unknown function `{name}`"
        help = meant(close, then=f"Functions and operators: {' '.join(known)}")
    if name in scope.symbols:
        message = f"`{name}` is not a function"
        help = f"to pick entries write {name}[...]; to multiply write {name} * (...)"
    scope.findings.error("E103", message, node.function.span, help=help)


def _a(words: str) -> str:
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _complain_extra(
    node: ast.Call, expr: ast.Expr, signature: Signature, rest: list[str], scope: Scope
) -> bool:
    if rest:
        scope.findings.error(
            "E102",
            f"this argument of `{node.function.id}` needs its name",
            expr.span,
            "an unnamed argument",
            note=signature.show(),
            help=f"write {rest[0]} = {text_of(expr)}",
        )
    else:
        count = signature.positional
        scope.findings.error(
            "E104",
            f"`{node.function.id}` takes {count} argument{'s' if count > 1 else ''}, "
            f"but {len(node.positional)} are given",
            expr.span,
            "one too many",
            note=signature.show(),
            help=f"leave out {text_of(expr)}",
        )
    return False


def _did_you_mean(word: str, signature: Signature, scope: Scope) -> str:
    close = scope.closest(word, [p.name for p in signature.parameters])
    return meant(close if close != word else None, "leave it out")


def _missing_help(node: ast.Call, parameter: Parameter, scope: Scope) -> str:
    inside = text_of(node.positional[0]) if node.positional else "u"
    name = node.function.id
    if parameter.type == "index":
        index = _shared_index(node.positional[0], scope) if node.positional else "obs"
        return f"name the index: {name}({inside}, {index})"
    if parameter.choices:
        return f"write {name}({inside}, ..., {parameter.name} = {literal(parameter.choices[0])})"
    return f"write {name}({inside}, {parameter.name} = ...)"


def _shared_index(value: ast.Expr, scope: Scope) -> str:
    """The index that most factors of an expression have, the last of several: X * b over feat."""
    counts: dict[str, int] = {}
    stack = [value]
    while stack:
        part = stack.pop()
        if isinstance(part, ast.Binary):
            stack += [part.left, part.right]
        elif isinstance(part, ast.Unary):
            stack.append(part.operand)
        elif isinstance(part, ast.Name) and part.id in scope.symbols:
            for index in scope.symbols[part.id].dims:
                counts[index] = counts.get(index, 0) + 1
    most = max(counts.values(), default=0)
    return next((i for i in reversed(counts) if counts[i] == most), "obs")


def _wrong_kind(node: ast.Call, parameter: Parameter, value: ast.Value, scope: Scope) -> None:
    scope.findings.error(
        "E108",
        f"`{parameter.name}` of `{node.function.id}` is an expression",
        value.span,
        f"found {text_of(value)}",
        help="write an expression of data, hypers and latents",
    )


def _setting(node: ast.Call, parameter: Parameter, value: ast.Value, scope: Scope) -> bool:
    """Check an index, string or count argument; complains and returns False if it is none."""
    where = f"`{parameter.name}` of `{node.function.id}`"
    if parameter.type == "index":
        if isinstance(value, ast.Name):
            symbol = scope.resolve(value, "index")
            if symbol is None or symbol.kind == "index":
                return symbol is not None
        scope.findings.error(
            "E108",
            f"{where} is an index",
            value.span,
            f"`{text_of(value)}` is not an index",
            help="write the name of one index of the expression",
        )
        return False
    if parameter.type == "string":
        if isinstance(value, ast.String) and value.value in (parameter.choices or (value.value,)):
            return True
        word = value.value if isinstance(value, ast.String) else text_of(value)
        close = scope.closest(word, [c for c in parameter.choices if isinstance(c, str)])
        choices = ", ".join(literal(c) for c in parameter.choices[:12])
        scope.findings.error(
            "E104",
            f"{where} is not one of its choices",
            value.span,
            f"found {text_of(value)}",
            note=node.function.id + f"({parameter.name} = {choices})",
            help=meant(close, f"write one of {choices}", quote='"'),
        )
        return False
    number = value.value if isinstance(value, ast.Number) else 0.0
    if number.is_integer() and 1 <= number <= MOST:
        return True
    scope.findings.error(
        "E108",
        f"{where} is a whole number from 1",
        value.span,
        f"found {text_of(value)}",
        help=f"write {parameter.name} = 1",
    )
    return False


# ---- folding -----------------------------------------------------------------------------------
# Arithmetic on the literal numbers of a model file.


def folded(op: str, left: float, right: float) -> float | None:
    """The value of `left op right`, or None where it is not a finite real number."""
    try:
        match op:
            case "+":
                value: complex = left + right
            case "-":
                value = left - right
            case "*":
                value = left * right
            case "/":
                value = left / right
            case "^":
                value = left**right
            case _:
                return None
    except (ZeroDivisionError, OverflowError):
        return None
    return value if isinstance(value, float) and math.isfinite(value) else None


def applied(function: str, value: float) -> float | None:
    """The value of a function of a number, or None where it is not a finite real number."""
    try:
        match function:
            case "log":
                return math.log(value)
            case "exp":
                return math.exp(value)
            case "sqrt":
                return math.sqrt(value)
    except (ValueError, OverflowError):
        return None
    return None


def type_of(value: float) -> str:
    """The narrowest type name that suits a literal."""
    return "positive" if value > 0 else "real"
