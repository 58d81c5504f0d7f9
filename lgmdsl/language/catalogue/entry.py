"""The shape of an entry of the message catalogue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A code's meaning; `wrong` and `mended` are statements (or commands) that show it."""

    code: str
    title: str
    meaning: str
    wrong: str
    mended: str
