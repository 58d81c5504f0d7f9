"""The public surface that scripts rely on, checked by the script that defines it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.processes import python


@pytest.mark.thorough
def test_public_surface_stands(root: Path, shared: Path) -> None:
    script = shared / "contract_check.py"
    if not script.is_file():
        pytest.skip("no contract_check.py in ../shared")
    if not (Path(sys.executable).parent / "lgm").exists():
        pytest.skip("the lgm command is not installed beside this interpreter")
    result = python(str(script), "1", timeout=550, cwd=root)
    assert result.returncode == 0, result.stdout + result.stderr
