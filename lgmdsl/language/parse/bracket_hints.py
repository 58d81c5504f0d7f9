"""Hints for what stands in brackets: dims, labels, slots, arguments, and brackets left open."""

from __future__ import annotations

from collections.abc import Callable

from lgmdsl.errors import Diagnostic
from lgmdsl.language.parse.expected import OPERATORS, expected
from lgmdsl.language.parse.lalr import Token
from lgmdsl.language.parse.tokens import CLOSING, span_of
from lgmdsl.language.parse.trouble import Hint, Trouble, matching

_CLOSE = {"LPAR": ")", "LSQB": "]", "LBRACE": "}"}


def _empty(t: Trouble) -> Hint | None:
    """`b0[]`, `f()`, `{}`."""
    bracket = t.open_bracket
    if bracket is None or bracket is not t.previous or not t.is_type(CLOSING[bracket.type]):
        return None
    pair = f"{bracket}{t.token}"
    span = span_of(t.source, bracket).to(t.span)
    if bracket.type == "LSQB":
        diagnostic = Diagnostic("E109", "what has no index stands without brackets", span,
                                f"leave `{pair}` out")  # fmt: skip
        return Hint(diagnostic, t.without(t.at - 1, t.at + 1))
    what = "a label in double quotes" if bracket.type == "LBRACE" else "something between them"
    help = 'e.g. {"walk", "bike"}' if bracket.type == "LBRACE" else ""
    return Hint(Diagnostic("E109", f"`{pair}` is empty", span, f"expected {what}", help=help))


def _labels(t: Trouble) -> Hint | None:
    """`{walk, bike}`, `{1, 2}`, `["walk", "bike"]`: labels are texts in braces."""
    bracket = t.open_bracket
    if t.opener != "index":
        return None
    if bracket is not None and bracket.type == "LBRACE":
        if "STRING" not in t.accepts or not t.is_type("NAME", "NUMBER", "TRUE", "FALSE", "MINUS"):
            return None
        repaired = [
            k.retyped("STRING", f'"{k}"') if i >= t.at and k.type in
            ("NAME", "NUMBER", "TRUE", "FALSE") else k for i, k in enumerate(t.tokens)
        ]  # fmt: skip
        diagnostic = Diagnostic("E109", "labels stand in double quotes", t.span,
                                f'expected "{t.token}"')  # fmt: skip
        return Hint(diagnostic, None if t.is_type("MINUS") else repaired)
    if t.is_type("LSQB", "LPAR") and t.previous.type == "EQUAL" and t.token is not None:
        close = CLOSING[t.token.type]
        repaired = t.swapped("LBRACE", "{")
        last = next((i for i in range(t.at, len(repaired)) if repaired[i].type == close), None)
        if last is None:
            return None
        repaired[last] = repaired[last].retyped("RBRACE", "}")
        diagnostic = Diagnostic("E109", "labels stand in braces", t.span, "expected `{`")
        return Hint(diagnostic, repaired)
    return None


def _index_definition(t: Trouble) -> Hint | None:
    """`1:10`, `1-10`, `= obs`, `= -3`, `index a[b]`."""
    if t.opener != "index":
        return None
    if t.previous.type == "NUMBER" and t.is_type("COLON", "MINUS"):
        diagnostic = Diagnostic("E109", "a range is written with `..`", t.span, "expected `..`")
        return Hint(diagnostic, t.swapped("DOTDOT", ".."))
    if t.previous.type == "EQUAL" and t.is_type("NAME"):
        help = f"for all labels of `{t.token}` but the last: index {t.name} = head({t.token})"
        return Hint(Diagnostic("E109", "an index set is not defined by an expression", t.span,
                               'expected a size, a range, {"labels"} or head(...)', help=help)
        )  # fmt: skip
    if t.is_type("MINUS"):
        help = 'write such labels as texts: {"-1", "0", "1"}'
        return Hint(Diagnostic("E109", "the labels of a range are 0 or more", t.span,
                               "expected a whole number", help=help))  # fmt: skip
    if t.previous.type == "NUMBER" and t.token is not None and t.token.type in OPERATORS:
        return Hint(Diagnostic("E109", "the size of an index is a plain number", t.span,
                               "expected the next statement", help="write the result itself")
        )  # fmt: skip
    if t.is_type("LSQB") and t.at == 2:
        help = f"index {t.name}; a datum that maps it to another index is a `data` statement"
        return Hint(Diagnostic("E109", "an index has no indices of its own", t.span,
                               "leave this out", help=help))  # fmt: skip
    return None


