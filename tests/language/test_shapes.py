"""The index algebra: case by case, and against a calculus of sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.errors import ModelError
from lgmdsl.language.check.check import check
from lgmdsl.language.checked import CheckedModel
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.shapes.shapes import shape_of
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import names_in

HEAD = """lgm 1
index i = 3
index j = 4
index k = 5
index row = 8
index col = 8
data a[i, j]   : real
data b[j, k]   : real
data v[j]      : real
data p[i]      : positive
data m[k]      : i
data n[k, j]   : i
data keep[row] : binary
hyper h[j]     : real ~ normal(sd = 1)
hyper s        : positive ~ pc_sd(u = 1, alpha = 0.5)
hyper S[i, i]  : covariance ~ inv_wishart(df = 5, scale = 1)
latent u[i]        ~ normal(sd = 1)
latent w[i, j]     ~ normal(sd = 1)
latent z           ~ normal(sd = 1)
latent img[row, col] ~ flat
let e[i] = u + p * z
report r[i] = exp(e)
"""
END = """
potential z ~ laplace(scale = 1)
"""


@pytest.fixture(scope="module")
def model() -> CheckedModel:
    return check(parse(HEAD + END))


def expression(text: str) -> ast.Expr:
    statement = parse(f"lgm 1\nreport q = {text}\n").statements[0]
    assert isinstance(statement, ast.Report)
    return statement.value


@pytest.mark.parametrize(
    ("text", "indices", "degree"),
    [
        ("1.5", "", "constant"),
        ("a", "i j", "constant"),
        ("a + p", "i j", "constant"),
        ("p + v", "i j", "constant"),
        ("v - p * z", "j i", "affine"),
        ("a @ b", "i k", "constant"),
        ("b @ a", "k i", "constant"),
        ("a @ v", "i", "constant"),
        ("h + s", "j", "hyper"),
        ("a @ h", "i", "hyper"),
        ("w @ h", "i", "affine"),
        ("u[m]", "k", "affine"),
        ("w[m, j]", "k j", "affine"),
        ("w[n, j]", "k j", "affine"),
        ("w[0, j]", "j", "affine"),
        ('w[2, "3"]', "", "affine"),
        ("w[i, 0]", "i", "affine"),
        ("S[0, 1]", "", "hyper"),
        ("S[i, 0]", "i", "hyper"),
        ("S[i, i]", "i i", "hyper"),
        ("S", "i i", "hyper"),
        ("sum(a, j)", "i", "constant"),
        ("sum(sum(w, i), j)", "", "affine"),
        ("diff(img, row)", "row~1 col", "affine"),
        ("diff(diff(img, row), row, order = 2)", "row~3 col", "affine"),
        ('diff(img, col, boundary = "circular")', "row col", "affine"),
        ("sum(diff(img, row), row)", "col", "affine"),
        ("diff(img, row) + diff(2 * img, row)", "row~1 col", "affine"),
        ("mask(img, keep)", "row col", "affine"),
        ('wavelet(img, filter = "db4", levels = 2)', "row col", "affine"),
        ("fft(img)", "row col", "affine"),
        ("cumsum(u)", "i", "affine"),
        ("cumsum(a, j)", "i j", "constant"),
        ('conv2(img, a, boundary = "zero")', "row col", "affine"),
        ("exp(e)", "i", "nonlinear"),
        ("r", "i", "nonlinear"),
        ("e", "i", "affine"),
        ("u * u", "i", "nonlinear"),
        ("u ^ 2", "i", "nonlinear"),
        ("p ^ s", "i", "hyper"),
        ("1 / z", "", "nonlinear"),
        ("u / s", "i", "affine"),
        ("softmax(w, j)", "i j", "nonlinear"),
        ("-u", "i", "affine"),
        ("sqrt(s)", "", "hyper"),
    ],
)
def test_indices_and_degree(model: CheckedModel, text: str, indices: str, degree: str) -> None:
    expr = expression(text)
    assert shape_of(expr, model.symbols).indices == tuple(indices.split())
    assert shape_of(expr, model.symbols).degree == degree


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a @ w", "E202"),
        ("p @ v", "E202"),
        ("z @ u", "E202"),
        ("u[n, j]", "E108"),
        ("w[j, i]", "E204"),
        ("v[m]", "E204"),
        ("u[p]", "E108"),
        ("u[7]", "E302"),
        ("u[0.5]", "E302"),
        ('u["x"]', "E302"),
        ("diff(img, row) + img", "E201"),
        ("diff(img, row) + diff(img, row, order = 2)", "E201"),
        ("diff(img, row) @ img", "E201"),
        ("sum(u, j)", "E201"),
        ("mask(u, keep)", "E201"),
        ("mask(img, img)", "E108"),
        ('conv2(u, a, boundary = "zero")', "E108"),
        ("cumsum(a)", "E104"),
        ("fft(z)", "E108"),
        ("S + 1", "E108"),
        ("m + 1", "E108"),
        ("i + 1", "E108"),
        ("nothing + 1", "E103"),
        ("1 / 0", "E108"),
        ("10 ^ 400", "E108"),
        ("log(0)", "E108"),
        ("i[0]", "E108"),
        ("diff(img, row, order = 0)", "E108"),
    ],
)
def test_refused(model: CheckedModel, text: str, code: str) -> None:
    with pytest.raises(ModelError) as caught:
        shape_of(expression(text), model.symbols)
    assert caught.value.codes == (code,)


# ---- random expressions: the indices are those that a set calculus gives --------------------

LEAVES = {"a": {"i", "j"}, "b": {"j", "k"}, "v": {"j"}, "p": {"i"}, "u": {"i"}, "2": set()}


@st.composite
def algebra(draw: st.DrawFn, depth: int = 4) -> tuple[str, set[str]]:
    """A text, and its indices by a calculus of sets."""
    if depth == 0 or draw(st.booleans()):
        name = draw(st.sampled_from(sorted(LEAVES)))
        return name, LEAVES[name]
    left, one = draw(algebra(depth=depth - 1))
    right, two = draw(algebra(depth=depth - 1))
    kind = draw(st.sampled_from(["+", "-", "*", "@", "sum"]))
    if kind == "sum" and one:
        index = draw(st.sampled_from(sorted(one)))
        return f"sum({left}, {index})", one - {index}
    if kind == "@" and len(one & two) == 1:
        return f"({left}) @ ({right})", one ^ two
    op = kind if kind in "+-*" else "+"
    return f"({left}) {op} ({right})", one | two


@given(algebra())
def test_indices_are_those_of_a_set_calculus(case: tuple[str, set[str]]) -> None:
    text, indices = case
    symbols = check(parse(HEAD + END)).symbols
    found = shape_of(expression(text), symbols).indices
    assert set(found) == indices and len(found) == len(indices)


@given(st.lists(st.sampled_from(["a", "p", "v", "u", "z", "e", "h"]), min_size=1, max_size=6))
def test_the_order_of_terms_changes_nothing(terms: list[str]) -> None:
    symbols = check(parse(HEAD + END)).symbols
    one = shape_of(expression(" + ".join(terms)), symbols)
    two = shape_of(expression(" + ".join(reversed(terms))), symbols)
    assert set(one.indices) == set(two.indices)
    assert one.degree == two.degree


def test_a_chain_of_any_length_and_a_part_used_twice(model: CheckedModel) -> None:
    chain: ast.Expr = ast.Name("u")
    for _ in range(50_000):
        chain = ast.Binary("+", chain, ast.Name("p"))
    assert shape_of(chain, model.symbols).indices == ("i",)
    right: ast.Expr = ast.Name("u")
    for _ in range(5_000):
        right = ast.Unary(ast.Binary("*", ast.Number(2.0), right))
    assert shape_of(right, model.symbols).degree == "affine"
    shared: ast.Expr = ast.Name("u")
    for _ in range(200):
        shared = ast.Binary("+", shared, shared)
    assert [name.id for name in names_in(shared)] == ["u"]
