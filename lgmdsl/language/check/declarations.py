"""Check `index` and `data` statements, and the dims of all declarations."""

from __future__ import annotations

from collections.abc import Sequence

from lgmdsl.errors import meant
from lgmdsl.language.checked import Symbol
from lgmdsl.language.shapes.other_names import FACTORS, TYPES
from lgmdsl.language.shapes.scope import TYPE_NAMES, Scope
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import MAX_INDEX_SIZE
from lgmdsl.language.tree.wording import KIND_IN_WORDS, with_dims
from lgmdsl.vocabulary.lookup import DATA_TYPES, HYPER_TYPES


def check_dims(
    dims: Sequence[ast.Name], scope: Scope, *, matrix: bool = False
) -> tuple[str, ...] | None:
    """The index names of a declaration; complains of names that are no index, or appear twice.

    `matrix` allows the last two to be the same.
    """
    valid = True
    for place, name in enumerate(dims):
        symbol = scope.resolve(name, "index")
        if symbol is None:
            valid = False
        elif symbol.kind != "index":
            scope.findings.error(
                "E108",
                f"`{name.id}` is {KIND_IN_WORDS[symbol.kind]}, not an index",
                name.span,
                "an index is wanted",
                help=f"`{name.id}` maps {', '.join(symbol.dims)} to {symbol.target}: write "
                f"[{symbol.target}] here, and gather by [{name.id}] in a predictor"
                if symbol.target
                else "dims are names declared with `index`",
            )
            valid = False
        elif name.id in [d.id for d in dims[:place]]:
            twice = [d.id for d in dims[:place]].count(name.id)
            if matrix and twice == 1 and place == len(dims) - 1 and dims[place - 1].id == name.id:
                continue
            scope.findings.error(
                "E106",
                f"index `{name.id}` appears twice in `[{', '.join(d.id for d in dims)}]`",
                name.span,
                "a second time",
                help="only the last two indices of a covariance, a graph or a real matrix "
                "may be the same",
            )
            valid = False
    return tuple(d.id for d in dims) if valid else None


def check_name(name: ast.Name, scope: Scope) -> bool:
    """Whether a declaration may take this name; complains of a second declaration (E106)."""
    return scope.is_new(name)


def check_index(statement: ast.Index, scope: Scope) -> None:
    """Check an index and its labels, and declare it."""
    name = statement.name
    new = check_name(name, scope)
    valid = True
    if name.id in TYPE_NAMES:
        scope.findings.error(
            "E105",
            f"`{name.id}` is the name of a type",
            name.span,
            "a name of your own is wanted",
            help=f"e.g. index {name.id}_index",
        )
        valid = False
    match statement.definition:
        case ast.Size(size=size):
            valid = _size(size, f"`{name.id}` has size {size}", statement, scope) and valid
        case ast.Range(first=first, last=last):
            if last < first:
                _bad_index(
                    statement,
                    f"the range {first}..{last} runs backwards",
                    "no labels",
                    f"write {last}..{first}",
                    scope,
                )
                valid = False
            else:
                shown = f"the range {first}..{last} has {last - first + 1} labels"
                valid = _size(last - first + 1, shown, statement, scope) and valid
        case ast.Labels(labels=labels):
            valid = _labels(labels, statement, scope) and valid
        case ast.Head(of=of):
            valid = _head(of, statement, scope) and valid
    if new:
        scope.declare(Symbol(name.id, "index", statement, (), ""), broken=not valid)


def _bad_index(statement: ast.Index, message: str, label: str, help: str, scope: Scope) -> None:
    definition = statement.definition
    span = definition.span if definition and definition.span.known else statement.name.span
    scope.findings.error("E108", message, span, label, help=help)


def _size(size: int, shown: str, statement: ast.Index, scope: Scope) -> bool:
    if size < 1:
        _bad_index(
            statement,
            f"{shown}: an index has at least one label",
            "no labels",
            f"index {statement.name.id} = 1, or leave the size to the data",
            scope,
        )
    elif size > MAX_INDEX_SIZE:
        _bad_index(
            statement,
            f"{shown}: more than {MAX_INDEX_SIZE:,}",
            "too large",
            f"index {statement.name.id}, and the size comes with the data",
            scope,
        )
    else:
        return True
    return False


