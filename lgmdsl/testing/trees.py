"""A hypothesis strategy for syntax trees: any that the parser or the builder could make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import reduce
from operator import or_
from typing import Any, get_args, get_type_hints

from hypothesis import strategies as st

from lgmdsl.language.tree import ast
from lgmdsl.language.tree.statements import STATEMENTS
from lgmdsl.vocabulary.lookup import CATEGORIES, DATA_TYPES, HYPER_TYPES, names, signatures

# ---- statements --------------------------------------------------------------------------------
# Strategies for statements of all kinds, put together of strategies for their parts.


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


# ---- trees -------------------------------------------------------------------------------------

WORDS = ("a", "b", "obs", "day", "who", "adj", "y", "x", "s", "u", "f", "S", "log", "sum",
         "real", "iid")  # fmt: skip
ALL = sorted({n for c in CATEGORIES for n in names(c)} | set(WORDS))
ARGUMENTS = sorted({p.name for c in CATEGORIES for s in signatures(c) for p in s.parameters})

names_ = st.sampled_from(WORDS).map(ast.Name)
numbers = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 2.5, 3.0, 1e300, float("inf")]),
    st.floats(min_value=0, allow_nan=False),
).map(ast.Number)
strings = st.sampled_from(["", "a", "zero", "haar", "cumulative", "1"]).map(ast.String)
slots = st.one_of(names_, strings, numbers)
indexed = st.builds(ast.Indexed, names_, st.lists(slots, min_size=1, max_size=3).map(tuple))


def arguments(values: st.SearchStrategy[ast.Value]) -> st.SearchStrategy[tuple[ast.Argument, ...]]:
    """A few arguments of any names."""
    one = st.builds(ast.Argument, st.sampled_from(ARGUMENTS), values)
    return st.lists(one, max_size=3).map(tuple)


def grow(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    """Expressions that hold others."""
    values = st.one_of(inner, strings, st.booleans().map(ast.Bool))
    return st.one_of(
        st.builds(ast.Unary, inner),
        st.builds(ast.Binary, st.sampled_from(["+", "-", "*", "/", "@", "^"]), inner, inner),
        st.builds(
            ast.Call,
            st.sampled_from(ALL).map(ast.Name),
            st.lists(inner, max_size=3).map(tuple),
            arguments(values),
        ),
    )


expressions = st.recursive(st.one_of(names_, numbers, indexed), grow, max_leaves=6)
values = st.one_of(expressions, strings, st.booleans().map(ast.Bool))


@st.composite
def fitted(draw: st.DrawFn) -> ast.Dist:
    """A name of the language with most of its own arguments, of any value."""
    signature = draw(st.sampled_from([s for c in CATEGORIES for s in signatures(c)]))
    chosen = [p for p in signature.parameters if draw(st.integers(0, 4))]
    return ast.Dist(
        ast.Name(signature.name), tuple(ast.Argument(p.name, draw(values)) for p in chosen)
    )


dists = st.one_of(
    fitted(), st.builds(ast.Dist, st.sampled_from(ALL).map(ast.Name), arguments(values))
)
dims = st.lists(names_, max_size=3).map(tuple)
types = st.builds(
    ast.Type, st.sampled_from([*DATA_TYPES, *HYPER_TYPES, "obs", "day", "a", "nope"]), st.booleans()
)
small = st.integers(-3, 4)
definitions = st.one_of(
    st.none(),
    st.builds(ast.Size, st.one_of(small, st.just(10**30))),
    st.builds(ast.Range, small, small),
    st.lists(st.sampled_from(["", "a", "b"]), max_size=3).map(tuple).map(ast.Labels),
    st.builds(ast.Head, names_),
)
statements = statements_of(
    {
        ast.Name: names_,
        tuple[ast.Name, ...]: dims,
        ast.Type: types,
        ast.Definition | None: definitions,
        ast.Expr: expressions,
        ast.Dist: dists,
        tuple[ast.Dist, ...]: st.lists(dists, min_size=1, max_size=3).map(tuple),
    }
)
PREAMBLE = (
    ast.Index(ast.Name("obs")),
    ast.Index(ast.Name("day"), ast.Range(1, 9)),
    ast.Data(ast.Name("who"), (ast.Name("obs"),), ast.Type("day")),
    ast.Data(ast.Name("y"), (ast.Name("obs"),), ast.Type("real")),
    ast.Hyper(ast.Name("s"), (), ast.Type("positive"), None, ast.Number(1.0)),
    ast.Latent(
        ast.Name("u"),
        (ast.Name("day"),),
        (ast.Dist(ast.Name("normal"), (ast.Argument("sd", ast.Name("s")),)),),
    ),
    ast.Latent(ast.Name("f"), (ast.Name("obs"),), (ast.Dist(ast.Name("iid")),)),
    ast.Data(ast.Name("adj"), (ast.Name("day"), ast.Name("day")), ast.Type("graph")),
)
trees = st.builds(
    lambda head, rest: ast.Ast((*head, *rest)),
    st.sampled_from([(), PREAMBLE]),
    st.lists(statements, max_size=8),
)