def _slot(t: Trouble) -> Hint | None:
    """`y[i + 1]`, `y[1:3]`, `f[g[obs]]`: a slot is one name, text or number."""
    bracket = t.open_bracket
    if bracket is None or bracket.type != "LSQB" or t.token is None:
        return None
    declared = "NUMBER" not in t.accepts and t.previous.type in ("LSQB", "COMMA")
    if declared and t.is_type("NUMBER", "STRING") and "NAME" in t.accepts:
        help = f"declare it first: index k = {t.token}" if t.is_type("NUMBER") else \
            f"declare it first: index k = {{{t.token}, ...}}"  # fmt: skip
        return Hint(Diagnostic("E109", "here stand the names of indices", t.span,
                               "expected the name of an index", help=help))  # fmt: skip
    if t.is_type("LSQB", "LPAR") and t.previous.type == "NAME":
        end = matching(t.tokens, t.at)
        if end is not None:
            span = t.span.to(span_of(t.source, t.tokens[end]))
            message = f"the map `{t.previous}` stands in a slot without brackets of its own"
            diagnostic = Diagnostic("E109", message, span, "leave this out")
            return Hint(diagnostic, t.without(t.at, end + 1))
    at = next((i for i, k in enumerate(t.tokens) if k is bracket), 0)
    if at == 2 and t.is_type("COLON") and t.opener in ("data", "hyper"):
        return None  # the bracket of the declaration is not closed
    if t.token.type in OPERATORS | {"COLON", "LPAR", "LSQB", "DOTDOT"}:
        help = "lags live in structures such as ar1 and rw2; a map gathers, as in u[who]"
        return Hint(Diagnostic("E109", "there is no arithmetic on indices", t.span,
                               expected(t), help=help))  # fmt: skip
    return None


def _dims(t: Trouble) -> Hint | None:
    """`data X(obs)`, `data X[obs][feat]`: indices stand in one pair of square brackets."""
    if not t.statement.indexed or t.open_bracket is not None:
        return None
    end = matching(t.tokens, t.at)
    if end is None:
        return None
    if t.at == 2 and t.is_type("LPAR"):
        repaired = t.swapped("LSQB", "[")
        repaired[end] = repaired[end].retyped("RSQB", "]")
        diagnostic = Diagnostic("E109", "indices stand in square brackets", t.span, "expected `[`")
        return Hint(diagnostic, repaired)
    if t.is_type("LSQB") and t.previous.type == "RSQB" and t.tokens[2].type == "LSQB":
        span = span_of(t.source, t.previous).to(t.span)
        comma = t.previous.retyped("COMMA", ",")
        repaired = [*t.tokens[: t.at - 1], comma, *t.tokens[t.at + 1 :]]
        diagnostic = Diagnostic("E109", "all indices stand in one pair of brackets", span,
                                "expected `,`")  # fmt: skip
        return Hint(diagnostic, repaired)
    return None


