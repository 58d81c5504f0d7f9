"""README says what the code computes."""

from __future__ import annotations

from pathlib import Path

import pytest


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
