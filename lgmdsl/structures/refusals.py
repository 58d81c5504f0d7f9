"""What a structure refuses: which argument, which entries, and a remedy.

A structure knows neither the model's text nor the labels of its axis; the canonical form adds both
({given} stands for the argument as the user wrote it, {index} and {axis} for the index, bare and in
words).
"""

from __future__ import annotations

from lgmdsl.arrays import IntArray
from lgmdsl.errors import Diagnostic, LgmError


class Refused(LgmError):
    """An argument that a structure cannot take; `entries` are positions along its axis."""

    def __init__(
        self, code: str, message: str, argument: str = "", *, label: str = "", help: str = "",
        entries: IntArray | None = None,
    ) -> None:  # fmt: skip
        self.argument, self.entries = argument, entries
        self.found = Diagnostic(code, message, label=label, help=help)
        named = [
            text.replace("{given}", argument)
            .replace("{axis}", "the axis")
            .replace("{index}", "axis")
            for text in (message, help)
        ]
        details = (label,) if label else ()
        super().__init__(Diagnostic(code, named[0], details=details, help=named[1]))


def too_short(name: str, size: int, least: int) -> Refused:
    """E205: fewer points than the structure has meaning for."""
    points = "one point" if size == 1 else f"{size} points"
    return Refused(
        "E205", f"`{name}` needs at least {least} points, and {{axis}} has {points}",
        help="a block of independent entries: normal(sd = 1)",
    )  # fmt: skip
