"""The parser: lark's, of the grammar and the rules of the statements; and what can be a name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lgmdsl.language.tree.reserved import RESERVED_WORDS
from lgmdsl.language.tree.statements import BY_WORD, STATEMENTS

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

# The opening words, by terminal name; a statement's rule is the word itself.
OPENERS = {s.terminal: s.word for s in STATEMENTS}

RESERVED = frozenset(BY_WORD) | {word.name for word in RESERVED_WORDS}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Whether a text can be a name: ASCII letters, digits and `_`, and no reserved word."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED


def grammar_folder() -> Path:
    """`lgmdsl/grammars` in an installed wheel, `../grammars` next to the package in a checkout."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "grammars"
    return inside if inside.is_dir() else package.parent / "grammars"


def grammar() -> str:
    """The whole grammar: the file's, and for each statement its rule and its opening word."""
    rules = [f"{s.word}: {s.terminal} {s.rule} [STRING]" for s in STATEMENTS]
    words = [f'{s.terminal}: "{s.word}"' for s in STATEMENTS]
    shared = (grammar_folder() / "lgm.lark").read_text(encoding="utf-8")
    return "\n".join([shared, *rules, *words, ""])


@cache
def parser() -> Lark:
    """LALR(1) with a basic lexer; each statement's rule is a start symbol. lark is imported here: a
    process that reads no model does without it."""
    from lark import Lark

    return Lark(
        grammar(),
        source_path=str(grammar_folder() / "lgm.lark"),
        parser="lalr",
        lexer="basic",
        start=["header", "aside", *OPENERS.values()],
        propagate_positions=True,
        maybe_placeholders=False,
    )


@dataclass(frozen=True)
class Stop:
    """Tokens could be read up to `position`, where only `accepts` (names of terminals) fit."""

    position: int
    accepts: frozenset[str]


def read(start: str, tokens: Sequence[Token]) -> Tree[Token] | Stop:
    """The tree of a whole sequence of tokens, or where it stopped making sense."""
    from lark import UnexpectedToken

    reader: Any = parser().parse_interactive(start=start)
    done = 0
    try:
        for token in tokens:
            reader.feed_token(token)
            done += 1
        tree: Tree[Token] = reader.feed_eof(tokens[-1])
        return tree
    except UnexpectedToken:
        # What fits is asked before the token that does not: it may have led to reductions.
        before: Any = parser().parse_interactive(start=start)
        for token in tokens[:done]:
            before.feed_token(token)
        return Stop(done, frozenset(before.accepts()))
