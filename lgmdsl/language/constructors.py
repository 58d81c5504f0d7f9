"""The language's functions for the Python builder: `normal(sd = 1)` as `lgm.normal(sd=1)`.

Made from the vocabulary's tables, so a registered name is there at once. A name of a structure,
family, potential or hyperprior makes a distribution; one of a kernel, operator or function makes
an expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lgmdsl.errors import Diagnostic, ModelError
from lgmdsl.language.expressions import Distribution, Expression, lift, lift_value
from lgmdsl.language.parse.grammar import is_name
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary import lookup


@dataclass(frozen=True, repr=False)
class DistributionConstructor(Distribution):
    """A distribution by name: called with arguments, or used without any (`flat`, `iid`)."""

    def __call__(self, *values: Any, **arguments: Any) -> Distribution:
        """The distribution with arguments, each given by its name (E102 otherwise)."""
        name = self.factors[0].name
        if values:
            signature = next(filter(None, (lookup.lookup(c, name.id) for c in lookup.DISTRIBUTED)))
            raise ModelError(
                Diagnostic(
                    "E102",
                    f"the arguments of `{name.id}` are named",
                    note=signature.show(),
                    help=f"{name.id}(name=value, ...)",
                )
            )
        return Distribution((ast.Dist(name, _arguments(name.id, arguments)),))


@dataclass(frozen=True)
class OperationConstructor:
    """A kernel, an operator or a function by name; a call makes an expression."""

    name: str

    def __call__(self, *values: Any, **arguments: Any) -> Expression:
        positional = [lift(v) for v in values]
        named = _arguments(self.name, arguments)
        lifted = [lift_value(v) for v in arguments.values()]
        parts = [*positional, *(g for g in lifted if isinstance(g, Expression))]
        call = ast.Call(ast.Name(self.name), tuple(p.node for p in positional), named)
        return Expression.inside(call, *parts)


def _arguments(function: str, arguments: dict[str, Any]) -> tuple[ast.Argument, ...]:
    for name in arguments:
        if not is_name(name):
            raise ModelError(
                Diagnostic(
                    "E104",
                    f"`{name}` cannot be an argument of `{function}`",
                    help="argument names have letters, digits and `_`",
                )
            )
    values = {name: lift_value(value) for name, value in arguments.items()}
    return tuple(
        ast.Argument(name, value.node if isinstance(value, Expression) else value)
        for name, value in values.items()
    )


def constructor(name: str) -> DistributionConstructor | OperationConstructor | None:
    """The builder's function for a name of the language, or None."""
    known = lookup.categories(name)
    if not known:
        return None
    return (
        OperationConstructor(name)
        if known[0] in lookup.CALLED
        else DistributionConstructor((ast.Dist(ast.Name(name)),))
    )


def constructor_names() -> tuple[str, ...]:
    """All names that `constructor` knows, sorted."""
    return tuple(sorted({n for c in lookup.CATEGORIES for n in lookup.names(c)}))


def const(value: float) -> Expression:
    """A literal number: `const(2) / 3` is written `2/3`, where `2 / 3` is 0.666..."""
    return lift(value)


@dataclass(frozen=True)
class HeadOf:
    """`head(other)`: all labels of an index but the last."""

    of: ast.Name


def head(index: Expression) -> HeadOf:
    """All labels of an index but the last, for `Model.index`."""
    node = index.node if isinstance(index, Expression) else None
    if not isinstance(node, ast.Name):
        raise ModelError(
            Diagnostic("E108", "`head` takes an index", help='cut = m.index("cut", lgm.head(cls))')
        )
    return HeadOf(node)
