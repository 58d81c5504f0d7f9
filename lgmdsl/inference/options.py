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
    method, found = backend.spec.name, {}
    for name, given in options.items():
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
            found[name] = _value(given, kind)
        except (TypeError, ValueError, OverflowError):
            wanted = WANTED.get(kind, kind.__name__)
            raise MethodError(
                Diagnostic(
                    "E104",
                    f"option `{name}` of method `{method}` is {wanted}, not `{given}`",
                    help=f"its default is {name}={_shown(default)}",
                )
            ) from None
    try:
        return backend(**found)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{name}={_shown(value)}" for name, value in found.items())
        raise MethodError(
            Diagnostic("E104", f"method `{method}` refuses {given}: {error}")
        ) from None


def _value(given: object, kind: type) -> object:
    """Raises TypeError or ValueError where `given` is none of this kind."""
    text = isinstance(given, str)
    if kind is bool:
        word = str(given).lower()  # also that of Python's and numpy's own truths
        if word not in ("true", "false"):
            raise ValueError
        return word == "true"
    if kind is int:
        if isinstance(given, SupportsIndex) and not isinstance(given, bool):
            return operator.index(given)
        if not text:
            raise TypeError
    if kind in (int, float):
        if isinstance(given, bool) or (text and "_" in str(given)):  # Python's 1_000
            raise TypeError
        number: Callable[[Any], object] = kind
        return number(given)
    if kind is str and not text:
        raise TypeError
    return given


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
