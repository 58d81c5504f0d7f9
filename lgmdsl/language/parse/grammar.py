"""Finds the parser's tables, and says what can be a name."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from lgmdsl.language.parse.lalr import Tables
from lgmdsl.language.tree.reserved import RESERVED_WORDS
from lgmdsl.language.tree.statements import BY_WORD, STATEMENTS

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


def tables_file() -> Path:
    """The parser's tables, made of the grammar by `tables`."""
    return grammar_folder() / "lgm.json"


@cache
def parser() -> Tables:
    """The tables of the LALR(1) parser; each statement's rule is a start symbol."""
    return Tables.read(tables_file())
