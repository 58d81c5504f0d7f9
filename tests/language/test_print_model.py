"""The formatter: same tree, every comment, and the second time changes nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given

from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.print_expr import show
from lgmdsl.language.tree.print_model import print_model
from lgmdsl.testing.random.spelled import expressions, models


def value(text: str) -> ast.Expr:
    statement = parse(f"lgm 1 let a = {text}").statements[0]
    assert isinstance(statement, ast.Let)
    return statement.value


@given(expressions)
def test_an_expression_reads_back_as_itself(tree: ast.Expr) -> None:
    assert value(show(tree)) == tree


@given(models)
def test_a_model_reads_back_as_itself(tree: ast.Ast) -> None:
    text = print_model(tree)
    again = parse(text)
    assert again == tree
    assert print_model(again) == text


@given(models)
def test_every_comment_is_kept(tree: ast.Ast) -> None:
    lines = print_model(tree).split("\n")
    wanted = Counter([*tree.header_comments, *tree.end_comments])
    for statement in tree.statements:
        wanted.update([*statement.comments, *statement.inner])
    kept = Counter(line for line in lines if line.startswith("#"))
    assert kept == wanted
    trailing = [s.trailing for s in tree.statements if s.trailing]
    assert all(any(line.endswith(t) for line in lines) for t in trailing)


@pytest.mark.parametrize(
    ("written", "minimal"),
    [
        ("(a + b) + c", "a + b + c"),
        ("a + (b + c)", "a + (b + c)"),
        ("a - (b - c)", "a - (b - c)"),
        ("a / (b * c)", "a / (b * c)"),
        ("(a / b) * c", "a / b * c"),
        ("a * (b @ c)", "a * (b @ c)"),
        ("(a * b) @ c", "a * b @ c"),
        ("-(a ^ b)", "-a^b"),
        ("(-a) ^ b", "(-a)^b"),
        ("a ^ (b ^ c)", "a^b^c"),
        ("(a ^ b) ^ c", "(a^b)^c"),
        ("a ^ (-b)", "a^-b"),
        ("-(-(a))", "--a"),
        ("-(a * b)", "-(a * b)"),
        ("(-a) * b", "-a * b"),
        ("a - (-b)", "a - -b"),
        ("2 / 3", "2/3"),
        ("2 / a", "2 / a"),
        ("((a))", "a"),
    ],
)
def test_no_more_brackets_than_the_tree_needs(written: str, minimal: str) -> None:
    assert show(value(written)) == minimal
    assert value(minimal) == value(written)


def test_examples_keep_tree_and_comments(shared: Path) -> None:
    for file in sorted((shared / "examples").glob("*.lgm")):
        text = file.read_text(encoding="utf-8")
        tree = parse(text, file.name)
        printed = print_model(tree)
        assert parse(printed) == tree
        assert print_model(parse(printed)) == printed
        assert printed.count("#") == text.count("#")
        assert max(map(len, printed.splitlines())) <= 100


def test_comments_stay_at_their_statement() -> None:
    text = """\

# what this is

# more
lgm 1  # the version


# the rows
index obs   # one for each visit

# the classes,
# three of them
index way = {"walk",  # on foot
             # on wheels
             "bike"}   "how they came"  # all
# the end

# of it
"""
    assert (
        print_model(parse(text))
        == """\
# what this is

# more
lgm 1  # the version

# the rows
index obs  # one for each visit

# the classes,
# three of them
# on foot
# on wheels
index way = {"walk", "bike"}  "how they came"  # all
# the end

# of it
"""
    )


def test_neighbours_are_aligned_and_long_lines_folded() -> None:
    terms = " + ".join(f"weight{i} * covariate{i}" for i in range(8))
    text = f"""lgm 1
let eta[obs] = {terms}
observe y ~ normal(mean = eta, sd = 1)
report r = exp(eta)
hyper short : real ~ normal(sd = 1)
hyper much_longer[obs] : positive = 2
"""
    assert (
        print_model(parse(text))
        == """\
lgm 1
let eta[obs] = weight0 * covariate0 + weight1 * covariate1 + weight2 * covariate2
             + weight3 * covariate3 + weight4 * covariate4 + weight5 * covariate5
             + weight6 * covariate6 + weight7 * covariate7
observe y ~ normal(mean = eta, sd = 1)
report  r = exp(eta)
hyper short            : real     ~ normal(sd = 1)
hyper much_longer[obs] : positive = 2
"""
    )


def test_line_ends_and_marks_of_other_systems() -> None:
    plain = parse("lgm 1\n# note\nindex obs\n")
    for text in ("\ufefflgm 1\r\n# note\r\nindex obs\r\n", "lgm 1\r# note\rindex obs\r"):
        tree = parse(text)
        assert tree == plain
        assert tree.statements[0].comments == ("# note",)
