"""Colours for models in the language: code blocks named `lgm` and `lgm-part`."""

from __future__ import annotations

from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from sphinx.application import Sphinx

from lgmdsl.language.parse.grammar import RESERVED
from lgmdsl.vocabulary.page import every_name


class LgmLexer(RegexLexer):
    """A model file."""

    name = "lgm"
    aliases: ClassVar[list[str]] = ["lgm"]
    tokens: ClassVar[dict[str, list[object]]] = {
        "root": [
            (r"#[^\n]*", Comment.Single),
            (r'"[^"\n]*"', String),
            (words(sorted(RESERVED), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(every_name(), prefix=r"\b", suffix=r"\b(?=\s*[(*\n])"), Name.Builtin),
            (r"\d+(\.\d+)?([eE][+-]?\d+)?", Number),
            (r"[A-Za-z]\w*", Name),
            (r"[~=+\-*/@^?:|]|\.\.", Operator),
            (r"[\[\](){},.]", Punctuation),
            (r"\s+", Text),
        ]
    }


class PartLexer(LgmLexer):
    """Some statements of a model file."""

    name = "lgm-part"
    aliases: ClassVar[list[str]] = ["lgm-part"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_lexer("lgm", LgmLexer)
    app.add_lexer("lgm-part", PartLexer)
    return {"parallel_read_safe": True}
