"""How a model uses its data: what is observed, what `@` contracts, what new rows may replace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from lgmdsl.language import ast
from lgmdsl.language.checked import CheckedModel
from lgmdsl.vocabulary.lookup import lookup

# Structures whose prior over old and new members together is, over the old ones, what it was: walks
# at new positions are none, as their scale and their sum are those of all their points.
EXTENDABLE = frozenset({"normal", "iid", "flat", "gp", "ou"})


@dataclass(frozen=True)
class Usage:
    """`observed`: data that stand behind `observe`. `referenced`: names in expressions.
    `contracted`: names that stand only beside `@`, or as the matrix of a structure. `rows`: index
    sets new data may replace."""

    observed: frozenset[str]
    referenced: frozenset[str]
    contracted: frozenset[str]
    rows: frozenset[str]


def usage_of(model: CheckedModel) -> Usage:
    """Read the use of every name off the tree."""
    observed = {s.name.id for s in model.tree.statements if isinstance(s, ast.Observe)}
    beside: set[str] = set()
    elsewhere: set[str] = set()
    for statement in model.tree.statements:
        for name, contracted in _names(statement):
            (beside if contracted else elsewhere).add(name)
    return Usage(
        frozenset(observed),
        frozenset(beside | elsewhere),
        frozenset(beside - elsewhere),
        frozenset(_rows(model, observed)),
    )


def _names(node: ast.Node, contracted: bool = False) -> Iterator[tuple[str, bool]]:
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


def _rows(model: CheckedModel, observed: set[str]) -> set[str]:
    """Axes of a response that nothing else ties down: undeclared, without hyperparameters, graphs
    or structures (rw1, besag ...) over them."""
    rows = {dim for name in observed if name in model.symbols for dim in model.symbols[name].dims}
    tied: set[str] = set()
    for symbol in model.symbols.values():
        statement = symbol.statement
        if isinstance(statement, ast.Index) and statement.definition is not None:
            tied.add(symbol.name)
        elif symbol.kind == "hyper" or symbol.type == "graph":
            tied |= set(symbol.dims)
        elif isinstance(statement, ast.Latent):
            tied |= _structured(statement)
        if symbol.target is not None:
            tied.add(symbol.target)
    return rows - tied


def _structured(statement: ast.Latent) -> set[str]:
    dims = [dim.id for dim in statement.dims]
    if len(statement.factors) == 1:
        return set() if _extends(statement.factors[0]) else set(dims)
    pairs = zip(dims, statement.factors, strict=False)
    return {dim for dim, factor in pairs if not _extends(factor)}


def _extends(factor: ast.Dist) -> bool:
    return factor.name.id in EXTENDABLE
