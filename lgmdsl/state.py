"""What a frozen dataclass takes along when it is pickled or copied: its fields, and no more."""

from __future__ import annotations

from dataclasses import Field
from typing import Any, ClassVar


class FieldState:
    """A dataclass whose pickles and copies hold its fields.

    What it has computed since (`cached_property`) is computed again when it is asked for: such
    values may be large, may hold what cannot be pickled, and follow from the fields.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __getstate__(self) -> dict[str, Any]:
        known = self.__dict__
        return {name: known[name] for name in self.__dataclass_fields__ if name in known}
