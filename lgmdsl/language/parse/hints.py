"""What to report where a statement cannot be read further: mistakes with their messages.

The first mistake whose state fits is reported. One that can be repaired lets the reading go on, and
the repaired statement is its help line where it has no other. Each has an example, which a
test reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from lgmdsl.errors import Diagnostic, Span
from lgmdsl.language.parse import repairs
from lgmdsl.language.parse.grammar import OPENERS
from lgmdsl.language.parse.repairs import OPERATORS, an, expected, token_text
from lgmdsl.language.parse.tokens import CLOSING, span_of
from lgmdsl.language.parse.trouble import Hint, Trouble, matching
from lgmdsl.language.tree.statements import StatementDescriptor
from lgmdsl.vocabulary.lookup import HYPER_TYPES

OPERAND = ("NAME", "NUMBER", "LPAR")


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A mistake: the state of the parser that identifies it, and the message.

    The state, each part of it only where it is given: the `statement`, the `position` (of the token
    that does not fit, counted from the opening word), the types of this `token` ("" for the end of
    the statement) and of the `previous` one, the innermost open `bracket` ("" for none), terminals
    that would fit (`accepts`), and what else has to hold (`when`).

    `message`, `label`, `help` and `note` are templates: `t` is the trouble, the other words are
    those of `WORDS`. `span` is what is underlined, the token if not given.
    """

    example: str
    message: str
    label: str
    help: str = ""
    note: str = ""
    code: str = "E109"
    statement: Callable[[StatementDescriptor], object] | None = None
    position: int | None = None
    token: Collection[str] | None = None
    previous: Collection[str] | None = None
    bracket: Collection[str] | None = None
    accepts: Collection[str] = ()
    when: Callable[[Trouble], object] | None = None
    span: Callable[[Trouble], Span] | None = None
    repair: repairs.Repair | None = None

    def fits(self, t: Trouble) -> bool:
        """Whether this is the mistake."""
        bracket = t.open_bracket
        return bool(
            (self.position is None or t.position == self.position)
            and (self.token is None or (t.token.type if t.token else "") in self.token)
            and (self.previous is None or t.previous.type in self.previous)
            and (self.bracket is None or (bracket.type if bracket else "") in self.bracket)
            and all(terminal in t.accepts for terminal in self.accepts)
            and (self.statement is None or self.statement(t.statement))
            and (self.when is None or self.when(t))
        )

    def hint(self, t: Trouble) -> Hint:
        """The diagnostic of this mistake at `t`, with its repair."""
        words = TemplateFields(t=t)
        texts = [
            text.format_map(words) for text in (self.message, self.label, self.note, self.help)
        ]
        message, label, note, help = texts
        span = t.span if self.span is None else self.span(t)
        diagnostic = Diagnostic(self.code, message, span, label, note=note, help=help)
        return Hint(diagnostic, self.repair(t) if self.repair else None)


class TemplateFields(dict[str, object]):
    """The fields of the templates, computed on demand."""

    def __missing__(self, word: str) -> str:
        trouble = self["t"]
        assert isinstance(trouble, Trouble)
        return WORDS[word](trouble)


def explain(trouble: Trouble) -> Hint:
    """The hint of the first mistake that fits; the last fits everywhere."""
    return next(m for m in MISTAKES if m.fits(trouble)).hint(trouble)


def _bracket(t: Trouble) -> str:
    return t.open_bracket.type if t.open_bracket else ""


def _introduced(t: Trouble) -> bool:
    usual = t.statement.introduces
    return usual is not None and repairs.wanted_sign(t) == usual[1]


def _in_place(t: Trouble) -> str:
    after = t.tokens[t.position + 2] if t.position + 2 < len(t.tokens) else None
    return f": sum(..., {after})" if after is not None and after.type == "NAME" else ""


def _two_names(t: Trouble) -> str:
    names = [str(k) for k in t.tokens[1:] if k.type == "NAME"][:2]
    rest = "" if t.opener == "index" else " ..."
    return ", then ".join(f"{t.opener} {n}{rest}" for n in names)


def _product(t: Trouble) -> str:
    shown = f"{t.previous} * {t.token}"
    short = not t.is_type("LPAR") and len(shown) <= 80 - len("a product is written ")
    return shown if short else "with `*`"


def _reads(t: Trouble) -> str:
    if t.opener == "observe" and "censor" in str(t.token).lower():
        return (
            "censoring is said by arguments of the family: event = DATA (1: seen, 0: censored "
            "there), or lower = and upper = of what is known to lie between two values"
        )
    return f"the statement reads: {t.statement.syntax}"


