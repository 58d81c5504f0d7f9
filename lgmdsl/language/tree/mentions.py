"""The one walk over an expression for the names that it mentions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lgmdsl.language.tree import ast


@dataclass(frozen=True, slots=True)
class Mention:
    """A mention of a declared name. `slot`: as a slot, `u[who]`; `operand`: as a
    whole operand of `@`."""

    name: ast.Name
    slot: bool = False
    operand: bool = False


def mentions(value: ast.Value, operand: bool = False) -> Iterator[Mention]:
    """Every mention in the order of the text: operands, slots and arguments of calls, not the
    functions that are called. A part that occurs twice (built in Python) is read once.

    `operand`: whether the value itself is a whole operand.
    """
    # A stack, not recursion: a sum of thousands of terms is a tree thousands of levels deep.
    waiting: list[tuple[ast.Value, bool, bool]] = [(value, False, operand)]
    seen: set[tuple[int, bool, bool]] = set()
    while waiting:
        node, slot, whole = waiting.pop()
        key = id(node), slot, whole
        if key in seen:
            continue
        seen.add(key)
        match node:
            case ast.Name():
                yield Mention(node, slot, whole)
            case ast.Indexed(base=base, slots=slots):
                waiting += [(s, True, False) for s in reversed(slots) if isinstance(s, ast.Name)]
                waiting.append((base, False, whole))
            case ast.Call(positional=positional, named=named):
                waiting += [(argument.value, False, False) for argument in reversed(named)]
                waiting += [(part, False, False) for part in reversed(positional)]
            case ast.Unary(operand=inner):
                waiting.append((inner, False, False))
            case ast.Binary(op=op, left=left, right=right):
                waiting += [(right, False, op == "@"), (left, False, op == "@")]


def names_in(value: ast.Value) -> Iterator[ast.Name]:
    """The names of `mentions`."""
    return (mention.name for mention in mentions(value))
