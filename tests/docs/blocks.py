"""The code blocks of a page of the manual, and how each kind is run.

`lgm`: a whole model, parsed and checked; the last one is `model.lgm` in the page's folder.
`lgm-part`: statements, parsed. `python`: run in one namespace for the page. `console`: each line
that begins with `$ ` is a command of `lgm`. A `text` block after python or console is what was
printed; `...` in it stands for anything.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lgmdsl.cli.main import main
from lgmdsl.language.load import loads
from lgmdsl.language.parse.parse import parse

FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<kind>[\w{}-]*)[^\n]*\n(?P<body>.*?)^(?P=fence)\s*$", re.M | re.S
)
RUN = ("lgm", "lgm-part", "python", "console", "text")


@dataclass(frozen=True)
class Block:
    """`body` of one fenced block of a `kind`, which begins at a line."""

    kind: str
    body: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    """Those of a page, in order."""
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield Block(match["kind"], match["body"], text.count("\n", 0, match.start()) + 1)


def run_page(page: Path, folder: Path) -> int:
    """Runs all blocks of a page in `folder`, which is the working directory; how many there were.

    Raises AssertionError where a block fails or prints something else than the page says.
    """
    space: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    count = 0
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        count += block.kind in RUN
        if block.kind == "lgm":
            loads(block.body)
            (folder / "model.lgm").write_text(block.body, encoding="utf-8")
        elif block.kind == "lgm-part":
            parse("lgm 1\n" + block.body)
        elif block.kind == "python":
            printed = _python(block.body, space, where)
        elif block.kind == "console":
            printed = _console(block.body, where)
        elif block.kind == "text":
            assert matches(block.body, printed), f"{where}: printed\n{printed}"
    return count


def matches(wanted: str, printed: str) -> bool:
    """Whether a text is as wanted, where `...` stands for anything."""
    pattern = re.escape(_plain(wanted)).replace(re.escape("..."), ".*?")
    return re.fullmatch(pattern, _plain(printed), re.S) is not None


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _python(body: str, space: dict[str, object], where: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(body, where, "exec", dont_inherit=True), space)
    return out.getvalue()


def _console(body: str, where: str) -> str:
    out = io.StringIO()
    for line in body.splitlines():
        assert line.startswith("$ lgm "), f"{where}: {line!r} is no command of lgm"
        with contextlib.redirect_stdout(out):
            status = main(shlex.split(line)[2:])
        assert status == 0, f"{where}: {line!r} ended with status {status}"
    return out.getvalue()
