"""A constant of a module means one thing: nothing assigns it a second time."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("lgmdsl", "backends", "tests")


def assigned(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module binds."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = list(statement.targets)
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets = [statement.target]
    for target in targets:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def reassigned(text: str) -> set[str]:
    """Names that a module's own statements assign more than once."""
    counts = Counter(name for s in ast.parse(text).body for name in assigned(s) if name != "_")
    return {name for name, count in counts.items() if count > 1}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_constant_is_assigned_twice(root: Path, folder: str) -> None:
    files = sorted((root / folder).rglob("*.py"))
    assert len(files) > 20
    twice = {str(f.relative_to(root)): reassigned(f.read_text(encoding="utf-8")) for f in files}
    assert not {name: names for name, names in twice.items() if names}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SMALL = 0.1\nSMALL, LITTLE = 1e-3, 1e-3\n", {"SMALL"}),
        ("A: float = 1.0\nA = 2.0\n", {"A"}),
        ("A: float\nA = 2.0\n", set()),
        ("A = 1\ndef f():\n    A = 2\n", set()),
        ("A = 1\nB = A\nA.x = 3\n", set()),
        ("(A, [B, *C]) = D = f()\nC = 1\n", {"C"}),
    ],
)
def test_what_counts_as_a_second_time(text: str, found: set[str]) -> None:
    assert reassigned(text) == found
