"""What to say where a statement stops making sense: the mistake and its mend, in the user's names.

Each rule looks at the place of trouble and answers with a hint, or with None for the next rule. A
hint that mends the statement lets the reading go on, and the mended statement is its help line.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from lgmdsl.errors import Diagnostic, Span
from lgmdsl.language.parse.bracket_hints import BRACKET_RULES
from lgmdsl.language.parse.expected import OPERATORS, an, expected, found
from lgmdsl.language.parse.expression_hints import (
    comment,
    condition,
    interaction,
    missing_operator,
    unary_plus,
)
from lgmdsl.language.parse.grammar import OPENERS
from lgmdsl.language.parse.tokens import span_of
from lgmdsl.language.parse.trouble import Hint, Trouble, hint
from lgmdsl.vocabulary.lookup import HYPER_TYPES, suited

Rule = Callable[[Trouble], Hint | None]

_TERMINAL = {"~": "TILDE", "=": "EQUAL", ":": "COLON"}


def explain(trouble: Trouble) -> Hint:
    """The best hint for a place of trouble."""
    for rule in _RULES:
        hint = rule(trouble)
        if hint is not None:
            return hint
    return _general(trouble)


def _reserved(t: Trouble) -> Hint | None:
    """E105: a reserved word where a name belongs."""
    token = t.token
    if token is None or "NAME" not in t.accepts:
        return None
    if token.type not in OPENERS and not t.is_type("LGM", "HEAD", "TRUE", "FALSE"):
        return None
    word, following = str(token), t.next
    if t.is_type("TRUE", "FALSE") and t.at > 1 and "NUMBER" in t.accepts:
        text = f"`{word}` is a value of options such as cyclic; in an expression write 1 or 0"
        return hint("E109", f"`{word}` cannot stand in an expression", t, expected(t), text)
    bracket = t.open_bracket
    if following is not None and following.type == "EQUAL" and bracket and bracket.type == "LPAR":
        after = t.tokens[t.at + 2] if t.at + 2 < len(t.tokens) else None
        help = "give it in its place, without a name"
        if after is not None and after.type == "NAME":
            help = f"give it in its place, without a name: sum(..., {after})"
        message = f"`{word}` is a reserved word and cannot name an argument"
        diagnostic = Diagnostic("E105", message, t.span, "reserved word", help=help)
        return Hint(diagnostic, t.without(t.at, t.at + 2))
    role = "opens a statement" if token.type in OPENERS else "has its own meaning"
    message = f"`{word}` is a reserved word and cannot be a name"
    diagnostic = Diagnostic("E105", message, t.span, f"this word {role}",
                            help=f"choose another name, e.g. {word}_1")  # fmt: skip
    return Hint(diagnostic, t.swapped("NAME", f"{word}_1"))


def _wrong_sign(t: Trouble) -> Hint | None:
    """E101: `=`, `~` or `:` in one another's place."""
    if t.open_bracket is not None or not t.is_type("EQUAL", "TILDE", "COLON"):
        return None
    wanted = [sign for sign, terminal in _TERMINAL.items() if terminal in t.accepts]
    if len(wanted) != 1:
        return None
    assert t.token is not None
    sign = wanted[0]
    if t.opener == "hyper" and sign == ":":
        return _untyped_hyper(t)
    if t.statement.introduces is None or t.at < 2:
        return None
    if t.opener == "let" and t.is_type("COLON"):
        return None
    what, usual = t.statement.introduces
    if sign != usual:
        return None
    message = f"{what} is introduced with `{sign}`, not `{t.token}`"
    diagnostic = Diagnostic("E101", message, t.span, f"expected `{sign}`")
    return Hint(diagnostic, t.swapped(_TERMINAL[sign], sign))


