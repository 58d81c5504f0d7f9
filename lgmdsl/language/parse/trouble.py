"""Where the parsing of a statement stopped, and the hint about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lgmdsl.errors import Diagnostic, Source, Span
from lgmdsl.language.parse.build_ast import Builder, too_deep
from lgmdsl.language.parse.tokens import CLOSING, span_of
from lgmdsl.language.tree.ast import MAX_NESTING
from lgmdsl.language.tree.print_model import WIDTH, print_statement
from lgmdsl.language.tree.statements import BY_WORD, StatementDescriptor

if TYPE_CHECKING:
    from lark import Token, Tree


@dataclass(frozen=True)
class Trouble:
    """Statement `tokens` could be read up to `position`, where only `accepts` (terminal names) fit.

    `position` is the number of tokens where the statement ends too early.
    """

    source: Source
    tokens: tuple[Token, ...]
    position: int
    accepts: frozenset[str]

    @property
    def opener(self) -> str:
        """The opening word."""
        return str(self.tokens[0])

    @property
    def statement(self) -> StatementDescriptor:
        """The descriptor of the statement."""
        return BY_WORD[self.opener]

    @property
    def token(self) -> Token | None:
        """The token that does not fit, or None at the end of the statement."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    @property
    def previous(self) -> Token:
        return self.tokens[max(self.position - 1, 0)]

    @property
    def next(self) -> Token | None:
        """The token after the one that does not fit."""
        return self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else None

    @property
    def name(self) -> str:
        """The declared name, or an empty string."""
        return str(self.tokens[1]) if len(self.tokens) > 1 and self.position > 1 else ""

    @property
    def span(self) -> Span:
        """What to underline: the token that does not fit, or the last one."""
        return span_of(self.source, self.token or self.previous)

    @property
    def open_bracket(self) -> Token | None:
        """The innermost bracket that is open at this point."""
        stack = open_brackets(self.tokens[: self.position])
        return stack[-1] if stack else None

    def is_type(self, *types: str) -> bool:
        return self.token is not None and self.token.type in types

    def swapped(self, type: str, text: str) -> list[Token]:
        """The tokens with the one that does not fit replaced."""
        assert self.token is not None
        new = self.token.update(type, text)
        return [*self.tokens[: self.position], new, *self.tokens[self.position + 1 :]]

    def inserted(self, type: str, text: str) -> list[Token]:
        """The tokens with a new one before the one that does not fit."""
        new = (self.token or self.previous).update(type, text)
        return [*self.tokens[: self.position], new, *self.tokens[self.position :]]

    def without(self, start: int, stop: int) -> list[Token]:
        return [*self.tokens[:start], *self.tokens[stop:]]


@dataclass(frozen=True)
class Hint:
    """A diagnostic, and the statement's tokens as they were most likely meant (or None)."""

    diagnostic: Diagnostic
    repaired: list[Token] | None = None

    def finished(self, tree: Tree[Token] | None) -> Diagnostic:
        """The diagnostic; where it has no help yet, the repaired statement is the help."""
        if self.diagnostic.help or tree is None:
            return self.diagnostic
        builder = Builder(self.diagnostic.span.source, tree.data)
        statement = builder.build(tree)
        if statement is None:
            return self.diagnostic
        text = print_statement(statement)
        return replace(self.diagnostic, help=text) if len(text) <= WIDTH else self.diagnostic


def open_brackets(tokens: tuple[Token, ...] | list[Token]) -> list[Token]:
    """The brackets left open after these tokens."""
    stack: list[Token] = []
    for token in tokens:
        if token.type in CLOSING:
            stack.append(token)
        elif stack and token.type == CLOSING[stack[-1].type]:
            stack.pop()
    return stack


def matching(tokens: tuple[Token, ...] | list[Token], start: int) -> int | None:
    """Where the bracket that opens at `start` is closed, or None."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i].type in CLOSING) - (tokens[i].type in CLOSING.values())
        if depth <= 0:
            return i if i > start else None
    return None


def bracket_trouble(source: Source, tokens: list[Token]) -> Diagnostic | None:
    """The first bracket that is nested too deeply, before any tree is built of it."""
    depth = 0
    for token in tokens:
        if token.type in CLOSING:
            depth += 1
            if depth > MAX_NESTING:
                return too_deep(span_of(source, token))
        elif token.type in CLOSING.values():
            depth -= 1
    return None
