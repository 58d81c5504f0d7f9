"""Source to tokens, cut into one chunk for each statement, with the comments set aside.

An opening word is reserved, so it always starts a chunk: whatever is wrong inside one statement,
the next is read independently.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from lgmdsl.errors import ModelError, Source, Span
from lgmdsl.language.parse.grammar import OPENERS, parser
from lgmdsl.language.tree.ast import MAX_TOKENS

if TYPE_CHECKING:
    from lark import Token

CLOSING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}


@dataclass
class StatementTokens:
    """The tokens of one statement, from its opening word on, and the comments that belong to it."""

    tokens: list[Token] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    trailing: str | None = None
    blank_before: bool = False


@dataclass
class Chunks:
    """A whole file: `header` is what precedes the first statement."""

    header: StatementTokens
    statements: list[StatementTokens]
    end_comments: list[str]


def span_of(source: Source, token: Token) -> Span:
    """Where a token stands."""
    return Span(source, _start(token), _end(token))


def tokenise(source: Source) -> tuple[list[Token], list[Token]]:
    """All tokens, and all comments. Raises ModelError (E109) for more than 10,000 of them, a limit
    that keeps every text under a second."""
    tokens: list[Token] = []
    comments: list[Token] = []
    for token in parser().lex(source.text):
        (comments if token.type == "COMMENT" else tokens).append(token)
        if len(tokens) + len(comments) > MAX_TOKENS:
            raise ModelError.of(
                "E109",
                f"the model has more than {MAX_TOKENS:,} words, signs and comments",
                span_of(source, token),
                label="the limit is reached here",
                help="leave out the labels of a large index: they can come with the data",
            )
    return tokens, comments


def cut(source: Source, tokens: list[Token], comments: list[Token]) -> Chunks:
    """Tokens cut at the opening words; each comment at its statement."""
    header = StatementTokens()
    chunks = [header]
    for token in tokens:
        if token.type in OPENERS:
            chunks.append(StatementTokens())
        chunks[-1].tokens.append(token)
    end_comments = _attach(source, chunks, comments)
    return Chunks(header, chunks[1:], end_comments)


def _attach(source: Source, chunks: list[StatementTokens], comments: list[Token]) -> list[str]:
    """Give each comment its statement: above it, inside it, or at the end of its last line.

    Comments above are kept with the blank lines between them (an empty string each, never two in
    a row); returned are those after the last statement.
    """
    waiting = list(reversed(comments))
    filled = [c for c in chunks if c.tokens]
    last_end = 0
    for place, chunk in enumerate(filled):
        first, last = chunk.tokens[0], chunk.tokens[-1]
        above: list[str] = []
        previous_end = last_end
        while waiting and _start(waiting[-1]) < _start(first):
            comment = waiting.pop()
            blank = _blank_between(source, previous_end, _start(comment))
            if blank and (above or last_end):
                above.append("")
            above.append(_text(comment))
            previous_end = _end(comment)
        blank = _blank_between(source, previous_end, _start(first))
        if above and blank:
            above.append("")
        if above and above[0] == "":
            chunk.blank_before = True
            del above[0]
        elif not above:
            chunk.blank_before = blank and last_end > 0
        chunk.comments = above
        while waiting and _start(waiting[-1]) < _start(last):
            chunk.inner.append(_text(waiting.pop()))
        last_end = _end(last)
        line_end = source.text.find("\n", last_end)
        if place + 1 < len(filled):  # of several statements on a line the last has the comment
            following = _start(filled[place + 1].tokens[0])
            line_end = following if line_end < 0 else min(line_end, following)
        if waiting and (line_end < 0 or _start(waiting[-1]) < line_end):
            comment = waiting.pop()
            chunk.trailing, last_end = _text(comment), _end(comment)
    rest: list[str] = []
    for comment in reversed(waiting):
        if _blank_between(source, last_end, _start(comment)) and (rest or last_end):
            rest.append("")
        rest.append(_text(comment))
        last_end = _end(comment)
    return rest


def _blank_between(source: Source, start: int, end: int) -> bool:
    """Whether an empty line lies between two offsets."""
    return source.text.count("\n", start, end) > 1


def _start(token: Token) -> int:
    return cast("int", token.start_pos)  # the lexer knows it of each


def _end(token: Token) -> int:
    return cast("int", token.end_pos)


def _text(comment: Token) -> str:
    return str(comment).rstrip()
