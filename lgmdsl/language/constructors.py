"""The language's functions for the Python builder: `normal(sd = 1)` as `lgm.normal(sd=1)`.

Made from the vocabulary's tables, so a registered name is there at once. A name of a structure,
family, potential or hyperprior makes a distribution; one of a kernel, operator or function makes
an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from lgmdsl.errors import ModelError
from lgmdsl.language.expressions import Distribution, Expression, lift, lift_value
from lgmdsl.language.parse.grammar import is_name
from lgmdsl.language.tree import ast
from lgmdsl.vocabulary import lookup

if TYPE_CHECKING:
    import inspect

    from lgmdsl.vocabulary.python_call import PythonArgument
    from lgmdsl.vocabulary.signature import Signature


@dataclass(frozen=True, repr=False)
class DistributionConstructor(Distribution):
    """A distribution by name: called with arguments, or used without any (`flat`, `iid`)."""

    def __call__(self, *values: Any, **arguments: Any) -> Distribution:
        """The distribution with arguments, each given by its name (E102 otherwise)."""
        name = self.factors[0].name
        if values:
            signature = next(filter(None, (lookup.lookup(c, name.id) for c in lookup.DISTRIBUTED)))
            raise ModelError.of(
                "E102",
                f"the arguments of `{name.id}` are named",
                note=signature.show(),
                help=f"{name.id}(name=value, ...)",
            )
        return Distribution((ast.Dist(name, _named(_lifted(name.id, arguments))),))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return constructor, (self.factors[0].name.id,)


class OperationConstructor:
    """A kernel, an operator or a function by name; a call makes an expression."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.name == getattr(other, "name", None)

    def __hash__(self) -> int:
        return hash((type(self), self.name))

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *values: Any, **arguments: Any) -> Expression:
        positional = [lift(v) for v in values]
        lifted = _lifted(self.name, arguments)
        parts = [*positional, *(g for g in lifted.values() if isinstance(g, Expression))]
        operands = tuple(p.node for p in positional)
        call = ast.Call(ast.Name(self.name), operands, _named(lifted))
        return Expression.inside(call, *parts)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return constructor, (self.name,)


Lifted = dict[str, Expression | ast.String | ast.Bool]


def _lifted(function: str, arguments: dict[str, Any]) -> Lifted:
    """The arguments as parts of the tree; None leaves out one that may be."""
    for name in arguments:
        if not is_name(name):
            raise ModelError.of(
                "E104",
                f"`{name}` cannot be an argument of `{function}`",
                help="argument names have letters, digits and `_`",
            )
    absent = [name for name, value in arguments.items() if value is None]
    known = {a.name for a in _call_of(function)} if absent else set()
    return {
        name: lift_value(value)
        for name, value in arguments.items()
        if value is not None or name not in known
    }


def _named(lifted: Lifted) -> tuple[ast.Argument, ...]:
    return tuple(
        ast.Argument(name, value.node if isinstance(value, Expression) else value)
        for name, value in lifted.items()
    )


# ---- one class for each word, whose docstring is its page ------------------------------------

_classes: dict[str, tuple[tuple[Signature, ...], type[Any]]] = {}


def _signatures(name: str) -> tuple[Signature, ...]:
    known = (lookup.lookup(c, name) for c in lookup.categories(name))
    return tuple(s for s in known if s is not None)


def _call_of(name: str) -> tuple[PythonArgument, ...]:
    from lgmdsl.vocabulary.python_call import python_call

    return python_call(_signatures(name))


def _class_of(name: str, signatures: tuple[Signature, ...]) -> type[Any]:
    """The class of a word: a new one where the word's declarations have changed."""
    known = _classes.get(name)
    if known is not None and known[0] == signatures:
        return known[1]
    import inspect  # these only where a word is asked for: a model's text needs none of them

    from lgmdsl.vocabulary.page import declared_pages

    called = signatures[0].category in lookup.CALLED
    base: type[Any] = OperationConstructor if called else DistributionConstructor
    returned = "Expression" if called else "Distribution"
    pages = "\n".join(map(str, declared_pages(name)))
    made = type(
        name,
        (base,),
        {
            "__doc__": f"{pages}\n`lgm help {name}` has the methods that take it, too.\n",
            "__module__": "lgmdsl",
            "__signature__": inspect.Signature(
                [_parameter(a) for a in _call_of(name)], return_annotation=returned
            ),
        },
    )
    _classes[name] = signatures, made
    return made


def _parameter(argument: PythonArgument) -> inspect.Parameter:
    import inspect

    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(
        argument.name,
        positional if argument.positional else inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if argument.required else argument.default,
        annotation=argument.annotation,
    )


def constructor(name: str) -> DistributionConstructor | OperationConstructor | None:
    """The builder's function for a name of the language, or None.

    Its docstring is the page of the name, its signature the union of those of its roles.
    """
    signatures = _signatures(name)
    if not signatures:
        return None
    made = _class_of(name, signatures)
    word: DistributionConstructor | OperationConstructor = (
        made(name) if issubclass(made, OperationConstructor) else made((ast.Dist(ast.Name(name)),))
    )
    return word


def constructor_names() -> tuple[str, ...]:
    """All names that `constructor` knows, sorted."""
    return tuple(sorted({n for c in lookup.CATEGORIES for n in lookup.names(c)}))


def const(value: float) -> Expression:
    """A literal number: `const(2) / 3` is written `2/3`, where `2 / 3` is 0.666..."""
    return lift(value)


class HeadOf(NamedTuple):
    """`head(other)`: all labels of an index but the last."""

    of: ast.Name


def head(index: Expression) -> HeadOf:
    """All labels of an index but the last, for `Model.index`."""
    node = index.node if isinstance(index, Expression) else None
    if not isinstance(node, ast.Name):
        raise ModelError.of(
            "E108", "`head` takes an index", help='cut = m.index("cut", lgm.head(cls))'
        )
    return HeadOf(node)
