"""README and the page of methods say what the code computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from .methods_table import END, START, markdown


def test_methods_table_is_the_computed_one(root: Path) -> None:
    text = (root / "docs" / "choosing" / "methods.md").read_text(encoding="utf-8")
    assert START in text and END in text, "the page has no marked methods table"
    shown = text.partition(START)[2].partition(END)[0].strip()
    assert shown == markdown(), "run python tests/architecture/methods_table.py"


def test_readme_names_the_commands(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    for command in ("pip install", "lgm fit", ".ci/run", "pytest"):
        assert command in text


def test_example_prints_what_is_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    code = text.partition("```python\n")[2].partition("```")[0]
    shown = text.partition("```text\n")[2].partition("```")[0]
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out.split() == shown.split()


def test_readme_is_short(root: Path) -> None:
    assert len((root / "README.md").read_text(encoding="utf-8").splitlines()) <= 160
