"""How many messages propose a text that can be copied."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import lgmdsl

# An option, a call, a setting, a name in quotes, a command; or what is made where it is shown.
CONCRETE = re.compile(r"--\w|`|\w = |\w\(|\blgm \w|\w=\w|\{")
FLOOR = 0.72
MADE = ("Diagnostic", *(f"{e}Error.of" for e in ("Model", "Data", "Method", "Numerical", "Worker")))


def helps() -> Iterator[str]:
    """The help of every message in the source, "" of those without."""
    for path in Path(lgmdsl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in MADE:
                value = next((k.value for k in node.keywords if k.arg == "help"), None)
                constant = isinstance(value, ast.Constant)
                yield str(value.value) if constant else "{" if value is not None else ""


def test_most_messages_propose_a_text() -> None:
    found = [CONCRETE.search(text) is not None for text in helps()]
    assert len(found) > 300
    assert sum(found) / len(found) >= FLOOR
