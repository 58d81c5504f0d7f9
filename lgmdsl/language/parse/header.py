"""The first line, `lgm 1`, and words where a statement should open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lgmdsl.errors import Diagnostic, Source, Span, meant, nearest
from lgmdsl.language.parse.grammar import OPENERS, Stop, read
from lgmdsl.language.parse.tokens import CLOSING, StatementTokens, span_of
from lgmdsl.language.tree.statements import BY_WORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Token

VERSION = 1

_TERMINALS = {word: terminal for terminal, word in OPENERS.items()}

# Words of other languages at the place of an opening word: what this one says instead.
_ELSEWHERE = {
    **dict.fromkeys(
        ["for", "while", "do", "loop"],
        "there are no loops: declare an index set and write one statement over it",
    ),
    **dict.fromkeys(
        ["if", "else", "switch", "case"],
        "there are no conditions: a datum of 0 and 1 can multiply a term",
    ),
    **dict.fromkeys(
        ["def", "function", "import", "library", "return", "class"],
        "there are no functions: name an expression with `let`",
    ),
    **dict.fromkeys(
        ["model", "parameters", "transformed", "generated", "begin"],
        "there are no blocks: a file is a row of statements",
    ),
    **dict.fromkeys(
        ["param", "params", "parameter", "prior", "var", "sigma"],
        "a parameter is `hyper` where it is a scale or a loading, `latent` where it is Gaussian",
    ),
    **dict.fromkeys(["likelihood", "response", "y"], "a likelihood is `observe NAME ~ FAMILY`"),
    **dict.fromkeys(["dim", "dims", "coords", "set", "plate"], "an index set is `index NAME`"),
    **dict.fromkeys(
        ["method", "engine", "options", "iterations", "seed", "tol", "maxiter"],
        "a model file says nothing about how it is fitted: that goes on the command line",
    ),
    **dict.fromkeys(
        ["real", "int", "float", "double", "vector", "matrix", "array", "row_vector"],
        "what is known is `data NAME : TYPE`, what is not is `latent` or `hyper`",
    ),
    **dict.fromkeys(["formula", "predictor", "eta"], "a predictor is `let NAME[INDEX] = ...`"),
    **dict.fromkeys(["input", "covariate", "observed", "const"], "a datum is `data NAME : TYPE`"),
    **dict.fromkeys(["derived", "output", "print", "save"], "a result is `report NAME = VALUE`"),
}

# A token of these types can end a statement, so a name after it begins something new.
_ENDS = frozenset(
    ["NAME", "NUMBER", "STRING", "RPAR", "RSQB", "RBRACE", "QUERY", "TRUE", "FALSE", "OTHER"]
)

_UNFINISHED = frozenset(
    ["EQUAL", "TILDE", "COLON", "COMMA", "DOTDOT", "PLUS", "MINUS", "STAR", "SLASH", "AT", "CARET",
     "LPAR", "LSQB", "LBRACE"]
)  # fmt: skip


def open_strays(
    source: Source, tokens: list[Token], diagnostics: list[Diagnostic], lost: set[str]
) -> list[Token]:
    """Tokens with each misspelt opening word corrected.

    A name that is first on its line and follows a complete statement can only be meant as an
    opening word; one that resembles none is reported, and what follows is skipped up to the
    next opening word. Skipped names go to `lost`, since any of them may be declared there.
    """
    result: list[Token] = []
    depth, skipping = 0, False
    for i, token in enumerate(tokens):
        if token.type in OPENERS:
            depth, skipping = 0, False
        depth += (token.type in CLOSING) - (token.type in CLOSING.values())
        if token.type == "NAME" and depth <= 0 and _may_open(source, tokens, i):
            word = _meant(str(token))
            if word or not skipping or token.lower() in _ELSEWHERE:
                diagnostics.append(_stray(source, token, word))
            skipping = not word
            if word:
                result.append(token.update(_TERMINALS[word], word))
                continue
        if not skipping:
            result.append(token)
        elif token.type == "NAME":
            lost.add(str(token))
    return result


def _may_open(source: Source, tokens: Sequence[Token], i: int) -> bool:
    token = tokens[i]
    if i == 0:
        return False
    previous = tokens[i - 1]
    start = source.text.rfind("\n", 0, token.start_pos) + 1
    first_on_line = not source.text[start : token.start_pos].strip()
    return first_on_line and (previous.type in _ENDS or previous == ";")


def _meant(word: str) -> str | None:
    if word.lower() in BY_WORD:
        return word.lower()
    return None if word.lower() in _ELSEWHERE else nearest(word.lower(), BY_WORD)


def _stray(source: Source, token: Token, word: str | None) -> Diagnostic:
    text = str(token)
    if text.lower() == word:
        help = f"opening words are written small: {word}"
    elif word:
        help = meant(word)
    else:
        words = " ".join(BY_WORD)
        help = _ELSEWHERE.get(text.lower(), f"a statement opens with one of: {words}")
    return Diagnostic(
        "E109",
        f"`{text}` does not open a statement",
        span_of(source, token),
        "expected an opening word",
        help=help,
    )


def join_reserved(chunks: Sequence[StatementTokens]) -> list[StatementTokens]:
    """Chunks with an opening word that was used as a name put back into its statement.

    `data report[obs] : real` is cut at `report`; the first part is unfinished and the second
    cannot be a statement, so they are one, and the reader then finds `report` out of place.
    """
    result: list[StatementTokens] = []
    for chunk in chunks:
        if result and _unfinished(result[-1].tokens) and _impossible(chunk.tokens):
            first = result[-1]
            first.tokens += chunk.tokens
            first.inner += [*chunk.comments, *chunk.inner]
            first.trailing = chunk.trailing
        else:
            result.append(chunk)
    return result


def _unfinished(tokens: Sequence[Token]) -> bool:
    return tokens[-1].type in _UNFINISHED or len(tokens) == 1


def _impossible(tokens: Sequence[Token]) -> bool:
    if len(tokens) == 1:
        return True
    alone = read(OPENERS[tokens[0].type], tokens[:1])
    begins = alone.accepts if isinstance(alone, Stop) else frozenset()
    return tokens[1].type not in begins | {"LGM", "HEAD", "TRUE", "FALSE"}


def read_header(source: Source, tokens: Sequence[Token], any_statement: bool) -> list[Diagnostic]:
    """What is wrong with the tokens before the first statement."""
    diagnostics: list[Diagnostic] = []
    if not tokens:
        text = source.text
        begin = len(text) - len(text.lstrip())
        end = text.find("\n", begin)
        whole = Span(source, begin, len(text) if end < 0 else end)
        message = "the first statement is `lgm 1`, the version of the language"
        if not any_statement:
            message = "the model is empty"
        return [
            Diagnostic(
                "E109",
                message,
                whole,
                "expected `lgm 1` before this" if any_statement else "expected `lgm 1`",
                help="put `lgm 1` on the first line",
            )
        ]
    first = tokens[0]
    rest = tokens[1:]
    if first.type != "LGM":
        joined = str(first).lower()
        close = joined in ("lgm", "lgm1") or nearest(joined, ["lgm"]) is not None
        help = "the first line reads: lgm 1" if close else "put `lgm 1` on the first line"
        return [
            Diagnostic(
                "E109",
                "the first statement is `lgm 1`, the version of the language",
                span_of(source, first),
                "expected `lgm 1`",
                help=help,
            )
        ]
    if not rest or rest[0].type != "NUMBER":
        return [
            Diagnostic(
                "E109",
                "the version is missing after `lgm`",
                span_of(source, first),
                "expected `lgm 1`",
                help="the first line reads: lgm 1",
            )
        ]
    if str(rest[0]) != str(VERSION):
        shown = str(rest[0])[:20]
        diagnostics.append(
            Diagnostic(
                "E109",
                f"this lgmdsl reads version {VERSION} of the language, not {shown}",
                span_of(source, rest[0]),
                f"expected {VERSION}",
                help="the first line reads: lgm 1",
            )
        )
    if len(rest) > 1:
        words = " ".join(BY_WORD)
        diagnostics.append(
            Diagnostic(
                "E109",
                f"`{str(rest[1])[:20]}` does not open a statement",
                span_of(source, rest[1]),
                "expected an opening word",
                help=f"a statement opens with one of: {words}",
            )
        )
    return diagnostics
