"""The rules of expressions, arguments and distributions, as the tree builder calls them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from lgmdsl.errors import Diagnostic, Source, Span, listed
from lgmdsl.language.parse.tokens import span_of
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import MAX_INDEX_SIZE, MAX_INDICES
from lgmdsl.language.tree.print_expr import show
from lgmdsl.language.tree.statements import BY_WORD
from lgmdsl.vocabulary.lookup import lookup
from lgmdsl.vocabulary.signature import Category, Parameter, Signature

if TYPE_CHECKING:
    from lark import Token


class Positional(NamedTuple):
    """An argument without a name, on its way into its call."""

    value: ast.Value
    span: Span


class ExpressionRules:
    """A method for each rule of the grammar below a statement; what is wrong is left in
    `diagnostics`, and `usable` is False where the statement cannot even be guessed at."""

    def __init__(self, source: Source, opener: str) -> None:
        self.source = source
        self.opener = opener
        self.diagnostics: list[Diagnostic] = []
        self.usable = True

    # ---- expressions ---------------------------------------------------------------------

    def _number(self, children: list[Any], span: Span) -> ast.Number:
        text = str(children[0])
        value = float(text)
        if value == float("inf"):
            self._wrong(f"the number {_short(text)} is too large", span, "the largest is 1.8e308")
            value = 0.0
        return ast.Number(value, text, span=span)

    def _name(self, children: list[Any], span: Span) -> ast.Name:
        return ast.Name(str(children[0]), span=span)

    def _string(self, children: list[Any], span: Span) -> ast.String:
        return ast.String(str(children[0])[1:-1], span=span)

    def _true(self, children: list[Any], span: Span) -> ast.Bool:
        return ast.Bool(True, span=span)

    def _false(self, children: list[Any], span: Span) -> ast.Bool:
        return ast.Bool(False, span=span)

    def _paren(self, children: list[Any], span: Span) -> ast.Expr:
        return cast("ast.Expr", children[1])

    def _negate(self, children: list[Any], span: Span) -> ast.Unary:
        return ast.Unary(children[1], span=span)

    def _binary(self, children: list[Any], span: Span) -> ast.Binary:
        left, sign, right = children
        op = cast("ast.Operator", str(sign))
        return ast.Binary(op, left, right, op_span=self._span(sign), span=span)

    def _indexed(self, children: list[Any], span: Span) -> ast.Indexed:
        slots = tuple(c for c in children if not is_token(c))
        self._count(slots, span)
        return ast.Indexed(self.named_by(children[0]), slots, span=span)

    def _positional(self, children: list[Any], span: Span) -> Positional:
        return Positional(children[0], span)

    def _named(self, children: list[Any], span: Span) -> ast.Argument:
        name, _, value = children
        return ast.Argument(str(name), value, name_span=self._span(name), span=span)

    def _call(self, children: list[Any], span: Span) -> ast.Call:
        function = self.named_by(children[0])
        positional = [c for c in children if isinstance(c, Positional)]
        named = tuple(c for c in children if isinstance(c, ast.Argument))
        texts = [p for p in positional if isinstance(p.value, ast.String | ast.Bool)]
        if texts:
            guessed = self._unnamed(function.id, "call", positional, named, texts[0].span)
            named = guessed + named
            positional = positional[: len(positional) - len(guessed)]
        values = tuple(cast("ast.Expr", p.value) for p in positional)
        return ast.Call(function, values, named, span=span)

    def _dist(self, children: list[Any], span: Span) -> ast.Dist | ast.Call:
        name = self.named_by(children[0])
        positional = [c for c in children if isinstance(c, Positional)]
        named = tuple(c for c in children if isinstance(c, ast.Argument))
        if positional and self.opener == "hyper" and lookup("function", name.id):
            # A value after `~`: refused in `_hyper`, where the whole statement is at hand.
            return ast.Call(
                name, tuple(cast("ast.Expr", p.value) for p in positional), named, span=span
            )
        if positional:
            where = positional[0].span.to(positional[-1].span)
            named = self._unnamed(name.id, self.opener, positional, named, where) + named
        return ast.Dist(name, named, span=span)

    def _unnamed(
        self,
        function: str,
        role: str,
        values: list[Positional],
        named: tuple[ast.Argument, ...],
        span: Span,
    ) -> tuple[ast.Argument, ...]:
        """E102, and the arguments as they were most likely meant, so that checking can go on."""
        diagnostic, names = unnamed_arguments(
            function, role, [v.value for v in values], named, span
        )
        self.diagnostics.append(diagnostic)
        if names is None:
            self.usable = False
            return ()
        return tuple(
            ast.Argument(name, v.value, name_span=v.span, span=v.span)
            for name, v in zip(names, values, strict=False)
            if name is not None
        )

    # ---- helpers -------------------------------------------------------------------------

    def _count(self, slots: tuple[ast.Slot, ...], span: Span) -> None:
        if len(slots) > MAX_INDICES:
            self._wrong(
                f"a name has at most {MAX_INDICES} indices", span, f"these are {len(slots)}"
            )

    def _span(self, token: Token) -> Span:
        return span_of(self.source, token)

    def named_by(self, token: Token) -> ast.Name:
        """The name that a token is."""
        return ast.Name(str(token), span=self._span(token))

    def _whole(self, token: Token, least: int) -> int | None:
        """A whole number from `least` to the limit; None and a diagnostic for anything else."""
        text = str(token)
        if not text.isdigit():
            self._wrong(
                f"{_short(text)} is not a whole number",
                self._span(token),
                "expected a whole number",
            )
        elif len(text) > 15 or int(text) > MAX_INDEX_SIZE * 10:
            self._wrong(
                f"{_short(text)} is too large for an index",
                self._span(token),
                f"at most {MAX_INDEX_SIZE:,} labels",
            )
        elif int(text) < least:
            self._wrong("an index has at least one label", self._span(token), "expected 1 or more")
        else:
            return int(text)
        return None

    def _wrong(self, message: str, span: Span, label: str, help: str = "") -> None:
        self.usable = False
        self.diagnostics.append(Diagnostic("E109", message, span, label, help=help))


def is_token(child: object) -> bool:
    """Whether a child of a parse tree is a token (a kind of text)."""
    return isinstance(child, str)


def _short(text: str) -> str:
    return text if len(text) <= 20 else text[:17] + "..."


# ---- arguments ---------------------------------------------------------------------------------
# E102: an argument without its name. The help line puts the names in.


def _categories(role: str) -> tuple[Category, ...]:
    """What may stand as a distribution in a statement, or as a call."""
    return ("operator", "function", "kernel") if role == "call" else BY_WORD[role].categories


def unnamed_arguments(
    function: str,
    role: str,
    values: Sequence[ast.Value],
    named: Sequence[ast.Argument],
    span: Span,
) -> tuple[Diagnostic, list[str | None] | None]:
    """`values` stand without names in `function(...)`, in a statement or call of this role.

    Returned with the diagnostic: the names that were most likely meant (None for an argument that
    needs none), so that checking can go on; None where there is no telling.
    """
    signature = _signature(function, role)
    label = "expected `name = value`"
    comma = _decimal_comma(function, values, named)
    if comma is not None:
        return comma, None
    message = f"the arguments of `{function}` are named"
    if signature is None:
        example = f"{function}({', '.join(['... = ' + show(v) for v in values])})"
        help = f"each argument has a name: {example}"
        return Diagnostic("E102", message, span, label, help=help), []
    if role == "call":
        message = f"this argument of `{function}` is named"
    parameters = _guess(signature, len(values), {a.name for a in named}, role)
    note = signature.show()
    if parameters is None:
        help = f"name each argument: {_names(signature)}"
        if not signature.parameters:
            message = f"`{function}` takes no arguments"
            label, help = "nothing is here", f"write {function}"
        return Diagnostic("E102", message, span, label, note=note, help=help), None
    pairs = [
        show(v) if p is None else f"{p.name} = {show(v)}"
        for p, v in zip(parameters, values, strict=True)
    ]
    pairs += [f"{a.name} = {show(a.value)}" for a in named]
    help = f"{function}({', '.join(pairs)})"
    others = _alternatives(signature, [p for p in parameters if p])
    if others:
        help += f", or {listed(others, 'or')} in place of `{_linked(signature, parameters)}`"
    names = [None if p is None else p.name for p in parameters]
    return Diagnostic("E102", message, span, label, note=note, help=help), names


def _decimal_comma(
    function: str, values: Sequence[ast.Value], named: Sequence[ast.Argument]
) -> Diagnostic | None:
    """`sd = 2,5`: two whole numbers with nothing but a comma between them."""
    ahead = next((a for a in reversed(named) if a.value.span.end < values[0].span.start), None)
    row = [ahead.value, *values] if ahead else [*values]
    for first, second in pairwise(row):
        if not isinstance(first, ast.Number) or not isinstance(second, ast.Number):
            continue
        span = first.span.to(second.span)
        whole, _, fraction = span.source.text[span.start : span.end].partition(",")
        if span.known and whole.isdigit() and fraction.isdigit():
            name = f"{ahead.name} = " if ahead and first is ahead.value else ""
            return Diagnostic(
                "E102",
                f"an argument of `{function}` has a decimal comma",
                span,
                f"expected {whole}.{fraction}",
                help=f"write {name}{whole}.{fraction}",
            )
    return None


def _signature(function: str, role: str) -> Signature | None:
    signatures = (lookup(category, function) for category in _categories(role))
    return next((s for s in signatures if s is not None), None)


def _guess(
    signature: Signature, count: int, taken: set[str], role: str
) -> list[Parameter | None] | None:
    """The parameters that `count` unnamed values most likely mean: the required ones where that
    is enough of them, else all in order. None where there are not so many. In a call the leading
    arguments may go without names, and are given as None."""
    free: list[Parameter] = []
    groups: set[str] = {p.one_of for p in signature.parameters if p.one_of and p.name in taken}
    leading = signature.positional if role == "call" else 0
    for p in signature.parameters[leading:]:
        if p.name not in taken and (not p.one_of or p.one_of not in groups):
            free.append(p)
            groups |= {p.one_of} - {""}
    unnamed: list[Parameter | None] = [None] * min(leading, count)
    count -= len(unnamed)
    required = [p for p in free if p.required]
    if count <= len(required):
        return [*unnamed, *required[:count]]
    return [*unnamed, *free[:count]] if count <= len(free) else None


def _alternatives(signature: Signature, chosen: Sequence[Parameter]) -> list[str]:
    groups = {p.one_of for p in chosen if p.one_of}
    names = {p.name for p in chosen}
    return [
        f"`{p.name}`"
        for p in signature.parameters
        if p.one_of in groups - {""} and p.name not in names
    ]


def _linked(signature: Signature, chosen: Sequence[Parameter | None]) -> str:
    return next(p.name for p in chosen if p is not None and p.one_of)


def _names(signature: Signature) -> str:
    return " ".join(p.name for p in signature.parameters)
