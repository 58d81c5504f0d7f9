"""Terminals and places in words: what was found, and what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.errors import listed
from lgmdsl.language.parse.grammar import OPENERS

if TYPE_CHECKING:
    from lark import Token

    from lgmdsl.language.parse.trouble import Trouble

_SIGNS = {
    "TILDE": "~", "EQUAL": "=", "COLON": ":", "COMMA": ",", "DOTDOT": "..", "RPAR": ")",
    "RSQB": "]", "RBRACE": "}", "LBRACE": "{",
}  # fmt: skip

OPERATORS = frozenset(["PLUS", "MINUS", "STAR", "SLASH", "AT", "CARET"])


def an(word: str) -> str:
    """`a latent`, `an index`."""
    return f"an {word}" if word[0] in "aeio" else f"a {word}"


def token_text(token: Token) -> str:
    """A token in words."""
    if token.type == "STRING":
        return f"the text {_cut(token)}"
    if token.type == "NUMBER":
        return f"the number {_cut(token)}"
    if token.type in OPENERS or token.type in ("LGM", "HEAD", "TRUE", "FALSE"):
        return f"the reserved word `{token}`"
    return f"`{_cut(token)}`"


def expected(trouble: Trouble) -> str:
    """What fits at the place of trouble, most likely first."""
    accepts = trouble.accepts
    words: list[str] = []
    if {"NAME", "NUMBER"} <= accepts:
        words.append(
            "a value"
            if trouble.previous.type == "EQUAL"
            else "an expression"
            if "LPAR" in accepts
            else "an index, a label or a map"
        )
    elif "NAME" in accepts:
        words.append(_name(trouble))
    elif "NUMBER" in accepts:
        words.append("a number")
    elif accepts == {"STRING"}:
        words.append("a label in double quotes")
    if accepts >= OPERATORS:
        words.append("an operator")
    elif "STAR" in accepts:
        words.append("`*`")
    if "LSQB" in accepts and not accepts & OPERATORS:
        words.append("`[`")
    if "LPAR" in accepts and "NUMBER" not in accepts and not accepts & OPERATORS:
        words.append("`(`")
    words += [f"`{sign}`" for terminal, sign in _SIGNS.items() if terminal in accepts]
    if "$END" in accepts:
        words.append("the next statement")
    return "expected " + listed(words, "or")


def _name(trouble: Trouble) -> str:
    """What kind of name fits."""
    previous = trouble.previous.type
    if trouble.position == 1:
        return trouble.statement.subject
    if previous == "COLON":
        return "a type (e.g. real)"
    if previous in ("TILDE", "STAR"):
        return trouble.statement.distribution or "a distribution"
    bracket = trouble.open_bracket
    if bracket is not None and bracket.type == "LSQB":
        return "the name of an index"
    if bracket is not None and bracket.type == "LPAR":
        return "an index" if trouble.opener == "index" else "an argument, `name = value`"
    return "a name"


def _cut(text: str) -> str:
    return text if len(text) <= 30 else text[:27] + "..."
