"""The parser's tables: made of the grammar as it stands, and read as lark reads that grammar."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgmdsl.language.parse.grammar import OPENERS, parser, tables_file
from lgmdsl.language.parse.lalr import Stop, Token, Tree
from lgmdsl.language.parse.tables import lark_parser, text_of_tables
from lgmdsl.testing.texts import MODEL, TOKENS, almost_models


def test_the_tables_are_those_of_the_grammar() -> None:
    """If this fails: `python -m lgmdsl.language.parse.tables` writes them anew."""
    assert tables_file().read_text(encoding="utf-8") == text_of_tables()


@pytest.mark.parametrize("seed", ["1", "2"])
def test_the_tables_do_not_depend_on_the_seed_of_the_hash(seed: str, root: Path) -> None:
    script = (
        "from lgmdsl.language.parse.tables import text_of_tables; print(text_of_tables(), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={"PYTHONHASHSEED": seed, "PYTHONPATH": f"{root}:{root / 'backends'}"},
    )
    assert done.stdout == tables_file().read_text(encoding="utf-8")


@cache
def from_grammar() -> Any:
    return lark_parser()


def shape(node: Any) -> Any:
    """A parse tree of either reader as plain tuples: names, types and places."""
    if isinstance(node, str):
        token: Any = node
        return token.type, str(token), token.start_pos, token.end_pos
    place = node if isinstance(node, Tree) else node.meta
    return node.data, place.start_pos, place.end_pos, [shape(c) for c in node.children]


def by_lark(rule: str, tokens: list[Token]) -> Any:
    """What lark makes of a statement: its tree, or where it stopped and what fits there."""
    from lark import Token as LarkToken
    from lark.exceptions import UnexpectedInput

    own = [LarkToken(t.type, str(t), start_pos=t.start_pos, end_pos=t.end_pos) for t in tokens]
    reader = from_grammar().parse_interactive(start=rule)
    for at, token in enumerate([*own, None]):
        before = reader.copy(deepcopy_values=False)
        try:
            tree = reader.feed_eof(own[-1]) if token is None else reader.feed_token(token)
        except UnexpectedInput:
            return at, frozenset(before.accepts())
    return shape(tree)


def by_tables(rule: str, tokens: list[Token]) -> Any:
    result = parser().parse(rule, tokens)
    return (result.position, result.accepts) if isinstance(result, Stop) else shape(result)


@given(almost_models)
def test_tokens_are_those_of_lark(text: str) -> None:
    assert [shape(t) for t in parser().lex(text)] == [shape(t) for t in from_grammar().lex(text)]


@given(st.sampled_from(sorted(OPENERS)), st.lists(st.sampled_from(TOKENS), max_size=12))
def test_any_row_of_words_is_read_as_lark_reads_it(opener: str, words: list[str]) -> None:
    text = " ".join([OPENERS[opener], *(w for w in words if w not in OPENERS.values())])
    tokens = [t for t in parser().lex(text) if t.type != "COMMENT"]
    assert by_tables(OPENERS[opener], tokens) == by_lark(OPENERS[opener], tokens)


@given(st.sampled_from(MODEL.split("\n")), st.data())
def test_statements_and_their_beginnings_are_read_as_lark_reads_them(
    line: str, data: st.DataObject
) -> None:
    tokens = [t for t in parser().lex(line) if t.type != "COMMENT"]
    if not tokens or tokens[0].type not in OPENERS:
        return
    kept = tokens[: data.draw(st.integers(1, len(tokens)))]
    rule = OPENERS[tokens[0].type]
    assert by_tables(rule, kept) == by_lark(rule, kept)


def test_trees_come_bottom_up() -> None:
    tree = parser().parse("let", [*parser().lex("let a = f(1 + 2) * 3")])
    assert isinstance(tree, Tree)
    seen: set[int] = set()
    for node in tree.bottom_up():
        assert all(id(c) in seen for c in node.children if isinstance(c, Tree))
        seen.add(id(node))
    assert id(tree) in seen
