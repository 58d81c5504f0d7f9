"""What goes to stdout and what to stderr: text, JSON, diagnostics, colour."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

import click

from lgmdsl.errors import Diagnostic
from lgmdsl.visible import BIDIRECTIONAL, visible

SCHEMA = 1

_UNSHOWN = re.compile(f"[\x7f-\x9f{BIDIRECTIONAL}]")  # JSON escapes those before by itself
_HEAD = re.compile(r"^(error|warning)(\[[A-Z]\d+\])?(: )(.*)$")
_GUTTER = re.compile(r"^(\s*(?:\d+)?\s*)(-->|\||=)(.*)$")
_REMARK = re.compile(r"^ (help|note):")


def coloured(stream: TextIO) -> bool:
    """Whether a stream is a terminal that wants colour (NO_COLOR and TERM=dumb say no)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def show(text: str, end: str = "\n") -> None:
    """A page, or data (without an `end` of its own), to stdout; data are as they are, but on a
    terminal."""
    as_it_is = not end and not sys.stdout.isatty()
    # click would drop what looks like colours from a file
    click.echo((text if as_it_is else visible(text)) + end, nl=False, color=as_it_is or None)


def note(text: str) -> None:
    """Anything that is not data, to stderr."""
    click.echo(visible(text), err=True)


def warned(message: Warning | str) -> None:
    """A warning of lgmdsl to stderr, in the words of the command line."""
    diagnostic = getattr(message, "diagnostic", None)
    if isinstance(diagnostic, Diagnostic):
        note(diagnostic.on_command_line().render())
    else:
        note(str(message))


def show_json(fields: Mapping[str, Any]) -> None:
    """One JSON object with its schema number, to stdout; NaN and infinities become null."""
    click.echo(_written(plain({"schema": SCHEMA, **fields}), ""))


def _written(value: Any, indent: str) -> str:
    """JSON with one line for each member of an object, and arrays of numbers on one line."""
    deeper = indent + "  "
    if isinstance(value, dict) and value:
        rows = [f"{deeper}{_dumps(k)}: {_written(v, deeper)}" for k, v in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(v, dict) for v in value):
        return "[\n" + ",\n".join(deeper + _written(v, deeper) for v in value) + f"\n{indent}]"
    return _dumps(value)


def _dumps(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else _UNSHOWN.sub(lambda m: f"\\u{ord(m.group()):04x}", text)


def plain(value: Any) -> Any:
    """Arrays to lists, numpy numbers to Python's, what JSON cannot hold to null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


def diagnose(diagnostics: Iterable[Diagnostic], left_out: int = 0) -> None:
    """Errors and warnings as they are drawn, to stderr."""
    colour = coloured(sys.stderr)
    texts = [d.on_command_line().render() for d in diagnostics]
    blocks = [paint(text) if colour else text for text in texts]
    if left_out:
        blocks.append(f"... and {left_out} more")
    click.echo("\n\n".join(blocks), err=True, color=colour)


def paint(text: str) -> str:
    """Colour for a rendered diagnostic."""
    return "\n".join(_paint_line(line) for line in text.split("\n"))


def _paint_line(line: str) -> str:
    head = _HEAD.match(line)
    if head:
        colour = "red" if head[1] == "error" else "yellow"
        kind = click.style(head[1] + (head[2] or ""), fg=colour, bold=True)
        return kind + click.style(head[3] + head[4], bold=True)
    gutter = _GUTTER.match(line)
    if not gutter:
        return line
    rest = gutter[3]
    if gutter[2] == "|" and set(rest.strip()[:1]) == {"^"}:
        rest = click.style(rest, fg="red", bold=True)
    elif gutter[2] == "=" and (remark := _REMARK.match(rest)):
        rest = " " + click.style(f"{remark[1]}:", fg="cyan", bold=True) + rest[remark.end() :]
    return click.style(gutter[1] + gutter[2], fg="blue", bold=True) + rest
