"""Which names a statement mentions, in what role, and which indices an expression has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from lgmdsl.language.checked import Symbol
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import mentions
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Category

# `map`: an index-valued datum used as a slot; `argument`: inside a distribution; `observed`: a
# datum at the site that observes it; `value`: the rest.
Role = Literal["value", "map", "argument", "observed"]


@dataclass(frozen=True, slots=True)
class Reference:
    """One mention of a declared name; `argument` names the distribution's argument it is in;
    `operand`: as a whole operand of `@`, or as the matrix of a structure."""

    name: ast.Name
    role: Role = "value"
    argument: str = ""
    operand: bool = False


def mentioned(statement: ast.AnyStatement) -> Iterator[Reference]:
    """Every name in the expressions of a statement, and what it observes, in the order of the text;
    names of kernels, of labels and of index sets among them."""
    match statement:
        case ast.Hyper(prior=prior, value=value):
            if prior is not None:
                yield from _in_distribution(prior, "prior")
            if value is not None:
                yield from _in_value(value)
        case ast.Latent(factors=factors):
            for factor in factors:
                yield from _in_distribution(factor, "structure")
        case ast.Let(value=value) | ast.Report(value=value):
            yield from _in_value(value)
        case ast.Observe(name=name, family=family):
            yield Reference(name, "observed")
            yield from _in_distribution(family, "family")
        case ast.Potential(value=value, family=family):
            yield from _in_value(value)
            yield from _in_distribution(family, "potential")
        case ast.Constrain(left=left, right=right):
            yield from _in_value(left)
            yield from _in_value(right)


def expressions(statement: ast.AnyStatement | None) -> tuple[ast.Value, ...]:
    """The expressions of a statement, those in its distributions' arguments among them."""
    match statement:
        case ast.Hyper(prior=prior, value=value):
            arguments = () if prior is None else tuple(a.value for a in prior.arguments)
            return arguments if value is None else (*arguments, value)
        case ast.Latent(factors=factors):
            return tuple(a.value for f in factors for a in f.arguments)
        case ast.Let(value=value) | ast.Report(value=value):
            return (value,)
        case ast.Observe(family=family):
            return tuple(a.value for a in family.arguments)
        case ast.Potential(value=value, family=family):
            return (value, *(a.value for a in family.arguments))
        case ast.Constrain(left=left, right=right):
            return (left, right)
    return ()


def _in_value(value: ast.Value) -> Iterator[Reference]:
    for mention in mentions(value):
        yield Reference(mention.name, "map" if mention.slot else "value", "", mention.operand)


def _in_distribution(dist: ast.Dist, category: Category) -> Iterator[Reference]:
    # Looked up in its category only: an unknown name loads the installed plug-ins.
    signature = lookup(category, dist.name.id)
    for argument in dist.arguments:
        parameter = signature.parameter(argument.name) if signature is not None else None
        matrix = parameter is not None and parameter.type == "matrix"
        for mention in mentions(argument.value, matrix):
            yield Reference(mention.name, "argument", argument.name, mention.operand)


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