WORDS: dict[str, Callable[[Trouble], str]] = {
    "expected": expected,
    "found": lambda t: token_text(t.token or t.previous),
    "a_statement": lambda t: an(t.opener),
    "what": lambda t: "a datum" if t.opener == "data" else an(t.opener),
    "role": lambda t: "opens a statement" if t.token and t.token.type in OPENERS
    else "has its own meaning",
    "in_place": _in_place,
    "two_names": _two_names,
    "as_written": lambda t: "".join(repairs.name_parts(t)),
    "better_name": repairs.better_name,
    "introduced": lambda t: t.statement.introduces[0] if t.statement.introduces else "",
    "sign": repairs.wanted_sign,
    "missing_sign": repairs.missing_sign,
    "hyper_types": lambda t: " ".join(HYPER_TYPES),
    "bracket": lambda t: str(t.open_bracket),
    "closing": lambda t: repairs.CLOSERS[_bracket(t)],
    "before_bracket": lambda t: str(t.tokens[repairs.place_of_bracket(t) - 1]),
    "new_index": lambda t: str(t.token) if t.is_type("NUMBER") else f"{{{t.token}, ...}}",
    "product": _product,
    "reads": _reads,
}  # fmt: skip


def _is(*words: str) -> Callable[[StatementDescriptor], bool]:
    return lambda statement: statement.word in words


def _declares(statement: StatementDescriptor) -> bool:
    return bool(statement.declares)


def _indexed(statement: StatementDescriptor) -> bool:
    return statement.indexed


def _empty(t: Trouble) -> bool:
    """Whether a bracket is closed as soon as it is opened."""
    return t.open_bracket is t.previous and t.is_type(CLOSING[_bracket(t)])


def _pair(t: Trouble) -> Span:
    return repairs.between(t, t.previous, t.token or t.previous)


def _declaration_open(t: Trouble) -> bool:
    """Whether the bracket of the declaration is the one that is not closed."""
    return repairs.place_of_bracket(t) == 2 and t.is_type("COLON") and t.opener in ("data", "hyper")


