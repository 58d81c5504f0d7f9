"""One entry of the message catalogue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CodeEntry:
    """A code's meaning; `wrong` and `corrected` are statements (or commands) that show it."""

    code: str
    title: str
    meaning: str
    wrong: str
    corrected: str
