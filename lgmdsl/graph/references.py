"""Which names a statement mentions, in what role, and which indices an expression has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Literal

from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import mentions
from lgmdsl.language.tree.statements import described
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Category

# `map`: an index-valued datum used as a slot; `argument`: inside a distribution; `observed`: a
# datum at the site that observes it; `value`: the rest.
Role = Literal["value", "map", "argument", "observed"]


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention of a declared name; `argument` names the distribution's argument it is in;
    `operand`: as a whole operand of `@`, or as the matrix of a structure."""

    name: ast.Name
    role: Role = "value"
    argument: str = ""
    operand: bool = False


def mentioned(statement: ast.AnyStatement) -> Iterator[Mention]:
    """Every name in the expressions of a statement, and what it observes, in the order of the text;
    names of kernels, of labels and of index sets among them."""
    words = described(statement)
    if words.named and not words.declares:  # the name of a datum
        yield Mention(getattr(statement, "name"), "observed")  # noqa: B009
    for part in _parts(statement):
        if isinstance(part, ast.Dist):
            yield from _in_distribution(part, words.categories[0])
        else:
            yield from _in_value(part)


def expressions(statement: ast.AnyStatement | None) -> tuple[ast.Value, ...]:
    """The expressions of a statement, those in its distributions' arguments among them."""
    out: list[ast.Value] = []
    for part in () if statement is None else _parts(statement):
        out += [a.value for a in part.arguments] if isinstance(part, ast.Dist) else [part]
    return tuple(out)


def _parts(statement: ast.AnyStatement) -> Iterator[ast.Dist | ast.Expr]:
    """The distributions and expressions of a statement, in the order of its fields: all but its
    name and its index sets."""
    for field in fields(statement):
        value = getattr(statement, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if field.name not in ("name", "dims") and isinstance(part, (ast.Dist, ast.Expr)):
                yield part


def _in_value(value: ast.Value) -> Iterator[Mention]:
    for mention in mentions(value):
        yield Mention(mention.name, "map" if mention.slot else "value", "", mention.operand)


def _in_distribution(dist: ast.Dist, category: Category) -> Iterator[Mention]:
    # Looked up in its category only: an unknown name loads the installed plug-ins.
    signature = lookup(category, dist.name.id)
    for argument in dist.arguments:
        parameter = signature.parameter(argument.name) if signature is not None else None
        matrix = parameter is not None and parameter.type == "matrix"
        for mention in mentions(argument.value, matrix):
            yield Mention(mention.name, "argument", argument.name, mention.operand)


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
    joined = _indices_of_part(value, symbols)
    for node in reversed(spine):
        right = indices(node.right, symbols)
        shared = {i for i in right if i in joined} if node.op == "@" else set()
        joined = tuple(i for i in _join(joined, right) if i not in shared)
    return joined


def _indices_of_part(value: ast.Value, symbols: Mapping[str, Symbol]) -> tuple[str, ...]:
    match value:
        case ast.Name(id=name):
            return symbols[name].dims if name in symbols else ()
        case ast.Indexed(slots=slots):
            joined: tuple[str, ...] = ()
            for slot in slots:
                if isinstance(slot, ast.Name) and slot.id in symbols:
                    symbol = symbols[slot.id]
                    joined = _join(joined, (slot.id,) if symbol.kind == "index" else symbol.dims)
            return joined
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
