"""Python expressions that build syntax trees: `b0 + X @ b + u[who]`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from lgmdsl.errors import ModelError
from lgmdsl.language.tree import ast
from lgmdsl.language.tree.ast import MAX_CHAIN, MAX_NESTING, MAX_TOKENS, TOO_DEEP
from lgmdsl.language.tree.print_expr import needs_brackets, show


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression of the language. The operators of Python build larger ones; `**` is `^`.

    `nesting` and `height` are counted and limited as the parser does it, `size` is the number of
    nodes (an expression used twice counts twice, as it will be written twice).
    """

    node: ast.Expr
    nesting: int = 0
    height: int = 0
    size: int = 1

    # numpy leaves the operators to this class instead of looping over it.
    __array_ufunc__: ClassVar[None] = None
    # Indexing is not iteration: without this, list(u) would never end.
    __iter__: ClassVar[None] = None

    def __post_init__(self) -> None:
        if self.nesting > MAX_NESTING or self.height > MAX_CHAIN:
            help = "give a part of it a name with `let`, or use `sum(expr, index)`"
            raise _wrong(TOO_DEEP, help)
        if self.size > MAX_TOKENS:
            raise _wrong(
                f"the expression has more than {MAX_TOKENS:,} parts",
                "give the part that repeats a name with `let`",
            )

    @classmethod
    def inside(cls, node: ast.Expr, *parts: Expression) -> Expression:
        """A call or a sign around its parts."""
        nesting = max((p.nesting for p in parts), default=-1) + 1
        height = max((p.height for p in parts), default=-1) + 1
        return cls(node, nesting, height, sum(p.size for p in parts) + 1)

    def __add__(self, other: Any) -> Expression:
        return _binary("+", self, other)

    def __radd__(self, other: Any) -> Expression:
        return _binary("+", other, self)

    def __sub__(self, other: Any) -> Expression:
        return _binary("-", self, other)

    def __rsub__(self, other: Any) -> Expression:
        return _binary("-", other, self)

    def __mul__(self, other: Any) -> Expression:
        return _binary("*", self, other)

    def __rmul__(self, other: Any) -> Expression:
        return _binary("*", other, self)

    def __truediv__(self, other: Any) -> Expression:
        return _binary("/", self, other)

    def __rtruediv__(self, other: Any) -> Expression:
        return _binary("/", other, self)

    def __matmul__(self, other: Any) -> Expression:
        return _binary("@", self, other)

    def __rmatmul__(self, other: Any) -> Expression:
        return _binary("@", other, self)

    def __pow__(self, other: Any) -> Expression:
        return _binary("^", self, other)

    def __rpow__(self, other: Any) -> Expression:
        return _binary("^", other, self)

    def __neg__(self) -> Expression:
        return Expression.inside(ast.Unary(self.node), self)

    def __getitem__(self, slots: Any) -> Expression:
        """`u[who]`, `d[who, "slope"]`, `b[0]`: an index, a map, a label or a number a slot."""
        if not isinstance(self.node, ast.Name):
            raise _wrong("only a name can be indexed", "give the expression a name with `let`")
        items = slots if isinstance(slots, tuple) else (slots,)
        if not items:
            raise _wrong("`[]` is empty", "a name without indices takes no brackets")
        node = ast.Indexed(self.node, tuple(_slot(s) for s in items))
        return Expression(node, size=1 + len(items))

    def __bool__(self) -> bool:
        raise _wrong("an expression has no truth value", "there are no conditions in a model")

    def __repr__(self) -> str:
        return show(self.node)


@dataclass(frozen=True)
class Distribution:
    """One or several factors joined by `*`, as a latent has them."""

    factors: tuple[ast.Dist, ...]

    def __mul__(self, other: Distribution) -> Distribution:
        if not isinstance(other, Distribution):
            return NotImplemented
        return Distribution(self.factors + other.factors)

    def __repr__(self) -> str:
        return " * ".join(show(f) for f in self.factors)


def lift(value: Any) -> Expression:
    """A Python value as an expression: an expression, or a finite real number."""
    if isinstance(value, Expression):
        return value
    if not isinstance(value, bool) and isinstance(value, Real):
        number = float(value)
        if not math.isfinite(number):
            raise _wrong(f"{number} is not a number of the language", "numbers are finite")
        node = ast.Number(abs(number))
        return Expression(node) if number >= 0 else Expression(ast.Unary(node), 1, 1, 2)
    if isinstance(value, Distribution):
        raise _wrong(f"`{value!r}` is a distribution, not a value", "declare a latent or a hyper")
    kind = type(value).__name__
    help = 'data come later: declare them with m.data("name", [index], "real")'
    raise _wrong(f"{_article(kind)} cannot be part of an expression", help)


def lift_value(value: Any) -> Expression | ast.String | ast.Bool:
    """An argument's value: an expression, a text or a truth value."""
    if isinstance(value, bool):
        return ast.Bool(value)
    if isinstance(value, str):
        return ast.String(plain_text(value))
    return lift(value)


def plain_text(text: str) -> str:
    """A text that fits between double quotes on one line."""
    if '"' in text or "\n" in text or "\r" in text:
        raise _wrong("text goes on one line, without double quotes", "use single quotes")
    return text


def _binary(op: Literal["+", "-", "*", "/", "@", "^"], left: Any, right: Any) -> Expression:
    a, b = lift(left), lift(right)
    nesting = max(
        a.nesting + needs_brackets(op, a.node, False),
        b.nesting + 1 + needs_brackets(op, b.node, True),
    )
    height = max(a.height, b.height) + 1
    return Expression(ast.Binary(op, a.node, b.node), nesting, height, a.size + b.size + 1)


def _slot(value: Any) -> ast.Slot:
    if isinstance(value, Expression):
        if isinstance(value.node, ast.Name | ast.Number):
            return value.node
        raise _wrong("there is no arithmetic on indices", "a slot is an index, a map or a label")
    if isinstance(value, str):
        return ast.String(plain_text(value))
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= 0:
        return ast.Number(float(value))
    help = 'as in u[who], d[who, "slope"] or b[0]'
    raise _wrong(f"{_article(type(value).__name__)} cannot be a slot", help)


def _article(word: str) -> str:
    return f"an {word}" if word[:1].lower() in "aeiou" else f"a {word}"


def _wrong(message: str, help: str) -> ModelError:
    return ModelError.of("E109", message, help=help)
