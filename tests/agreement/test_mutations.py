"""Whether the tests of this folder see a fault of one to five per cent, wherever it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agreement.mutations import PARTS, Fault, Part

COPIED = ("lgmdsl", "backends", "grammars", "tests", "pyproject.toml", "README.md")
FILES = [f"tests/agreement/test_{n}_against_plain.py" for n in ("methods", "bounds", "engines")]
FILES += ["tests/agreement/test_gaussian_sites.py"]
HERE = "tests/agreement"


@pytest.fixture(scope="module")
def checkout(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which faults are made."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)
    return folder


def red(checkout: Path, *arguments: str) -> bool:
    """Whether some test fails."""
    paths = os.pathsep.join([str(checkout), str(checkout / "backends")])
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": paths, "CI": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 1


def seen(checkout: Path, part: Part, fault: Fault) -> bool:
    """Whether the tests that are asked first fail with the fault, or any other of this folder."""
    path = checkout / fault.path
    text = path.read_text()
    assert text.count(fault.before) == 1, f"{fault.path}: {fault.before}"
    path.write_text(text.replace(fault.before, fault.after))
    try:
        return red(checkout, "-k", part.first, *FILES) or red(checkout, HERE)
    finally:
        path.write_text(text)


@pytest.mark.mutations
@pytest.mark.parametrize("part", PARTS, ids=lambda p: p.name)
def test_every_fault_is_seen(part: Part, checkout: Path) -> None:
    missed = [fault for fault in part.faults if not seen(checkout, part, fault)]
    assert not missed


def test_every_fault_can_be_made(root: Path) -> None:
    """What a fault changes stands in its file once."""
    for part in PARTS:
        for fault in part.faults:
            assert (root / fault.path).read_text().count(fault.before) == 1, fault
            assert fault.before != fault.after
