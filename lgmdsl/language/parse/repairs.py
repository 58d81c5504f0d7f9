"""What the table of hints asks of a place of trouble, and what it makes of the tokens there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from lgmdsl.errors import Span, listed
from lgmdsl.language.parse.grammar import OPENERS
from lgmdsl.language.parse.tokens import CLOSING, span_of
from lgmdsl.language.parse.trouble import Trouble, matching
from lgmdsl.vocabulary.lookup import HYPER_TYPES, suited

if TYPE_CHECKING:
    from lark import Token

Tokens: TypeAlias = "list[Token] | None"
Repair: TypeAlias = Callable[[Trouble], Tokens]

RESERVED_TYPES = frozenset(OPENERS) | {"LGM", "HEAD", "TRUE", "FALSE"}
SIGNS = {"~": "TILDE", ":": "COLON", "=": "EQUAL"}
CLOSERS = {"LPAR": ")", "LSQB": "]", "LBRACE": "}"}


# ---- simple repairs ------------------------------------------------------------------------


def swap(type: str, text: str) -> Repair:
    """Another token in place of the one that does not fit."""
    return lambda t: t.swapped(type, text)


def insert(type: str, text: str) -> Repair:
    """Another token before the one that does not fit."""
    return lambda t: t.inserted(type, text)


def leave_out(start: int, stop: int) -> Repair:
    """Without some tokens, counted from the one that does not fit."""
    return lambda t: t.without(t.position + start, t.position + stop)


# ---- places --------------------------------------------------------------------------------


def between(t: Trouble, *tokens: Token) -> Span:
    """From the first of some tokens to the last."""
    return span_of(t.source, tokens[0]).to(span_of(t.source, tokens[-1]))


def touching(tokens: Iterable[Token]) -> bool:
    """Whether nothing stands between the tokens."""
    return all(a.end_pos == b.start_pos for a, b in pairwise(tokens))


def closed_at(t: Trouble, type: str) -> int | None:
    """The place of the first token of a type from the one that does not fit on."""
    return next((i for i in range(t.position, len(t.tokens)) if t.tokens[i].type == type), None)


def place_of_bracket(t: Trouble) -> int:
    """The place of the innermost open bracket, 0 where none is open."""
    return next((i for i, k in enumerate(t.tokens) if k is t.open_bracket), 0)


def group(t: Trouble) -> Span:
    """From the bracket that does not fit to the one that closes it."""
    end = matching(t.tokens, t.position)
    return t.span if end is None else t.span.to(span_of(t.source, t.tokens[end]))


# ---- names ---------------------------------------------------------------------------------


def name_parts(t: Trouble) -> list[Token]:
    """The tokens that make a declared name which cannot be one: `1who`, `subject-id`."""
    if t.token is None or t.next is None:
        return []
    parts = [t.token, t.next]
    if t.position == 1 and t.is_type("NUMBER") and t.next.type == "NAME":
        return parts if touching(parts) else []
    if t.position == 2 and t.is_type("MINUS") and t.next.type in ("NAME", "NUMBER"):
        parts.insert(0, t.previous)
        return parts if touching(parts) else []
    return []


def better_name(t: Trouble) -> str:
    """A name that is like what stands there."""
    if t.position == 1:
        return f"v{t.token}{t.next}".replace(".", "_").replace("+", "_").replace("-", "_")
    return f"{t.previous}_{t.next}".replace(".", "_")


def rename(t: Trouble) -> Tokens:
    """With the better name."""
    parts = name_parts(t)
    return [t.tokens[0], parts[0].update("NAME", better_name(t)), *t.tokens[1 + len(parts) :]]


# ---- signs ---------------------------------------------------------------------------------


def wanted_sign(t: Trouble) -> str:
    """The one sign that fits where another stands outside of brackets, or an empty text."""
    if t.open_bracket is not None or not t.is_type("EQUAL", "TILDE", "COLON"):
        return ""
    wanted = [sign for sign, terminal in SIGNS.items() if terminal in t.accepts]
    return wanted[0] if len(wanted) == 1 else ""


def missing_sign(t: Trouble) -> str:
    """The sign that is missing before the token, or an empty text."""
    if not t.is_type("NAME", "NUMBER", "STRING", "LBRACE", "HEAD") or t.open_bracket is not None:
        return ""
    introduces = t.statement.introduces
    for sign, terminal in SIGNS.items():
        usual = introduces[1] if introduces else sign if "COLON" in t.accepts else ""
        if terminal in t.accepts and sign == usual and t.position > 1:
            return "" if t.is_type("STRING") and t.opener != "index" else sign
    return ""


def change_sign(t: Trouble) -> Tokens:
    """With the sign that is wanted."""
    sign = wanted_sign(t)
    return t.swapped(SIGNS[sign], sign)


def add_sign(t: Trouble) -> Tokens:
    """With the sign that is missing."""
    sign = missing_sign(t)
    return t.inserted(SIGNS[sign], sign)


def typed(t: Trouble) -> Tokens:
    """A hyper with a colon and the type that its prior suggests."""
    kind = "real"
    if t.is_type("TILDE") and t.next is not None:
        kind = next((k for k in HYPER_TYPES if str(t.next) in suited(k)), "real")
    new = t.inserted("NAME", kind)
    colon = t.inserted("COLON", ":")[t.position]
    return [*new[: t.position], colon, *new[t.position :]]


def place_of_tilde(t: Trouble) -> int:
    """The place of the `~`, beyond the end where there is none."""
    return next((i for i, k in enumerate(t.tokens) if k.type == "TILDE"), len(t.tokens) + 1)


def value_follows(t: Trouble) -> bool:
    """Whether a value stands after `~`, where a prior belongs."""
    after = t.position - place_of_tilde(t)
    if t.token is None or after <= 0:
        return False
    direct = after == 1 and t.is_type("NUMBER", "MINUS", "LPAR")
    return direct or (after == 2 and t.token.type in OPERATORS | {"LSQB"})


def equal_for_tilde(t: Trouble) -> Tokens:
    """With `=` for `~`."""
    place = place_of_tilde(t)
    repaired = [*t.tokens]
    repaired[place] = repaired[place].update("EQUAL", "=")
    return repaired


# ---- brackets ------------------------------------------------------------------------------


def other_brackets(open: str, sign: str, close: str, *, whole: bool = False) -> Repair:
    """Other brackets for those that begin at the token that does not fit: up to the first of its
    closing kind, or (`whole`) up to the one that matches."""

    def repair(t: Trouble) -> Tokens:
        assert t.token is not None
        end = matching(t.tokens, t.position) if whole else closed_at(t, CLOSING[t.token.type])
        repaired = t.swapped(open, sign)
        if end is not None:
            repaired[end] = repaired[end].update(CLOSING[open], close)
        return repaired

    return repair


def joined_dims(t: Trouble) -> Tokens:
    """`[obs][feat]` as `[obs, feat]`."""
    comma = t.previous.update("COMMA", ",")
    return [*t.tokens[: t.position - 1], comma, *t.tokens[t.position + 1 :]]


def early_dims(t: Trouble) -> Tokens:
    """The indices after the name; None where the name has some already."""
    end = closed_at(t, "RSQB")
    if end is None or t.tokens[2].type == "LSQB":
        return None
    return [
        *t.tokens[:2],
        *t.tokens[t.position : end + 1],
        *t.tokens[2 : t.position],
        *t.tokens[end + 1 :],
    ]


def quoted_labels(t: Trouble) -> Tokens:
    """Every label in double quotes."""
    if t.is_type("MINUS"):
        return None
    words = ("NAME", "NUMBER", "TRUE", "FALSE")
    return [
        k.update("STRING", f'"{k}"') if i >= t.position and k.type in words else k
        for i, k in enumerate(t.tokens)
    ]


def without_group(t: Trouble) -> Tokens:
    """Without the bracket that does not fit and all up to the one that closes it."""
    end = matching(t.tokens, t.position)
    return None if end is None else t.without(t.position, end + 1)


def without_dims(t: Trouble) -> Tokens:
    """Without the indices that begin here."""
    end = closed_at(t, "RSQB")
    return None if end is None else t.without(t.position, end + 1)


def close_bracket(t: Trouble) -> Tokens:
    """The closing bracket that the open one wants, in place of another."""
    assert t.open_bracket is not None
    return t.swapped(CLOSING[t.open_bracket.type], CLOSERS[t.open_bracket.type])


def add_bracket(t: Trouble) -> Tokens:
    """The closing bracket that the open one wants, before the token that does not fit."""
    assert t.open_bracket is not None
    return t.inserted(CLOSING[t.open_bracket.type], CLOSERS[t.open_bracket.type])


def foreign_comment(t: Trouble) -> tuple[Token, ...]:
    """The two tokens of `/*`, or none."""
    first, second = (t.previous, t.token) if t.is_type("STAR") else (t.token, t.next)
    if first is not None and first.type == "SLASH" and second is not None and second == "*":
        return first, second
    return ()


# ---- expected ----------------------------------------------------------------------------------
# Terminals and places in words: what was found, and what was expected.


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