MISTAKES: tuple[Mistake, ...] = (
    # ---- names and signs ----
    Mistake(
        example="data lgm",
        token=["LGM"],
        message="`lgm 1` appears once, on the first line",
        label="leave this out",
        help="one file holds one model",
    ),
    Mistake(
        example="let a = 2 * true",
        token=["TRUE", "FALSE"],
        accepts=["NAME", "NUMBER"],
        when=lambda t: t.position > 1,
        message="`{t.token}` cannot be part of an expression",
        label="{expected}",
        help="`{t.token}` is a value of options such as cyclic; in an expression write 1 or 0",
    ),
    Mistake(
        example="let a = sum(u, index = subject)",
        token=repairs.RESERVED_TYPES,
        accepts=["NAME"],
        bracket=["LPAR"],
        when=lambda t: t.next is not None and t.next.type == "EQUAL",
        code="E105",
        message="`{t.token}` is a reserved word and cannot name an argument",
        label="reserved word",
        help="give it in its place, without a name{in_place}",
        repair=repairs.leave_out(0, 2),
    ),
    Mistake(
        example="data head[obs] : real",
        token=repairs.RESERVED_TYPES,
        accepts=["NAME"],
        code="E105",
        message="`{t.token}` is a reserved word and cannot be a name",
        label="this word {role}",
        help="choose another name, e.g. {t.token}_1",
        repair=lambda t: t.swapped("NAME", f"{t.token}_1"),
    ),
    Mistake(
        example="index a, b",
        statement=_declares,
        position=2,
        token=["COMMA"],
        bracket=[""],
        message="{a_statement} statement declares one name",
        label="expected one name",
        help="write {two_names}",
    ),
    Mistake(
        example="data subject-id[obs] : real",
        statement=_declares,
        when=repairs.name_parts,
        message="`{as_written}` is not a name",
        label="a name has letters, digits and `_`, and begins with a letter",
        help="write {better_name}",
        span=lambda t: repairs.between(t, *repairs.name_parts(t)),
        repair=repairs.rename,
    ),
    Mistake(
        example="observe y[obs] ~ normal(mean = eta, sd = 1)",
        statement=_is("observe"),
        token=["LSQB"],
        when=lambda t: t.position <= 2 and repairs.closed_at(t, "RSQB"),
        message="an observed datum is written without its indices",
        label="leave this out",
        span=lambda t: repairs.between(
            t, t.token or t.previous, t.tokens[repairs.closed_at(t, "RSQB") or t.position]
        ),
        repair=repairs.without_dims,
    ),
    Mistake(
        example="observe a + b ~ normal(sd = 1)",
        statement=_is("observe"),
        position=2,
        token=["LPAR", *OPERATORS],
        message="`observe` takes the name of a datum, not an expression",
        label="expected `~`",
        help="name the datum itself, or write `potential EXPRESSION ~ ...`",
    ),
    Mistake(
        example="hyper s ~ pc_sd(u = 1, alpha = 0.01)",
        statement=_is("hyper"),
        when=lambda t: repairs.wanted_sign(t) == ":",
        message="the type of the hyper `{t.name}` is missing",
        label="expected `:` and a type before this",
        note="types: {hyper_types}",
        repair=repairs.typed,
    ),
    Mistake(
        example="latent u[subject] = normal(sd = 1)",
        when=lambda t: (
            t.position >= 2 and _introduced(t) and not (t.opener == "let" and t.is_type("COLON"))
        ),
        code="E101",
        message="{introduced} is introduced with `{sign}`, not `{t.token}`",
        label="expected `{sign}`",
        repair=repairs.change_sign,
    ),
    Mistake(
        example="hyper s : positive ~ 0.5",
        statement=_is("hyper"),
        bracket=[""],
        when=repairs.value_follows,
        code="E101",
        message="the value of a hyper is introduced with `=`; `~` introduces a prior",
        label="expected `=`",
        span=lambda t: span_of(t.source, t.tokens[repairs.place_of_tilde(t)]),
        repair=repairs.equal_for_tilde,
    ),
    Mistake(
        example="latent f[day] ~ rw1(sd = 1) + normal(sd = 1)",
        statement=_is("latent"),
        token=["PLUS", "MINUS"],
        bracket=[""],
        accepts=["STAR"],
        message="the factors of a latent are joined by `*`, one for each axis",
        label="expected `*`",
        help="for a sum, declare two latents and add them in a `let`",
    ),
    Mistake(
        example="data y : real[obs]",
        statement=_is("data", "hyper", "latent"),
        token=["LSQB"],
        bracket=[""],
        accepts=["$END"],
        when=lambda t: (
            (end := repairs.closed_at(t, "RSQB")) is not None
            and not any(k.type == "EQUAL" for k in t.tokens[t.position : end])
        ),
        message="the indices of {what} follow its name",
        label="these belong to `{t.name}`",
        span=lambda t: repairs.between(
            t, t.token or t.previous, t.tokens[repairs.closed_at(t, "RSQB") or t.position]
        ),
        repair=repairs.early_dims,
    ),
    Mistake(
        example='index a "one" "two"',
        token=["STRING"],
        previous=["STRING"],
        accepts=["$END"],
        message="a statement has one description",
        label="leave this out, or join the two",
        repair=repairs.leave_out(0, 1),
    ),
    Mistake(
        example="let a = + b",
        token=["PLUS"],
        accepts=["NAME", "MINUS"],
        message="there is no `+` sign before a single value",
        label="leave this out",
        repair=repairs.leave_out(0, 1),
    ),
    Mistake(
        example="let a = b /* a comment */",
        when=repairs.foreign_comment,
        message="a comment begins with `#`",
        label="expected `#`",
        help="a comment goes from `#` to the end of its line",
        span=lambda t: repairs.between(
            t, *(repairs.foreign_comment(t) or (t.previous, t.previous))
        ),
    ),
    # ---- brackets ----
    Mistake(
        example="latent b0[] ~ normal(sd = 10)",
        bracket=["LSQB"],
        when=_empty,
        message="a name without indices takes no brackets",
        label="leave `{t.previous}{t.token}` out",
        span=_pair,
        repair=repairs.leave_out(-1, 1),
    ),
    Mistake(
        example="index a = {}",
        bracket=["LBRACE"],
        when=_empty,
        message="`{t.previous}{t.token}` is empty",
        label="expected a label in double quotes",
        help='e.g. {{"walk", "bike"}}',
        span=_pair,
    ),
    Mistake(
        example="let a = f()",
        bracket=["LPAR"],
        when=_empty,
        message="`{t.previous}{t.token}` is empty",
        label="expected something between them",
        span=_pair,
    ),
    Mistake(
        example="index a = {walk, bike}",
        statement=_is("index"),
        token=["NAME", "NUMBER", "TRUE", "FALSE", "MINUS"],
        bracket=["LBRACE"],
        accepts=["STRING"],
        message="labels go in double quotes",
        label='expected "{t.token}"',
        repair=repairs.quoted_labels,
    ),
    Mistake(
        example='index a = ["walk", "bike"]',
        statement=_is("index"),
        token=["LSQB", "LPAR"],
        previous=["EQUAL"],
        bracket=["", "LPAR", "LSQB"],
        when=lambda t: t.token and repairs.closed_at(t, CLOSING[t.token.type]),
        message="labels go in braces",
        label="expected `{{`",
        repair=repairs.other_brackets("LBRACE", "{", "}"),
    ),
    Mistake(
        example="index a = 1:10",
        statement=_is("index"),
        token=["COLON", "MINUS"],
        previous=["NUMBER"],
        message="a range is written with `..`",
        label="expected `..`",
        repair=repairs.swap("DOTDOT", ".."),
    ),
    Mistake(
        example="index a = obs",
        statement=_is("index"),
        token=["NAME"],
        previous=["EQUAL"],
        message="an index set is not defined by an expression",
        label='expected a size, a range, {{"labels"}} or head(...)',
        help="for all labels of `{t.token}` but the last: index {t.name} = head({t.token})",
    ),
    Mistake(
        example="index a = -3",
        statement=_is("index"),
        token=["MINUS"],
        message="the labels of a range are 0 or more",
        label="expected a whole number",
        help='write such labels as texts: {{"-1", "0", "1"}}',
    ),
    Mistake(
        example="index a = 3 * 4",
        statement=_is("index"),
        token=OPERATORS,
        previous=["NUMBER"],
        message="the size of an index is a plain number",
        label="expected the next statement",
        help="write the result itself",
    ),
    Mistake(
        example="index a[b]",
        statement=_is("index"),
        position=2,
        token=["LSQB"],
        message="an index cannot have indices",
        label="leave this out",
        help="index {t.name}; a datum that maps it to another index is a `data` statement",
    ),
    Mistake(
        example="latent u[subject] ~ normal(sd: 1)",
        token=["COLON", "TILDE"],
        previous=["NAME"],
        bracket=["LPAR"],
        message="an argument is given with `=`, not `{t.token}`",
        label="expected `=`",
        repair=repairs.swap("EQUAL", "="),
    ),
    Mistake(
        example="latent u[subject] ~ normal(sd = {1, 2})",
        token=["LBRACE"],
        bracket=["LPAR"],
        accepts=["NUMBER"],
        message="there are no lists in expressions",
        label="{expected}",
        help="declare the numbers as data over an index",
    ),
    Mistake(
        example="latent u[subject] ~ normal[sd = 1]",
        token=["LSQB", "LBRACE"],
        previous=["NAME"],
        accepts=["LPAR"],
        when=lambda t: t.position + 2 < len(t.tokens) and t.tokens[t.position + 2].type == "EQUAL",
        message="arguments go in round brackets",
        label="expected `(`",
        repair=repairs.other_brackets("LPAR", "(", ")"),
    ),
    Mistake(
        example="data X(obs) : real",
        statement=_indexed,
        position=2,
        token=["LPAR"],
        bracket=[""],
        when=lambda t: matching(t.tokens, t.position),
        message="indices go in square brackets",
        label="expected `[`",
        repair=repairs.other_brackets("LSQB", "[", "]", whole=True),
    ),
    Mistake(
        example="data X[obs][feat] : real",
        statement=_indexed,
        token=["LSQB"],
        previous=["RSQB"],
        bracket=[""],
        when=lambda t: matching(t.tokens, t.position) and t.tokens[2].type == "LSQB",
        message="all indices go in one pair of brackets",
        label="expected `,`",
        span=_pair,
        repair=repairs.joined_dims,
    ),
    Mistake(
        example="let a = f[x = 1]",
        token=["EQUAL"],
        bracket=["LSQB"],
        when=lambda t: t.open_bracket is not t.tokens[2],
        message="arguments go in round brackets, indices in square ones",
        label="{expected}",
        help="write {before_bracket}({t.previous} = ...)",
    ),
    Mistake(
        example="data X[3] : real",
        token=["NUMBER", "STRING"],
        previous=["LSQB", "COMMA"],
        bracket=["LSQB"],
        accepts=["NAME"],
        when=lambda t: "NUMBER" not in t.accepts,
        message="names of indices are expected here",
        label="expected the name of an index",
        help="declare it first: index k = {new_index}",
    ),
    Mistake(
        example="let a[obs] = f[g[obs]]",
        token=["LSQB", "LPAR"],
        previous=["NAME"],
        bracket=["LSQB"],
        when=lambda t: matching(t.tokens, t.position),
        message="the map `{t.previous}` takes no brackets when it is a slot",
        label="leave this out",
        span=repairs.group,
        repair=repairs.without_group,
    ),
    Mistake(
        example="let a[day] = u[day + 1]",
        token=[*OPERATORS, "COLON", "LPAR", "LSQB", "DOTDOT"],
        bracket=["LSQB"],
        when=lambda t: not _declaration_open(t),
        message="there is no arithmetic on indices",
        label="{expected}",
        help="lags live in structures such as ar1 and rw2; a map gathers, as in u[who]",
    ),
    Mistake(
        example="hyper s : real = [1, 2]",
        token=["LSQB", "LBRACE"],
        accepts=["NAME", "NUMBER"],
        message="there are no lists in expressions",
        label="{expected}",
        help="declare the numbers as data over an index",
    ),
    Mistake(
        example="let a = b)",
        token=CLOSING.values(),
        bracket=[""],
        message="`{t.token}` closes nothing",
        label="leave this out",
        repair=repairs.leave_out(0, 1),
    ),
    Mistake(
        example="let a = f(b]",
        token=CLOSING.values(),
        bracket=CLOSING,
        when=lambda t: not t.is_type(CLOSING[_bracket(t)]) and CLOSING[_bracket(t)] in t.accepts,
        message="`{bracket}` is closed with `{closing}`, not `{t.token}`",
        label="expected `{closing}`",
        repair=repairs.close_bracket,
    ),
    Mistake(
        example="let a = (b + 1",
        token=["", "TILDE", "EQUAL", "COLON", "STRING"],
        bracket=CLOSING,
        when=lambda t: CLOSING[_bracket(t)] in t.accepts,
        message="`{bracket}` is not closed",
        label="expected a `{closing}` for this",
        span=lambda t: span_of(t.source, t.open_bracket or t.previous),
        repair=repairs.add_bracket,
    ),
    # ---- operators ----
    Mistake(
        example="latent u normal(sd = 1)",
        when=repairs.missing_sign,
        message="`{missing_sign}` is missing before {found}",
        label="expected `{missing_sign}` before this",
        repair=repairs.add_sign,
    ),
    Mistake(
        example="let a = x:z",
        token=["COLON"],
        previous=["NAME", "RPAR", "RSQB"],
        bracket=["", "LPAR", "LBRACE"],
        accepts=OPERATORS,
        message="an interaction is written with `*`, not `:`",
        label="expected `*`",
        repair=repairs.swap("STAR", "*"),
    ),
    Mistake(
        example="let a = if x then b",
        token=["NAME", "LPAR"],
        when=lambda t: str(t.previous) in ("if", "else", "then", "where"),
        message="there are no conditions",
        label="{expected}",
        help="a datum of 0 and 1 can multiply a term",
        span=lambda t: span_of(t.source, t.previous),
    ),
    Mistake(
        example="latent u[subject] ~ ar1(sd = s rho = r)",
        token=OPERAND,
        bracket=CLOSING,
        accepts=OPERATORS - {"CARET"},
        when=lambda t: t.next is not None and t.next.type == "EQUAL",
        message="a comma is missing before `{t.token}`",
        label="expected `,` before this",
        repair=repairs.insert("COMMA", ","),
    ),
    Mistake(
        example="let a = 2 x",
        token=OPERAND,
        accepts=OPERATORS - {"CARET"},
        message="an operator is missing between `{t.previous}` and `{t.token}`",
        label="expected an operator before this",
        help="a product is written {product}",
    ),
    # ---- the rest ----
    Mistake(
        example="let",
        position=1,
        token=[""],
        message="`{t.opener}` has nothing after it: {expected}",
        label="{expected} after this",
        help="{reads}",
    ),
    Mistake(
        example="let a =",
        token=[""],
        message="the statement ends too early: {expected}",
        label="{expected} after this",
        help="{reads}",
    ),
    Mistake(
        example="let a ? 3",
        message="{found} does not fit here",
        label="{expected}",
        help="{reads}",
    ),
)
