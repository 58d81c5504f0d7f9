"""Remedies in the words of Python and of the command line: each surface renders its own."""

from __future__ import annotations

import ast
import pickle
import re
from dataclasses import replace
from pathlib import Path

from lgmdsl import remedies
from lgmdsl.errors import LONGEST, Diagnostic, ModelError

FOUND = Diagnostic(
    "E503",
    "no value",
    details=(f"see {remedies.argument('set', 'set')}",),
    help=f"pin it: {remedies.pin('s', '0.5')}, or {remedies.setting('hyper', 'map')}",
)


def test_each_surface_has_its_words() -> None:
    assert FOUND.help == 'pin it: fixed={"s": 0.5}, or hyper="map"'
    assert FOUND.on_command_line().help == "pin it: --set s=0.5, or --hyper map"
    assert "see set=" in FOUND.render() and "see --set" in FOUND.on_command_line().render()
    assert FOUND.as_json()["help"] == "pin it: --set s=0.5, or --hyper map"


def test_wordings_outlive_changes_and_pickling() -> None:
    assert replace(FOUND, message="else").on_command_line().help.startswith("pin it: --set")
    assert replace(FOUND, help="another").on_command_line().help == "another"
    assert FOUND.on_command_line().on_command_line() == FOUND.on_command_line()
    error = ModelError(FOUND)
    back = pickle.loads(pickle.dumps(error))
    assert str(back) == str(error) and "fixed=" in str(back)
    assert back.diagnostics[0].on_command_line().help == FOUND.on_command_line().help


def test_every_remedy_has_two_wordings() -> None:
    made = (
        remedies.pin("s"),
        remedies.start("s"),
        remedies.setting("method", "ep"),
        remedies.number("max-steps", 3),
        remedies.option("samples", 9),
        remedies.key("x", "y"),
    )
    for text in made:
        assert remedies.on_command_line(text).startswith("--")
        assert "--" not in remedies.in_python(text) and "=" in remedies.in_python(text)


def test_long_texts_are_cut_in_both_wordings() -> None:
    long = Diagnostic("E103", "m" * 2 * LONGEST, help="h" * LONGEST + remedies.pin("s"))
    assert len(long.message) == LONGEST + 3 and len(long.help) == LONGEST + 3
    assert len(long.on_command_line().help) == LONGEST + 3


FLAG = re.compile(r"(^|[\s(`,])--[a-z][a-z-]*")


def test_no_help_of_the_library_names_a_flag(root: Path) -> None:
    """Flags stand in `remedies` alone, which knows the Python of each."""
    named: list[str] = []
    for file in (root / "lgmdsl").rglob("*.py"):
        if root / "lgmdsl" / "cli" in file.parents or file.name == "remedies.py":
            continue
        text = file.read_text(encoding="utf-8")
        if not FLAG.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.keyword | ast.Assign) and _is_help(node):
                found = [t for t in _texts(node.value) if FLAG.search(t)]
                named += [f"{file.name}: {text}" for text in found]
    assert named == []


def _is_help(node: ast.keyword | ast.Assign) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg == "help"
    return any(
        isinstance(n, ast.Name) and n.id == "help" for t in node.targets for n in ast.walk(t)
    )


def _texts(node: ast.AST) -> list[str]:
    """Text in an expression, but for arguments of `remedies.either`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "either":
        return []
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for child in ast.iter_child_nodes(node) for text in _texts(child)]
