"""Refusals by structures: the argument, the entries, and a remedy.

A structure knows neither the model's text nor the labels of its axis; the canonical form adds both
({given} stands for the argument at fault as the user wrote it, {graph}, {sd} ... for the others,
{index} and {axis} for the index, bare and in words).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lgmdsl.arrays import IntArray
from lgmdsl.errors import Diagnostic, LgmError


class Refused(LgmError):
    """An argument that a structure cannot take; `entries` are positions along its axis."""

    def __init__(
        self,
        code: str,
        message: str,
        argument: str = "",
        *,
        label: str = "",
        help: str = "",
        entries: IntArray | None = None,
    ) -> None:
        self.argument, self.entries = argument, entries
        self.diagnostic = Diagnostic(code, message, label=label, help=help)
        words = {"given": argument, "axis": "the axis", "index": "axis"}
        details = (label,) if label else ()
        sentence, remedy = filled(message, words), filled(help, words)
        super().__init__(Diagnostic(code, sentence, details=details, help=remedy))


def filled(text: str, words: Mapping[str, str]) -> str:
    """A text with its `{word}`s put in, `...` where one is not known."""
    return re.sub(r"\{(\w+)\}", lambda match: words.get(match[1], "..."), text)


def too_short(name: str, size: int, least: int) -> Refused:
    """E205: fewer points than the structure has meaning for."""
    points = "one point" if size == 1 else f"{size} points"
    return Refused(
        "E205",
        f"`{name}` needs at least {least} points, and {{axis}} has {points}",
        help="a block of independent entries: normal(sd = {sd})",
    )
