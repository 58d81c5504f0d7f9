"""The public surface that scripts rely on, checked by the script that defines it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.thorough
def test_public_surface_stands(root: Path, shared: Path) -> None:
    script = shared / "contract_check.py"
    if not script.is_file():
        pytest.skip("no contract_check.py in ../shared")
    if not (Path(sys.executable).parent / "lgm").exists():
        pytest.skip("the lgm command is not installed beside this interpreter")
    paths = os.pathsep.join([str(root), str(root / "backends")])
    result = subprocess.run(
        [sys.executable, str(script), "1"],
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert result.returncode == 0, result.stdout + result.stderr
