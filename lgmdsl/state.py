"""What a frozen dataclass takes along when it is pickled or copied: its fields, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field
from inspect import Parameter, Signature
from typing import Any, ClassVar, TypeVar, cast

_T = TypeVar("_T")


def made_by(*makers: str) -> Callable[[type[_T]], type[_T]]:
    """A dataclass whose instances functions of the library make: `help` and editors show these in
    place of a constructor of all its fields."""

    def without_constructor(cls: type[_T]) -> type[_T]:
        nothing = Signature([Parameter("self", Parameter.POSITIONAL_ONLY)])
        constructor = cast(Any, cls).__init__
        constructor.__signature__ = nothing
        constructor.__doc__ = f"Made by {' and '.join(makers)}, not by hand."
        return cls

    return without_constructor


class FieldState:
    """A dataclass whose pickles and copies hold its fields.

    What it has computed since (`cached_property`) is computed again when it is asked for: such
    values may be large, may hold what cannot be pickled, and follow from the fields.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __getstate__(self) -> dict[str, Any]:
        known = self.__dict__
        return {name: known[name] for name in self.__dataclass_fields__ if name in known}