def _untyped_hyper(t: Trouble) -> Hint:
    """`hyper s ~ pc_sd(...)`: the type is missing. A type is guessed from the prior."""
    kind = "real"
    if t.is_type("TILDE") and t.next is not None:
        fitting = [k for k in HYPER_TYPES if str(t.next) in suited(k)]
        kind = fitting[0] if fitting else "real"
    new = t.inserted("NAME", kind)
    colon = t.inserted("COLON", ":")[t.at]
    repaired = [*new[: t.at], colon, *new[t.at :]]
    label = "expected `:` and a type before this"
    message = f"the type of the hyper `{t.name}` is missing"
    note = f"types: {' '.join(HYPER_TYPES)}"
    return Hint(Diagnostic("E109", message, t.span, label, note=note), repaired)


def _prior_or_value(t: Trouble) -> Hint | None:
    """E101: `hyper s : positive ~ 0.5`, a value after `~`."""
    if t.opener != "hyper" or t.open_bracket is not None or t.token is None:
        return None
    tilde = next((i for i, k in enumerate(t.tokens) if k.type == "TILDE"), None)
    if tilde is None or t.at <= tilde:
        return None
    direct = t.at == tilde + 1 and t.is_type("NUMBER", "MINUS", "LPAR")
    later = t.at == tilde + 2 and t.token.type in OPERATORS | {"LSQB"}
    if not direct and not later:
        return None
    sign = t.tokens[tilde]
    repaired = [*t.tokens]
    repaired[tilde] = sign.retyped("EQUAL", "=")
    message = "the value of a hyper is introduced with `=`; `~` introduces a prior"
    diagnostic = Diagnostic("E101", message, span_of(t.source, sign), "expected `=`")
    return Hint(diagnostic, repaired)


def _missing_sign(t: Trouble) -> Hint | None:
    """`latent u normal(sd = 1)`, `data y real`: the sign between two names is missing."""
    if not t.is_type("NAME", "NUMBER", "STRING", "LBRACE", "HEAD") or t.open_bracket is not None:
        return None
    for sign, terminal in (("~", "TILDE"), (":", "COLON"), ("=", "EQUAL")):
        introduces = t.statement.introduces
        usual = introduces[1] if introduces else sign if "COLON" in t.accepts else ""
        if terminal in t.accepts and sign == usual and t.at > 1:
            if t.is_type("STRING") and t.opener != "index":
                return None
            message = f"`{sign}` is missing before {found(t.token)}" if t.token else ""
            diagnostic = Diagnostic("E109", message, t.span, f"expected `{sign}` before this")
            return Hint(diagnostic, t.inserted(terminal, sign))
    return None


def _broken_name(t: Trouble) -> Hint | None:
    """`data subject-id[obs]`, `data 1who[obs]`: a declared name that cannot be one."""
    if not t.statement.declares or t.token is None or t.next is None:
        return None
    parts = [t.token, t.next]
    if t.at == 1 and t.is_type("NUMBER") and t.next.type == "NAME":
        name = f"v{t.token}{t.next}".replace(".", "_").replace("+", "_").replace("-", "_")
    elif t.at == 2 and t.is_type("MINUS") and t.next.type in ("NAME", "NUMBER"):
        parts.insert(0, t.previous)
        name = f"{t.previous}_{t.next}".replace(".", "_")
    else:
        return None
    if any(a.end_pos != b.start_pos for a, b in pairwise(parts)):
        return None
    span = span_of(t.source, parts[0]).to(span_of(t.source, parts[-1]))
    diagnostic = Diagnostic("E109", f"`{''.join(parts)}` is not a name", span,
                            "a name has letters, digits and `_`, and begins with a letter",
                            help=f"write {name}")  # fmt: skip
    token = parts[0].retyped("NAME", name)
    return Hint(diagnostic, [t.tokens[0], token, *t.tokens[1 + len(parts) :]])


def _several_names(t: Trouble) -> Hint | None:
    """`index a, b`: one name to a statement."""
    if not t.is_type("COMMA") or t.open_bracket is not None or t.at != 2:
        return None
    if not t.statement.declares:
        return None
    names = [str(k) for k in t.tokens[1:] if k.type == "NAME"][:2]
    help = "; then ".join(f"{t.opener} {n}" + ("" if t.opener == "index" else " ...")
                          for n in names)  # fmt: skip
    message = f"{an(t.opener)} statement declares one name"
    return hint("E109", message, t, "expected one name", f"write {help}")


