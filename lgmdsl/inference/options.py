"""A back end made with the options that a caller gave, as values or as text."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from typing import Any, SupportsIndex

from lgmdsl.contract.backend import Backend
from lgmdsl.errors import Diagnostic, MethodError, suggestion
from lgmdsl.inference.registry import BackendClass

# The types an option may have, and what is wanted of a value.
WANTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


def configured(backend: BackendClass, options: Mapping[str, object]) -> Backend[Any]:
    """The back end with these options; texts come from the command line.

    Raises MethodError E104 for an option that it does not have, a value of another type, or one
    that the back end refuses.
    """
    fields = {f.name: f for f in dataclasses.fields(backend)}  # type: ignore[arg-type]
    method, values = backend.spec.name, {}
    for name, option in options.items():
        if name not in fields:
            has = f"it has: {', '.join(fields)}" if fields else "it has no options"
            raise MethodError(
                Diagnostic(
                    "E104",
                    f"method `{method}` has no option `{name}`",
                    help=suggestion(name, fields, has),
                )
            )
        default = fields[name].default
        kind = type(default)
        try:
            values[name] = _value(option, kind)
        except (TypeError, ValueError, OverflowError):
            wanted = WANTED.get(kind, kind.__name__)
            raise MethodError(
                Diagnostic(
                    "E104",
                    f"option `{name}` of method `{method}` is {wanted}, not `{option}`",
                    help=f"its default is {name}={_shown(default)}",
                )
            ) from None
    try:
        return backend(**values)
    except (TypeError, ValueError) as error:
        listing = ", ".join(f"{name}={_shown(value)}" for name, value in values.items())
        raise MethodError(
            Diagnostic("E104", f"method `{method}` refuses {listing}: {error}")
        ) from None


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