def _argument(t: Trouble) -> Hint | None:
    """`normal(sd: 1)`, `normal(sd ~ 1)`, `normal{...}`, `normal[sd = 1]`, `f(, a)`."""
    bracket = t.open_bracket
    if bracket is not None and bracket.type == "LPAR":
        if t.is_type("COLON", "TILDE") and t.previous.type == "NAME":
            diagnostic = Diagnostic("E109", f"an argument is given with `=`, not `{t.token}`",
                                    t.span, "expected `=`")  # fmt: skip
            return Hint(diagnostic, t.swapped("EQUAL", "="))
        if t.is_type("LBRACE") and "NUMBER" in t.accepts:
            return Hint(Diagnostic("E109", "there are no lists in expressions", t.span, expected(t),
                                   help="declare the numbers as data over an index"))  # fmt: skip
    if t.is_type("LSQB", "LBRACE") and "LPAR" in t.accepts and t.previous.type == "NAME":
        following = t.tokens[t.at + 2] if t.at + 2 < len(t.tokens) else None
        if following is not None and following.type == "EQUAL" and t.token is not None:
            close = CLOSING[t.token.type]
            repaired = t.swapped("LPAR", "(")
            for i in range(t.at, len(repaired)):
                if repaired[i].type == close:
                    repaired[i] = repaired[i].retyped("RPAR", ")")
                    break
            diagnostic = Diagnostic("E109", "arguments stand in round brackets", t.span,
                                    "expected `(`")  # fmt: skip
            return Hint(diagnostic, repaired)
    return None


def _square_call(t: Trouble) -> Hint | None:
    """`let a = f[x = 1]`: `=` inside a slot."""
    bracket = t.open_bracket
    if bracket is None or bracket.type != "LSQB" or not t.is_type("EQUAL"):
        return None
    if bracket is t.tokens[2]:
        return None  # the bracket of the declaration is not closed
    return Hint(Diagnostic("E109", "arguments stand in round brackets, indices in square ones",
                           t.span, expected(t),
                           help=f"write {_before(t, bracket)}({t.previous} = ...)"))  # fmt: skip


def _before(t: Trouble, bracket: Token) -> str:
    at = next(i for i, k in enumerate(t.tokens) if k is bracket)
    return str(t.tokens[at - 1])


def _lists(t: Trouble) -> Hint | None:
    """`hyper s : real = [1, 2]`: no literals but numbers."""
    if t.is_type("LSQB", "LBRACE") and {"NAME", "NUMBER"} <= t.accepts:
        return Hint(Diagnostic("E109", "there are no lists in expressions", t.span, expected(t),
                               help="declare the numbers as data over an index"))  # fmt: skip
    return None


def _closing(t: Trouble) -> Hint | None:
    """Brackets that are left open, close nothing, or close another kind."""
    bracket = t.open_bracket
    closes = t.token is not None and t.token.type in CLOSING.values()
    if closes and bracket is None:
        diagnostic = Diagnostic("E109", f"`{t.token}` closes nothing", t.span, "leave this out")
        return Hint(diagnostic, t.without(t.at, t.at + 1))
    if bracket is None:
        return None
    sign, close = str(bracket), CLOSING[bracket.type]
    wanted = _CLOSE[bracket.type]
    if closes and t.token is not None and t.token.type != close and close in t.accepts:
        line = f"`{sign}` is closed with `{wanted}`, not `{t.token}`"
        return Hint(Diagnostic("E109", line, t.span, f"expected `{wanted}`"),
                    t.swapped(close, wanted))  # fmt: skip
    ends = t.token is None or t.is_type("TILDE", "EQUAL", "COLON", "STRING")
    if ends and close in t.accepts:
        message = f"`{sign}` is not closed"
        span = span_of(t.source, bracket)
        diagnostic = Diagnostic("E109", message, span, f"expected a `{wanted}` for this")
        return Hint(diagnostic, t.inserted(close, wanted))
    return None


BRACKET_RULES: tuple[Callable[[Trouble], Hint | None], ...] = (
    _empty,
    _labels,
    _index_definition,
    _argument,
    _dims,
    _square_call,
    _slot,
    _lists,
    _closing,
)
