"""How a model uses its data: what is observed, what `@` contracts, what new rows may replace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import chain

from lgmdsl.canonical.grounding.order_needs import spacing_of
from lgmdsl.contract.censoring import CENSORING
from lgmdsl.contract.structure import Members
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.tree import ast
from lgmdsl.structures.catalogue import members_of
from lgmdsl.vocabulary.lookup import lookup


@dataclass(frozen=True)
class Usage:
    """`observed`: data that stand behind `observe`. `referenced`: names in expressions.
    `contracted`: names that stand only beside `@`, or as the matrix of a structure. `outcome`: data
    that say how a response was observed (`event`, `lower`, `upper`) and nothing else. `rows`: index
    sets new data may replace. `steps`: those of which new data may name the members, known and new
    ones, as the order of their labels gives each a place. `growing`: those that take new labels."""

    observed: frozenset[str]
    referenced: frozenset[str]
    contracted: frozenset[str]
    outcome: frozenset[str]
    rows: frozenset[str]
    steps: frozenset[str]
    growing: frozenset[str]

    @property
    def responses(self) -> frozenset[str]:
        """What predictions do without: responses that no predictor has in it, and how they were
        observed."""
        return (self.observed - self.referenced) | self.outcome


def usage_of(model: CheckedModel) -> Usage:
    """Read the use of every name off the tree."""
    observed = {s.name.id for s in model.tree.statements if isinstance(s, ast.Observe)}
    beside: set[str] = set()
    elsewhere: set[str] = set()
    names = [tuple(names_in(s)) for s in model.tree.statements]
    for name, contracted in chain.from_iterable(names):
        (beside if contracted else elsewhere).add(name)
    outcome = _outcome(model, names)
    rows, steps, growing = _index_sets(model, observed)
    return Usage(
        observed=frozenset(observed),
        referenced=frozenset(beside | elsewhere),
        contracted=frozenset(beside - elsewhere),
        outcome=frozenset(outcome),
        rows=frozenset(rows),
        steps=frozenset(steps),
        growing=frozenset(growing),
    )


def _outcome(model: CheckedModel, used: Sequence[tuple[tuple[str, bool], ...]]) -> set[str]:
    """Data that stand in nothing but arguments which say how a response was observed; `used`: the
    names in each statement."""
    inside: set[str] = set()
    outside: set[str] = set()
    for statement, whole in zip(model.tree.statements, used, strict=True):
        if isinstance(statement, ast.Observe):
            for argument in statement.family.arguments:
                names = {name for name, _ in names_in(argument.value)}
                (inside if argument.name in CENSORING else outside).update(names)
        else:
            outside |= {name for name, _ in whole}
    return {n for n in inside - outside if n in model.symbols and model.symbols[n].kind == "data"}


def names_in(node: ast.Node, contracted: bool = False) -> Iterator[tuple[str, bool]]:
    """Names used in the expressions under a node, and whether each is an operand of `@` (or the
    matrix of a structure, which may be sparse as well)."""
    stack: list[tuple[ast.Node, bool]] = [(node, contracted)]
    while stack:
        here, beside = stack.pop()
        if isinstance(here, ast.Name):
            yield here.id, beside
            continue
        if isinstance(here, ast.Dist):
            stack.extend((a.value, _is_matrix(here, a.name)) for a in here.arguments)
            continue
        # What a statement declares or observes, its type and its indices are no uses.
        skipped: tuple[str, ...] = ()
        if isinstance(here, ast.Statement):
            skipped = ("name", "dims", "type", "definition")
        elif isinstance(here, ast.Call):
            skipped = ("name", "function")
        product = isinstance(here, ast.Binary) and here.op == "@"
        for item in fields(here):
            if item.name in skipped or item.name == "span":
                continue
            value = getattr(here, item.name)
            keeps = product or (beside and isinstance(here, ast.Indexed) and item.name == "base")
            children = value if isinstance(value, tuple) else (value,)
            stack.extend((child, keeps) for child in children if isinstance(child, ast.Node))


def _is_matrix(dist: ast.Dist, argument: str) -> bool:
    signature = lookup("structure", dist.name.id)
    parameter = signature.parameter(argument) if signature else None
    return parameter is not None and parameter.type == "matrix"


def _index_sets(model: CheckedModel, observed: set[str]) -> tuple[set[str], set[str], set[str]]:
    """`rows`: axes of a response that nothing else ties down: undeclared, without hyperparameters,
    graphs or ordered structures over them. `steps`: those with an ordered structure. `growing`."""
    axes = {dim for name in observed if name in model.symbols for dim in model.symbols[name].dims}
    declared: set[str] = set()
    counted: set[str] = set()
    whole: set[str] = set()
    ordered: set[str] = set()
    targets: set[str] = set()
    for symbol in model.symbols.values():
        statement = symbol.statement
        if isinstance(statement, ast.Index) and statement.definition is not None:
            plain = isinstance(statement.definition, ast.Size | ast.Range)
            (counted if plain else declared).add(symbol.name)
            if isinstance(statement.definition, ast.Head):
                whole.add(statement.definition.of.id)
        elif symbol.kind == "hyper" or symbol.type == "graph":
            whole |= set(symbol.dims)
        elif isinstance(statement, ast.Latent):
            for dim, factor in latent_axes(statement):
                members = members_of(factor.name.id)
                if members is Members.FIXED:
                    whole.add(dim)
                elif members is Members.ORDERED and spacing_of(factor) is not None:
                    ordered.add(dim)
        if symbol.target is not None:
            targets.add(symbol.target)
    growing = {s.name for s in model.of_kind("index")} - declared - whole - (counted - ordered)
    rows = axes - declared - counted - whole - ordered - targets
    return rows, (axes & ordered & growing) - targets, growing - rows


def latent_axes(statement: ast.Latent) -> Iterator[tuple[str, ast.Dist]]:
    """Each index of a latent with the structure over it."""
    dims = [dim.id for dim in statement.dims]
    if len(statement.factors) == 1:
        yield from ((dim, statement.factors[0]) for dim in dims)
    else:
        yield from zip(dims, statement.factors, strict=False)
