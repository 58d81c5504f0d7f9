"""Strategies for trees that can be spelled: any names and texts, and comments everywhere.

Where `trees` draws on the language's own words to try the checker, these try the formatter and
the parser: each tree has a text that reads back as it.
"""

from __future__ import annotations

from hypothesis import strategies as st

from lgmdsl.language.parse.grammar import RESERVED
from lgmdsl.language.tree import ast
from lgmdsl.testing.trees import statements_of

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

identifiers = st.builds(
    lambda first, rest: first + rest,
    st.sampled_from(_LETTERS),
    st.text(_LETTERS + "0123456789_", max_size=6),
).filter(lambda text: text not in RESERVED)
names = identifiers.map(ast.Name)
_TURNING = "".join(chr(c) for c in (*range(0x202A, 0x202F), *range(0x2066, 0x206A)))  # refused
texts = st.text(st.characters(codec="utf-8", exclude_characters='"\r\n' + _TURNING), max_size=12)
numbers = st.one_of(
    st.integers(0, 10**6).map(float), st.floats(0, allow_nan=False, allow_infinity=False)
).map(ast.Number)
slots = st.one_of(names, texts.map(ast.String), numbers)
comments = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\n" + _TURNING), max_size=20
).map(lambda text: ("#" + text).rstrip())


def _values(expressions: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Value]:
    return st.one_of(expressions, texts.map(ast.String), st.booleans().map(ast.Bool))


def _arguments(
    expressions: st.SearchStrategy[ast.Expr],
) -> st.SearchStrategy[tuple[ast.Argument, ...]]:
    argument = st.builds(ast.Argument, identifiers, _values(expressions))
    return st.lists(argument, max_size=3).map(tuple)


def _larger(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    positional = st.lists(inner, min_size=1, max_size=2).map(tuple)
    calls = st.builds(ast.Call, names, positional, _arguments(inner))
    operators = st.sampled_from(["+", "-", "*", "/", "@", "^"])
    return st.one_of(
        st.builds(ast.Unary, inner), st.builds(ast.Binary, operators, inner, inner), calls
    )


_indexed = st.builds(ast.Indexed, names, st.lists(slots, min_size=1, max_size=3).map(tuple))
_atoms: st.SearchStrategy[ast.Expr] = st.one_of(numbers, names, _indexed)
expressions: st.SearchStrategy[ast.Expr] = st.recursive(_atoms, _larger, max_leaves=25)
distributions = st.builds(ast.Dist, names, _arguments(expressions))
dims = st.lists(names, max_size=3).map(tuple)
types = st.builds(ast.Type, identifiers, st.booleans())

_definitions = st.one_of(
    st.none(),
    st.integers(1, 10**6).map(ast.Size),
    st.tuples(st.integers(0, 99), st.integers(0, 99)).map(lambda p: ast.Range(min(p), max(p))),
    st.lists(texts, min_size=1, max_size=4).map(lambda labels: ast.Labels(tuple(labels))),
    names.map(ast.Head),
)

_kept: dict[str, st.SearchStrategy[object]] = {
    "doc": st.none() | texts,
    "comments": st.lists(comments, max_size=2).map(tuple),
    "inner": st.lists(comments, max_size=2).map(tuple),
    "trailing": st.none() | comments,
    "blank_before": st.booleans(),
}
statements = statements_of(
    {
        ast.Name: names,
        tuple[ast.Name, ...]: dims,
        ast.Type: types,
        ast.Definition | None: _definitions,
        ast.Expr: expressions,
        ast.Dist: distributions,
        tuple[ast.Dist, ...]: st.lists(distributions, min_size=1, max_size=3).map(tuple),
    },
    _kept,
)

models: st.SearchStrategy[ast.Ast] = st.builds(
    ast.Ast,
    st.lists(statements, max_size=5).map(tuple),
    header_comments=st.lists(comments, max_size=2).map(tuple),
    header_trailing=st.none() | comments,
    end_comments=st.lists(comments, max_size=2).map(tuple),
)
