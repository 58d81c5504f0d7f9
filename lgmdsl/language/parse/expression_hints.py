"""Hints for what stands in expressions: operators missing, doubled or of other languages."""

from __future__ import annotations

from lgmdsl.errors import Diagnostic
from lgmdsl.language.parse.expected import OPERATORS, expected
from lgmdsl.language.parse.tokens import span_of
from lgmdsl.language.parse.trouble import Hint, Trouble, hint


def interaction(t: Trouble) -> Hint | None:
    """`x:z` in an expression, as R writes a product of covariates."""
    if not t.is_type("COLON") or (t.open_bracket is not None and t.open_bracket.type == "LSQB"):
        return None
    if t.previous.type not in ("NAME", "RPAR", "RSQB") or not t.accepts >= OPERATORS:
        return None
    diagnostic = Diagnostic("E109", "an interaction is written with `*`, not `:`", t.span,
                            "expected `*`")  # fmt: skip
    return Hint(diagnostic, t.swapped("STAR", "*"))


def condition(t: Trouble) -> Hint | None:
    """`if x then a`: two words side by side, the first of which is `if`."""
    if not t.is_type("NAME", "LPAR") or str(t.previous) not in ("if", "else", "then", "where"):
        return None
    help = "a datum of 0 and 1 can multiply a term"
    return hint("E109", "there are no conditions", t, expected(t), help, span_of(
        t.source, t.previous))  # fmt: skip


def missing_operator(t: Trouble) -> Hint | None:
    """`2 x`, `a b`, `(a)(b)`: two operands side by side."""
    if not t.accepts >= OPERATORS - {"CARET"}:
        return None
    if t.is_type("MINUS", "EQUAL", "TILDE") or not t.is_type("NAME", "NUMBER", "LPAR"):
        return None
    following = t.next
    bracket = t.open_bracket
    if bracket is not None and following is not None and following.type == "EQUAL":
        diagnostic = Diagnostic("E109", f"a comma is missing before `{t.token}`", t.span,
                                "expected `,` before this")  # fmt: skip
        return Hint(diagnostic, t.inserted("COMMA", ","))
    message = f"an operator is missing between `{t.previous}` and `{t.token}`"
    help = f"a product is written {t.previous} * {t.token}" if not t.is_type("LPAR") else \
        "a product is written with `*`"  # fmt: skip
    if len(help) > 80:
        help = "a product is written with `*`"
    return hint("E109", message, t, "expected an operator before this", help)


def unary_plus(t: Trouble) -> Hint | None:
    """`+ x`: a sign before a single value."""
    if t.is_type("PLUS") and {"NAME", "MINUS"} <= t.accepts:
        diagnostic = Diagnostic("E109", "there is no `+` sign before a single value", t.span,
                                "leave this out")  # fmt: skip
        return Hint(diagnostic, t.without(t.at, t.at + 1))
    return None


def comment(t: Trouble) -> Hint | None:
    """`/* ... */`, a comment of other languages."""
    first, second = (t.previous, t.token) if t.is_type("STAR") else (t.token, t.next)
    if first is not None and first.type == "SLASH" and second is not None and second == "*":
        span = span_of(t.source, first).to(span_of(t.source, second))
        return hint("E109", "a comment begins with `#`", t, "expected `#`",
                    "a comment goes from `#` to the end of its line", span)  # fmt: skip
    return None
