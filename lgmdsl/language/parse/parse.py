"""Text to syntax tree, with every syntax error of the file in one pass."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lgmdsl.errors import MAX_ERRORS, Diagnostic, ModelError, Source, Span
from lgmdsl.language.parse.build_ast import Builder
from lgmdsl.language.parse.foreign import FOREIGN_TYPES, replace_foreign
from lgmdsl.language.parse.grammar import OPENERS, Stop, read
from lgmdsl.language.parse.header import VERSION, join_reserved, open_strays, read_header
from lgmdsl.language.parse.hints import explain
from lgmdsl.language.parse.tokens import StatementTokens, cut, tokenise
from lgmdsl.language.parse.trouble import Trouble, bracket_trouble
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import MAX_CHARACTERS
from lgmdsl.visible import BIDIRECTIONAL

if TYPE_CHECKING:
    from lark import Token, Tree

MAX_REPAIRS = 6
MAX_REPAIRED = 1_000  # tokens: a longer statement is read up to its first mistake only


@dataclass(frozen=True)
class Parsed:
    """What could be read. `tree` holds the statements that are right, or whose mistake has one
    obvious fix; `lost` the names that the other statements would have declared."""

    tree: ast.Ast
    source: Source
    diagnostics: tuple[Diagnostic, ...]
    lost: frozenset[str]


def parse(text: str, name: str = "<text>") -> ast.Ast:
    """The syntax tree of a model's text; `name` is what messages call it.

    Raises ModelError (E101, E102, E105, E109) with all syntax errors of the text, 20 at most.
    """
    parsed = parse_all(text, name)
    if parsed.diagnostics:
        raise ModelError(parsed.diagnostics)
    return parsed.tree


def parse_all(text: str, name: str = "<text>") -> Parsed:
    """The syntax tree of what could be read of a text, and its errors, which `parse` raises.

    Raises ModelError only for a text beyond the limits of size.
    """
    source = as_source(text, name)
    tokens, comments = tokenise(source)
    diagnostics: list[Diagnostic] = []
    lost: set[str] = set()
    tokens = open_strays(source, tokens, diagnostics, lost)
    tokens = replace_foreign(source, tokens, diagnostics)
    chunks = cut(source, tokens, comments)
    diagnostics += read_header(source, chunks.header.tokens, bool(chunks.statements))
    statements: list[ast.AnyStatement] = []
    for chunk in join_reserved(chunks.statements):
        if len(diagnostics) > 10 * MAX_ERRORS:
            break
        statement = _statement(source, chunk, diagnostics)
        if statement is None:
            lost |= {str(t) for t in chunk.tokens[1:2] if t.type == "NAME"}
        else:
            statements.append(
                replace(
                    statement,
                    comments=tuple(chunk.comments),
                    inner=tuple(chunk.inner),
                    trailing=chunk.trailing,
                    blank_before=chunk.blank_before,
                )
            )
    tree = ast.Ast(
        tuple(statements),
        VERSION,
        tuple(chunks.header.comments + chunks.header.inner),
        chunks.header.trailing,
        tuple(chunks.end_comments),
    )
    diagnostics.sort(key=lambda d: d.span.start)
    return Parsed(tree, source, tuple(diagnostics), frozenset(lost))


def _statement(
    source: Source, chunk: StatementTokens, diagnostics: list[Diagnostic]
) -> ast.AnyStatement | None:
    """One statement; its errors go to `diagnostics`. A mistake with an obvious fix is repaired and
    reading goes on, so that later mistakes are found too."""
    tokens = chunk.tokens
    if any(t.type in FOREIGN_TYPES for t in tokens):
        return None  # reported already
    reached = -1
    for _ in range(MAX_REPAIRS):
        deep = bracket_trouble(source, tokens)
        if deep is not None:
            diagnostics.append(deep)
            return None
        outcome = _read(source, tokens)
        if not isinstance(outcome, Trouble):
            builder = Builder(source, str(tokens[0]))
            statement = builder.build(outcome)
            diagnostics += builder.diagnostics
            return statement
        if outcome.position < reached:
            return None
        reached = outcome.position
        hint = explain(outcome)
        if len(tokens) > MAX_REPAIRED:
            diagnostics.append(hint.diagnostic)
            return None
        repaired = None if hint.repaired is None else _read(source, hint.repaired)
        diagnostics.append(hint.finished(None if isinstance(repaired, Trouble) else repaired))
        if hint.repaired is None:
            return None
        tokens = hint.repaired
    return None


def _read(source: Source, tokens: list[Token]) -> Tree[Token] | Trouble:
    """The parse tree of one statement, or where and why it stopped."""
    result = read(OPENERS[tokens[0].type], tokens)
    if isinstance(result, Stop):
        return Trouble(source, tuple(tokens), result.position, result.accepts)
    return result


# ---- source ------------------------------------------------------------------------------------
# From a raw text to the `Source` that all positions refer to.


_TURNED = re.compile(f"[{BIDIRECTIONAL}]")


def as_source(text: str, name: str = "<text>") -> Source:
    """A text with its byte-order mark dropped and its line ends made `\\n`.

    Lone surrogates (undecodable bytes that Python smuggled in) become U+FFFD, so that every later
    message can be printed. Raises ModelError (E109) for a text over a million characters, for
    bidirectional overrides, embeddings and isolates, and for something that is no text.
    """
    if not isinstance(text, str):
        raise ModelError.of(
            "E109",
            f"a model is a text (str), not {type(text).__name__}",
            help="lgm.load(path) reads a file, lgm.loads(text) a text",
        )
    if len(text) > MAX_CHARACTERS:
        raise ModelError.of(
            "E109",
            f"the text has {len(text):,} characters; a model has at most {MAX_CHARACTERS:,}",
            help="data do not belong in the model file: they bind by name when it is fitted",
        )
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if any("\ud800" <= c <= "\udfff" for c in text) if not text.isascii() else False:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    source = Source(name, text)
    turned = None if text.isascii() else _TURNED.search(text)
    if turned is not None:
        raise ModelError.of(
            "E109",
            f"a character that reorders what is shown ({unicodedata.name(turned[0])}) is here",
            Span(source, *turned.span()),
            "leave this out",
            help="delete it: the text is read in the order of its characters, in comments and "
            "labels too",
        )
    return source
