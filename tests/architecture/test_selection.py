"""Which tests are run always, and which where `-m` asks for them."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from tests.conftest import spread

MODULE = """
import pytest
@pytest.mark.few(2)
@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize("b", [0, 1])
def test_pairs(a, b):
    pass
@pytest.mark.thorough
def test_long():
    pass
def test_short():
    pass
"""


def test_few_parameter_sets_have_every_value() -> None:
    sets = [{"a": a, "b": b} for a, b in itertools.product(range(3), range(4))]
    chosen = [sets[k] for k in spread(sets, 4)]
    assert len(chosen) == 4
    assert {s["a"] for s in chosen} == {0, 1, 2} and {s["b"] for s in chosen} == {0, 1, 2, 3}
    assert spread(sets, 20) == set(range(12)) and spread(sets[:3], 1) == {0}
    assert spread([{"a": k} for k in range(9)], 3) == {0, 4, 8}


def test_what_is_left_out_is_thorough(root: Path, tmp_path: Path) -> None:
    """Both runs together are all tests, each once."""
    (tmp_path / "conftest.py").write_text((root / "tests" / "conftest.py").read_text())
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    few\n    thorough\n")
    (tmp_path / "test_it.py").write_text(MODULE)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]

    def names(*asked: str) -> list[str]:
        done = subprocess.run(
            [*command, *asked], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    always, thorough = names(), names("-m", "thorough")
    assert always == [
        f"test_it.py::{t}" for t in ("test_pairs[0-0]", "test_pairs[1-1]", "test_short")
    ]
    assert thorough == [
        f"test_it.py::{t}" for t in ("test_pairs[0-1]", "test_pairs[1-0]", "test_long")
    ]
