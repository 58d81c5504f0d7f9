"""Finds and builds the parser. Built on first use and kept: about 50 ms once in a process."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark

# The nine opening words, by terminal name; a statement's rule is the word itself.
OPENERS = {
    "INDEX": "index",
    "DATA": "data",
    "HYPER": "hyper",
    "LATENT": "latent",
    "LET": "let",
    "OBSERVE": "observe",
    "POTENTIAL": "potential",
    "CONSTRAIN": "constrain",
    "REPORT": "report",
}

RESERVED = frozenset(OPENERS.values()) | {"lgm", "head", "true", "false"}

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def is_name(text: str) -> bool:
    """Whether a text can be a name: ASCII letters, digits and `_`, and no reserved word."""
    return _NAME.fullmatch(text) is not None and text not in RESERVED


def grammar_folder() -> Path:
    """`lgmdsl/grammars` in an installed wheel, `../grammars` beside the package in a checkout."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "grammars"
    return inside if inside.is_dir() else package.parent / "grammars"


@cache
def parser() -> Lark:
    """The LALR(1) parser with a basic lexer; each statement's rule is a start symbol."""
    from lark import Lark

    return Lark.open(
        str(grammar_folder() / "lgm.lark"),
        parser="lalr",
        lexer="basic",
        start=["start", "header", "aside", *OPENERS.values()],
        propagate_positions=True,
        maybe_placeholders=False,
    )
