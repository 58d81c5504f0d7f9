"""Which names a piece of the tree mentions, in what role, and which indices an expression has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast

# `map`: an index-valued datum used as a slot; `argument`: inside a distribution; `observed`: a
# datum at the site that observes it; `value`: the rest.
Role = Literal["value", "map", "argument", "observed"]


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a declared name; `argument` names the distribution's argument it stands in."""

    name: str
    role: Role = "value"
    argument: str = ""


def references(value: ast.Value, symbols: Mapping[str, Symbol]) -> Iterator[Reference]:
    """Every mention of a declared name that is not an index set, in the order of the text."""
    # A stack, not recursion: a sum of thousands of terms is a tree thousands of levels deep.
    waiting: list[tuple[ast.Value, Role]] = [(value, "value")]
    while waiting:
        node, role = waiting.pop()
        match node:
            case ast.Name(id=name):
                if name in symbols and symbols[name].kind != "index":
                    yield Reference(name, role)
            case ast.Indexed(base=base, slots=slots):
                waiting += [(s, "map") for s in reversed(slots) if isinstance(s, ast.Name)]
                waiting.append((base, role))
            case ast.Call(positional=positional, named=named):
                waiting += [(argument.value, role) for argument in reversed(named)]
                waiting += [(part, role) for part in reversed(positional)]
            case ast.Unary(operand=operand):
                waiting.append((operand, role))
            case ast.Binary(left=left, right=right):
                waiting += [(right, role), (left, role)]


def in_distribution(dist: ast.Dist, symbols: Mapping[str, Symbol]) -> Iterator[Reference]:
    """The mentions in a distribution's arguments, each with the argument's name."""
    for argument in dist.arguments:
        for found in references(argument.value, symbols):
            yield Reference(found.name, "argument", argument.name)


def indices(value: ast.Value, symbols: Mapping[str, Symbol]) -> tuple[str, ...]:
    """The index sets of a checked expression, in the order in which they first appear.

    `+ - * /` join by name, `@` and `sum` drop the contracted index, a map replaces an index by its
    own, a label drops it; other operators keep what they are given.
    """
    # Sums lean to the left: walk down that spine, then join on the way back.
    spine: list[ast.Binary] = []
    while isinstance(value, ast.Binary):
        spine.append(value)
        value = value.left
    found = _indices_of_part(value, symbols)
    for node in reversed(spine):
        right = indices(node.right, symbols)
        shared = {i for i in right if i in found} if node.op == "@" else set()
        found = tuple(i for i in _join(found, right) if i not in shared)
    return found


def _indices_of_part(value: ast.Value, symbols: Mapping[str, Symbol]) -> tuple[str, ...]:
    match value:
        case ast.Name(id=name):
            return symbols[name].dims if name in symbols else ()
        case ast.Indexed(slots=slots):
            found: tuple[str, ...] = ()
            for slot in slots:
                if isinstance(slot, ast.Name) and slot.id in symbols:
                    symbol = symbols[slot.id]
                    found = _join(found, (slot.id,) if symbol.kind == "index" else symbol.dims)
            return found
        case ast.Unary(operand=operand):
            return indices(operand, symbols)
        case ast.Call(function=function, positional=(first, *rest)):
            inside = indices(first, symbols)
            if function.id == "sum":
                summed = {part.id for part in rest if isinstance(part, ast.Name)}
                return tuple(i for i in inside if i not in summed)
            return inside
    return ()


def _join(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return a + tuple(i for i in b if i not in a)
