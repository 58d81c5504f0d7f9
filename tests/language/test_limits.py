"""No text takes long, and none ends in anything but a model or an LgmError."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings

from lgmdsl.errors import LgmError, ModelError
from lgmdsl.language.load import loads
from lgmdsl.language.parse.parse import parse
from lgmdsl.language.tree.ast import MAX_CHAIN, MAX_CHARACTERS, MAX_NESTING, MAX_TOKENS
from lgmdsl.language.tree.print_model import print_model
from lgmdsl.testing.texts import MODEL, almost_models
from tests.operations import Calls

HEAD = "lgm 1\nindex obs\nlatent u[obs] ~ normal(sd = 1)\n"

# Calls that a text may take: some 500 for each of MAX_TOKENS words, as in a second of 2026, and
# 5 for each of MAX_CHARACTERS characters. The longest take half of it.
MOST = 10_000_000

LONG = {
    "nothing": "",
    "blank": " \n" * 400_000,
    "comments": "# note\n" * 140_000,
    "one long comment": "#" * 999_999,
    "one long word": "a" * 999_999,
    "one long number": "lgm 1 index a = " + "9" * 900_000,
    "one long float": "lgm 1 let a = 0." + "9" * 900_000,
    "one long text": 'lgm 1 index a "' + "x" * 900_000 + '"',
    "an open text": 'lgm 1 index a "' + "x" * 900_000,
    "quotes": "'" * 900_000,
    "open typographic quotes": "\u201c" * 300_000,
    "junk": "$" * 900_000,
    "some junk": "lgm 1 let a = " + "$ " * 18_000,
    "some dots": "lgm 1 let a = " + "." * 18_000,
    "some quotes": "lgm 1 let a = " + "'" * 18_000 + '"' * 18_000,
    "some Greek": "lgm 1 let a = " + "\u03c3" * 18_000,
    "some minus signs": "lgm 1 let a = " + "\u2212" * 18_000 + "1",
    "letters of other alphabets": "\u03c3" * 900_000,
    "dots": "lgm 1 let a = " + "." * 900_000,
    "words": "lgm 1 index a " + "b " * 19_600,
    "lines of words": "lgm 1 index a\n" + "bb\n" * 19_600,
    "openers": "lgm 1 " + "index " * 19_600,
    "brackets": HEAD + "let a[obs] = " + "(" * 19_600,
    "closed brackets": HEAD + "let a[obs] = " + "(" * 9_800 + "u" + ")" * 9_800,
    "square brackets": HEAD + "let a[obs] = " + "u[" * 9_800,
    "calls": HEAD + "let a[obs] = " + "exp(" * 6_400 + "u" + ")" * 6_400,
    "signs": HEAD + "let a[obs] = " + "-" * 19_600 + "u",
    "powers": HEAD + "let a[obs] = u" + "^u" * 9_800,
    "a sum": HEAD + "let a[obs] = u" + " + u" * 9_800,
    "an unfinished sum": HEAD + "let a[obs] = u" + " + u" * 9_800 + " +",
    "two operands": HEAD + "let a[obs] = u" + " + u" * 9_800 + " u",
    "factors": HEAD + "latent a[obs] ~ iid" + " * iid" * 9_800,
    "labels": "lgm 1\nindex a = {" + '"x", ' * 9_800 + '"y"}',
    "bare labels": "lgm 1\nindex a = {" + "x, " * 9_800 + "y}",
    "arguments": HEAD + "latent a ~ normal(" + "sd = 1, " * 4_800 + "sd = 1)",
    "unnamed arguments": HEAD + "latent a ~ normal(" + "1, " * 9_800 + "1)",
    "slots": HEAD + "let a = u[" + "obs, " * 9_800 + "obs]",
    "dims": HEAD + "let a[" + "obs, " * 9_800 + "obs] = u",
    "wrong statements": "lgm 1\n" + "latent u = normal(1)\n" * 2_800,
    "the same statement": "lgm 1\n" + "index u\n" * 9_800,
    "many latents": "lgm 1\n" + "".join(f"latent u{i} ~ flat\n" for i in range(4_800)),
    "unknown names": HEAD + "".join(f"let a{i} = b{i}\n" for i in range(4_800)),
    "a chain of lets": HEAD + "let a0[obs] = u\n"
    + "".join(f"let a{i}[obs] = a{i - 1}\n" for i in range(1, 2_480)),
    "doubling lets": HEAD + "let a0[obs] = u\n"
    + "".join(f"let a{i}[obs] = a{i - 1} + a{i - 1}\n" for i in range(1, 1_980)),
    "chained hypers": "lgm 1\nhyper s0 : positive = 1\n"
    + "".join(f"hyper s{i} : positive = s{i - 1} * s{i - 1}\n" for i in range(1, 2_400)),
    "chained heads": "lgm 1\nindex a0 = 4000\n"
    + "".join(f"index a{i} = head(a{i - 1})\n" for i in range(1, 2_800)),
    "huge powers": "lgm 1\nhyper s : real = 9^9^9^9^9\nlatent u ~ normal(sd = s)\n",
    "a huge index": "lgm 1\nindex a = 100000000\nindex b = head(a)\nlatent u[a] ~ normal(sd = 1)\n",
}  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_long_texts_end_soon(text: str) -> None:
    loads(MODEL)  # the parser is built
    with Calls() as counted:
        try:
            loads(text)
        except LgmError as error:
            assert error.diagnostics
            assert len(str(error)) < 20_000
    assert counted.number < MOST


@pytest.mark.thorough
@given(almost_models)
@settings(max_examples=300)
def test_almost_models(text: str) -> None:
    try:
        model = loads(text)
    except LgmError as error:
        for found in error.diagnostics:
            assert found.message
            assert found.render()
            assert found.as_json()["code"] == found.code
        return
    assert loads(model.to_lgm()) == model


def test_the_parser_needs_no_deep_stack() -> None:
    """Rows of operators and nested brackets at their limits, with 700 of the usual 1,000 frames."""
    row = HEAD + "let a[obs] = u" + " + u" * (MAX_CHAIN - 1)
    nest = HEAD + "let a[obs] = " + "(-" * (MAX_NESTING // 2) + "u" + ")" * (MAX_NESTING // 2)
    power = HEAD + "let a[obs] = u * 1" + "^1" * (MAX_NESTING - 1)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(700)
    try:
        for text in (row, nest, power):
            tree = loads(text).tree
            assert parse(print_model(tree)) == tree
    finally:
        sys.setrecursionlimit(usual)


def test_a_row_at_the_limit_is_checked() -> None:
    model = loads(HEAD + "let a[obs] = u" + " + u" * (MAX_CHAIN - 1))
    assert model == loads(model.to_lgm())


@pytest.mark.parametrize(
    "body",
    [
        "(" * (MAX_NESTING + 1) + "u" + ")" * (MAX_NESTING + 1),
        "-" * (MAX_NESTING + 1) + "u",
        "u" + "^2" * (MAX_NESTING + 1),
        "u" + " + u" * (MAX_CHAIN + 1),
        "exp(" * (MAX_NESTING + 1) + "u" + ")" * (MAX_NESTING + 1),
    ],
)
def test_beyond_the_limit(body: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse(HEAD + "let a[obs] = " + body)
    assert caught.value.codes == ("E109",)
    assert "nested too deeply" in str(caught.value)


def test_size_limits() -> None:
    for text in ("#" * (MAX_CHARACTERS + 1), "a " * (MAX_TOKENS + 1)):
        with pytest.raises(ModelError) as caught:
            parse(text)
        assert caught.value.codes == ("E109",)


def test_no_text_at_all() -> None:
    for wrong in (None, b"lgm 1", 3):
        with pytest.raises(ModelError, match="a model is a text"):
            parse(wrong)  # type: ignore[arg-type]


def test_surrogates_can_be_printed() -> None:
    with pytest.raises(ModelError) as caught:
        parse("lgm 1\nindex \ud800")
    assert str(caught.value).encode("utf-8")
