"""Escaping for the three formats. Any text goes in; what comes out is always well formed."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

# What XML 1.0 cannot hold even as a reference, and no drawing can show.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Characters that mean something inside a quoted mermaid label, or to the HTML that it becomes.
_MERMAID = re.compile(r"[\"#;&<>`\\\n\r\t]")


def printable(text: str) -> str:
    """The text with characters that no format can hold replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def xml(text: str) -> str:
    """Text for an element or for an attribute in double quotes."""
    entities = {'"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
    return escape(printable(text), entities)


def dot(text: str) -> str:
    """A quoted string of the dot language; a line break becomes `\\n`, and `&` its entity."""
    inner = printable(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + inner.replace("\r", "").replace("\n", "\\n") + '"'


def mermaid(text: str) -> str:
    """A quoted mermaid label: special characters become its `#number;` references."""
    return '"' + _MERMAID.sub(lambda m: f"#{ord(m.group())};", printable(text)) + '"'
