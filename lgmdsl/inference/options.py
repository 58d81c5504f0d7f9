"""A back end made with the options that a caller gave, as values or as text."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

from lgmdsl.contract.backend import Backend
from lgmdsl.errors import Diagnostic, MethodError, listed, suggestion
from lgmdsl.inference.registry import BackendClass, backends

# The types an option may have, and what is wanted of a value.
WANTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


@dataclass(frozen=True)
class OtherOptions:
    """What a fit takes besides the options of its method, for messages: `names` of options by what
    has them ("a fit", "--hyper em"), and `remedy` for names that stand for something else."""

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remedy: Callable[[str], str] = lambda _: ""


NO_OTHERS = OtherOptions()


def configured(
    backend: BackendClass, options: Mapping[str, object], others: OtherOptions = NO_OTHERS
) -> Backend[Any]:
    """The back end with these options; texts come from the command line. `others` are those that
    it is not asked for.

    Raises MethodError E104 for an option that it does not have, a value of another type, or one
    that the back end refuses.
    """
    fields = _fields(backend)
    method, values = backend.spec.name, {}
    for name, option in options.items():
        if name not in fields:
            raise MethodError(_unknown(name, backend, others))
        default = fields[name].default
        kind = type(default)
        try:
            values[name] = _value(option, kind)
        except (TypeError, ValueError, OverflowError):
            wanted = WANTED.get(kind, kind.__name__)
            raise MethodError.of(
                "E104",
                f"option `{name}` of method `{method}` is {wanted}, not `{option}`",
                help=f"its default is {name}={_shown(default)}",
            ) from None
    try:
        return backend(**values)
    except (TypeError, ValueError) as error:
        listing = ", ".join(f"{name}={_shown(value)}" for name, value in values.items())
        raise MethodError.of("E104", f"method `{method}` refuses {listing}: {error}") from None


def _fields(backend: BackendClass) -> dict[str, dataclasses.Field[Any]]:
    return {f.name: f for f in dataclasses.fields(backend)}  # type: ignore[arg-type]


def _unknown(name: str, backend: BackendClass, others: OtherOptions) -> Diagnostic:
    """E104, with every option that the fit has."""
    method = backend.spec.name
    grouped = {f"method {method}": tuple(_fields(backend)), **others.names}
    rows = [f"{of}: {', '.join(names)}" for of, names in grouped.items() if names]
    elsewhere = [n for n, b in backends().items() if name in _fields(b)]
    help = others.remedy(name) or (f"it is an option of {listed(elsewhere)}" if elsewhere else "")
    known = [n for names in grouped.values() for n in names]
    return Diagnostic(
        "E104",
        f"method `{method}` has no option `{name}`",
        details=tuple(rows),
        help=help or suggestion(name, known),
    )


def _value(value: object, kind: type) -> object:
    """Raises TypeError or ValueError where `value` is none of this kind."""
    text = isinstance(value, str)
    if kind is bool:
        word = str(value).lower()  # also that of Python's and numpy's own truths
        if word not in ("true", "false"):
            raise ValueError
        return word == "true"
    if kind is int:
        if isinstance(value, SupportsIndex) and not isinstance(value, bool):
            return operator.index(value)
        if not text:
            raise TypeError
    if kind in (int, float):
        if isinstance(value, bool) or (text and "_" in str(value)):  # Python's 1_000
            raise TypeError
        number: Callable[[Any], object] = kind
        return number(value)
    if kind is str and not text:
        raise TypeError
    return value


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
