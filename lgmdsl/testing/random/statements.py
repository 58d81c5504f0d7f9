"""Strategies for statements of all kinds, put together of strategies for their parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import reduce
from operator import or_
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from lgmdsl.language.tree import ast
from lgmdsl.language.tree.statements import STATEMENTS

Parts = Mapping[Any, st.SearchStrategy[Any]]

COMMON = {f.name for f in fields(ast.Statement)}


def statements_of(
    parts: Parts, common: Mapping[str, st.SearchStrategy[Any]] | None = None
) -> st.SearchStrategy[ast.AnyStatement]:
    """Statements of every kind. `parts` has a strategy for each type of a field, `common` for the
    fields that all statements have; of a statement's optional parts exactly one is given."""
    return st.one_of([_of_kind(s.node, parts, common or {}) for s in STATEMENTS])


def _of_kind(
    node: type[ast.AnyStatement], parts: Parts, common: Mapping[str, st.SearchStrategy[Any]]
) -> st.SearchStrategy[ast.AnyStatement]:
    hints = get_type_hints(node, vars(ast))
    names = [f.name for f in fields(node) if f.name not in COMMON]
    required = {name: parts[hints[name]] for name in names if hints[name] in parts}
    optional = [name for name in names if name not in required]
    kinds: list[st.SearchStrategy[Any]] = []
    for chosen in optional or [""]:
        rest = {n: parts[_required(hints[n])] if n == chosen else st.none() for n in optional}
        kinds.append(st.builds(node, **required, **rest, **common))
    return st.one_of(kinds)


def _required(hint: Any) -> object:
    """`T` of `T | None`."""
    return reduce(or_, [part for part in get_args(hint) if part is not type(None)])