def _observed(t: Trouble) -> Hint | None:
    """`observe y[obs] ~ ...` and `observe a + b ~ ...`."""
    if t.opener != "observe" or t.at > 2:
        return None
    if t.is_type("LSQB"):
        end = next((i for i, k in enumerate(t.tokens) if k.type == "RSQB"), None)
        if end is None:
            return None
        span = Span(t.source, t.span.start, t.tokens[end].end_pos)
        message = "an observed datum stands without its indices"
        diagnostic = Diagnostic("E109", message, span, "leave this out")
        return Hint(diagnostic, t.without(t.at, end + 1))
    if t.at == 2 and t.is_type("LPAR", *OPERATORS):
        return hint("E109", "`observe` takes the name of a datum, not an expression", t,
                    "expected `~`",
                    "observe the datum itself, or write `potential EXPRESSION ~ ...`")  # fmt: skip
    return None


def _sum_of_structures(t: Trouble) -> Hint | None:
    """`latent f ~ rw1(...) + normal(...)`."""
    if t.opener != "latent" or not t.is_type("PLUS", "MINUS") or t.open_bracket is not None:
        return None
    if "STAR" not in t.accepts:
        return None
    message = "the factors of a latent are joined by `*`, one for each axis"
    help = "for a sum, declare two latents and add them in a `let`"
    return hint("E109", message, t, "expected `*`", help)


def _late_dims(t: Trouble) -> Hint | None:
    """`data y : real[obs]`: the indices stand after the name."""
    if not t.is_type("LSQB") or t.open_bracket is not None or "$END" not in t.accepts:
        return None
    end = next((i for i in range(t.at, len(t.tokens)) if t.tokens[i].type == "RSQB"), None)
    if end is None or t.opener not in ("data", "hyper", "latent"):
        return None
    if any(k.type == "EQUAL" for k in t.tokens[t.at : end]):
        return None  # arguments in the wrong brackets
    span = Span(t.source, t.span.start, t.tokens[end].end_pos)
    tokens = [*t.tokens[:2], *t.tokens[t.at : end + 1], *t.tokens[2 : t.at], *t.tokens[end + 1 :]]
    repaired = tokens if t.tokens[2].type != "LSQB" else None
    what = "a datum" if t.opener == "data" else an(t.opener)
    message = f"the indices of {what} stand after its name"
    return Hint(Diagnostic("E109", message, span, f"these belong to `{t.name}`"), repaired)


def _second_text(t: Trouble) -> Hint | None:
    if t.is_type("STRING") and t.previous.type == "STRING" and "$END" in t.accepts:
        diagnostic = Diagnostic("E109", "a statement has one description", t.span,
                                "leave this out, or join the two")  # fmt: skip
        return Hint(diagnostic, t.without(t.at, t.at + 1))
    return None


def _version_again(t: Trouble) -> Hint | None:
    if not t.is_type("LGM"):
        return None
    return hint("E109", "`lgm 1` stands once, on the first line", t, "leave this out",
                "one file holds one model")  # fmt: skip


def _general(t: Trouble) -> Hint:
    reads = f"the statement reads: {t.statement.syntax}"
    wanted = expected(t)
    if t.opener == "observe" and "censor" in str(t.token).lower():
        reads = (
            "censoring is said by arguments of the family: event = DATA (1: seen, 0: censored "
            "there), or lower = and upper = of what is known to lie between two values"
        )
    if t.token is None:
        message = f"the statement ends too early: {wanted}"
        label = f"{wanted} after this"
        if t.at == 1:
            message = f"`{t.opener}` stands alone: {wanted}"
        return hint("E109", message, t, label, reads)
    return hint("E109", f"{found(t.token)} does not fit here", t, wanted, reads)


_RULES: tuple[Rule, ...] = (
    _version_again,
    _reserved,
    _several_names,
    _broken_name,
    _observed,
    _wrong_sign,
    _prior_or_value,
    _sum_of_structures,
    _late_dims,
    _second_text,
    unary_plus,
    comment,
    *BRACKET_RULES,
    _missing_sign,
    interaction,
    condition,
    missing_operator,
)
