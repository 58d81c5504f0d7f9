"""Signs of other languages and keyboards: each is reported, and replaced if unambiguous."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lgmdsl.errors import Diagnostic, Source, Span
from lgmdsl.language.parse.grammar import OPENERS
from lgmdsl.language.parse.tokens import span_of
from lgmdsl.language.tree.statements import BY_WORD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lark import Token

FOREIGN_TYPES = frozenset({"FOREIGN", "QUOTED", "OPEN_STRING", "OTHER"})

_SIGNS = {
    "~": "TILDE", "=": "EQUAL", ":": "COLON", "?": "QUERY", ",": "COMMA", "..": "DOTDOT",
    "(": "LPAR", ")": "RPAR", "[": "LSQB", "]": "RSQB", "{": "LBRACE", "}": "RBRACE",
    "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "SLASH", "@": "AT", "^": "CARET",
}  # fmt: skip

# Look-alikes that Unicode's compatibility forms do not bring back to ASCII.
_LOOK_ALIKES = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u00d7\u00b7\u2217\u22c5\u2022", "*"),
    **dict.fromkeys("\u00f7\u2215\u2044", "/"),
    **dict.fromkeys("\u223c\u02dc", "~"),
    "\u2026": "..",
}

# What the sign means here, and the help line.
_FOREIGN = {
    "==": ("=", "`=` is written once"),
    "**": ("^", "a power is written with `^`, as in s^2"),
    "%*%": ("@", "a product over the shared index is written `@`, as in X @ b"),
    ":=": ("", "`~` introduces a distribution, `=` a value"),
    "<-": ("", "`~` introduces a distribution, `=` a value"),
}

_NOT_HERE = {
    "->": "a map is a datum whose type is the index it goes to: data who[obs] : subject",
    "%": "comments begin with `#`",
    "$": "names have letters, digits and `_`",
    "\\": "a statement may extend over several lines: leave out the `\\`",
    "!": "there is no `not`, and there are no comparisons",
    "'": 'text goes in double quotes: "walk"',
    **dict.fromkeys(["<", ">", "<=", ">=", "!="], "there are no comparisons: prepare the data so"),
    **dict.fromkeys(["&&", "&"], "there are no conditions: prepare the data so"),
    **dict.fromkeys(
        ["|", "||"],
        "a random effect is a latent over an index, gathered by a map: "
        "latent u[subject] ~ normal(sd = s), then + u[who]",
    ),
}


@dataclass
class _Reader:
    source: Source
    tokens: list[Token]
    diagnostics: list[Diagnostic]
    seen: set[str]

    def say(self, message: str, span: Span, label: str, help: str = "") -> None:
        """Report each kind of mistake once in a file."""
        if message not in self.seen:
            self.seen.add(message)
            self.diagnostics.append(Diagnostic("E109", message, span, label, help=help))


def replace_foreign(
    source: Source, tokens: list[Token], diagnostics: list[Diagnostic]
) -> list[Token]:
    """The tokens with every foreign one replaced or, where its meaning is ambiguous, unchanged.

    Each is reported in `diagnostics`; a statement that still holds one is not read further.
    """
    if not any(t.type in FOREIGN_TYPES for t in tokens):
        return tokens
    reader = _Reader(source, tokens, diagnostics, set())
    result: list[Token] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.type not in FOREIGN_TYPES:
            result.append(token)
            position += 1
        elif token.type == "QUOTED":
            result += _quoted(reader, token)
            position += 1
        elif token.type == "OPEN_STRING":
            result += _open_string(reader, token)
            position += 1
        elif token.type == "FOREIGN":
            replacement, position = _foreign(reader, position, result)
            result += replacement
        else:
            replacement, position = _other(reader, position, result)
            result += replacement
    return result


def _quoted(reader: _Reader, token: Token) -> list[Token]:
    text = f'"{token[1:-1]}"'
    reader.say(
        "text goes in straight double quotes",
        span_of(reader.source, token),
        f"expected {text}",
        f"write {text}",
    )
    return [token.update("STRING", text)]


def _open_string(reader: _Reader, token: Token) -> list[Token]:
    reader.seen.discard("the text is not closed")
    reader.say(
        "the text is not closed",
        span_of(reader.source, token),
        'expected a `"` on the same line',
        "text goes on one line, between two double quotes",
    )
    return [token]


def _foreign(reader: _Reader, position: int, before: Sequence[Token]) -> tuple[list[Token], int]:
    token = reader.tokens[position]
    sign, span = str(token), span_of(reader.source, token)
    if sign == ";":
        reader.say(
            "there are no semicolons",
            span,
            "leave this out",
            "a statement ends at the next opening word",
        )
        return [], position + 1
    if sign == "//":
        reader.say(
            "a comment begins with `#`",
            span,
            "expected `#`",
            "a comment goes from `#` to the end of its line",
        )
        end = reader.source.text.find("\n", span.start)
        while position < len(reader.tokens) and (
            end < 0 or span_of(reader.source, reader.tokens[position]).start < end
        ):
            position += 1
        return [], position
    replacement, help = _FOREIGN.get(sign, (None, ""))
    if sign == "==" and _has_sign(before):  # a second one can only compare
        replacement, help = None, ""
    if replacement is None:
        reason = _NOT_HERE["<" if sign == "==" else sign]
        reader.say(f"`{sign}` is not in the language", span, "this sign", reason)
        return [token], position + 1
    if not replacement:
        opener = next((str(t) for t in reversed(before) if t.type in OPENERS), "")
        introduces = BY_WORD[opener].introduces if opener else None
        replacement = "~" if introduces and introduces[1] == "~" else "="
    reader.say(f"`{sign}` is not in the language", span, f"expected `{replacement}`", help)
    return [token.update(_SIGNS[replacement], replacement)], position + 1


def _has_sign(before: Sequence[Token]) -> bool:
    """Whether the statement has its `=` or `~` already."""
    for token in reversed(before):
        if token.type in OPENERS:
            return False
        if token.type in ("EQUAL", "TILDE"):
            return True
    return False


def _other(reader: _Reader, position: int, result: list[Token]) -> tuple[list[Token], int]:
    token = reader.tokens[position]
    char, span = str(token), span_of(reader.source, token)
    plain = _LOOK_ALIKES.get(char, unicodedata.normalize("NFKC", char))
    if plain != char and plain in _SIGNS:
        reader.say(
            f"`{char}` ({_called(char)}) is not in the language",
            span,
            f"expected `{plain}`",
            f"type a plain `{plain}`",
        )
        return [token.update(_SIGNS[plain], plain)], position + 1
    if unicodedata.category(char) in ("Cc", "Cf", "Co", "Cn", "Zl", "Zp"):
        reader.say(
            f"an invisible character ({_called(char)}) is here",
            span,
            "leave this out",
            "delete it; it may have come with a copied text",
        )
        return [], position + 1
    if char == "." and position + 1 < len(reader.tokens):
        following = reader.tokens[position + 1]
        if following.type in ("STAR", "SLASH", "CARET") and following.start_pos == token.end_pos:
            whole = span.to(span_of(reader.source, following))
            reader.say(
                f"`.{following}` is not in the language",
                whole,
                f"expected `{following}`",
                "the algebra is by the names of indices",
            )
            return [], position + 1
    if char == "." or char == "_" or unicodedata.category(char)[0] in "LNM":
        return _word(reader, position, result)
    reader.say(
        f"`{char}` is not in the language",
        span,
        "this sign",
        _NOT_HERE.get(char, "names have letters, digits and `_`; comments begin with `#`"),
    )
    end = position + 1
    while end < len(reader.tokens) and reader.tokens[end].type == "OTHER":
        end += 1
    return [token], end


def _word(reader: _Reader, position: int, result: list[Token]) -> tuple[list[Token], int]:
    """A word with letters or dots that a name cannot have, joined from its touching tokens."""
    parts = [reader.tokens[position]]
    wordlike = ("NAME", "NUMBER", "OTHER")
    while result and result[-1].type in wordlike and result[-1].end_pos == parts[0].start_pos:
        parts.insert(0, result.pop())
    end = position + 1
    while end < len(reader.tokens) and _touches(parts[-1], reader.tokens[end]):
        parts.append(reader.tokens[end])
        end += 1
    word = "".join(parts)
    span = span_of(reader.source, parts[0]).to(span_of(reader.source, parts[-1]))
    number = _as_number(word)
    if number:
        reader.say(
            f"a number has digits on both sides of its point: {_cut(word)}",
            span,
            f"expected {number}",
            f"write {number}",
        )
        return [_joined("NUMBER", number, parts)], end
    name = _as_name(word)
    help = f"write {name}" if name else "begin it with a letter of a to z"
    reader.say(
        f"`{_cut(word)}` is not a name",
        span,
        "a name has the letters a to z, digits and `_`, and begins with a letter",
        help,
    )
    if name:
        return [_joined("NAME", name, parts)], end
    return [_joined("OTHER", word, parts)], end


def _touches(last: Token, token: Token) -> bool:
    if last.end_pos != token.start_pos or token.type not in ("NAME", "NUMBER", "OTHER"):
        return False
    return token.type != "OTHER" or token in "._" or unicodedata.category(token)[0] in "LNM"


def _joined(type: str, text: str, parts: list[Token]) -> Token:
    token = parts[0].update(type, text)
    token.end_pos = parts[-1].end_pos
    return token


def _as_number(word: str) -> str:
    whole, dot, fraction = word.partition(".")
    if dot and (whole.isascii() and fraction.isascii()) and (whole + fraction).isdigit():
        return f"{whole or '0'}.{fraction or '0'}"
    return ""


def _as_name(word: str) -> str:
    """The word in ASCII: Greek letters by their names, accents dropped, dots as `_`."""
    out = ""
    for char in word.replace("\u00df", "ss").replace(".", "_"):
        name = unicodedata.name(char, "")
        if name.startswith("GREEK") and "LETTER" in name:
            letter = name.split("LETTER ")[1].split()[0].lower()
            out += letter.capitalize() if "CAPITAL" in name else letter
        else:
            out += unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    out = out.strip("_")
    return out if out.replace("_", "").isalnum() and out[:1].isalpha() and len(out) < 60 else ""


def _called(char: str) -> str:
    name = unicodedata.name(char, "").lower()
    code = f"U+{ord(char):04X}"
    return f"{name}, {code}" if name else code


def _cut(word: str) -> str:
    return word if len(word) <= 40 else word[:37] + "..."
