"""Expressions and distributions back to text, with no more brackets than the tree needs.

The text comes as pieces, each with a preference for breaking the line before it, so that the
formatter can fold long lines.
"""

from __future__ import annotations

from typing import NamedTuple

from lgmdsl.language.tree import ast

# How tightly a node holds together; an operand that is looser than its place gets brackets.
SUM, PRODUCT, SIGN, POWER, ATOM = range(1, 6)

_LEVELS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "@": PRODUCT, "^": POWER}

NEVER = 1_000_000


class Stretch(NamedTuple):
    """A stretch of text; a smaller `depth` is a better place to break the line before it."""

    text: str
    depth: int = NEVER


Pieces = list[Stretch]


def show(value: ast.Value | ast.Dist) -> str:
    """A value or a distribution on one line."""
    return flat(pieces_of(value))


def flat(pieces: Pieces) -> str:
    """The pieces as one line."""
    return "".join(piece.text for piece in pieces)


def pieces_of(value: ast.Value | ast.Dist, depth: int = 1) -> Pieces:
    """The pieces of a value or a distribution; `depth` is that of its outermost breaks."""
    out: Pieces = []
    if isinstance(value, ast.Dist):
        _dist(value, depth, out)
    else:
        _value(value, SUM, depth, out)
    return out


def number(node: ast.Number) -> str:
    """The number as it was spelled, or the shortest spelling that reads back the same."""
    if node.text:
        return node.text
    if node.value == int(node.value) and node.value < 1e15:
        return str(int(node.value))
    return repr(node.value)


def level(node: ast.Value) -> int:
    """How tightly an expression holds together."""
    if isinstance(node, ast.Binary):
        return _LEVELS[node.op]
    return SIGN if isinstance(node, ast.Unary) else ATOM


def needs_brackets(op: str, operand: ast.Expr, right: bool) -> bool:
    """Whether an operand of a binary operator needs brackets on its side."""
    mine = _LEVELS[op]
    if mine == POWER:
        return level(operand) < (SIGN if right else ATOM)
    return level(operand) < mine + right


def _value(value: ast.Value, place: int, depth: int, out: Pieces) -> None:
    match value:
        case ast.Number():
            out.append(Stretch(number(value)))
        case ast.Name(id=name):
            out.append(Stretch(name))
        case ast.String(value=text):
            out.append(Stretch(f'"{text}"'))
        case ast.Bool(value=yes):
            out.append(Stretch("true" if yes else "false"))
        case ast.Indexed(base=base, slots=slots):
            _sequence(base.id + "[", [flat(pieces_of(s)) for s in slots], "]", depth, out)
        case ast.Call():
            arguments = [*value.positional, *value.named]
            _arguments(value.function.id, arguments, depth, out)
        case _:
            _operation(value, place, depth, out)


def _operation(value: ast.Unary | ast.Binary, place: int, depth: int, out: Pieces) -> None:
    mine = level(value)
    if mine < place:
        out.append(Stretch("("))
        _operation(value, SUM, depth + 2, out)
        out.append(Stretch(")"))
    elif isinstance(value, ast.Unary):
        out.append(Stretch("-"))
        _value(value.operand, SIGN, depth, out)
    else:
        _row(value, mine, depth, out)


def _row(value: ast.Binary, mine: int, depth: int, out: Pieces) -> None:
    """A row of operators of one level, walked along its left spine."""
    if mine == POWER:
        _value(value.left, ATOM, depth, out)
        out.append(Stretch("^"))
        _value(value.right, SIGN, depth, out)
        return
    rest = [value]
    while isinstance(rest[-1].left, ast.Binary) and _LEVELS[rest[-1].left.op] == mine:
        rest.append(rest[-1].left)
    _value(rest[-1].left, mine, depth, out)
    for node in reversed(rest):
        quotient = node.op == "/" and isinstance(node.right, ast.Number)
        if quotient and isinstance(node.left, ast.Number):
            out.append(Stretch("/"))
        else:
            out.append(Stretch(" "))
            out.append(Stretch(f"{node.op} ", depth if mine == SUM else depth + 1))
        _value(node.right, mine + 1, depth + 1, out)


def _dist(dist: ast.Dist, depth: int, out: Pieces) -> None:
    if dist.arguments:
        _arguments(dist.name.id, list(dist.arguments), depth, out)
    else:
        out.append(Stretch(dist.name.id))


def _arguments(
    name: str, arguments: list[ast.Expr | ast.Argument], depth: int, out: Pieces
) -> None:
    out.append(Stretch(name + "("))
    for i, argument in enumerate(arguments):
        if i:
            out.append(Stretch(", "))
        if isinstance(argument, ast.Argument):
            out.append(Stretch(f"{argument.name} = ", depth + 2 if i else NEVER))
            _value(argument.value, SUM, depth + 4, out)
        else:
            inner: Pieces = []
            _value(argument, SUM, depth + 4, inner)
            out.append(Stretch(inner[0].text, depth + 2 if i else NEVER))
            out.extend(inner[1:])
    out.append(Stretch(")"))


def _sequence(opening: str, items: list[str], closing: str, depth: int, out: Pieces) -> None:
    out.append(Stretch(opening))
    for i, item in enumerate(items):
        last = i == len(items) - 1
        out.append(Stretch(item if last else item + ", ", depth + 2 if i else NEVER))
    out.append(Stretch(closing))
