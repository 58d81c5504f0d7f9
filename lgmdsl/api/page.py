"""Aligned text, in 80 columns or those of the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from lgmdsl.visible import visible

WIDTH = 80
# Sentences are no longer than this on a wide terminal, and pages no narrower than that.
LONGEST, NARROWEST = 100, 40


def width() -> int:
    """The columns of a page: those of the terminal that stdout is, else 80."""
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH
    return max(NARROWEST, shutil.get_terminal_size((WIDTH, 24)).columns)


def columns(rows: Sequence[Sequence[str]], indent: int = 0, right: Sequence[int] = ()) -> list[str]:
    """Rows with their columns aligned, two blanks apart; those in `right` to the right."""
    rows = [[visible(cell, lines=False) for cell in row] for row in rows]
    widths = [
        max((len(row[k]) for row in rows if k < len(row)), default=0)
        for k in range(max((len(row) for row in rows), default=0))
    ]
    out = []
    for row in rows:
        cells = [
            cell.rjust(widths[k]) if k in right else cell.ljust(widths[k])
            for k, cell in enumerate(row)
        ]
        out.append((" " * indent + "  ".join(cells)).rstrip())
    return out


def wrapped(text: str, indent: int = 0, following: int | None = None) -> list[str]:
    """The text in lines no longer than the page, the first and the others with their indents."""
    rest = indent if following is None else following
    return textwrap.wrap(
        visible(text),
        min(width(), LONGEST),
        initial_indent=" " * indent,
        subsequent_indent=" " * rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def several(words: Sequence[str], most: int = 6) -> str:
    """The first words of a row, for texts that stay short: `a, b, c, ... (12 in all)`."""
    shown = ", ".join(visible(word, lines=False) for word in words[:most])
    return shown if len(words) <= most else f"{shown}, ... ({len(words):,} in all)"


def counted(number: int, word: str, plural: str = "") -> str:
    """`1 site`, `1,200 sites`."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"