def _labels(labels: tuple[str, ...], statement: ast.Index, scope: Scope) -> bool:
    if len(set(labels)) != len(labels):
        seen: set[str] = set()
        twice = next(v for v in labels if v in seen or seen.add(v))  # type: ignore[func-returns-value]
        definition = statement.definition
        scope.findings.error(
            "E106",
            f'label "{twice}" of `{statement.name.id}` appears twice',
            definition.span if definition and definition.span.known else statement.name.span,
            "labels are distinguished by their text",
            help=f'leave out one "{twice}"',
        )
        return False
    if "" in labels:
        _bad_index(
            statement,
            f"a label of `{statement.name.id}` is empty",
            "an empty label",
            "an empty string means a missing entry in data: give the label a name",
            scope,
        )
        return False
    return _size(len(labels), f"`{statement.name.id}` has {len(labels)} labels", statement, scope)


def _head(of: ast.Name, statement: ast.Index, scope: Scope) -> bool:
    symbol = scope.resolve(of, "index")
    if symbol is None:
        return False
    if symbol.kind != "index":
        scope.findings.error(
            "E108",
            f"`{of.id}` is {KIND_IN_WORDS[symbol.kind]}, not an index",
            of.span,
            "an index is wanted",
            help=f"head takes an index: index {of.id}_index, then head of it",
        )
        return False
    known = scope.labels.get(of.id)
    if known is not None and known.count < 2:
        _bad_index(
            statement,
            f"head({of.id}) has no labels, for `{of.id}` has {known.count}",
            "no labels",
            f"give `{of.id}` at least two labels",
            scope,
        )
        return False
    return True


def check_data(statement: ast.Data, scope: Scope) -> None:
    """Check a datum's dims and type, and declare it."""
    name, type_ = statement.name, statement.type
    new = check_name(name, scope)
    valid = True
    target: str | None = None
    if type_.name not in DATA_TYPES:
        target = _index_type(type_, scope)
        valid = target is not None
    dims = check_dims(statement.dims, scope, matrix=type_.name in ("graph", "real"))
    valid = valid and dims is not None
    shape = dims or tuple(d.id for d in statement.dims)
    if valid and type_.name == "graph":
        if len(shape) != 2 or shape[0] != shape[1]:
            node = shape[0] if shape else "region"
            scope.findings.error(
                "E108",
                f"the graph `{name.id}` is over one index twice",
                name.span,
                f"declared {with_dims(name.id, shape)}",
                help=f"data {name.id}[{node}, {node}] : graph",
            )
            valid = False
        elif type_.missing:
            scope.findings.error(
                "E108",
                "a graph has no missing entries",
                type_.span,
                "`?` on a graph",
                help=f"data {name.id}[{', '.join(shape)}] : graph",
            )
            valid = False
    if new:
        symbol = Symbol(name.id, "data", statement, shape, type_.name, target)
        scope.declare(symbol, broken=not valid)


def _index_type(type_: ast.Type, scope: Scope) -> str | None:
    """The index set that a type names, or None after a complaint."""
    if type_.name in HYPER_TYPES:
        scope.findings.error(
            "E108",
            f"`{type_.name}` is a type of hypers, not of data",
            type_.span,
            f"data are {' '.join(DATA_TYPES)}, or the name of an index",
            help="declare it as data of type real, or as a hyper with a value",
        )
        return None
    if type_.name not in scope.symbols and not scope.declared_later(type_.name):
        if scope.mention(type_.name):
            indices = []
            if not scope.findings.full:
                indices = [s.name for s in scope.symbols.values() if s.kind == "index"]
            close = TYPES.get(type_.name.lower())
            if close not in DATA_TYPES:
                close = scope.closest(type_.name, [*DATA_TYPES, *indices])
            also = f", or an index such as {indices[0]}" if indices else ""
            known = f"Types of data: {' '.join(DATA_TYPES)}{also}"
            help = meant(close, then=known)
            if type_.name.lower() in FACTORS:
                level = f"{scope.current}_level"
                help = f"a factor has an index as its type: index {level}, then : {level}"
            scope.findings.error("E103", f"unknown type `{type_.name}`", type_.span, help=help)
        return None
    symbol = scope.resolve(ast.Name(type_.name, span=type_.span), "type")
    if symbol is None:
        return None
    if symbol.kind != "index":
        scope.findings.error(
            "E108",
            f"`{type_.name}` is {KIND_IN_WORDS[symbol.kind]}, not a type",
            type_.span,
            "a type is wanted",
            help=f"types of data: {' '.join(DATA_TYPES)}, or the name of an index",
        )
        return None
    return symbol.name
