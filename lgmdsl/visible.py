"""Text of data and files as it is printed: it neither steers a terminal nor reorders a line."""

from __future__ import annotations

import re

# Overrides, embeddings and isolates, which show a text in another order than it has.
BIDIRECTIONAL = "\u202a-\u202e\u2066-\u2069"
_ODD = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{BIDIRECTIONAL}]")
_BREAKS = str.maketrans({"\n": r"\n", "\t": r"\t"})


def visible(text: str, lines: bool = True) -> str:
    """The text with control characters as escapes (`\\x1b`, `\\u202e`); line breaks and tabs too
    where it may have no `lines`."""
    if text.isascii() and text.isprintable():
        return text
    return _ODD.sub(_escape, text if lines else text.translate(_BREAKS))


def _escape(found: re.Match[str]) -> str:
    point = ord(found.group())
    return f"\\x{point:02x}" if point < 256 else f"\\u{point:04x}"
