"""The packages of the manual: they are installed as distributions, and pass their own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = Path(__file__).parents[2] / "docs" / "packages"
NAMES = sorted(path.parent.name for path in PACKAGES.glob("*/pyproject.toml"))


def test_there_is_one_for_a_site_a_structure_and_a_method() -> None:
    assert NAMES == ["lgm-damped-vb", "lgm-ma1", "lgm-rayleigh"]


@pytest.mark.slow
def test_packages(tmp_path: Path) -> None:
    """Side by side, as one who has all of them installed: a process costs as much as its tests."""
    site = tmp_path / "site"
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *options]
    subprocess.run([*pip, *(str(PACKAGES / name) for name in NAMES)], check=True)
    tests = []
    for name in NAMES:
        modules = sorted((PACKAGES / name).glob("test_*.py"))
        assert modules, name
        for module in modules:
            test = tmp_path / module.name  # away from the sources: the installed module is used
            test.write_text(module.read_text(encoding="utf-8"), encoding="utf-8")
            tests.append(str(test))
    given = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(site), *([given] if given else [])])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
